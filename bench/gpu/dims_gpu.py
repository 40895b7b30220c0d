#!/usr/bin/env python3
"""Head dims without measured tiles on a GPU: right against float64, and how fast beside the next measured head dim above. bf16.

    ./bazelw build --repo_env=GLINT_SPEC=$PWD/bench/specs/dims_gpu.lua //examples/pytorch:libglint_shared.so
    python3 bench/gpu/dims_gpu.py --csv dims.csv

Every row of the table is run twice, the second time into NaN, and must give the same bits. Its error may be twice that of plain attention in
bf16. Times are of the plan's choice, with 16 heads of every head dim and 16384 tokens: the time of the head dim above over a dim's own is its
throughput in work of the one above. Exit status 1 when a result is wrong or a mean is below 0.8.
"""

import argparse
import csv
import itertools
import math
import pathlib
import statistics
import sys
import types

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
import peers_gpu as peers  # noqa: E402

glint = peers.glint
ABOVE = {40: 64, 72: 96, 80: 96, 112: 128, 160: 192, 224: 256}
DIMS = sorted({*ABOVE, *ABOVE.values()})
SEQLENS, BAR = [512, 1024, 4096], 0.8


def hidden(scores, causal):
    query, key = (torch.arange(n, device=scores.device) for n in scores.shape[-2:])
    return scores.masked_fill(key[None] > query[:, None], -math.inf) if causal else scores


def reference(q, k, v, dout, causal, scale):
    """By the formulas, in float64."""
    q, k, v, dout = (t.double() for t in (q, k, v, dout))
    p = torch.softmax(hidden(q @ k.transpose(-1, -2) * scale, causal), -1)
    o = p @ v
    ds = p * (dout @ v.transpose(-1, -2) - (dout * o).sum(-1, keepdim=True))
    return {"o": o, "dq": ds @ k * scale, "dk": ds.transpose(-1, -2) @ q * scale, "dv": p.transpose(-1, -2) @ dout}


def plain(q, k, v, dout, causal, scale):
    """Plain attention in bf16, for the size of its error."""
    leaves = [t.detach().clone().requires_grad_() for t in (q, k, v)]
    o = torch.softmax(hidden(leaves[0] @ leaves[1].transpose(-1, -2) * scale, causal), -1) @ leaves[2]
    return dict(zip(["o", "dq", "dk", "dv"], [o.detach(), *torch.autograd.grad(o, leaves, dout)]))


def error(have, want):
    return ((have.double() - want).norm() / want.norm()).item()


def check_rows(head_dim, mask, seqlen, worst):
    """How many results of how many rows were compared, and sentences about wrong ones."""
    shape, count, wrong = peers.Shape("bf16", head_dim, mask, seqlen, 1), 0, []
    shape.batch, shape.heads_q, shape.heads_kv = 2, 3, 3
    inputs = shape.tensors()
    want, base = reference(*inputs, shape.causal, shape.scale), plain(*inputs, shape.causal, shape.scale)
    for row in peers.rows_that_fit(shape):
        which = row.passes[0]
        row.prepare(shape, *inputs)
        first = {name: t.clone() for name, t in row.results.items()}
        for t in row.results.values():
            t.fill_(math.nan)
        if which == "bwd":
            row.call("fwd", None)()
        row.call(which, row.row)()
        torch.cuda.synchronize()
        for name, t in row.results.items():
            mine, theirs = error(t, want[name]), error(base[name], want[name])
            worst[head_dim] = max(worst.get(head_dim, 0), mine / theirs)
            count += 1
            if not (mine <= 2 * theirs and torch.equal(t, first[name])):
                wrong.append(f"{row.variants[which]} {name} of {seqlen}: error {mine:.1e}, plain bf16's {theirs:.1e}, same bits {torch.equal(t, first[name])}")
    return count, wrong


def check_grouped(head_dim, queries, keys):
    """Grouped heads and unequal lengths, through autograd."""
    q = torch.randn(2, 4, queries, head_dim, device="cuda").bfloat16().requires_grad_()
    k, v = (torch.randn(2, 2, keys, head_dim, device="cuda").bfloat16().requires_grad_() for _ in range(2))
    o = glint.attention(q, k, v)
    dout = torch.randn_like(o)
    have = dict(zip(["o", "dq", "dk", "dv"], [o.detach(), *torch.autograd.grad(o, (q, k, v), dout)]))
    want = reference(q.detach(), *(t.detach().repeat_interleave(2, 1) for t in (k, v)), dout, False, head_dim**-0.5)
    for name in ("dk", "dv"):
        want[name] = want[name].view(2, 2, 2, keys, head_dim).sum(2)
    return [f"d{head_dim}, {queries} queries, {keys} keys, {name}: {error(have[name], want[name]):.1e}" for name in have
            if not error(have[name], want[name]) < 1e-2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", help="write the times to this file")
    options = parser.parse_args()
    torch.manual_seed(7)
    count, wrong, worst = 0, [], {}
    for head_dim, mask, seqlen in itertools.product(DIMS, ["none", "causal"], [333, 1024]):
        checked, sentences = check_rows(head_dim, mask, seqlen, worst)
        count, wrong = count + checked, wrong + sentences
    for head_dim, lengths in itertools.product(DIMS, [(200, 333), (333, 200), (1, 500)]):
        wrong += check_grouped(head_dim, *lengths)
    print(f"{count} results of rows compared, {len(wrong)} wrong; the largest error over plain bf16's: " +
          ", ".join(f"d{d} {r:.2f}" for d, r in worst.items()), *wrong, sep="\n", flush=True)

    square = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    product, times, rows = torch.empty_like(square), {}, []
    for seqlen, mask, head_dim in itertools.product(SEQLENS, ["none", "causal"], DIMS):
        shape, chosen = peers.Shape("bf16", head_dim, mask, seqlen, 1), peers.Glint()
        shape.heads_q = shape.heads_kv = 16
        measured, _ = peers.measure(shape, [chosen], types.SimpleNamespace(rounds=4, least_ms=25), lambda: torch.mm(square, square, out=product))
        for (_, which), ms in measured.items():
            times[which, head_dim, mask, seqlen] = ms
            rows.append([chosen.variants[which], which, head_dim, mask, seqlen, shape.batch, 16, f"{ms:.5f}", f"{shape.tflops(which, ms):.1f}"])
    if options.csv:
        with open(options.csv, "w", newline="", encoding="ascii") as file:
            csv.writer(file, lineterminator="\n").writerows([["variant", "pass", "head_dim", "mask", "seqlen", "batch", "heads", "ms", "tflops"], *rows])
    print(f"{torch.cuda.get_device_name()}: throughput over that of the head dim above in its work, geometric mean and cells; in the own work")
    below = 0
    for (head_dim, above), which in itertools.product(ABOVE.items(), ["fwd", "bwd"]):
        cells = {(m, s): times[which, above, m, s] / times[which, head_dim, m, s] for m in ("none", "causal") for s in SEQLENS}
        mean = math.exp(statistics.mean(map(math.log, cells.values())))
        below += mean < BAR
        print(f"  d{head_dim:<3} over d{above:<3} {which}  {mean:.2f}   " + "  ".join(f"{m} {s} {r:.2f}" for (m, s), r in cells.items()) +
              f"   own work {mean * head_dim / above:.2f}", flush=True)
    return 1 if wrong or below else 0


if __name__ == "__main__":
    sys.exit(main())
