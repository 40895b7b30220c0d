#!/usr/bin/env python3
"""Checks the kernels listed in .gpu/variants.json against float64 on this machine's GPU, then times them beside FlashAttention-2.

usage: tests/gpu/check.py [--no-check] [--no-time] [--peers] [--csv FILE] [NAME...]      NAME: a prefix of the names to take
Needs PyTorch and an NVIDIA GPU of the cubins' architecture. Exit status 1 if any check failed.
"""
import argparse, ctypes, json, math, os, statistics, sys
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(ROOT, ".gpu")
cu = ctypes.CDLL("libcuda.so.1")
i32, i64, f32, ptr = ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
LOG2E = 1.44269504088896340736


class View(ctypes.Structure):
    _fields_ = [("address", ptr), ("batch", i64), ("head", i64), ("row", i64)]


class Shape(ctypes.Structure):
    _fields_ = [(n, i32) for n in "batch heads_q heads_kv group seqlen_q seqlen_k mask_offset section".split()] + [
        ("softmax_scale", f32), ("scale_log2", f32)]


class Forward(ctypes.Structure):
    _fields_ = [(n, View) for n in "q k v o".split()] + [("lse", ptr), ("shape", Shape)]


class Backward(ctypes.Structure):
    _fields_ = [(n, View) for n in "q k v o dout dq dk dv".split()] + [("lse", ptr), ("shape", Shape), ("padded_q", i64)] + [
        (n, ptr) for n in "lse_log2 delta dq_sum turn".split()] + [("parts", i32), ("part_heads", i32), ("key_sum", ptr), ("key_turn", ptr)]


def ok(code, what):
    if code:
        raise RuntimeError("%s: CUresult %d" % (what, code))


def view(t):  # t: [batch, seqlen, heads, head_dim]
    return View(t.data_ptr(), t.stride(0), t.stride(2), t.stride(1))


def ceil(a, b):
    return -(-a // b)


class Variant:
    def __init__(self, record):
        self.r = record
        module = ptr()
        ok(cu.cuModuleLoad(ctypes.byref(module), os.path.join(OUT, record["name"] + ".cubin").encode()), "load " + record["name"])
        self.entries = []
        symbol = record["symbol"]
        if record["pass"] == "fwd":
            names = [(symbol, record["tile_m"], "q", 32 * record["warps"], record["smem_bytes"])]
        elif record["strategy"] == "fused":
            names = [(symbol + "_delta", 128, "q", 256, 0), (symbol, record["tile_n"], "k", 32 * record["warps"], record["smem_bytes"])]
        else:
            names = [(symbol + "_delta", 128, "q", 256, 0), (symbol, record["tile_n"], "k", 32 * record["warps"], record["smem_bytes"]),
                     (symbol + "_dq", record["dq_m"], "q", 32 * record["dq_warps"], record["dq_smem_bytes"])]
        for name, rows, axis, threads, smem in names:
            function = ptr()
            ok(cu.cuModuleGetFunction(ctypes.byref(function), module, name.encode()), "get " + name)
            if smem > 48 * 1024:
                ok(cu.cuFuncSetAttribute(function, 8, smem), "shared memory of " + name)
            self.entries.append((function, rows, axis, threads, smem))

    def launch(self, params):
        s = params.shape
        stream = torch.cuda.current_stream().cuda_stream
        args = (ptr * 1)(ctypes.addressof(params))
        for function, rows, axis, threads, smem in self.entries:
            blocks = ceil(s.seqlen_q, rows) * s.heads_q * s.batch if axis == "q" else ceil(s.seqlen_k, rows) * s.heads_kv * s.batch
            if blocks:
                ok(cu.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, smem, ptr(stream), args, None), self.r["name"])


def shape_of(q, k, offset, scale, section):
    b, sq, hq, d = q.shape
    sk, hkv = k.shape[1], k.shape[2]
    return Shape(b, hq, hkv, hq // hkv, sq, sk, offset, section, scale, scale * LOG2E)


def forward_params(q, k, v, o, lse, offset, scale, causal):
    bytes = 2 * max(q.shape[1], k.shape[1]) * q.shape[3] * q.element_size()
    section = 1 if not causal or bytes <= 0 or bytes >= 28 << 20 else (28 << 20) // bytes
    return Forward(view(q), view(k), view(v), view(o), lse.data_ptr(), shape_of(q, k, offset, scale, section))


def backward_params(record, q, k, v, o, dout, lse, dq, dk, dv, offset, scale, causal):
    b, sq, hq, d = q.shape
    padded = ceil(sq, 128) * 128
    d_padded = record["padded_dim"]
    section = max(1 if record["strategy"] == "split" else (1024 if offset >= k.shape[1] else 4096) // d + 1, (28 << 20) // (4 * max(1, sq, k.shape[1]) * (hq // k.shape[2]) * d))
    keep = [torch.full((max(1, b * hq * padded),), float("nan"), device="cuda") for _ in range(2)]
    keep.append(torch.full((max(1, b * hq * padded * d_padded),), float("nan"), device="cuda"))
    keep.append(torch.full((1 + b * hq * padded // record["tile_m"],), 0x5a5a5a5a, dtype=torch.int32, device="cuda"))
    p = Backward(*[view(t) for t in (q, k, v, o, dout, dq, dk, dv)], lse.data_ptr(), shape_of(q, k, offset, scale, section), padded,
                 *[t.data_ptr() for t in keep], 1, hq // k.shape[2], None, None)  # a key block takes all heads of a group
    return p, keep


def reference(q, k, v, dout, offset, scale, dtype):
    """Plain attention in `dtype`; with gradients when dout is given. Tensors [b, s, h, d]."""
    g = q.shape[2] // k.shape[2]
    q, k, v = [t.to(dtype).transpose(1, 2) for t in (q, k, v)]
    k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    s = (q @ k.transpose(2, 3)) * scale
    if offset is not None:
        i = torch.arange(q.shape[2], device="cuda")[:, None]
        j = torch.arange(k.shape[2], device="cuda")[None]
        s = s.masked_fill(j > i + offset, -math.inf)
    lse = torch.logsumexp(s.float() if dtype != torch.float64 else s, -1)
    p = torch.exp(s - torch.where(lse == -math.inf, 0.0, lse)[..., None].to(s.dtype)) if s.shape[-1] else s
    p = torch.where(lse[..., None] == -math.inf, torch.zeros_like(p), p)
    o = p @ v
    out = [o.transpose(1, 2), lse]
    if dout is not None:
        do = dout.to(dtype).transpose(1, 2)
        delta = (do * o).sum(-1, keepdim=True)
        dv = p.transpose(2, 3) @ do
        ds = p * (do @ v.transpose(2, 3) - delta)
        dq = (ds @ k) * scale
        dk = (ds.transpose(2, 3) @ q) * scale
        b, h, n, d = dk.shape
        dk, dv = [t.reshape(b, h // g, g, n, d).sum(2) for t in (dk, dv)]
        out += [t.transpose(1, 2) for t in (dq, dk, dv)]
    return out


def randn(b, s, h, d, dtype, scale=1.0):
    wide = torch.randn(b, s, h, d + 16, device="cuda").mul_(scale).to(dtype)  # rows with a gap: strided views
    return wide[..., :d]


SHAPES = [  # batch, heads_q, heads_kv, seqlen_q, seqlen_k
    (2, 2, 2, 256, 256), (1, 1, 1, 1, 1), (1, 2, 1, 63, 65), (2, 4, 2, 129, 127), (1, 4, 1, 300, 517), (1, 2, 2, 517, 300), (1, 2, 2, 64, 1),
    (1, 2, 2, 1, 400), (1, 3, 3, 1000, 1000), (1, 2, 2, 0, 70), (1, 2, 2, 70, 0), (3, 8, 2, 128, 640), (1, 2, 2, 700, 64),
]


def check(variants):
    bad = 0
    forwards = {}
    for v in variants:
        r = v.r
        if r["pass"] == "fwd":
            forwards.setdefault((r["dtype"], r["head_dim"], r["causal"]), v)
    for v in variants:
        r = v.r
        worst, worst_at = 0.0, None
        for number, (b, hq, hkv, sq, sk) in enumerate(SHAPES):
            for offset in ([0, sk - sq] if r["causal"] else [None]):
                torch.manual_seed(number)
                dtype, d = DTYPES[r["dtype"]], r["head_dim"]
                scale = (1, -1)[number == 3] * d ** -0.5 * (1, 8)[number == 4]
                q, k, vv = randn(b, sq, hq, d, dtype), randn(b, sk, hkv, d, dtype), randn(b, sk, hkv, d, dtype)
                dout = randn(b, sq, hq, d, dtype)
                want = reference(q, k, vv, dout, offset, scale, torch.float64)
                plain = reference(q, k, vv, dout, offset, scale, dtype)
                o = torch.full_like(randn(b, sq, hq, d, dtype), float("nan"))
                lse = torch.full((b, hq, sq), float("nan"), device="cuda")
                off = sk if offset is None else offset
                if r["pass"] == "fwd":
                    p = forward_params(q, k, vv, o, lse, off, scale, r["causal"])
                    v.launch(p)
                    got = [o, lse]
                    names = ["o", "lse"]
                    want, plain = want[:2], plain[:2]
                else:
                    o.copy_(want[0].to(dtype))
                    lse.copy_(want[1].float())
                    grads = [torch.full_like(t, float("nan")) for t in (q, k, vv)]
                    p, keep = backward_params(r, q, k, vv, o, dout, lse, *grads, off, scale, r["causal"])
                    v.launch(p)
                    got, names = grads, ["dq", "dk", "dv"]
                    want, plain = want[2:], plain[2:]
                torch.cuda.synchronize()
                for name, x, w, pl in zip(names, got, want, plain):
                    if x.numel() == 0:
                        continue
                    x, pl = x.double(), pl.double()
                    if name == "lse":
                        same = (x == w) | ((x - w).abs() <= 2e-6 * (1 + w.abs()) * (1000 * max(1, abs(scale) * d ** 0.5) if r.get("math") == "tf32" else 2))
                        score = 0.0 if bool(same.all()) else 99.0
                    else:
                        err, base = (x - w).abs().max().item(), (pl - w).abs().max().item()
                        size = max(w.abs().max().item(), 4 * d ** 0.5 * abs(scale) if name in ("dq", "dk") else 0)
                        ulp = torch.finfo(dtype).eps * size
                        if r["dtype"] == "f32":
                            ulp = (4e-3 if r["math"] == "tf32" else 8e-6) * size * max(1, abs(scale) * d ** 0.5)
                        score = err / max(2 * base + ulp, 1e-30) if math.isfinite(err) else 99.0
                    if not score <= worst:
                        worst, worst_at = score, (name, (b, hq, hkv, sq, sk), offset)
                    if not score <= 1.0:
                        bad += 1
                        print("  FAIL", r["name"], name, (b, hq, hkv, sq, sk), offset, "score %.3g" % score, flush=True)
        print("check %-46s worst %.3f of the bar at %s" % (r["name"], worst, worst_at), flush=True)
    return bad


def median_ms(run, budget_ms=60.0):
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record(); run(); b.record(); torch.cuda.synchronize()
    n = int(min(15, max(4, budget_ms / max(a.elapsed_time(b), 1e-3))))
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(n)]
    for x, y in events:
        x.record(); run(); y.record()
    torch.cuda.synchronize()
    return statistics.median(x.elapsed_time(y) for x, y in events)


def tflops(which, b, h, n, d, causal, ms):
    return 4.0 * b * h * n * n * d * (2.5 if which == "bwd" else 1.0) * (0.5 if causal else 1.0) / ms * 1e-9


def fa2_times(q, k, v, dout, causal, scale):
    qt, kt, vt, dt = [t.transpose(1, 2) for t in (q, k, v, dout)]
    fwd = lambda: torch.ops.aten._scaled_dot_product_flash_attention(qt, kt, vt, 0.0, causal, False, scale=scale)
    out = fwd()
    bwd = lambda: torch.ops.aten._scaled_dot_product_flash_attention_backward(
        dt, qt, kt, vt, out[0], out[1], out[2], out[3], out[4], out[5], 0.0, causal, out[6], out[7], scale=scale)
    return {"fwd": median_ms(fwd), "bwd": median_ms(bwd)}


def baseline():
    table = {}
    for path in (os.path.join(OUT, "h200_bf16.csv"), os.path.join(ROOT, "shared/baselines/h200_bf16.csv")):
        if os.path.exists(path):
            for line in open(path):
                f = line.strip().split(",")
                if f[0] == "fa2":
                    table[(f[1], int(f[3]), int(f[4]), int(f[5]))] = float(f[9])
            break
    return table


def times(variants, args):
    known = baseline()
    rows = []
    dims = sorted({(v.r["head_dim"], v.r["dtype"]) for v in variants})
    for d, dtype in dims:
        for causal in (False, True):
            mine = [v for v in variants if v.r["head_dim"] == d and v.r["dtype"] == dtype and v.r["causal"] == causal]
            for n in args.seqlens if mine else []:
                b, h = 16384 // n, max(1, 2048 // d)
                q, k, v, dout, o, dq, dk, dv = [torch.randn(b, n, h, d, device="cuda").to(DTYPES[dtype]) for _ in range(8)]
                lse = torch.full((b, h, n), math.log(n) + 0.5, device="cuda")
                scale = d ** -0.5
                off = 0 if causal else n
                peer = {p: known.get((p, d, int(causal), n)) for p in ("fwd", "bwd")}
                if args.peers and dtype != "f32":
                    for p, ms in fa2_times(q, k, v, dout, causal, scale).items():
                        peer[p] = tflops(p, b, h, n, d, causal, ms)
                        rows.append(("fa2", p, dtype, d, int(causal), n, b, h, ms, peer[p]))
                out = []
                fw = [x for x in mine if x.r["pass"] == "fwd"]
                if fw:
                    fw[0].launch(forward_params(q, k, v, o, lse, off, scale, causal))
                for x in mine:
                    if x.r["pass"] == "fwd":
                        p = forward_params(q, k, v, o, lse, off, scale, causal)
                    else:
                        p, keep = backward_params(x.r, q, k, v, o, dout, lse, dq, dk, dv, off, scale, causal)
                    ms = median_ms(lambda: x.launch(p))
                    t = tflops(x.r["pass"], b, h, n, d, causal, ms)
                    rows.append((x.r["name"], x.r["pass"], dtype, d, int(causal), n, b, h, ms, t))
                    base = peer[x.r["pass"]]
                    out.append("%s %.0f%s" % (x.r["name"].split("__sm80_")[1] + ("" if x.r["pass"] == "fwd" else "(b)"), t,
                                              " (%.2fx)" % (t / base) if base else ""))
                print("d%d %s %s n=%d fa2 %s: %s" % (d, dtype, "causal" if causal else "none", n,
                                                     "/".join("%.0f" % (peer[p] or 0) for p in ("fwd", "bwd")), "; ".join(out)), flush=True)
    if args.csv:
        with open(args.csv, "w") as f:
            f.write("impl,pass,dtype,head_dim,causal,seqlen,batch,heads,ms,tflops\n")
            for r in rows:
                f.write("%s,%s,%s,%d,%d,%d,%d,%d,%.4f,%.1f\n" % r)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--no-check", action="store_true")
    a.add_argument("--no-time", action="store_true")
    a.add_argument("--peers", action="store_true")
    a.add_argument("--csv")
    a.add_argument("--folder", default=OUT, help="where variants.json and the cubins lie")
    a.add_argument("--seqlens", type=lambda s: [int(x) for x in s.split(",")], default=[512, 1024, 2048, 4096, 8192, 16384])
    a.add_argument("names", nargs="*")
    args = a.parse_args()
    globals()["OUT"] = args.folder
    torch.zeros(1, device="cuda")
    records = [r for r in json.load(open(os.path.join(OUT, "variants.json"))) if not args.names or any(r["name"].startswith(n) for n in args.names)]
    variants = [Variant(r) for r in records]
    bad = 0 if args.no_check else check(variants)
    print("%d variants, %d failures" % (len(variants), bad), flush=True)
    if not args.no_time:
        times(variants, args)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
