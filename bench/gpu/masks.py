#!/usr/bin/env python3
"""What masks of intervals and of trees, ALiBi, a gradient of LSE, a diagonal and the largest logit cost on one GPU, beside the same work without them.

    ./bazelw build --repo_env=GLINT_SPEC=bench/specs/masks.lua //examples/pytorch:libglint_shared.so          # and of bench/specs/masks_decode.lua, masks_logit.lua, masks_laws.lua, alibi.lua
    GLINT_LIBRARY=.../libglint_shared.so python3 bench/gpu/masks.py --decode LIBRARY --logit LIBRARY [--csv FILE] [intervals] [trees] [features] [alibi] [laws]

float16 is run by the family sm80, bfloat16 by sm90a. Calls are captured in CUDA graphs and replayed in turn, and a number is the median of the
rounds, in microseconds. `over` is the time over that of the same call without what is measured; of intervals it is that divided by the share of the
row's tiles that some query sees, in which each tile of keys that a block of queries sees counts whole.
"""
import argparse
import csv
import importlib.util
import os
import re

import graphs
import torch

PYTORCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/pytorch/glint_torch.py")
args = argparse.ArgumentParser()
args.add_argument("what", nargs="*", default=["intervals", "trees", "features"])
args.add_argument("--decode", help="a library of bench/specs/masks_decode.lua")
args.add_argument("--logit", help="a library of bench/specs/masks_logit.lua")
args.add_argument("--rounds", type=int, default=7)
args.add_argument("--family", action="append", help="sm80, sm90a or both")
args.add_argument("--csv")
args = args.parse_args()


def module_of(library):
    """glint_torch over one library: several are loaded side by side."""
    os.environ["GLINT_LIBRARY"] = library
    spec = importlib.util.spec_from_file_location("glint_" + re.sub(r"\W", "_", library), PYTORCH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.library()
    return module


ours = module_of(os.environ["GLINT_LIBRARY"])
without_trees = module_of(args.decode) if args.decode else None
with_logit = module_of(args.logit) if args.logit else None
FAMILY = {dtype: name for dtype, name in ((torch.float16, "sm80"), (torch.bfloat16, "sm90a")) if not args.family or name in args.family}
table = None


def timed(functions):
    return graphs.timed(functions, args.rounds, lambda ms: max(2, min(50, int(6 / ms))))


def tell(case, name, us, base, share=1.0, bar=""):
    over = us / base / share
    print(f"{case}: {name}: {us:.1f} us, without {base:.1f}, share {share:.3f}: over {over:.3f} {bar}", flush=True)
    if table:
        table.writerow([case, name, f"{us:.2f}", f"{base:.2f}", f"{share:.4f}", f"{over:.3f}"])


def tensors(dtype, batch, heads_q, heads_kv, m, n, d):
    q = torch.randn(batch, heads_q, m, d, device="cuda").to(dtype)
    k, v = (torch.randn(batch, heads_kv, n, d, device="cuda").to(dtype) for _ in range(2))
    return q, k, v


def names():
    return [ours.variant_info(i).name.decode() for i in range(ours.library().glint_variant_count())]


def tile_of(pattern):
    """Queries and keys of a tile of the row that runs intervals, from its name."""
    found = [re.search(r"_m(\d+)n(\d+)$", name) for name in names() if re.match(pattern, name)]
    return max((tuple(int(x) for x in one.groups()) for one in found), key=lambda tile: tile[1])  # others are for short sequences


def has_alibi(what, family):
    return any(name.startswith(what) and "_alibi" in name and f"__{family}_" in name for name in names())


def share_of(begin, end, n, tile):
    m_tile, n_tile = tile
    rows = len(begin)
    seen = 0
    for row in range(0, rows, m_tile):
        first = min(b if b < e else n for b, e in zip(begin[row:row + m_tile], end[row:row + m_tile]))
        last = max(e if b < e else 0 for b, e in zip(begin[row:row + m_tile], end[row:row + m_tile]))
        if first < last:
            seen += (last + n_tile - 1) // n_tile - first // n_tile
    return seen / (-(-rows // m_tile) * -(-n // n_tile))


def patterns(n):
    """Intervals that models ask for, over n queries and n keys."""
    image = n // 8
    return {
        "all visible": ([0] * n, [n] * n),
        "causal": ([0] * n, [i + 1 for i in range(n)]),
        "prefix": ([0] * n, [max(i + 1, n // 4) for i in range(n)]),
        "images": ([0] * n, [max(i + 1, (i // image + 1) * image) for i in range(n)]),
        "chunks of 1024": ([i - i % 1024 for i in range(n)], [i + 1 for i in range(n)]),
        "documents": ([0 if i < n // 3 else n // 3 if i < n // 2 else n // 2 for i in range(n)],
                      [n // 3 if i < n // 3 else n // 2 if i < n // 2 else n for i in range(n)]),
        "left padding": ([n // 4] * n, [n] * n),
    }


def intervals():
    for dtype in FAMILY:
        for d in (64, 128):
            for n in (4096,):
                q, k, v = tensors(dtype, 2, 16, 16, n, n, d)
                word = "f16" if dtype == torch.float16 else "bf16"
                passes = ("fwd", "bwd") if FAMILY[dtype] == "sm90a" or d == 64 else ("fwd",)  # bench/specs/masks.lua has no more
                asked, shares = {}, {}
                for name, (begin, end) in patterns(n).items():
                    asked[name] = {side: torch.tensor(x, dtype=torch.int32, device="cuda").repeat(2, 1) for side, x in (("key_begin", begin), ("key_end", end))}
                for what in passes:
                    how = FAMILY[dtype] + ("_fused" if what == "bwd" else "")
                    tile = tile_of(f"{what}_{word}_d{d}_interval__{how}_m")
                    for name, (begin, end) in patterns(n).items():
                        shares[name] = share_of(begin, end, n, tile)
                    if what == "fwd":
                        functions = {"none": lambda: ours.attention(q, k, v)}
                        for name in asked:
                            functions[name] = lambda more=asked[name]: ours.attention(q, k, v, **more)
                    else:
                        functions = {}
                        for name, more in {"none": {}, **asked}.items():
                            leaves = [t.detach().requires_grad_() for t in (q, k, v)]
                            with torch.enable_grad():
                                out = ours.attention(*leaves, **more)
                            functions[name] = lambda out=out, leaves=leaves: torch.autograd.grad(out, leaves, q, retain_graph=True)
                    times = timed(functions)
                    case = f"{FAMILY[dtype]} {what} d{d} 2x16x{n}, tiles {tile[0]}x{tile[1]}"
                    for name in asked:
                        tell(case, name, times[name], times["none"], shares[name], "(bar 1.03)" if name == "all visible" else "(bar 1.08)")


def tree_words(queries):
    """A binary tree: query i sees i, (i - 1) / 2 and so on."""
    words = []
    for i in range(queries):
        bits, at = 1, i
        seen = 0
        while True:
            seen |= bits << at
            if at == 0:
                break
            at = (at - 1) // 2
        words.append(seen - (1 << 32) if seen >= 1 << 31 else seen)
    return words


def trees():
    for d in (64, 128):
        for batch in (1, 8):
            for queries in (8, 20):
                for keys in (4096, 32768):
                    q, k, v = tensors(torch.float16, batch, 32, 8, queries, keys, d)
                    words = torch.tensor(tree_words(queries), dtype=torch.int32, device="cuda").view(1, queries, 1).repeat(batch, 1, 1)
                    base = without_trees if without_trees and queries <= 8 else ours
                    times = timed({"causal": lambda: base.attention(q, k, v, causal="bottom_right"),
                                   "causal, the tree's row": lambda: ours.attention(q, k, v, causal="bottom_right"),
                                   "tree": lambda: ours.attention(q, k, v, causal="bottom_right", tree=words)})
                    case = f"sm80 fwd d{d} {batch}x32:8, {queries} new of {keys} keys"
                    tell(case, "tree", times["tree"], times["causal"], bar="(bar 1.05)")
                    tell(case, "causal, the tree's row", times["causal, the tree's row"], times["causal"])


def features():
    for dtype in FAMILY:
        for d in (64, 128):
            for batch, m, n in ((2, 4096, 4096), (1, 16384, 16384)):
                q, k, v = tensors(dtype, batch, 16, 16, m, n, d)
                case = f"{FAMILY[dtype]} %s d{d} {batch}x16x{m}"
                slopes = torch.tensor([2.0 ** (-(h + 1) / 2) for h in range(16)], device="cuda")
                functions = {"causal": lambda: ours.attention(q, k, v, causal="top_left"),
                             "diagonal": lambda: ours.attention(q, k, v, causal="top_left", diagonal=1)}
                if has_alibi("fwd", FAMILY[dtype]):
                    functions["alibi"] = lambda: ours.attention(q, k, v, causal="top_left", alibi=slopes)
                if FAMILY[dtype] == "sm80" and with_logit:
                    functions["largest logit"] = lambda: with_logit.attention(q, k, v, causal="top_left", return_max_logit=True)
                    functions["causal, the logit's row"] = lambda: with_logit.attention(q, k, v, causal="top_left")
                times = timed(functions)
                for name in list(functions)[1:]:
                    tell(case % "fwd", name, times[name], times["causal"], bar="(bar 1.03)")
                if FAMILY[dtype] == "sm80" and d != 64:
                    continue  # bench/specs/masks.lua has no more
                functions = {}
                g, dlse = torch.randn_like(q), torch.randn(batch, 16, m, device="cuda")
                for name, more in (("causal", {}), ("diagonal", {"diagonal": 1}), ("alibi", {"alibi": slopes}), ("dLSE", {"return_lse": True})):
                    if name == "alibi" and not has_alibi("bwd", FAMILY[dtype]):
                        continue
                    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
                    with torch.enable_grad():
                        out = ours.attention(*leaves, causal="top_left", **more)
                    outs, gs = (out, (g, dlse)) if name == "dLSE" else ((out,), (g,))
                    functions[name] = lambda outs=outs, leaves=leaves, gs=gs: torch.autograd.grad(outs, leaves, gs, retain_graph=True)
                times = timed(functions)
                for name in list(functions)[1:]:
                    tell(case % "bwd", name, times[name], times["causal"], bar="(bar 1.03)")


def alibi():
    """ALiBi beside the same row without it, under each mask: with a library of bench/specs/alibi.lua."""
    for dtype, word in ((torch.bfloat16, "bf16"), (torch.float16, "f16")):
        for d in (64, 128):
            for batch, n in ((8, 512), (4, 1024), (2, 4096), (1, 16384)):
                q, k, v = tensors(dtype, batch, 16, 16, n, n, d)
                slopes = torch.tensor([2.0 ** (-(h + 1) / 2) for h in range(16)], device="cuda")
                begin, end = ([x] * batch for x in patterns(n)["causal"])
                say = {side: torch.tensor(x, dtype=torch.int32, device="cuda") for side, x in (("key_begin", begin), ("key_end", end))}
                masks = {"none": {}, "causal": {"causal": "top_left"}, "window": {"window": (n // 8, 0), "causal": "top_left"}, "interval": say}
                functions = {}
                for name, more in masks.items() if word == "bf16" else [("causal", masks["causal"])]:
                    functions[name] = lambda more=more: ours.attention(q, k, v, **more)
                    functions[name + " alibi"] = lambda more=more: ours.attention(q, k, v, alibi=slopes, **more)
                times = timed(functions)
                for name in list(functions)[1::2]:
                    tell(f"{word} fwd d{d} {batch}x16x{n}", name, times[name], times[name.split()[0]], bar="(bar 1.03)")


def laws():
    """Intervals that say none, causal or a window give the gradients of that mask's row, bit by bit: with a library of bench/specs/masks_laws.lua."""
    same = asked = 0
    for d in (64, 128):
        for batch, heads_q, heads_kv, m, n in ((2, 4, 4, 1024, 1024), (1, 8, 2, 1000, 1531), (3, 4, 1, 333, 260), (1, 16, 16, 4096, 4096)):
            q, k, v = tensors(torch.bfloat16, batch, heads_q, heads_kv, m, n, d)
            dout, at, left = torch.randn_like(q), n - m, n // 8  # few enough that a key head has as many parts for all
            for name, begin, end, mask in (("none", lambda i: 0, lambda i: n, {"mask": ours.MASKS["none"]}),
                                           ("causal", lambda i: 0, lambda i: i + at + 1, {"mask": ours.MASKS["bottom_right"]}),
                                           ("window", lambda i: i + at - left, lambda i: i + at + 1,
                                            {"mask": ours.BANDS["bottom_right"], "window_left": left, "window_right": 0})):
                say = {side: torch.tensor([max(0, of(i)) for i in range(m)], dtype=torch.int32, device="cuda").repeat(batch, 1)
                       for side, of in (("key_begin", begin), ("key_end", end))}
                o, lse = ours.attention(q, k, v, return_lse=True, **say)
                scale = ("softmax_scale", d**-0.5)
                bits = []
                for fields, others in (((*mask.items(), scale), {}), ((("mask", ours.MASKS["none"]), ("intervals", 1), scale), say)):
                    grads = [torch.empty_like(t) for t in (q, k, v)]
                    ours.call(ours.BACKWARD, fields, n, (q, k, v, o, dout, *grads), lse, others)
                    bits.append(grads)
                equal = [torch.equal(a, b) for a, b in zip(*bits)]
                asked, same = asked + len(equal), same + sum(equal)
                if not all(equal):
                    print(f"d{d} {batch}x{heads_q}:{heads_kv}x{m}x{n}, {name}: dQ, dK, dV have the same bits: {equal}", flush=True)
    print(f"gradients of intervals that say a mask: {same} of {asked} have the bits of that mask's row", flush=True)


def main():
    global table
    torch.manual_seed(0)
    print(torch.__version__, torch.cuda.get_device_name(), flush=True)
    table = csv.writer(open(args.csv, "w", newline="", buffering=1)) if args.csv else None
    if table:
        table.writerow(["case", "what", "us", "us without", "share of tiles", "over"])
    with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
        for what in args.what:
            {"intervals": intervals, "trees": trees, "features": features, "alibi": alibi, "laws": laws}[what]()


main()
