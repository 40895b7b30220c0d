#!/usr/bin/env python3
"""ALiBi in backward rows of sm90a beside the row without it, and beside sm80's rows with it: times of CUDA graphs in turn, and how far the gradients lie apart.

    ./bazelw build --repo_env=GLINT_SPEC=bench/specs/alibi_backward.lua //examples/pytorch:libglint_shared.so
    GLINT_LIBRARY=.../libglint_shared.so python3 bench/gpu/alibi_backward.py [--csv FILE]

O and LSE are PyTorch's, in float32. Slopes are the paper's, 2^-0.5 to 2^-8 of 16 heads.
"""
import argparse
import csv
import ctypes
import os
import sys

import graphs
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/pytorch"))
import glint_torch as glint  # noqa: E402

args = argparse.ArgumentParser()
args.add_argument("--csv")
args = args.parse_args()
GPU = torch.device("cuda", 0)
NAMES = [glint.variant_info(i).name.decode() for i in range(glint.library().glint_variant_count())]


def exact(q, k, v, slopes, keep):
    """O and LSE, a head at a time; keep(place of the query less that of the key): what the mask leaves."""
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], device=GPU)
    n = q.shape[2]
    places = torch.arange(n, device=GPU)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for first in range(0, n, 4096):
                rows = slice(first, first + 4096)
                s = q[b, h, rows].float() @ k[b, h].float().T * q.shape[3]**-0.5
                apart = places[rows, None] - places[None, :]
                if slopes is not None:
                    s -= slopes[h] * apart.abs()
                s.masked_fill_(~keep(apart), -torch.inf)
                lse[b, h, rows] = torch.logsumexp(s, -1)
                o[b, h, rows] = (torch.exp(s - lse[b, h, rows, None]) @ v[b, h].float()).to(q.dtype)
    return o, lse


def backward(name, fields, q, k, v, o, dout, lse, others):
    """A function that calls one row, and the gradients that it writes."""
    batch, heads, n, d = q.shape
    problem = glint.Problem(dtype=glint.DTYPES[q.dtype], batch=batch, heads_q=heads, heads_kv=heads, head_dim=d, seqlen_q=n, seqlen_k=n, **fields)
    grads = [torch.empty_like(t) for t in (q, k, v)]
    tensors = dict(zip("q k v o dout dq dk dv".split(), (q, k, v, o, dout, *grads)))
    for tensor, t in tensors.items():
        setattr(problem, tensor, glint.strides(t))
    plan = glint.context(GPU).plan(problem, glint.BACKWARD, NAMES.index(name))
    workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device=GPU)
    addresses = glint.Tensors(lse=lse.data_ptr(), **{tensor: t.data_ptr() for tensor, t in {**tensors, **others}.items()})

    def run(kept=(tensors, lse, others)):
        stream = torch.cuda.current_stream().cuda_stream
        glint.check(glint.library().glint_backward(ctypes.byref(plan), ctypes.byref(addresses), workspace.data_ptr(), plan.workspace_bytes, stream),
                    "glint_backward")
    return run, grads


def rows_of(d, mask, family):
    return [name for name in NAMES if name.startswith(f"bwd_bf16_d{d}_{mask}__{family}_")]


def main():
    torch.manual_seed(0)
    print(torch.cuda.get_device_name(), torch.__version__, flush=True)
    table = csv.writer(open(args.csv, "w", newline="", buffering=1)) if args.csv else None
    if table:
        table.writerow(["case", "row", "us", "speed over the row without ALiBi"])
    slopes = torch.tensor([2.0**(-(h + 1) / 2) for h in range(16)], device=GPU)
    for n, batch in ((4096, 2), (1024, 4), (512, 8), (16384, 1)):
        for d in (128, 64, 96, 192):
            q, k, v, dout = (torch.randn(batch, 16, n, d, device=GPU).bfloat16() for _ in range(4))
            for mask, number, keep in (("causal", glint.MASKS["top_left"], lambda x: x >= 0), ("none", glint.MASKS["none"], lambda x: x == x),
                                       ("band", glint.BANDS["top_left"], lambda x: (x >= 0) & (x <= n // 8))):
                fields = dict(mask=number, softmax_scale=d**-0.5, **({"window_left": n // 8, "window_right": 0} if mask == "band" else {}))
                runs, grads = {}, {}
                o, lse = exact(q, k, v, None, keep)
                for name in rows_of(d, mask, "sm90a"):
                    runs[name], grads[name] = backward(name, fields, q, k, v, o, dout, lse, {})
                o, lse = exact(q, k, v, slopes, keep)
                for name in rows_of(d, mask + "_alibi", "sm90a") + rows_of(d, mask + "_alibi", "sm80"):
                    runs[name], grads[name] = backward(name, {**fields, "alibi": 1}, q, k, v, o, dout, lse, {"alibi_slopes": slopes})
                times = graphs.timed(runs, 7, lambda ms: max(2, min(30, int(3 / ms))))
                base, ours = list(times)[:2]
                for name in times:
                    apart = ""
                    if "__sm80_" in name:
                        apart = "; dQ, dK, dV apart from sm90a's " + ", ".join(
                            f"{(a.float() - b.float()).norm() / b.float().norm():.1e}" for a, b in zip(grads[ours], grads[name]))
                    print(f"{batch}x16x{n} {name}: {times[name]:.1f} us, speed over the row without ALiBi {times[base] / times[name]:.3f}{apart}", flush=True)
                    if table:
                        table.writerow([f"{batch}x16x{n}", name, f"{times[name]:.1f}", f"{times[base] / times[name]:.3f}"])


with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
    main()
