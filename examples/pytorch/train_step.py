#!/usr/bin/env python3
"""Times a training step of a model of Llama's shape, its attention by Glint and by others in turn: forward, backward and AdamW on one batch.

    ./bazelw build //examples/pytorch:libglint_shared.so
    python3 examples/pytorch/train_step.py                          # 32:8 heads of 128, bf16, 4096 to 32768 tokens; on a GPU
    python3 examples/pytorch/train_step.py --device cpu --dim 128 --heads 4:2 --head-dim 32 --ffn 256 --vocab 64 --seqlens 96 --dtype f32

A line says, for one length and one attention: milliseconds a step (the median), tokens a second, the most memory of the device that a step held, and
whether a second run from the same seed ended with the same bits: every loss and every weight after --steps steps. PyTorch is asked for its own
deterministic operations, so that the attention alone decides. "fa3" is FlashAttention-3, where Python finds flash_attn_interface; its backward
pass adds in no fixed order unless told to, and "fa3_fixed" tells it to. "cudnn" and "torch" are PyTorch's scaled_dot_product_attention, by cuDNN and by its own
choice.

The exit status is 1 when two runs with Glint differ in a bit, or when a first loss is off by more than rounding from that with another attention.
"""

import argparse
import os
import statistics
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA begins: cuBLAS then repeats its bits

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import glint_torch as glint

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
LOSS_BOUND = {"bf16": 2e-2, "f16": 5e-3, "f32": 1e-4}  # between two attentions, of losses near log(vocab)


def by_glint(q, k, v):
    return glint.attention(q, k, v, causal=True, layout="bnhd")


def by_torch(q, k, v):
    o = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True, enable_gqa=True)
    return o.transpose(1, 2)


def by_cudnn(q, k, v):
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return by_torch(q, k, v)


def fa3(deterministic):
    from flash_attn_interface import flash_attn_func

    def attention(q, k, v):
        o = flash_attn_func(q, k, v, causal=True, deterministic=deterministic)
        return o[0] if isinstance(o, tuple) else o

    return attention


def attentions(device):
    """{name: attention of [batch, tokens, heads, head_dim] tensors}, each causal."""
    found = {"glint": by_glint}
    if device.type != "cuda":
        return {**found, "torch": by_torch}
    try:
        found.update(fa3=fa3(False), fa3_fixed=fa3(True))
    except ImportError:
        pass
    return {**found, "cudnn": by_cudnn}


class Block(nn.Module):
    """Grouped attention with rotated positions, then a gated feed-forward layer, each behind an RMS norm and beside a residual path."""

    def __init__(self, shape):
        super().__init__()
        self.shape, width = shape, shape.heads_q * shape.head_dim
        self.before_attention, self.before_ffn = nn.RMSNorm(shape.dim), nn.RMSNorm(shape.dim)
        self.qkv = nn.Linear(shape.dim, width + 2 * shape.heads_kv * shape.head_dim, bias=False)
        self.out = nn.Linear(width, shape.dim, bias=False)
        self.gate_up, self.down = nn.Linear(shape.dim, 2 * shape.ffn, bias=False), nn.Linear(shape.ffn, shape.dim, bias=False)

    def forward(self, x, turn, attention):
        s = self.shape
        heads = self.qkv(self.before_attention(x)).view(*x.shape[:2], s.heads_q + 2 * s.heads_kv, s.head_dim)
        q, k, v = heads.split([s.heads_q, s.heads_kv, s.heads_kv], dim=2)
        o = attention(rotate(q, turn), rotate(k, turn), v)
        x = x + self.out(o.reshape(*x.shape[:2], -1))
        gate, up = self.gate_up(self.before_ffn(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape, self.embed = shape, nn.Embedding(shape.vocab, shape.dim)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm, self.head = nn.RMSNorm(shape.dim), nn.Linear(shape.dim, shape.vocab, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, attention):
        """The mean loss of each next token."""
        x, turn = self.embed(tokens[:, :-1]), turns(tokens.shape[1] - 1, self.shape.head_dim, self.embed.weight)
        for block in self.blocks:
            x = block(x, turn, attention)
        return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), tokens[:, 1:].flatten())


def turns(length, head_dim, like):
    """Cosine and sine of each position's angles, [length, 1, head_dim / 2]."""
    rate = 500000.0 ** (-torch.arange(0, head_dim, 2, device=like.device, dtype=torch.float32) / head_dim)
    angle = torch.outer(torch.arange(length, device=like.device, dtype=torch.float32), rate)[:, None]
    return angle.cos().to(like.dtype), angle.sin().to(like.dtype)


def rotate(x, turn):
    (a, b), (cos, sin) = x.chunk(2, dim=-1), turn
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def train(shape, device, seqlen, attention, steps):
    """Trains a new model for some steps: its losses and weights, milliseconds of each step, and the most bytes that were held."""
    cuda = device.type == "cuda"
    torch.manual_seed(0)
    with device:
        model = Model(shape).to(DTYPES[shape.dtype])
        tokens = torch.randint(shape.vocab, (shape.batch, seqlen + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=cuda)
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    losses, ms = [], []
    for _ in range(steps):
        wait(device)
        start = time.perf_counter()
        loss = model(tokens, attention)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait(device)
        ms.append(1e3 * (time.perf_counter() - start))
        losses.append(loss.detach())
    held = torch.cuda.max_memory_allocated() if cuda else 0
    return torch.stack(losses), [p.detach() for p in model.parameters()], ms, held


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def equal_bits(one, other):
    return torch.equal(one[0], other[0]) and all(map(torch.equal, one[1], other[1]))


def compare(options, device, seqlen, everyone):
    """One line an attention. Returns sentences about what is wrong."""
    wrong, first_loss = [], None
    for name, attention in everyone.items():
        one = None  # the weights of the run before are not this one's memory
        try:
            one = train(options, device, seqlen, attention, options.steps)
            same = equal_bits(one, train(options, device, seqlen, attention, options.steps))
        except (RuntimeError, glint.GlintError) as error:
            print(f"{seqlen:7} tokens  {name:10} does not run: {str(error).splitlines()[0]}", flush=True)
            if name == "glint":
                wrong.append(f"{seqlen} tokens: Glint does not run")
            continue
        losses, _, times, held = one
        ms = statistics.median(times[1:] or times)
        print(f"{seqlen:7} tokens  {name:10} {ms:9.2f} ms a step  {1e3 * options.batch * seqlen / ms:9.0f} tokens/s  {held / 1e9:7.3f} GB  "
              f"bits {'equal' if same else 'differ'}  loss {losses[0]:.5f} to {losses[-1]:.5f}", flush=True)
        if name == "glint" and not same:
            wrong.append(f"{seqlen} tokens: two runs with Glint differ")
        first_loss = losses[0].item() if first_loss is None else first_loss
        if not abs(losses[0].item() - first_loss) < LOSS_BOUND[options.dtype]:
            wrong.append(f"{seqlen} tokens: the first loss with {name} is {losses[0]:.5f}, with Glint {first_loss:.5f}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--seqlens", type=lambda t: [int(w) for w in t.split(",")], default=[4096, 8192, 16384, 32768])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--layers", type=int, default=2, help="(%(default)s) a model of 8 billion weights has 32; a step's time and memory grow with them")
    parser.add_argument("--dim", type=int, default=4096)
    parser.add_argument("--heads", default="32:8", help="of queries and of keys")
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--ffn", type=int, default=14336)
    parser.add_argument("--vocab", type=int, default=4096, help="(%(default)s) few, for it is the attention that is compared")
    parser.add_argument("--steps", type=int, default=5, help="of each run; the first is not timed (%(default)s)")
    parser.add_argument("--attention", type=lambda t: t.split(","), help="only these")
    options = parser.parse_args()
    options.heads_q, options.heads_kv = (int(n) for n in options.heads.split(":"))
    device = torch.device(options.device, torch.cuda.current_device()) if options.device == "cuda" else torch.device(options.device)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    everyone = {name: f for name, f in attentions(device).items() if not options.attention or name in options.attention}
    print(f"{torch.cuda.get_device_name() if device.type == 'cuda' else 'CPU'}, PyTorch {torch.__version__}, {options.dtype}, batch {options.batch}, "
          f"{options.layers} layers of {options.dim} with {options.heads} heads of {options.head_dim}, feed-forward {options.ffn}, {options.vocab} words")
    wrong = [sentence for seqlen in options.seqlens for sentence in compare(options, device, seqlen, everyone)]
    for sentence in wrong:
        print(f"WRONG: {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
