#!/usr/bin/env python3
"""Times a forward pass of a small model of Llama's shape with attn_implementation="eager", "sdpa" and "glint", on the CPU.

    python3 examples/transformers/measure.py [--tokens 512,2048] [--dtype f32|bf16] [--padded] [--window W] [--runs 9] [--threads N]

The three take turns, and each has the shortest of its runs: milliseconds, tokens a second, and how many times as fast as "sdpa". With one thread
it is CPU time, which other work on the machine lengthens less.
"""

import argparse
import pathlib
import sys
import time

import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import glint_transformers  # noqa: E402, F401

IMPLEMENTATIONS = ("eager", "sdpa", "glint")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", default="512,2048")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--window", type=int, help="every layer has a window of so many keys (Mistral)")
    parser.add_argument("--padded", action="store_true", help="an eighth of the first sequence is padding on the left")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    torch.manual_seed(0)
    config = transformers.MistralConfig(vocab_size=1024, hidden_size=512, intermediate_size=1408, num_hidden_layers=options.layers, num_attention_heads=8,
                                        num_key_value_heads=2, head_dim=64, sliding_window=options.window, max_position_embeddings=1 << 17)
    model = transformers.MistralForCausalLM._from_config(config).eval().to({"f32": torch.float32, "bf16": torch.bfloat16}[options.dtype])
    print(f"PyTorch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}, {options.threads} thread(s), {options.dtype}: {options.layers} "
          f"layers of 512 with 8:2 heads of 64, batch {options.batch}, window {options.window}, {'padded' if options.padded else 'not padded'}")
    for tokens in map(int, options.tokens.split(",")):
        ids = torch.randint(0, 1024, (options.batch, tokens))
        mask = torch.ones_like(ids)
        mask[0, : tokens // 8 * options.padded] = 0
        best = dict.fromkeys(IMPLEMENTATIONS, float("inf"))
        for run in range(options.runs + 1):  # the first is not counted
            for implementation in IMPLEMENTATIONS:
                model.set_attn_implementation(implementation)
                start = clock()
                with torch.no_grad():
                    model(ids, attention_mask=mask, use_cache=False, logits_to_keep=1)
                if run:
                    best[implementation] = min(best[implementation], clock() - start)
        for implementation, seconds in best.items():
            print(f"{tokens:7} tokens  {implementation:6} {1e3 * seconds:10.1f} ms {options.batch * tokens / seconds:9.0f} tokens/s  {best['sdpa'] / seconds:5.2f}")


if __name__ == "__main__":
    main()
