#!/usr/bin/env python3
"""Triangle attention on one GPU beside PyTorch's efficient backend, in one process: q, k, v [N, H, N, D] and a bias [1, H, N, N], which all N share.

    ./bazelw build --repo_env=GLINT_SPEC=bench/specs/triangle.lua //examples/pytorch:libglint_shared.so
    GLINT_LIBRARY=.../libglint_shared.so python3 bench/gpu/triangle.py [--sizes 256,384,512,768,1024] [--dtypes bf16,f32] [--csv FILE] [--check] [--forward] [--flex]

O = softmax(q k' / sqrt(D) + bias) v; the backward pass makes dq, dk, dv and the bias's gradient. PyTorch takes a bias of q's dtype, so ours has that
dtype, too; "f32 bias" is ours with a float32 one. Calls are captured in CUDA graphs and replayed in turn, and a number is a median, in microseconds.
PyTorch's backward is that of its operator, with the sum over N that makes the bias's gradient of the tensor that it gives. --check compares all
results with float64 first, and looks whether a second run has the same bits.
"""
import argparse
import csv
import os
import sys

import graphs
import torch
import torch.nn.attention.flex_attention
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/pytorch"))
import glint_torch  # noqa: E402

args = argparse.ArgumentParser()
args.add_argument("--sizes", default="256,384,512,768,1024")
args.add_argument("--dtypes", default="bf16")
args.add_argument("--heads", type=int, default=4)
args.add_argument("--head-dim", type=int, default=32)
args.add_argument("--rounds", type=int, default=5)
args.add_argument("--csv")
args.add_argument("--check", action="store_true")
args.add_argument("--forward", action="store_true", help="no backward pass")
args.add_argument("--flex", action="store_true", help="FlexAttention's forward pass in bf16, too: it takes seconds to compile for each size")
args = args.parse_args()
H, D = args.heads, args.head_dim


def ours(bias_dtype):
    return lambda q, k, v, bias: glint_torch.attention(q, k, v, layout="bhnd", bias=bias.to(bias_dtype) if bias_dtype else bias)


def efficient(q, k, v, bias):
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(q.shape[0], -1, -1, -1))


flex_attention = torch.compile(torch.nn.attention.flex_attention.flex_attention, dynamic=False) if args.flex else None


def flex(q, k, v, bias):
    table = bias[0]
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + table[h, i, j])


def without(q, k, v, bias):
    return glint_torch.attention(q, k, v, layout="bhnd")


def inputs(n, dtype, rows=None):
    shape = (rows or n, H, n, D)
    q, k, v, g = (torch.randn(shape, device="cuda").to(dtype) for _ in range(4))
    return [t.requires_grad_() for t in (q, k, v, torch.randn(1, H, n, n, device="cuda").to(dtype))], g


def check(dtype):
    leaves, g = inputs(200, dtype, rows=24)
    wide = [t.detach().double().requires_grad_() for t in leaves]
    s = wide[0] @ wide[1].transpose(-1, -2) * D ** -0.5 + wide[3]
    exact = torch.softmax(s, -1) @ wide[2]
    grads = torch.autograd.grad(exact, wide, g.double())
    for name, f in (("glint", ours(None)), ("efficient", efficient)):
        out = f(*leaves)
        got, again = torch.autograd.grad(out, leaves, g), torch.autograd.grad(f(*leaves), leaves, g)
        errors = [((a.detach().double() - b.detach()).norm() / b.detach().norm()).item() for a, b in zip((out, *got), (exact, *grads))]
        print(f"check {dtype} {name}: error of out, dq, dk, dv, dbias: " + " ".join(f"{e:.1e}" for e in errors) + "; the same bits again: "
              + " ".join(str(torch.equal(a, b)) for a, b in zip(got, again)), flush=True)


def timed(functions):
    return graphs.timed(functions, args.rounds, lambda ms: max(1, min(20, int(10 / ms))))


def main():
    torch.manual_seed(0)
    print(torch.__version__, torch.cuda.get_device_name(), flush=True)
    table = csv.writer(open(args.csv, "w", newline="")) if args.csv else None
    if table:
        table.writerow(["case", "impl", "us"])
    for kind in args.dtypes.split(","):
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[kind]
        if args.check:
            check(dtype)
        implementations = {"glint": ours(None), "efficient": efficient, "glint without a bias": without}
        if kind == "bf16":
            implementations["glint, f32 bias"] = lambda q, k, v, bias: glint_torch.attention(q, k, v, layout="bhnd", bias=bias.f32)
        for n in (int(x) for x in args.sizes.split(",")):
            leaves, g = inputs(n, dtype)
            leaves[3].f32 = leaves[3].detach().float().requires_grad_()
            with torch.cuda.stream(torch.cuda.Stream()):
                def forward(f):
                    def run():
                        with torch.no_grad():
                            f(*leaves)
                    return run

                def backward(f, name):
                    out = f(*leaves)
                    of = leaves[:3] + ([leaves[3].f32] if "f32" in name else [leaves[3]] if "without" not in name else [])
                    return lambda: torch.autograd.grad(out, of, g, retain_graph=True)

                forwards = {name: forward(f) for name, f in implementations.items()}
                if flex_attention and kind == "bf16":
                    forwards["flex"] = forward(flex)
                backwards = {} if args.forward else {name: backward(f, name) for name, f in implementations.items()}
                for what, functions in (("fwd", forwards), ("bwd", backwards)):
                    if not functions:
                        continue
                    times = timed(functions)
                    shown = "; ".join(f"{name} {us:.0f}" for name, us in times.items())
                    print(f"n{n} {kind} {what}: us: {shown}; efficient over glint {times['efficient'] / times['glint']:.2f}", flush=True)
                    for name, us in times.items():
                        if table:
                            table.writerow([f"n{n} {kind} {what}", name, f"{us:.2f}"])
            torch.cuda.empty_cache()


main()
