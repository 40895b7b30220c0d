#!/usr/bin/env python3
"""A server's step with ALiBi or a bias by a tensor: answers beside float64, a token's bits whole and in chunks, and its time over the step without it.

    ./bazelw build --repo_env=GLINT_SPEC=bench/specs/steps_bias.lua //examples/pytorch:libglint_shared.so
    GLINT_LIBRARY=.../libglint_shared.so python3 bench/gpu/steps_bias.py [--csv FILE]

The exit status is 1 when an answer or a bit is wrong, and then nothing is timed.
"""
import argparse
import csv
import ctypes
import math
import os
import sys

import graphs
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/pytorch"))
import glint_torch as glint  # noqa: E402

GPU = torch.device("cuda", 0)
NAMES = [glint.variant_info(i).name.decode() for i in range(glint.library().glint_variant_count())]
HEADS = {64: (64, 8), 128: (32, 8)}
CAUSAL = 3  # from the ends


def slopes_of(heads):
    return torch.tensor([2.0**(-8 * (h + 1) / heads) for h in range(heads)], device=GPU)


def call(row, q, k, v, slopes=None, bias=None, logit=None):
    """A function that calls a row over q [batch, queries, heads, d] and a linear cache, with O and LSE."""
    batch, n, heads, d = q.shape
    keys, heads_kv = k.shape[1], k.shape[2]
    problem = glint.Problem(dtype=glint.DTYPES[q.dtype], mask=CAUSAL, softmax_scale=d**-0.5, batch=batch, heads_q=heads, heads_kv=heads_kv, head_dim=d, seqlen_q=n,
                            seqlen_k=keys, lengths=0)
    problem.q = problem.o = glint.Strides(n * heads * d, d, heads * d)
    problem.k = problem.v = glint.Strides(keys * heads_kv * d, d, heads_kv * d)
    problem.alibi, problem.max_logit = int(slopes is not None), int(logit is not None)
    if bias is not None:
        problem.bias_dtype = glint.DTYPES[bias.dtype]
        problem.bias = tuple(bias.stride())
    plan = glint.context(GPU).plan(problem, glint.FORWARD, NAMES.index(row))
    o, lse = torch.full_like(q, math.nan), torch.full((batch, heads, n), math.nan, device=GPU)
    work = torch.full((plan.workspace_bytes + 256,), 255, dtype=torch.uint8, device=GPU)
    given = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "alibi_slopes": slopes, "bias": bias, "max_logit": logit}
    tensors = glint.Tensors(**{name: t.data_ptr() for name, t in given.items() if t is not None})

    def run():
        at = -(-work.data_ptr() // 256) * 256
        stream = torch.cuda.current_stream().cuda_stream
        glint.check(glint.library().glint_forward(ctypes.byref(plan), ctypes.byref(tensors), at, plan.workspace_bytes, stream), "glint_forward")
        return o, lse
    run.kept = given
    return run


def exact(q, k, v, slopes, bias):
    """O, LSE and the largest logit of each head in float64."""
    batch, n, heads, d = q.shape
    keys, group = k.shape[1], heads // k.shape[2]
    apart = torch.arange(n, device=GPU)[:, None] + (keys - n) - torch.arange(keys, device=GPU)[None, :]
    o, lse, largest = torch.empty(q.shape, device=GPU).double(), torch.empty(batch, heads, n, device=GPU).double(), torch.empty(batch, heads, device=GPU).double()
    for b in range(batch):
        for h in range(heads):
            s = q[b, :, h].double() @ k[b, :, h // group].double().T * d**-0.5
            if slopes is not None:
                s -= slopes[h].double() * apart.abs()
            if bias is not None:
                s += bias[b, h].double()
            s.masked_fill_(apart < 0, -torch.inf)
            lse[b, h], largest[b, h] = torch.logsumexp(s, -1), s.max()
            o[b, :, h] = torch.softmax(s, -1) @ v[b, :, h // group].double()
    return o, lse, largest.amax(0)


def row_of(d, kind, family):
    start = f"fwd_bf16_d{d}_causal{kind}__{family}_step_"
    return next((name for name in NAMES if name.startswith(start)), None)


def check():
    """The number of wrong answers, of unlike bits, and of both that were asked."""
    wrong = unlike = answers = bits = 0
    for d, (heads, heads_kv) in HEADS.items():
        for n, keys in ((1, 300), (5, 4096), (300, 300), (200, 3000), (37, 9001)):
            q, k, v = (torch.randn(2, rows, of, d, device=GPU).bfloat16() for rows, of in ((n, heads), (keys, heads_kv), (keys, heads_kv)))
            slopes, bias = slopes_of(heads), torch.randn(2, heads, n, keys, device=GPU)
            for kind, given in (("_alibi", {"slopes": slopes}), ("_tensor", {"bias": bias}), ("_tensor", {"bias": bias.bfloat16()})):
                want, want_lse, want_largest = exact(q, k, v, given.get("slopes"), given.get("bias"))
                first = None
                for family in ("sm80", "sm90a"):
                    row = row_of(d, kind, family)
                    if row is None:
                        continue
                    logit = torch.empty(heads, device=GPU) if family == "sm80" else None
                    o, lse = call(row, q, k, v, logit=logit, **given)()
                    far, far_lse = (o.double() - want).abs().max().item(), (lse.double() - want_lse).abs().max().item()
                    far_logit = (logit.double() - want_largest).abs().max().item() if logit is not None else 0.0
                    good = far < 0.03 and far_lse < 2e-3 and far_logit < 2e-3
                    answers += 1
                    wrong += not good
                    print(f"{row} {n} x {keys}: O {far:.2e}, LSE {far_lse:.2e}, largest {far_logit:.2e}{'' if good else ' WRONG'}", flush=True)
                    cut = n // 2  # the last queries alone, and the first ones against the keys before the others
                    for part in ((slice(n - 1, n), keys), (slice(cut, n), keys), (slice(0, max(cut, 1)), keys - n + max(cut, 1))):
                        of = {name: t[:, :, part[0], :part[1]] if name == "bias" else t for name, t in given.items()}
                        got, got_lse = call(row, q[:, part[0]].contiguous(), k[:, :part[1]].contiguous(), v[:, :part[1]].contiguous(), **of)()
                        same = torch.equal(got, o[:, part[0]]) and torch.equal(got_lse, lse[:, :, part[0]])
                        bits += 1
                        unlike += not same
                        if not same:
                            print(f"{row} {n} x {keys}: queries {part[0]} UNLIKE", flush=True)
                    if first is not None:
                        same = torch.equal(first[0], o) and torch.equal(first[1], lse)
                        print(f"{row} {n} x {keys}: the bits of sm80's: {same}", flush=True)
                    first = (o, lse)
    print(f"{answers - wrong} of {answers} answers, {bits - unlike} of {bits} equal bits", flush=True)
    return wrong + unlike


def times(table):
    for d, (heads, heads_kv) in HEADS.items():
        slopes = slopes_of(heads)
        for batch, n, keys in ((8, 4, 8192), (8, 16, 8192), (8, 64, 8192), (1, 64, 65536), (8, 256, 8192), (1, 8192, 8192)):
            q, k, v = (torch.randn(batch, rows, of, d, device=GPU).bfloat16() for rows, of in ((n, heads), (keys, heads_kv), (keys, heads_kv)))
            runs = {}
            for family in ("sm80", "sm90a"):
                runs[family] = call(row_of(d, "", family), q, k, v)
                runs[family + "_alibi"] = call(row_of(d, "_alibi", family), q, k, v, slopes=slopes)
            if n <= 64:
                bias = torch.randn(1, heads, n, keys, device=GPU).bfloat16().expand(batch, -1, -1, -1)
                for family in ("sm80", "sm90a"):
                    runs[family + "_tensor"] = call(row_of(d, "_tensor", family), q, k, v, bias=bias)
            us = graphs.timed(runs, 7, lambda ms: max(2, min(20, int(3 / ms))))
            for name, time in us.items():
                speed = us[name.split("_")[0]] / time
                print(f"d{d} {batch} x {n} x {keys} {name}: {time:.1f} us, {speed:.3f}", flush=True)
                if table:
                    table.writerow([d, batch, n, keys, name, f"{time:.1f}", f"{speed:.3f}"])


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--csv")
    args = args.parse_args()
    torch.manual_seed(0)
    print(torch.cuda.get_device_name(), torch.__version__, flush=True)
    if check() > 0:
        return 1
    table = csv.writer(open(args.csv, "w", newline="", buffering=1)) if args.csv else None
    if table:
        table.writerow(["head_dim", "batch", "queries", "keys", "row", "us", "speed over the row without"])
    with torch.cuda.stream(torch.cuda.Stream()):
        times(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
