#!/usr/bin/env python3
"""Draws calls from the whole contract of glint.h, runs them through ctypes and compares them with attention in float64 of numpy. It shares no
code with the library or its tests.

    tests/fuzz/drawn_calls.py LIBRARY cpu|gpu SEED SECONDS [ISA] [--rows TEXT] [--one N]
    tests/fuzz/drawn_calls.py LIBRARY cpu|gpu --sums

LIBRARY is bazel-bin/examples/pytorch/libglint_shared.so of any spec (GLINT_SPEC). Passes, masks, diagonals, intervals, trees, biases, sinks,
caps, lengths and first rows (wrong ones, too), pages, 8-bit caches, strides, views of one buffer, groups and special values are drawn; a failure
is printed with its seed and number, and --one N runs that call alone. Of each call are checked the numbers, that nothing else is written, and
faults; of some that wrong arguments are refused, glint_append byte by byte, glint_merge, what glint.h says of bits (a sequence alone, a chunk in
the canonical order, other threads, intervals and chains that say what a mask says), and replays of a CUDA graph. GUARD=1 puts host tensors
before pages that nobody may read; NO_LOGIT=1 asks for no largest logit, for libraries without it. --sums says how far a sum of as many equal
terms as there are keys drifts in float32. The exit status is 1 when a call failed."""
import ctypes as C, math, os, sys, time, traceback, json, collections
import numpy as np

u32, i32, i64, u64, f32, ptr, size_t, cstr = C.c_uint32, C.c_int32, C.c_int64, C.c_uint64, C.c_float, C.c_void_p, C.c_size_t, C.c_char_p
np.seterr(all="ignore")


class Struct(C.Structure):
    def __init__(self, **k): super().__init__(struct_size=C.sizeof(self), **k)


class Strides(C.Structure):
    _fields_ = [("batch", i64), ("head", i64), ("row", i64)]


class Problem(Struct):
    _fields_ = [("struct_size", u32), ("dtype", u32), ("mask", u32), ("softmax_scale", f32), ("batch", i64), ("heads_q", i64),
        ("heads_kv", i64), ("head_dim", i64), ("seqlen_q", i64), ("seqlen_k", i64)] + [(n, Strides) for n in "q k v o dout dq dk dv".split()] + [
        ("window_left", i64), ("window_right", i64), ("rows_q", i64), ("rows_k", i64), ("lengths", u32), ("order", u32), ("softcap", f32),
        ("sinks", u32), ("page_rows", i64), ("pages", i64), ("pages_per_sequence", i64), ("kv_dtype", u32), ("kv_scales", u32),
        ("diagonal", i64), ("intervals", u32), ("alibi", u32), ("max_logit", u32), ("bias_dtype", u32), ("dbias", u32), ("tree", u32),
        ("bias", i64 * 4), ("head_dim_v", i64), ("reserved", u64 * 1)]


class Plan(C.Structure):
    _fields_ = [("struct_size", u32), ("pass_", u32), ("variant", u32), ("reserved", u32), ("workspace_bytes", size_t), ("context", ptr),
        ("problem", Problem), ("internal", u64 * 32)]


TN = "q k v o lse dout dq dk dv first_q first_k seqlens_q seqlens_k fault sinks dsinks page_table k_scale v_scale dlse key_begin key_end alibi_slopes max_logit bias dbias tree_bits".split()


class Tensors(Struct):
    _fields_ = [("struct_size", u32), ("reserved", u32)] + [(n, ptr) for n in TN]


class Executor(C.Structure):
    _fields_ = [("struct_size", u32), ("concurrency", u32), ("parallel_for", ptr), ("user", ptr)]


class Options(Struct):
    _fields_ = [("struct_size", u32), ("device", u32), ("cuda_device", i32), ("max_isa", u32), ("executor", Executor), ("amx", u32), ("reserved", u32)]


class Info(Struct):
    _fields_ = [(n, u32) for n in "struct_size pass_ dtype features head_dim head_dim_v isa sm tile_m tile_n alignment_bytes math queries_up_to kv_dtype".split()] + [("name", cstr), ("family", cstr)]


class Part(C.Structure):
    _fields_ = [("o", ptr), ("lse", ptr), ("o_strides", Strides), ("lse_strides", Strides), ("dtype", u32), ("reserved", u32)]


class Merge(Struct):
    _fields_ = [("struct_size", u32), ("dtype", u32), ("parts", u32), ("reserved", u32), ("batch", i64), ("heads", i64), ("seqlen", i64), ("head_dim", i64),
        ("part", ptr), ("sinks", ptr), ("o", ptr), ("lse", ptr), ("o_strides", Strides), ("lse_strides", Strides)]


lib, GPU, cu = None, False, None
GUARD = bool(os.environ.get("GUARD"))
libc = C.CDLL(None)
import faulthandler
faulthandler.enable()


def cc(r, what="cuda"):
    if r:
        raise RuntimeError(f"{what}: CUresult {r}")


class Arena:  # device memory, bumped
    def __init__(self, n):
        self.base = ptr()
        cc(cu.cuMemAlloc_v2(C.byref(self.base), size_t(n)))
        self.n = n
        self.at = 0

    def take(self, n):
        a = -(-self.at // 256) * 256
        self.at = a + n
        if self.at > self.n:
            raise MemoryError
        return self.base.value + a


class Buf:
    """A flat buffer of elements with guards; `off` elements in front of the address. Filled with `fill` bits."""

    def __init__(self, n, dt, r, fill, align=64, skew=0, guard=64):
        self.dt = np.dtype(dt)
        w = self.dt.itemsize
        if GUARD:
            import mmap
            size = -(-(n * w) // 4096) * 4096
            size = max(size, 4096)
            self.map = m = mmap.mmap(-1, size + 4096)
            raw = np.frombuffer(m, np.uint8, size)
            assert libc.mprotect(ptr(raw.ctypes.data + size), size_t(4096), 0) == 0
            self.raw, self.n, self.dev, self.start = raw, n, None, 0
            self.begin = size - n * w if (size - n * w) % w == 0 else 0
            if align >= 256:
                self.begin = self.begin // 256 * 256
            m_ = (size - self.begin % w) // w
            k = self.begin % w
            raw[k:k + m_ * w].view(self.dt)[:] = np.frombuffer(np.array(fill, self.dt).tobytes(), self.dt)
            self.a = raw[self.begin:self.begin + n * w].view(self.dt)
            return
        g0 = guard
        raw = np.empty((n + g0 * 2) * w + align + skew, np.uint8)
        base = raw.ctypes.data
        start = (-(base) % align) + skew
        if GPU:
            start = skew
        self.raw, self.start, self.n, self.g0 = raw, start, n, g0
        lead = -(-g0 * w // align) * align
        if lead + start + (n + g0) * w > raw.size: 
            raw = np.empty(lead + start + (n + g0) * w + align, np.uint8)
            base = raw.ctypes.data
            start = ((-base) % align) + skew if not GPU else skew
            self.raw, self.start = raw, start
            self.raw = raw = raw[:lead + start + n * w] if start == 0 else raw
        self.begin = start + lead
        pat = np.frombuffer(np.array(fill, self.dt).tobytes(), np.uint8)
        k = self.begin % w
        m = (raw.size - k) // w
        raw[k:k + m * w] = np.tile(pat, m) if m < 1 << 12 else np.broadcast_to(pat, (m, w)).reshape(-1)
        self.a = raw[self.begin:self.begin + n * w].view(self.dt) if n else np.zeros(0, self.dt)
        self.dev = None

    def addr(self):
        if not GPU:
            return self.raw.ctypes.data + self.begin
        if self.dev is None:
            self.dev = arena.take(self.raw.size)
        return self.dev + self.begin

    def up(self):
        self.addr()
        self.before = self.raw.copy()
        if GPU:
            cc(cu.cuMemcpyHtoD_v2(u64(self.dev), ptr(self.raw.ctypes.data), size_t(self.raw.size)), "up")

    def down(self):
        if GPU:
            cc(cu.cuMemcpyDtoH_v2(ptr(self.raw.ctypes.data), u64(self.dev), size_t(self.raw.size)), "down")

    def stray(self, idx=None):
        """Bytes changed outside of elements idx."""
        ch = self.raw != self.before
        if idx is not None and idx.size:
            v = ch[self.begin:self.begin + self.n * self.dt.itemsize].reshape(self.n, -1)
            v[idx.reshape(-1)] = False
        return int(ch.sum()), (np.nonzero(ch)[0][:4] - self.begin).tolist()


class View:
    """A part of a fused buffer."""

    def __init__(self, base, off, n): self.base, self.off, self.n, self.dt = base, off, n, base.dt; self.a = base.a[off:off + n]; self.raw = base.raw; self.start = base.start
    begin = property(lambda s: s.base.begin + s.off * s.dt.itemsize)
    before = property(lambda s: s.base.before)
    def addr(self): return self.base.addr() + self.off * self.dt.itemsize
    def up(self): self.base.up()
    def down(self): self.base.down()

    def stray(self, idx=None):
        if idx is None:
            return self.base.stray()
        return self.base.stray(np.concatenate([np.concatenate([x.reshape(-1) + v.off for x in v.idx]) for v in self.base.views]))


F32, F16, BF16, I8, E4M3 = 1, 2, 3, 4, 5
BITS = {F32: np.uint32, F16: np.uint16, BF16: np.uint16, I8: np.uint8, E4M3: np.uint8}
NANB = {F32: 0x7fc12345, F16: 0x7e55, BF16: 0x7fd5, I8: 0x80, E4M3: 0x7f}
EPS = {F32: 2.0**-24, F16: 2.0**-11, BF16: 2.0**-8}


def e4m3(b):
    b = b.astype(np.int64)
    s = np.where(b & 128, -1.0, 1.0)
    e = (b >> 3) & 15
    m = b & 7
    v = np.where(e == 0, m * 2.0**-9, (8 + m) * 2.0 ** (e - 10.0))
    v = np.where((b & 127) == 127, np.nan, v)
    return s * v


E4 = e4m3(np.arange(256))


def dec(bits, dt):
    if dt == F32:
        return bits.view(np.float32).astype(np.float64)
    if dt == F16:
        return bits.view(np.float16).astype(np.float64)
    if dt == BF16:
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dt == I8:
        return bits.view(np.int8).astype(np.float64)
    return E4[bits]


def enc(x, dt):
    x = np.ascontiguousarray(x, np.float32)
    if dt == F32:
        return x.view(np.uint32)
    if dt == F16:
        return x.astype(np.float16).view(np.uint16)
    if dt == BF16:
        b = x.view(np.uint32).astype(np.uint64)
        out = ((b + 0x7fff + ((b >> 16) & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(x), np.uint16(0x7fd5), out)
    raise ValueError


def dotT(a, b): return np.matmul(a, b.transpose(0, 2, 1))
def Tdot(a, b): return np.matmul(a.transpose(0, 2, 1), b)


class Fail(Exception):
    pass


def pick(r, *xs): return xs[r.integers(len(xs))]
def chance(r, p): return r.random() < p


def length(r, most):
    return int(pick(r, 0, 1, 2, 3, r.integers(0, 9), r.integers(0, 40), r.integers(0, 40), r.integers(0, 140), r.integers(0, 140), r.integers(0, most + 1), pick(r, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257)))


def strides(r, dims, d, unit, zero):
    """Strides of [n0,n1,n2] over rows of d: an order and paddings; zero: stride 0 may repeat."""
    order = list(r.permutation(3))
    st = [0, 0, 0]
    step = d
    pad = chance(r, .5)
    for k in order:
        if dims[k] == 1 and chance(r, .2):
            st[k] = int(pick(r, 0, unit, 8 * unit, unit * int(r.integers(0, 1000))))
            continue
        if zero and chance(r, .06):
            st[k] = 0
            continue
        if pad and chance(r, .5):
            step += unit * int(r.integers(0, 5))
        st[k] = step
        step *= max(1, dims[k])
    return st


def extent(dims, st, d): return 0 if min(dims) == 0 else sum((n - 1) * s for n, s in zip(dims, st)) + d


class Case:
    pass


def draw(r, rows, dims_of, cfg):
    """A problem and its inputs. rows: variants that the context has."""
    c = Case()
    p = c.p = Problem()
    info = rows[r.integers(len(rows))]
    c.info = info
    p.dtype, p.head_dim, p.head_dim_v, p.kv_dtype = info.dtype, info.head_dim, info.head_dim_v, info.kv_dtype
    c.pass_ = info.pass_
    c.fwd = fwd = c.pass_ == 1
    feat = info.features
    heads_kv = int(pick(r, 1, 1, 2, 3))
    group = int(pick(r, 1, 1, 2, 3, 4, 5, 6, 7, 8, 16))
    p.heads_q, p.heads_kv = heads_kv * group, heads_kv
    p.batch = B = int(pick(r, 1, 1, 2, 3, 5))
    p.softmax_scale = float(np.float32(pick(r, 1 / math.sqrt(info.head_dim), 1 / math.sqrt(info.head_dim), .05, -.1, 0.0, .3)))
    most = cfg["most"]
    sq = int(r.integers(0, info.queries_up_to + 1)) if info.queries_up_to and chance(r, .8) else length(r, most)
    sk = length(r, most * 4 if (info.queries_up_to or chance(r, .1)) else most)
    if B * p.heads_q * sq * sk > 3e6:
        p.batch = B = 1
    if p.heads_q * sq * sk > 3e6:
        p.heads_q = int(p.heads_kv)
    if p.heads_q * sq * sk > 6e6:
        sk = min(sk, 300)
    p.lengths = int(pick(r, 0, 0, 1, 2))
    paged = fwd and p.lengths and chance(r, .5)
    if (info.index, p.lengths, bool(paged)) in REFUSED and chance(r, .97):
        p.lengths = 0
        paged = False
    c.key = (info.index, p.lengths, bool(paged))
    if b"_step_" in info.name and chance(r, .3):
        sk = int(r.integers(0, 6000))
        sq = int(r.integers(0, 20))
        p.batch = B = int(r.integers(1, 3))
    ragged = p.lengths == 2
    p.seqlen_q, p.seqlen_k = sq, sk
    # masks
    if feat & 64:
        p.tree = 1 if chance(r, .8) else 0
    if feat & 8 and (chance(r, .85) or not (p.tree or info.queries_up_to)):
        p.intervals = 1
    wide = feat & 8 or feat & 64 or info.queries_up_to
    if wide:
        p.mask = int(pick(r, 1, 2, 3, 4, 5))
    elif feat & 2:
        p.mask = int(pick(r, 4, 5))
    elif feat & 1:
        p.mask = int(pick(r, 2, 3, 2, 3, 4, 5))
    else:
        p.mask = int(pick(r, 1, 1, 1, 4, 5))
    if p.mask >= 4:
        def w(): return int(pick(r, -1, 0, 1, r.integers(0, 20), r.integers(0, 200), 0x3fffffff))
        p.window_left, p.window_right = w(), w()
        if not wide and not feat & 2:
            p.window_left = -1
        if not wide and not feat & 1:
            p.window_right = -1
        if not wide and feat & 2 and p.window_left < 0:
            p.window_left = int(r.integers(0, 100))
    if feat & 16:
        p.alibi = 1
    if p.mask != 1 and chance(r, .5):
        p.diagonal = int(pick(r, 0, 1, -1, r.integers(-20, 21), r.integers(-200, 201), r.integers(-2**31, 2**31), 2**62, -2**63, 2**63 - 1) if not p.alibi else r.integers(-300, 301))
    if feat & 4 and (GPU or chance(r, .6)):
        p.softcap = float(np.float32(pick(r, .5, 3., 20., 50.)))
    p.sinks = int(chance(r, .3))
    if feat & 32:
        p.bias_dtype = int(pick(r, F32, p.dtype))
        p.dbias = int(not fwd and chance(r, .7))
    if fwd and cfg["max_logit"](info):
        p.max_logit = int(chance(r, .3))
    if fwd and chance(r, .2) and not GPU and not info.queries_up_to:
        p.order = 1
    if fwd and GPU and b"_step_" in info.name and chance(r, .3):
        p.order = 1
    if p.tree and sk < sq:
        p.seqlen_k = sk = sq + int(r.integers(0, 5))
    # lengths
    lq = [sq] * B
    lk = [sk] * B
    def rand_len(n): return int(pick(r, n, r.integers(0, n + 1), r.integers(0, n + 1), 0, min(n, 1)))
    c.bad = False
    bufs = c.bufs = {}

    def ibuf(name, x, dt=np.int32):
        x = np.asarray(x, dt)
        b = Buf(x.size, dt, r, 0x5a5a5a5a if dt != np.float32 else np.nan, align=16)
        b.a[:] = x.reshape(-1)
        bufs[name] = b
        return b

    def wild(x, bound): return int(pick(r, x, x, x, x, -1, bound + 1, -2**31, 2**31 - 1)) if cfg_wild else x
    cfg_wild = p.lengths and chance(r, .12) and not p.tree
    first_q = first_k = None
    c.fault = None
    faults = []
    if p.lengths:
        wq, wk = [rand_len(sq) for _ in range(B)], [rand_len(sk) for _ in range(B)]
        if p.tree:
            wk = [max(a, b) for a, b in zip(wq, wk)]
        if ragged:
            def gap(): return int(r.integers(0, 4)) if chance(r, .3) else 0
            cap_q = [n + gap() for n in wq]
            cap_k = [n + gap() for n in wk]
            useq, usek = chance(r, .5), chance(r, .5)
            if not useq:
                cap_q = wq
            if not usek and not paged:
                cap_k = wk
            fq = np.concatenate([[0], np.cumsum(cap_q)]) + (int(r.integers(0, 3)) if chance(r, .3) else 0)
            fk = np.concatenate([[0], np.cumsum(cap_k)]) + (int(r.integers(0, 3)) if chance(r, .3) else 0)
            p.rows_q = int(fq[-1]) + (int(r.integers(0, 5)) if chance(r, .3) else 0)
            if not paged:
                p.rows_k = int(fk[-1]) + (int(r.integers(0, 5)) if chance(r, .3) else 0)
            if cfg_wild and chance(r, .5):
                for _ in range(2):
                    fq[r.integers(B + 1)] += int(pick(r, -3, 3, -2**30, 2**30))
            if cfg_wild and chance(r, .5):
                for _ in range(2):
                    fk[r.integers(B + 1)] += int(pick(r, -3, 3, -2**30, 2**30))
            fq, fk = fq.astype(np.int32).astype(np.int64), fk.astype(np.int32).astype(np.int64)
            ibuf("first_q", fq)
            if not paged:
                ibuf("first_k", fk)
            first_q = np.maximum.accumulate(np.clip(fq, 0, p.rows_q))
            first_k = np.maximum.accumulate(np.clip(fk, 0, p.rows_k)) if not paged else None
            if (first_q != fq).any() or (not paged and (first_k != fk).any()):
                faults.append(-1)
            bq = [min(sq, int(first_q[b + 1] - first_q[b])) for b in range(B)]
            bk = [sk] * B if paged else [min(sk, int(first_k[b + 1] - first_k[b])) for b in range(B)]
            if any(first_q[b + 1] - first_q[b] > sq for b in range(B)) and not useq:
                faults.append(-1)
            if not paged and any(first_k[b + 1] - first_k[b] > sk for b in range(B)) and not usek:
                faults.append(-1)
        else:
            useq = chance(r, .7)
            usek = True
            bq, bk = [sq] * B, [sk] * B
            if not useq:
                wq = bq
            if p.tree and not useq:
                wk = [max(a, b) for a, b in zip(wq, wk)]
        if ragged and paged:
            usek = True
        if useq:
            g = [wild(x, sq) for x in wq]
            ibuf("seqlens_q", g)
            lq = [min(max(x, 0), m) for x, m in zip(g, bq)]
            faults += [b for b in range(B) if not 0 <= g[b] <= bq[b]]
        else:
            lq = bq
        if usek:
            g = [wild(x, sk) for x in wk]
            ibuf("seqlens_k", g)
            lk = [min(max(x, 0), m) for x, m in zip(g, bk)]
            faults += [b for b in range(B) if not 0 <= g[b] <= bk[b]]
        else:
            lk = bk
        if p.tree and any(a > b for a, b in zip(lq, lk)):
            raise Skip
        ibuf("fault", [0xffffffff], np.uint32)
    c.lq, c.lk, c.first_q, c.first_k = lq, lk, first_q, first_k
    kvt = p.kv_dtype or p.dtype
    if p.kv_dtype:
        p.kv_scales = int(pick(r, 1, 2, 3))
    H, HK, D = p.heads_q, p.heads_kv, p.head_dim
    es = 4 if p.dtype == F32 else 2
    ks = 1 if p.kv_dtype else es
    tight = GPU or chance(r, .5)
    uq = 16 // es if tight else 1
    uk = 16 // ks if tight else 1
    # pages
    if paged:
        p.page_rows = pr = int(pick(r, 16, 32, 64, 128, 256))
        need = [-(-n // pr) for n in lk]
        pps = max(1, -(-sk // pr)) + int(r.integers(0, 2))
        p.pages_per_sequence = pps
        p.pages = pages = max(1, sum(need) + int(r.integers(0, 4)))
        perm = r.permutation(pages)
        table = np.zeros((B, pps), np.int64)
        at = 0
        for b in range(B):
            for t in range(pps):
                if t < need[b]:
                    table[b, t] = perm[at % pages]
                    at += 1
                else:
                    table[b, t] = int(pick(r, -1, 2**31 - 1, pages, -2**31))
        if chance(r, .2) and B > 1 and need[0] and need[1]:
            table[1, 0] = table[0, 0]
        c.table = np.clip(table, 0, pages - 1)
        ibuf("page_table", table)
        if chance(r, .06) and need[0] and not p.tree:
            t = int(r.integers(need[0]))
            table[0, t] = int(pick(r, -1, pages))
            c.table = np.clip(table, 0, pages - 1)
            bufs["page_table"].a[:] = table.reshape(-1)
            c.badpage = (0, t)
    qd = (1, H, p.rows_q) if ragged else (B, H, sq)
    kd = (p.pages, HK, p.page_rows) if paged else (1, HK, p.rows_k) if ragged else (B, HK, sk)

    def qidx(st, w=1):
        out = []
        for b in range(B):
            base = (int(first_q[b]) * st[2] if ragged else b * st[0])
            out.append((base + np.arange(H)[:, None, None] * st[1] + np.arange(lq[b])[None, :, None] * st[2] + np.arange(w)).astype(np.int64))
        return out

    def kidx(st, w):
        out = []
        for b in range(B):
            j = np.arange(lk[b])
            if paged:
                row = c.table[b][j // p.page_rows] * st[0] + (j % p.page_rows) * st[2] if lk[b] else j
            elif ragged:
                row = (int(first_k[b]) + j) * st[2]
            else:
                row = b * st[0] + j * st[2]
            out.append((row[None, :, None] + np.arange(HK)[:, None, None] * st[1] + np.arange(w)).astype(np.int64))
        return out
    sc = pick(r, 1., 1., 1., 2.)
    fused = {}
    if not paged and not p.kv_dtype and (sq == sk if not ragged else p.rows_q == p.rows_k) and chance(r, .5):
        T = (H + 2 * HK) * D + uq * int(r.integers(0, 3))
        S = p.rows_q if ragged else sq
        if S:
            for nm, xs, fill in (("in", ("q", "k", "v"), NANB[p.dtype]), ("out", ("dq", "dk", "dv"), 0xa5a5a5a5 & (2**(8 * es) - 1))):
                if nm == "out" and fwd:
                    continue
                if chance(r, .3):
                    continue
                base = Buf((1 if ragged else B) * S * T, BITS[p.dtype], r, fill)
                base.views = []
                for x, off in zip(xs, (0, H * D, (H + HK) * D)):
                    fused[x] = (base, off, (S * T, D, T))

    def tensor(name, dims, idxf, dt, unit, out=False, scale=1.):
        st = strides(r, dims, D, unit, not out)
        if name in fused:
            st = fused[name][2]
        setattr(p, name, Strides(*st))
        n = extent(dims, st, D)
        w = np.dtype(BITS[dt]).itemsize
        skew = 0 if tight else int(r.integers(0, 4)) * w
        if name in fused:
            b = View(fused[name][0], fused[name][1], n)
            b.base.views.append(b)
        else:
            b = Buf(n, BITS[dt], r, 0xa5a5a5a5 & (2**(8 * w) - 1) if out else NANB[dt], skew=skew)
        bufs[name] = b
        idx = idxf(st, D)
        b.idx = idx
        if not out:
            for ix in idx:
                if not ix.size:
                    continue
                if dt == I8:
                    b.a[ix] = r.integers(-127, 128, ix.shape).astype(np.int8).view(np.uint8)
                elif dt == E4M3:
                    x = r.integers(0, 256, ix.shape).astype(np.uint8)
                    x = np.where((x & 127) >= 0x70, x & 0x8f, x)
                    b.a[ix] = x
                else:
                    b.a[ix] = enc(r.standard_normal(ix.shape) * scale, dt)
        return b
    tensor("q", qd, qidx, p.dtype, uq, scale=sc)
    tensor("k", kd, kidx, kvt, uk)
    tensor("v", kd, kidx, kvt, uk)
    if p.kv_dtype:
        n = {1: 1, 2: HK, 3: int(np.prod(kd))}[p.kv_scales]
        m = 127 if p.kv_dtype == I8 else 200
        for nm in ("k_scale", "v_scale"):
            b = ibuf(nm, np.full(n, np.nan), np.float32)
            if p.kv_scales == 3:
                b.idx = kidx((HK * kd[2], kd[2], 1), 1)
                for ix in b.idx:
                    b.a[ix] = (r.random(ix.shape) + .2) * 2 / m
            else:
                b.a[:] = (r.random(n) + .2) * 2 / m
                b.idx = [np.broadcast_to((np.zeros(HK, int) if n == 1 else np.arange(HK))[:, None, None], (HK, lk[bb], 1)) for bb in range(B)]
    lst = (0, p.rows_q, 1) if ragged else (H * sq, sq, 1)
    nl = H * p.rows_q if ragged else B * H * sq
    b = Buf(nl, np.uint32, r, 0xa5a5a5a5 if fwd else NANB[F32], align=16)
    b.idx = qidx(lst)
    bufs["lse"] = b
    tensor("o", qd, qidx, p.dtype, uq, out=True)
    if not fwd:
        bufs["o"].raw[:] = 0xff
        tensor("dout", qd, qidx, p.dtype, uq)
        for nm, dd, ff in (("dq", qd, qidx), ("dk", kd, kidx), ("dv", kd, kidx)):
            tensor(nm, dd, ff, p.dtype, uq, out=True)
        if chance(r, .5):
            b = Buf(nl, np.uint32, r, NANB[F32], align=16)
            b.idx = qidx(lst)
            for ix in b.idx:
                b.a[ix] = enc(r.standard_normal(ix.shape), F32)
            bufs["dlse"] = b
    if p.sinks:
        s = r.standard_normal(H) * 2
        if chance(r, .3):
            s[r.integers(H)] = -np.inf
        ibuf("sinks", s, np.float32)
        if not fwd:
            b = Buf(H, np.uint32, r, 0xa5a5a5a5, align=16)
            b.idx = [np.arange(H)]
            bufs["dsinks"] = b
    if p.alibi:
        ibuf("alibi_slopes", np.float32(pick(r, .01, .1, 1.)) * np.where(r.random(H) < .15, 0, r.standard_normal(H)), np.float32)
    if p.max_logit:
        b = Buf(H, np.uint32, r, 0xa5a5a5a5, align=16)
        b.idx = [np.arange(H)]
        bufs["max_logit"] = b
    nrow = p.rows_q if ragged else B * sq
    rowof = (lambda b: int(first_q[b])) if ragged else (lambda b: b * sq)
    c.rowof = rowof
    if p.intervals:
        n = max(sk, 1)
        kb = r.integers(-2**31, 2**31, nrow)
        ke = r.integers(-2**31, 2**31, nrow)
        style = pick(r, 0, 1, 2, 3)
        for b in range(B):
            m = lq[b]
            i = np.arange(m)
            a = rowof(b)
            if style == 0:
                x = r.integers(-5, n + 5, m)
                y = x + r.integers(-5, n + 5, m)
            elif style == 1:
                x = np.full(m, -2**31)
                y = np.maximum(i + 1, n // 2)
            elif style == 2:
                x = i - i % 16
                y = np.full(m, 2**31 - 1)
            else:
                x = r.integers(0, n, m)
                y = np.where(r.random(m) < .4, x, x + r.integers(0, 8, m))
            kb[a:a + m], ke[a:a + m] = x, y
        ibuf("key_begin", kb)
        ibuf("key_end", ke)
    if p.tree:
        W = (sq + 31) // 32
        tb = r.integers(0, 2**32, (nrow, W), dtype=np.uint64).astype(np.uint32)
        style = pick(r, 0, 1, 2)
        c.treebits = []
        for b in range(B):
            m = lq[b]
            bits = np.zeros((m, W * 32), bool)
            if style == 0:
                bits[:, :m] = r.random((m, m)) < .5
            elif style == 1:
                for i in range(m):
                    if i:
                        par = int(r.integers(-1, i))
                        bits[i] = bits[par] if par >= 0 else False
                    bits[i, i] = True
            else:
                bits[:, :m] = np.tril(np.ones((m, m), bool))
            c.treebits.append(bits[:, :m].copy())
            bits[:, m:] = r.random((m, W * 32 - m)) < .5
            if m:
                tb[rowof(b):rowof(b) + m] = np.packbits(bits, axis=1, bitorder="little").view(np.uint32).reshape(m, W)
        ibuf("tree_bits", tb, np.uint32)
    if p.bias_dtype:
        dims = (B, H, sq, sk)
        st = [0] * 4
        step = 1
        order = list(r.permutation(4)) if chance(r, .3) else [3, 2, 1, 0]
        for k in order:
            if chance(r, .3):
                continue
            if chance(r, .2):
                step += int(r.integers(0, 9))
            st[k] = step
            step *= max(1, dims[k])
        p.bias = (i64 * 4)(*st)
        n = 0 if min(dims) == 0 else sum((a - 1) * s for a, s in zip(dims, st)) + 1
        bt = p.bias_dtype
        b = Buf(n, BITS[bt], r, NANB[bt], align=16)
        bufs["bias"] = b
        b.idx = [(bb * st[0] + np.arange(H)[:, None, None] * st[1] + np.arange(lq[bb])[:, None] * st[2] + np.arange(lk[bb]) * st[3]).astype(np.int64) for bb in range(B)]
        neg = fwd and chance(r, .3)
        for ix in b.idx:
            if ix.size:
                x = r.standard_normal(ix.shape)
                if neg:
                    x = np.where(r.random(ix.shape) < .2, -np.inf, x)
                b.a[ix] = enc(x, bt)
        if p.dbias:
            b2 = Buf(n, BITS[bt], r, 0xa5a5a5a5 & (2**(32 if bt == F32 else 16) - 1), align=16)
            bufs["dbias"] = b2
            b2.idx = b.idx
            g = np.ix_(*[np.arange(x) for x in dims]) if n else None
            b2.all = np.unique((g[0] * st[0] + g[1] * st[1] + g[2] * st[2] + g[3] * st[3]).reshape(-1)) if n else np.zeros(0, int)
    # NaN and infinities
    c.special = None
    vis = c.vis = [visible(c, b) for b in range(B)]
    if fwd and chance(r, .3) and not p.kv_dtype:
        c.special = pick(r, "k", "v", "q", "vinf", "kinf", "qinf", "kinf") if p.softmax_scale else pick(r, "k", "v")
        for _ in range(3):
            b = int(r.integers(B))
            t = bufs[c.special[0]]
            if t.idx[b].size:
                h, j = int(r.integers(t.idx[b].shape[0])), int(r.integers(t.idx[b].shape[1]))
                d = int(r.integers(D))
                t.a[t.idx[b][h, j, d]] = NANB[p.dtype] if "inf" not in c.special else enc(np.array([pick(r, np.inf, -np.inf)]), p.dtype)[0]
    elif not fwd and chance(r, .2):
        c.special = "dout"
        t = bufs["dout"]
        for _ in range(2):
            b = int(r.integers(B))
            if t.idx[b].size:
                h, j, d = (int(r.integers(x)) for x in t.idx[b].shape)
                t.a[t.idx[b][h, j, d]] = NANB[p.dtype]
    elif chance(r, .4):  # what nobody sees
        for b in range(B):
            hid = ~vis[b].any(0) if lq[b] else np.ones(lk[b], bool)
            blind = ~vis[b].any(1) if lk[b] else np.ones(lq[b], bool)
            for nm in ("k", "v"):
                t = bufs[nm]
                if t.idx[b].size and not paged and p.k.batch and p.k.row and p.v.row and p.v.batch and p.k.head and p.v.head:
                    t.a[t.idx[b][:, hid]] = NANB[kvt]
            if fwd and p.q.batch and p.q.row and p.q.head and bufs["q"].idx[b].size:
                bufs["q"].a[bufs["q"].idx[b][:, blind]] = NANB[p.dtype]
    c.faults = faults
    if hasattr(c, "badpage"):
        b, t = c.badpage
        if vis[b][:, t * p.page_rows:(t + 1) * p.page_rows].any():
            faults.append(b)
    return c


class Skip(Exception):
    pass


def visible(c, b):
    p = c.p
    n, m = c.lq[b], c.lk[b]
    i = np.arange(n)[:, None]
    j = np.arange(m)[None, :]
    v = np.ones((n, m), bool)
    off = p.diagonal + (m - n if p.mask in (3, 5) else 0) if p.mask != 1 else 0
    off = max(min(off, 2**40), -2**40)
    c.off = off
    qi, kj = np.broadcast_to(i, (n, m)), np.broadcast_to(j, (n, m))
    if p.tree:
        bits = c.treebits[b]
        pre = m - n
        v[:, pre:] &= bits
        qi = np.broadcast_to(bits.sum(1)[:, None] - 1, (n, m))
        kj = kj.copy()
        kj[:, pre:] = pre + np.cumsum(bits, 1) - bits
    if p.mask in (2, 3):
        v &= kj <= qi + off
    if p.mask in (4, 5):
        if p.window_left >= 0:
            v &= kj >= qi + off - p.window_left
        if p.window_right >= 0:
            v &= kj <= qi + off + p.window_right
    if p.intervals:
        a = c.rowof(b)
        v &= (j >= c.bufs["key_begin"].a[a:a + n, None]) & (j < c.bufs["key_end"].a[a:a + n, None])
    return v


def scores(c, b):
    """S, visible, and a bound of an error in S that float32 has."""
    p, f = c.p, c.bufs
    n, m = c.lq[b], c.lk[b]
    g = p.heads_q // p.heads_kv
    kvt = p.kv_dtype or p.dtype
    q = dec(f["q"].a[f["q"].idx[b]], p.dtype)
    k = dec(f["k"].a[f["k"].idx[b]], kvt)
    if p.kv_dtype:
        k = k * f["k_scale"].a[f["k_scale"].idx[b]].astype(np.float64)
    k = np.repeat(k, g, 0)
    s = np.float64(p.softmax_scale) * dotT(q, k) if p.softmax_scale else 0 * dotT(q, k)
    mag = abs(p.softmax_scale) * dotT(np.nan_to_num(abs(q), posinf=0), np.nan_to_num(abs(k), posinf=0))
    err = mag * c.eps_s
    cap = None
    if p.softcap: 
        cap = np.tanh(s / p.softcap)
        s = p.softcap * cap
        err = err + 2.0**-20 * abs(np.nan_to_num(s))
    i = np.arange(n)[:, None]
    j = np.arange(m)[None, :]
    if p.alibi:
        off = (p.diagonal if p.mask != 1 else 0) + (m - n if p.mask in (1, 3, 5) else 0)
        a = f["alibi_slopes"].a.astype(np.float64)[:, None, None] * abs(i + off - j)
        s = s - a
        err = err + 2.0**-22 * abs(a)
    if p.bias_dtype:
        bb = dec(f["bias"].a[f["bias"].idx[b]], p.bias_dtype) if f["bias"].idx[b].size else np.zeros((p.heads_q, n, m))
        s = s + bb
        err = err + 2.0**-22 * np.nan_to_num(abs(bb), posinf=0, neginf=0)
    err = err + 2.0**-22 * np.nan_to_num(abs(s), posinf=0, neginf=0)
    return q, k, s, err, cap


def tolerances(c, info):
    e = EPS[c.p.dtype]
    m = info.math
    c.eps_s = {0: 2.0**-21, 1: 2.0**-9, 2: 2.0**-20, 3: 2.0**-21}[m]
    c.eps_p = {0: (2.0**-20 if c.p.dtype == F32 or not GPU else 2 * e), 1: 2.0**-9, 2: 2.0**-19, 3: 2.0**-7}[m]
    if GPU and c.p.kv_dtype:
        c.eps_p = 2.0**-7
    if m == 3:
        c.eps_s = 2.0**-20
    c.eps = e


def fwd_oracle(c, b):
    p, f = c.p, c.bufs
    g = p.heads_q // p.heads_kv
    kvt = p.kv_dtype or p.dtype
    q, k, s, err, _ = scores(c, b)
    vis = c.vis[b][None]
    v = dec(f["v"].a[f["v"].idx[b]], kvt)
    if p.kv_dtype:
        v = v * f["v_scale"].a[f["v_scale"].idx[b]].astype(np.float64)
    v = np.repeat(v, g, 0)
    H, n, m = s.shape
    sm = np.where(vis, s, -np.inf)
    sink = f["sinks"].a.astype(np.float64) if p.sinks else np.full(H, -np.inf)
    mx = sm.max(2, initial=-np.inf) if m else np.full((H, n), -np.inf)
    mx = np.maximum(mx, sink[:, None])
    mz = np.where(np.isneginf(mx), 0, mx)
    e = np.where(vis, np.exp(sm - mz[..., None]), 0)
    den = e.sum(2) + np.exp(sink[:, None] - mz)
    lse = np.log(den) + mz
    anyvis = c.vis[b].any(1)[None] & np.ones((H, 1), bool)
    P = e / den[..., None]
    # NaN and inf of V reach only who sees it
    vbad = ~np.isfinite(v)
    o = np.matmul(np.nan_to_num(P), np.where(vbad, 0, v))
    A = np.matmul(np.nan_to_num(P), np.where(vbad, 0, abs(v)))
    loose = np.zeros(o.shape, bool)
    if vbad.any():
        vf = np.broadcast_to(vis, s.shape).astype(float)
        def hit(w, x): return np.matmul(w * vf, x.astype(float)) > 0
        thr = 2.0**-23 if p.dtype == F16 and GPU else 2.0**-100
        isnan, up, dn = np.isnan(v), np.isposinf(v), np.isneginf(v)
        loose = hit(P < thr, vbad) | hit(np.isnan(P), vbad)
        nan = hit(np.ones(1), isnan) | hit(P == 0, up | dn) | (hit(P > 0, up) & hit(P > 0, dn))
        o = np.where(nan, np.nan, np.where(hit(P > 0, up), np.inf, np.where(hit(P > 0, dn), -np.inf, o)))
    bad = np.isnan(s) & vis
    rowbad = bad.any(2)
    plus = (np.isposinf(s) & vis).any(2)
    o[plus] = np.nan
    c.anylse = plus | (rowbad if c.special in ("kinf", "qinf") else False)
    o[rowbad] = np.nan
    lse[rowbad] = np.nan
    allinf = anyvis & np.isneginf(sm.max(2, initial=-np.inf)) & ~rowbad
    o[allinf & np.isneginf(sink)[:, None]] = np.nan
    nokey = ~anyvis
    o[nokey] = 0
    lse[nokey] = np.broadcast_to(sink[:, None], lse.shape)[nokey]
    dl = np.where(vis & np.isfinite(sm), err, 0).max(2, initial=0)
    fl = 2.0**-24 * np.matmul(vis.astype(float) * np.ones(s.shape), np.where(vbad, 0, abs(v))) if p.dtype == F16 and GPU else 0
    tolo = fl + 2.0**-24 * 3 / 8 * m * A + (c.eps * abs(np.nan_to_num(o)) * 1.01 + (2 * dl[..., None] + c.eps_p + 2.0**-21) * A + (2.0**-25 if p.dtype == F16 else 0) + 1e-37)
    toll = dl * 1.5 + 2.0**-26 * m + 2.0**-22 * abs(np.nan_to_num(lse, posinf=0, neginf=0)) + 4e-6 + (2.0**-7 if c.math == 3 else 0)
    ml = np.where(bad, -np.inf, sm).max((1, 2), initial=-np.inf)
    return o, lse, tolo, toll, loose, ml, dl.max(1, initial=0) if n else np.zeros(H)


def close(name, got, ref, tol, loose=None, ctx=""):
    same = (got == ref) | (np.isnan(got) & np.isnan(ref)) | (abs(got - ref) <= np.nan_to_num(tol, nan=-1.))
    if loose is not None:
        same |= loose
    if not same.all():
        k = np.argwhere(~same)
        t = tuple(k[0])
        ratio = np.nanmax(np.where(~same, abs(got - ref) / tol, 0))
        raise Fail(f"{name}{ctx}: {len(k)} of {same.size} wrong, first {list(map(int, t))} got {got[t]!r} want {ref[t]!r} tol {np.broadcast_to(tol, got.shape)[t]:.3g} worst ratio {ratio:.3g}")
    fin = np.isfinite(got) & np.isfinite(ref)
    return float(np.max(np.where(fin, abs(got - ref) / tol, 0), initial=0))


def read(c, name, b, dt): t = c.bufs[name]; return dec(t.a[t.idx[b]], dt)


def tensors(c):
    t = Tensors()
    for n, b in c.bufs.items():
        setattr(t, n, b.addr() if b.n else None)
    return t


def check_forward(c, stats):
    p = c.p
    ml = np.full(p.heads_q, -np.inf)
    tm = np.zeros(p.heads_q)
    for b in range(p.batch):
        o, lse, to, tl, loose, m, dl = fwd_oracle(c, b)
        ml = np.maximum(ml, m)
        tm = np.maximum(tm, dl)
        stats["lse"] = max(stats["lse"], close("LSE", read(c, "lse", b, F32)[..., 0], lse, tl, c.anylse, ctx=f" seq {b}"))
        stats["o"] = max(stats["o"], close("O", read(c, "o", b, p.dtype), o, to, loose, f" seq {b}"))
    if p.max_logit and "inf" not in (c.special or ""):
        close("max_logit", dec(c.bufs["max_logit"].a, F32), ml, tm + 1e-6 + 2.0**-22 * abs(np.nan_to_num(ml, neginf=0)))


def prepare_backward(c, r):
    """O and LSE from the oracle."""
    p, f = c.p, c.bufs
    for b in range(p.batch):
        o, lse, *_ = fwd_oracle(c, b)
        if f["o"].idx[b].size:
            f["o"].a[f["o"].idx[b]] = enc(o, p.dtype)
        if f["lse"].idx[b].size:
            f["lse"].a[f["lse"].idx[b]] = enc(lse[..., None], F32)


def check_backward(c, stats):
    p, f = c.p, c.bufs
    H, HK = p.heads_q, p.heads_kv
    g = H // HK
    sc = p.softmax_scale
    ds_sum = np.zeros(H)
    ds_tol = np.full(H, 1e-6)
    if p.dbias:
        db = np.zeros(f["dbias"].n)
        dbt = np.zeros(f["dbias"].n)
    # inputs that repeat have gradients of the places that were written, so each sequence is by itself
    for b in range(p.batch):
        n, m = c.lq[b], c.lk[b]
        q, k, s, err, cap = scores(c, b)
        vis = c.vis[b][None]
        v = np.repeat(dec(f["v"].a[f["v"].idx[b]], p.dtype), g, 0)
        O, dO = read(c, "o", b, p.dtype), read(c, "dout", b, p.dtype)
        lse = read(c, "lse", b, F32)[..., 0]
        nd = np.isnan(dO)
        dO = np.where(nd, 0, dO)
        rb = nd.any(2)
        dl = read(c, "dlse", b, F32)[..., 0] if "dlse" in f else np.zeros((H, n))
        seen = c.vis[b].any(1)[None] & np.ones((H, 1), bool)
        hid = ~c.vis[b].any(0) if n else np.ones(m, bool)
        k = np.where(hid[None, :, None], 0, k)
        v = np.where(hid[None, :, None], 0, v)
        s = np.where(vis, s, -np.inf)
        cap = None if cap is None else np.where(vis, cap, 0)
        P = np.where(vis, np.exp(s - np.where(np.isfinite(lse), lse, 0)[..., None]), 0)
        ep = np.where(vis, err + 2.0**-22 * abs(np.nan_to_num(lse, neginf=0))[..., None] + c.eps_p, 0)
        delta = np.where(seen, (dO * O).sum(2), 0) - dl
        tdel = (abs(dO) * abs(O)).sum(2) * 2.0**-20 + 2.0**-22 * abs(dl)
        dP = dotT(dO, v)
        aP = dotT(abs(dO), abs(v))
        dS = P * (dP - delta[..., None])
        tS = ep * abs(dS) + (2.0**-24 * vis * abs(dP - delta[..., None]) if p.dtype == F16 else 0) + P * (aP * c.eps_s * 2 + tdel[..., None])
        dS0 = dS
        if p.dbias and f["dbias"].idx[b].size:
            if rb.any():
                dS0 = np.where(rb[..., None] & vis, np.nan, dS)
            dS0, dS = dS, dS0
            np.add.at(db, f["dbias"].idx[b], dS)
            np.add.at(dbt, f["dbias"].idx[b], tS + 2.0**-22 * abs(dS))
            dS = dS0
        if cap is not None: 
            w = 1 - cap**2
            dS = dS * w
            tS = tS * w + abs(dS) * 0 + P * abs(dP - delta[..., None]) * 2.0**-19
        fl = (2.0**-24 if p.dtype == F16 else 0)
        dV = Tdot(P, dO).reshape(HK, g, m, p.head_dim).sum(1)
        tV = Tdot(P * (ep + 2.0**-21) + fl, abs(dO)).reshape(HK, g, m, p.head_dim).sum(1)
        dK = sc * Tdot(dS, np.where(seen[..., None], q, 0)).reshape(HK, g, m, p.head_dim).sum(1)
        tK = abs(sc) * Tdot(tS + 2.0**-21 * abs(dS) + fl, np.nan_to_num(abs(q))).reshape(HK, g, m, p.head_dim).sum(1)
        if rb.any():
            vf = np.broadcast_to(vis, s.shape).astype(float)
            def grp(x): return x.reshape((HK, g) + x.shape[1:]).max(1)
            dV = np.where(grp(Tdot(vf, nd.astype(float))) > 0, np.nan, dV)
            dK = np.where(grp(Tdot(vf, rb[..., None].astype(float))) > 0, np.nan, dK)
        dQ = sc * np.matmul(dS, k)
        dQ = np.where((rb & seen)[..., None], np.nan, dQ)
        tQ = abs(sc) * np.matmul(tS + 2.0**-21 * abs(dS) + fl, abs(k))
        if p.batch:
            w = 2.0**-24 * 3 / 8
            tV = tV + w * n * g * Tdot(P, abs(dO)).reshape(HK, g, m, p.head_dim).sum(1)
            tK = tK + w * n * g * abs(sc) * Tdot(abs(dS), np.nan_to_num(abs(q))).reshape(HK, g, m, p.head_dim).sum(1)
            tQ = tQ + w * m * abs(sc) * np.matmul(abs(dS), abs(k))
        for nm, x, t in (("dq", dQ, tQ), ("dk", dK, tK), ("dv", dV, tV)):
            stats[nm] = max(stats[nm], close(nm, read(c, nm, b, p.dtype), x, t + c.eps * 1.01 * abs(x) + (2.0**-25 if p.dtype == F16 else 0) + (1e-26 if p.alibi else 1e-36), ctx=f" seq {b}"))
        if p.sinks:
            sk = f["sinks"].a.astype(np.float64)[:, None]
            w = np.where(np.isneginf(sk) , 0, np.exp(sk - lse))
            ds_sum -= (w * np.where(rb & seen, np.nan, delta)).sum(1)
            ds_tol += (np.nan_to_num(w) * (tdel + abs(delta) * (2.0**-21 + 2.0**-22 * abs(np.nan_to_num(lse, neginf=0))))).sum(1)
    if p.sinks:
        stats["dsinks"] = max(stats["dsinks"], close("dsinks", dec(f["dsinks"].a, F32), ds_sum, ds_tol))
    if p.dbias and f["dbias"].n:
        al = f["dbias"].all
        x = dec(f["dbias"].a, p.bias_dtype)[al]
        e = EPS[p.bias_dtype]
        stats["dbias"] = max(stats["dbias"], close("dbias", x, db[al], dbt[al] + e * 1.01 * abs(db[al]) + (2.0**-25 if p.bias_dtype == F16 else 0) + 1e-37))


OUT = {1: ("o", "lse", "max_logit"), 2: ("dq", "dk", "dv", "dsinks", "dbias")}


def outs(c):
    for n in OUT[c.pass_]:
        if n in c.bufs:
            yield n, c.bufs[n]


def call(ctx, c, plan, r, status_only=False):
    p = c.p
    wb = plan.workspace_bytes
    if c.ws is None or c.ws.n != wb:
        c.ws = Buf(wb, np.uint8, r, 0xff, align=256, guard=256)
    t = tensors(c)
    for b in c.bufs.values():
        b.up()
    c.ws.raw[:] = r.integers(0, 256)
    c.ws.up()
    fn = lib.glint_forward if c.pass_ == 1 else lib.glint_backward
    if GPU:
        cc(cu.cuCtxSynchronize(), "before")
    st = fn(C.byref(plan), C.byref(t), ptr(c.ws.addr() if wb else None), size_t(wb), ptr(c.stream))
    if GPU:
        cc(cu.cuStreamSynchronize(ptr(c.stream)), "sync")
    for b in list(c.bufs.values()) + [c.ws]:
        b.down()
    return st


def check_stray(c):
    for n, b in c.bufs.items():
        if n in OUT[c.pass_] or n == "fault":
            idx = None
            if n == "dbias":
                idx = b.all
            elif n == "fault":
                idx = np.array([0])
            elif n in ("dk", "dv", "dq", "o", "lse"):
                idx = np.concatenate([x.reshape(-1) for x in b.idx]) if b.idx else None
            else:
                idx = np.concatenate([x.reshape(-1) for x in b.idx])
            k, at = b.stray(idx)
        else:
            k, at = b.stray()
        if k:
            raise Fail(f"{n}: {k} bytes changed where nothing may be written, at bytes {at} of {b.n * b.dt.itemsize}")
    ch = c.ws.raw != c.ws.before
    ch[c.ws.begin:c.ws.begin + c.ws.n] = False
    if ch.any():
        raise Fail(f"workspace: {int(ch.sum())} bytes changed behind it, at {(np.nonzero(ch)[0][:4] - c.ws.begin).tolist()} of {c.ws.n}")


def describe(c, name=""):
    p = c.p
    d = {}
    for n, t in Problem._fields_:
        v = getattr(p, n)
        if n in ("struct_size", "reserved"):
            continue
        if isinstance(v, Strides):
            v = (v.batch, v.head, v.row)
        elif n == "bias":
            v = tuple(v)
        if v not in (0, 0.0, (0, 0, 0), (0, 0, 0, 0)):
            d[n] = v
    for n in ("seqlens_q", "seqlens_k", "first_q", "first_k"):
        if n in c.bufs:
            d[n] = c.bufs[n].a.tolist()
    d["special"] = c.special
    return json.dumps(d, default=str)


def names(st): return lib.glint_status_name(st).decode()


def explain(ctx, p, pass_):
    b = C.create_string_buffer(2000)
    lib.glint_explain(ctx, C.byref(p), pass_, b, 2000, None)
    return b.value.decode()


def merge_case(ctx, r, stats):
    """glint_merge of random parts."""
    n = int(pick(r, 1, 2, 3, 7, 32))
    B, H, S, D = int(pick(r, 1, 2)), int(pick(r, 1, 3)), int(pick(r, 0, 1, 5, 33)), int(pick(r, 8, 40, 64, 128))
    parts = (Part * n)()
    hold = []
    dims = (B, H, S)

    def mk(dt, out, d):
        st = strides(r, dims, d, (16 // np.dtype(BITS[dt]).itemsize) if d > 1 else 1, not out)
        nn = extent(dims, st, d)
        b = Buf(nn, BITS[dt], r, 0xa5a5 if out else NANB[dt])
        ix = np.arange(B)[:, None, None, None] * st[0] + np.arange(H)[:, None, None] * st[1] + np.arange(S)[:, None] * st[2] + np.arange(d)
        b.idx = ix
        hold.append(b)
        return b, st
    num = []
    for k in range(n):
        dt = int(pick(r, 1, 2, 3))
        b, st = mk(dt, False, D)
        l, ls = mk(F32, False, 1)
        if b.n:
            b.a[b.idx] = enc(r.standard_normal(b.idx.shape), dt)
            x = r.standard_normal(l.idx.shape) * 5
            x = np.where(r.random(x.shape) < .2, -np.inf, x)
            l.a[l.idx] = enc(x, F32)
        parts[k].o, parts[k].lse, parts[k].dtype = b.addr() if b.n else None, l.addr() if l.n else None, dt
        parts[k].o_strides, parts[k].lse_strides = Strides(*st), Strides(*ls)
        num.append((b, l, dt))
    m = Merge(dtype=int(pick(r, 1, 2, 3)), parts=n, batch=B, heads=H, seqlen=S, head_dim=D)
    m.part = C.addressof(parts)
    o, st = mk(m.dtype, True, D)
    l, ls = mk(F32, True, 1)
    m.o_strides, m.lse_strides = Strides(*st), Strides(*ls)
    m.o, m.lse = o.addr() if o.n else None, l.addr() if l.n else None
    sk = None
    if chance(r, .4):
        sk = Buf(H, np.float32, r, 0)
        sk.a[:] = np.where(r.random(H) < .3, -np.inf, r.standard_normal(H))
        hold.append(sk)
        m.sinks = sk.addr()
    for b in hold:
        b.up()
    if GPU:
        cc(cu.cuCtxSynchronize(), "before")
    s = lib.glint_merge(ctx, C.byref(m), ptr(stream))
    if s:
        raise Fail(f"merge refused: {names(s)} n={n} {B,H,S,D}")
    if GPU:
        cc(cu.cuStreamSynchronize(ptr(stream)))
    for b in hold:
        b.down()
    if not S:
        return
    L = np.stack([dec(l_.a[l_.idx], F32)[..., 0] for _, l_, _ in num])
    X = np.stack([dec(b.a[b.idx], dt) for b, _, dt in num])
    if sk is not None:
        L = np.concatenate([L, np.broadcast_to(sk.a.astype(np.float64)[None, None, :, None], (1,) + L.shape[1:])])
        X = np.concatenate([X, np.zeros((1,) + X.shape[1:])])
    mx = L.max(0)
    mz = np.where(np.isneginf(mx), 0, mx)
    w = np.exp(L - mz)
    den = w.sum(0)
    ref = np.log(den) + mz
    wn = w / np.where(den == 0, 1, den)
    O = (wn[..., None] * X).sum(0)
    A = (wn[..., None] * abs(X)).sum(0)
    e = EPS[m.dtype]
    close("merge LSE", dec(l.a[l.idx], F32)[..., 0], ref, 2.0**-21 * (1 + abs(np.nan_to_num(ref, neginf=0))))
    close("merge O", dec(o.a[o.idx], m.dtype), O, e * 1.01 * abs(O) + 2.0**-19 * A + (2.0**-25 if m.dtype == 2 else 0) + 1e-37)
    for b in hold:
        k, at = b.stray(b.idx if b in (o, l) else None)
        if k:
            raise Fail(f"merge wrote {k} stray bytes {at}")


def replan(ctx, c, variant):
    pl = Plan()
    st = lib.glint_plan_variant(ctx, C.byref(c.p), c.pass_, variant, C.byref(pl))
    return st, pl


def bits(c): return {n: b.raw.copy() for n, b in outs(c)}


def laws(ctx, ctx2, c, plan, r, stats):
    """What glint.h says of bits."""
    p = c.p
    first = {n: b.a.copy() for n, b in outs(c)}

    def again(what, ctx=ctx, variant=plan.variant, pln=None):
        if pln is None:
            st, pln = replan(ctx, c, variant)
            if st:
                stats["law refused " + names(st)] += 1
                return
        for n, b in outs(c):
            b.raw[:] = b.before
        c.ws = None
        st = call(ctx, c, pln, r)
        if st:
            raise Fail(f"{what}: {names(st)}")
        for n, b in outs(c):
            if not np.array_equal(b.a, first[n]):
                k = np.nonzero(b.a != first[n])[0]
                raise Fail(f"law {what}: {n} has other bits in {len(k)} of {b.a.size}, first at {k[:4].tolist()}: {first[n][k[0]]:#x} {b.a[k[0]]:#x}")
        stats["law " + what] += 1
    kind = int(r.integers(5))
    if kind == 0:
        again("same bits twice")
    if kind == 1 and ctx2:
        again("threads", ctx2)
    if kind == 2 and not p.sinks and c.pass_ == 1:
        p.sinks = 1
        b = Buf(p.heads_q, np.float32, r, 0, align=16)
        b.a[:] = -np.inf
        c.bufs["sinks"] = b
        b.idx = []
        again("sinks of -inf")
    if kind == 3 and p.lengths == 0 and not p.tree:
        p.lengths = 1
        b = Buf(p.batch, np.int32, r, 0, align=16)
        b.a[:] = p.seqlen_k
        c.bufs["seqlens_k"] = b
        again("lengths in the call")


NULLS = {1: "q k v o lse", 2: "q k v o lse dout dq dk dv"}


def refusals(ctx, c, plan, r, stats):
    """One wrong argument: the status, and nothing is written."""
    p = c.p
    wb = c.ws.n
    pl = Plan.from_buffer_copy(plan)
    fn = lib.glint_forward if c.pass_ == 1 else lib.glint_backward
    for b in c.bufs.values():
        b.up()
    c.ws.up()
    t = tensors(c)
    wa = c.ws.addr() if wb else None
    size = wb
    stm = c.stream
    want = None
    if GPU:
        cc(cu.cuCtxSynchronize())
    named = [n for n in NULLS[c.pass_].split() + [n for n in ("sinks", "dsinks", "alibi_slopes", "bias", "dbias", "key_begin", "key_end", "tree_bits", "max_logit", "page_table", "k_scale", "v_scale", "first_q", "first_k") if n in c.bufs and not (n == "dsinks" and c.pass_ == 1)] if c.bufs[n].n]
    kind = int(r.integers(12))
    note = ""
    work = p.batch * p.heads_q * p.seqlen_q > 0 and (p.lengths != 2 or p.rows_q > 0)
    if kind == 0 and named:
        note = pick(r, *named)
        setattr(t, note, None)
        want = ("GLINT_NULL_TENSOR", "GLINT_BAD_LENGTHS", "GLINT_BAD_RAGGED", "GLINT_BAD_PAGES", "GLINT_BAD_SINKS", "GLINT_BAD_SCALES", "GLINT_BAD_INTERVALS", "GLINT_BAD_ALIBI", "GLINT_BAD_BIAS", "GLINT_BAD_LOGIT", "GLINT_BAD_TREE")
    elif kind == 1 and wb:
        size = wb - 1
        want = ("GLINT_WORKSPACE_TOO_SMALL",)
    elif kind == 2 and wb:
        wa = None
        want = ("GLINT_WORKSPACE_TOO_SMALL",)
    elif kind == 3 and wb:
        wa += 64
        size += 192
        want = ("GLINT_WORKSPACE_MISALIGNED",)
    elif kind == 4:
        t.struct_size = int(pick(r, 0, t.struct_size - 8, t.struct_size + 8, 4))
        want = ("GLINT_STRUCT_SIZE",)
    elif kind == 5 and not GPU:
        stm = 8
        want = ("GLINT_BAD_STREAM",)
    elif kind == 6:
        raw = (C.c_ubyte * C.sizeof(Plan)).from_buffer(pl)
        k = int(r.integers(C.sizeof(Plan)))
        raw[k] ^= 1 << int(r.integers(8))
        note = k
        want = ("GLINT_BAD_PLAN", "GLINT_STRUCT_SIZE", "GLINT_WRONG_PASS", "GLINT_CONTEXT_CLOSED", "GLINT_NULL_ARGUMENT")
        if Plan.context.offset <= k < Plan.context.offset + 8:
            return
    elif kind == 7:
        fn = lib.glint_backward if c.pass_ == 1 else lib.glint_forward
        want = ("GLINT_WRONG_PASS",)
    elif kind == 8:
        o = [n for n in NULLS[c.pass_].split() if n in ("o", "lse", "dq", "dk", "dv") and c.bufs[n].n and (c.pass_ == 1) == (n in ("o", "lse"))] 
        i = [n for n in named if c.bufs[n].n and n not in o and n not in OUT[c.pass_]]
        if o and i and work:
            a, b_ = pick(r, *o), pick(r, *i)
            note = (a, b_)
            setattr(t, a, c.bufs[b_].addr() // 256 * 256)
            want = ("GLINT_TENSOR_OVERLAP", "GLINT_TENSOR_MISALIGNED")
            lo = c.bufs[b_].addr()
            if c.bufs[b_].addr() // 256 * 256 + 1 <= lo and lo - c.bufs[b_].addr() // 256 * 256 >= c.bufs[a].n * c.bufs[a].dt.itemsize // 2:
                return
            t_ = c.bufs[a]
            if isinstance(t_, View) or isinstance(c.bufs[b_], View):
                return
    elif kind == 9 and wb and named:
        note = pick(r, *[n for n in named if n in ("q", "k", "v", "o", "lse", "dout", "dq", "dk", "dv")] or [None])
        if note and work:
            setattr(t, note, wa)
            want = ("GLINT_TENSOR_OVERLAP",)
        if note and isinstance(c.bufs[note], View):
            return
    elif kind == 10:
        note = pick(r, *[n for n in ("sinks", "alibi_slopes", "bias", "key_begin", "tree_bits", "max_logit", "page_table", "k_scale", "first_q", "seqlens_q") if n not in c.bufs])
        setattr(t, note, c.bufs["q"].addr() if c.bufs["q"].n else 256)
        want = {"sinks": "SINKS", "alibi_slopes": "ALIBI", "bias": "BIAS", "key_begin": "INTERVALS", "tree_bits": "TREE", "max_logit": "LOGIT", "page_table": "PAGES", "k_scale": "SCALES", "first_q": "RAGGED", "seqlens_q": "LENGTHS"}[note]
        want = ("GLINT_BAD_" + want,) + (("GLINT_BAD_LENGTHS", "GLINT_BAD_PAGES") if note == "first_q" else ())
        if note == "seqlens_q" and p.lengths:
            return
        if note == "max_logit" and c.pass_ == 2:
            return
    elif kind == 11:
        t.reserved = 1
        want = ("GLINT_BAD_RESERVED",)
    if not want:
        return
    size_t_ = size_t(size)
    st = fn(C.byref(pl), C.byref(t), ptr(wa), size_t_, ptr(stm))
    if GPU:
        cc(cu.cuStreamSynchronize(ptr(c.stream)))
    if names(st) not in want:
        raise Fail(f"refusal kind {kind} {note}: {names(st)}, want {want}")
    for n, b in outs(c):
        b.down()
        if b.stray()[0]:
            raise Fail(f"refusal kind {kind}: wrote {n}")
    c.ws.down()
    if (c.ws.raw != c.ws.before).any():
        raise Fail(f"refusal kind {kind}: wrote the workspace")
    stats["refusals"] += 1


class Append(Struct):
    _fields_ = [("struct_size", u32), ("dtype", u32), ("k", ptr), ("v", ptr), ("k_strides", Strides), ("v_strides", Strides), ("reserved", u64 * 2)]


def e4m3_enc(x):
    """float32 to e4m3, nearest even, beyond 448 clamped."""
    out = np.full(x.shape, 0x7f, np.uint8)
    f = np.isfinite(x)
    a = np.abs(np.where(f, x, 0)).astype(np.float64)
    tab = E4[:127]
    j = np.searchsorted(tab, a)
    j = np.clip(j, 1, 126)
    lo, hi = tab[j - 1], tab[j]
    k = np.where(a - lo < hi - a, j - 1, np.where(a - lo > hi - a, j, np.where(j % 2 == 0, j, j - 1)))
    k = np.where(a >= 448, 126, k)
    return np.where(f, k.astype(np.uint8) | np.where(np.signbit(x), 128, 0).astype(np.uint8), out)


def append_case(ctx, c, plan, r, stats):
    """glint_append into this call's cache: every byte of it."""
    p = c.p
    HK, D, sq, B = p.heads_kv, p.head_dim, p.seqlen_q, p.batch
    if c.pass_ != 1 or (p.lengths == 2 and not p.page_rows) or 0 in (p.k.batch, p.k.head, p.k.row, p.v.batch, p.v.head, p.v.row):
        return
    if any(isinstance(c.bufs[n], View) for n in "kv"):
        return
    if p.kv_dtype == I8 and p.kv_scales != 3:
        return
    if c.faults or hasattr(c, "badpage"):
        return
    if p.page_rows:
        used = [tuple(x) for b in range(B) for x in c.table[b][:-(-c.lk[b] // p.page_rows)].reshape(-1, 1)]
        if len(set(used)) != len(used):
            return
    ragged = p.lengths == 2
    dt = int(pick(r, F32, p.dtype))
    a = Append(dtype=dt)
    new = {}
    dims = (1, HK, p.rows_q) if ragged else (B, HK, sq)
    for nm in "kv":
        st = strides(r, dims, D, 16 // (4 if dt == F32 else 2), True)
        n = extent(dims, st, D)
        b = Buf(n, BITS[dt], r, NANB[dt])
        new[nm] = b
        b.idx = [((int(c.first_q[bb]) * st[2] if ragged else bb * st[0]) + np.arange(HK)[:, None, None] * st[1] + np.arange(c.lq[bb])[None, :, None] * st[2] + np.arange(D)).astype(np.int64) for bb in range(B)]
        for ix in b.idx:
            if ix.size:
                x = r.standard_normal(ix.shape) * pick(r, 1., 1e-3, 100., 1e5)
                x = np.where(r.random(ix.shape) < .02, pick(r, 0., np.nan, np.inf, 1e38), x)
                if chance(r, .2):
                    x[:, 0] = 0
                b.a[ix] = enc(x, dt)
        setattr(a, nm, b.addr() if n else None)
        setattr(a, nm + "_strides", Strides(*st))
        b.up()
    for b in c.bufs.values():
        b.up()
    want = {n: c.bufs[n].a.copy() for n in ("k", "v", "k_scale", "v_scale") if n in c.bufs}
    over = None
    for bb in range(B):
        n, m = c.lq[bb], c.lk[bb]
        for i in range(n):
            key = m - n + i
            if key < 0:
                over = bb if over is None else over
                continue
            for nm in "kv":
                x = dec(new[nm].a[new[nm].idx[bb][:, i]], dt).astype(np.float32)
                to = c.bufs[nm].idx[bb][:, key]
                if not p.kv_dtype:
                    want[nm][to] = enc(x, p.dtype) if dt != p.dtype else new[nm].a[new[nm].idx[bb][:, i]]
                    continue
                sn = nm + "_scale"
                top = np.float32(127 if p.kv_dtype == I8 else 448)
                if p.kv_scales == 3:
                    mx = np.abs(x).max(1, keepdims=True)
                    s = np.maximum((mx / top).astype(np.float32), np.float32(2.0**-126))
                    bad = ~np.isfinite(x).all(1, keepdims=True)
                    x = np.where(bad, np.float32(0), x)
                    s2 = np.where(bad, np.float32(np.nan), s)
                    want[sn][c.bufs[sn].idx[bb][:, key, 0]] = s2[:, 0]
                    qn = (x / np.where(bad, np.float32(1), s)).astype(np.float32)
                    if p.kv_dtype == I8:
                        want[nm][to] = np.clip(np.rint(qn), -127, 127).astype(np.int8).view(np.uint8)
                    else:
                        want[nm][to] = np.where(bad, np.uint8(0), e4m3_enc(qn))
                else:
                    s = c.bufs[sn].a[c.bufs[sn].idx[bb][:, key]].astype(np.float32)
                    want[nm][to] = e4m3_enc((x / s).astype(np.float32))
    t = tensors(c)
    if GPU:
        cc(cu.cuCtxSynchronize())
    st = lib.glint_append(C.byref(plan), C.byref(a), C.byref(t), ptr(c.stream))
    if GPU:
        cc(cu.cuStreamSynchronize(ptr(c.stream)))
    if st:
        stats["append " + names(st)] += 1
        if names(st) not in ("GLINT_STRIDE_MISALIGNED", "GLINT_TENSOR_MISALIGNED", "GLINT_BAD_STRIDE"):
            raise Fail("append refused: " + names(st))
        return
    for n in c.bufs:
        c.bufs[n].down()
    for n, w in want.items():
        got = c.bufs[n].a
        if n in "kv":
            d = p.kv_dtype or p.dtype
            A, W = dec(got, d), dec(w, d)
            ok = (got == w) | (np.isnan(A) & np.isnan(W))
        else:
            ok = (got.view(np.uint32) == w.view(np.uint32)) | (np.isnan(got) & np.isnan(w))
        if not ok.all():
            k = np.nonzero(~ok)[0]
            raise Fail(f"append {n} dtype {dt}: {len(k)} of {w.size} differ, first at {k[:4].tolist()}: got {got[k[:4]].tolist()} want {w[k[:4]].tolist()}")
    for n, b in c.bufs.items():
        if n in want: 
            k, at = b.stray(np.arange(b.n))
        elif n == "fault":
            k = 0
        else:
            k, at = b.stray()
        if k:
            raise Fail(f"append: {n} changed {k} bytes at {at}")
    if "fault" in c.bufs:
        got = int(c.bufs["fault"].a[0])
        if got != (0xffffffff if over is None else over):
            raise Fail(f"append fault {got}, want {over}")
    stats["appends"] += 1


def canonical(ctx, c, plan, r, stats):
    """A chunk of one sequence alone has the bits of the whole."""
    p = c.p
    if p.tree or p.bias_dtype or p.intervals:
        return
    b = int(r.integers(p.batch))
    n, m = c.lq[b], c.lk[b]
    if not n or not m:
        return
    a = int(r.integers(n))
    e = min(n, a + int(pick(r, 1, 1, 2, 5, 40, 300)))
    whole = {nm: c.bufs[nm].a[c.bufs[nm].idx[b]][:, a:e] for nm in ("o", "lse")}
    d = Case()
    d.bufs = {}
    d.pass_ = 1
    d.ws = None
    d.stream = c.stream
    d.special = c.special
    d.p = q = Problem.from_buffer_copy(p)
    q.batch = 1
    q.seqlen_q = e - a
    q.lengths = 0
    q.rows_q = q.rows_k = q.page_rows = q.pages = q.pages_per_sequence = 0
    q.max_logit = 0
    off = (p.diagonal + (m - n if p.mask in (3, 5) else 0) + a) if p.mask != 1 else 0
    if abs(off) > 2**40:
        return
    keys = m
    if p.mask in (2, 3) and p.seqlen_k and chance(r, .5):
        keys = max(1, min(m, e - a + off))
    q.seqlen_k = keys
    if p.alibi: 
        if p.mask == 1:
            return
    if p.mask in (2, 3):
        q.mask = int(pick(r, 2, 3))
    if p.mask in (4, 5):
        q.mask = int(pick(r, 4, 5))
    q.diagonal = off - (keys - (e - a) if q.mask in (3, 5) else 0) if p.mask != 1 else 0
    H, HK, D = p.heads_q, p.heads_kv, p.head_dim

    def put(nm, x, st):
        t = Buf(x.size, x.dtype, r, 0)
        t.a[:] = x.reshape(-1)
        d.bufs[nm] = t
        setattr(q, nm, Strides(x.size, *st)) if st else None
    put("q", c.bufs["q"].a[c.bufs["q"].idx[b]][:, a:e].transpose(1, 0, 2).copy(), (D, H * D))
    for nm in ("k", "v"):
        put(nm, c.bufs[nm].a[c.bufs[nm].idx[b]][:, :keys].transpose(1, 0, 2).copy(), (D, HK * D))
    for nm in ("k_scale", "v_scale"):
        if nm in c.bufs:
            t = c.bufs[nm]
            x = t.a if p.kv_scales < 3 else t.a[t.idx[b]][:, :keys, 0].copy()
            put(nm, x, None)
    for nm in ("sinks", "alibi_slopes"):
        if nm in c.bufs:
            d.bufs[nm] = c.bufs[nm]
    put("o", np.zeros((e - a, H, D), c.bufs["o"].dt), (D, H * D))
    put("lse", np.zeros((H, e - a), np.uint32), None)
    pl = Plan()
    st = lib.glint_plan(ctx, C.byref(q), 1, C.byref(pl))
    if st:
        raise Fail("canonical chunk refused: " + explain(ctx, q, 1))
    if pl.variant != plan.variant and not c.forced:
        raise Fail("canonical: another variant")
    if pl.variant != plan.variant:
        return
    st = call(ctx, d, pl, r)
    if st:
        raise Fail("canonical chunk: " + names(st))
    o = d.bufs["o"].a.reshape(e - a, H, D).transpose(1, 0, 2)
    l = d.bufs["lse"].a.reshape(H, e - a, 1)
    for nm, x in (("o", o), ("lse", l)):
        if not np.array_equal(x, whole[nm]):
            k = np.argwhere(x != whole[nm])
            t = tuple(k[0])
            raise Fail(f"canonical: {nm} of queries {a}..{e} of seq {b}, keys {keys} of {m}, mask {q.mask} diagonal {q.diagonal}: {len(k)} differ, first {k[0].tolist()} {whole[nm][t]:#x} {x[t]:#x}")
    stats["canonical chunks"] += 1


def alone(ctx, c, plan, r, stats, how="alone"):
    """One sequence of the call as a problem of its own, linear: the bits of the same variant. Or as what a mask says."""
    p = c.p
    b = int(r.integers(p.batch))
    n, m = c.lq[b], c.lk[b]
    if not n:
        return
    d = Case()
    d.bufs = {}
    d.pass_ = c.pass_
    d.ws = None
    d.stream = c.stream
    d.special = None
    d.p = q = Problem.from_buffer_copy(p)
    q.batch = 1
    q.seqlen_q, q.seqlen_k = n, m
    q.lengths = 0
    q.rows_q = q.rows_k = q.page_rows = q.pages = q.pages_per_sequence = 0
    q.max_logit = 0
    H, HK, D = p.heads_q, p.heads_kv, p.head_dim

    def put(nm, x, st):
        t = Buf(x.size, x.dtype, r, 0)
        t.a[:] = x.reshape(-1)
        d.bufs[nm] = t
        if st:
            setattr(q, nm, Strides(x.size, *st))

    def seq(nm): t = c.bufs[nm]; return t.a[t.idx[b]].transpose(1, 0, 2).copy()
    qs, kss = (D, H * D), (D, HK * D)
    for nm in ("q", "o", "dout", "dq"):
        if nm in c.bufs:
            x = seq(nm)
            put(nm, x if nm not in OUT[c.pass_] else np.zeros_like(x), qs)
    for nm in ("k", "v", "dk", "dv"):
        if nm in c.bufs:
            x = seq(nm)
            put(nm, x if nm not in OUT[c.pass_] else np.zeros_like(x), kss)
    for nm in ("lse", "dlse"):
        if nm in c.bufs:
            put(nm, c.bufs[nm].a[c.bufs[nm].idx[b]][..., 0].copy() if nm not in OUT[c.pass_] else np.zeros((H, n), np.uint32), None)
    for nm in ("k_scale", "v_scale"):
        if nm in c.bufs:
            t = c.bufs[nm]
            put(nm, t.a if p.kv_scales < 3 else t.a[t.idx[b]][..., 0].copy(), None)
    for nm in ("sinks", "alibi_slopes", "dsinks"):
        if nm in c.bufs:
            put(nm, c.bufs[nm].a.copy(), None)
    a = c.rowof(b)
    for nm in ("key_begin", "key_end"):
        if nm in c.bufs:
            put(nm, c.bufs[nm].a[a:a + n].copy(), None)
    if p.tree:
        W0, W = (p.seqlen_q + 31) // 32, (n + 31) // 32
        put("tree_bits", c.bufs["tree_bits"].a.reshape(-1, W0)[a:a + n, :W].copy(), None)
    if p.bias_dtype:
        st = list(p.bias)
        st[0] = 0
        q.bias = (i64 * 4)(*st)
        t = c.bufs["bias"]
        put("bias", t.a[b * p.bias[0]:].copy(), None)
        if p.dbias:
            put("dbias", np.zeros(t.a[b * p.bias[0]:].size, t.dt), None)
    if how == "interval":
        v = c.vis[b]
        if v.size == 0:
            return
        lo = np.where(v.any(1), v.argmax(1), 0)
        hi = np.where(v.any(1), v.shape[1] - v[:, ::-1].argmax(1), 0)
        if p.mask == 1 or c.pass_ == 1 and chance(r, .5):
            put("key_begin", lo.astype(np.int32), None)
            put("key_end", hi.astype(np.int32), None)
        else:
            put("key_begin", np.minimum(lo, 0).astype(np.int32), None)
            put("key_end", hi.astype(np.int32), None)
            if p.mask in (4, 5):
                return
        q.mask, q.window_left, q.window_right, q.diagonal, q.intervals = 1, 0, 0, 0, 1
        if p.alibi:
            return
    if how == "chain":
        if m < n or p.mask not in (2, 3, 4, 5) or (p.mask >= 4 and p.window_right < 0):
            return
        if p.diagonal + (m - n if p.mask in (3, 5) else 0) + (p.window_right if p.mask >= 4 else 0) > m - n:
            return
        W = (n + 31) // 32
        bits_ = np.zeros((n, W * 32), bool)
        bits_[:, :n] = np.tril(np.ones((n, n), bool))
        put("tree_bits", np.packbits(bits_, axis=1, bitorder="little").view(np.uint32), None)
        q.tree = 1
    pl = Plan()
    if how == "alone":
        st = lib.glint_plan_variant(ctx, C.byref(q), c.pass_, plan.variant, C.byref(pl))
    else:
        st = lib.glint_plan(ctx, C.byref(q), c.pass_, C.byref(pl))
    if st:
        stats[how + " refused " + names(st)] += 1
        return
    st = call(ctx, d, pl, r)
    if st:
        raise Fail(f"{how}: " + names(st))
    compare = ("o", "lse") if c.pass_ == 1 else ("dq", "dk", "dv")
    if how == "alone":
        got = {nm: c.bufs[nm].a[c.bufs[nm].idx[b]] for nm in compare}
    else:
        first = {nm: d.bufs[nm].a.copy() for nm in compare}
        q.intervals, q.tree = 0, 0
        for nm in ("key_begin", "key_end", "tree_bits"):
            d.bufs.pop(nm, None)
        q.mask, q.window_left, q.window_right, q.diagonal = p.mask, p.window_left, p.window_right, p.diagonal
        x = Info()
        lib.glint_variant_at(pl.variant, C.byref(x))
        pl2 = Plan()
        st = lib.glint_plan(ctx, C.byref(q), c.pass_, C.byref(pl2))
        y = Info()
        if st == 0:
            lib.glint_variant_at(pl2.variant, C.byref(y))
        if st or x.isa != y.isa or x.family != y.family or GPU and (x.tile_n != y.tile_n or x.sm != y.sm):
            stats[how + " elsewhere"] += 1
            return
        note = f"{x.name} beside {y.name}"
        d.ws = None
        st = call(ctx, d, pl2, r)
        if st:
            raise Fail(f"{how}: " + names(st))
        got = {}
    for nm in compare:
        x = d.bufs[nm].a
        if how == "alone":
            x = x.reshape(n, H, D).transpose(1, 0, 2) if nm in ("o", "dq") else x.reshape(m, HK, D).transpose(1, 0, 2) if nm in ("dk", "dv") else x.reshape(H, n, 1)
            if nm == "lse":
                x = x.view(got[nm].dtype)
            y_, note = got[nm], ""
        else:
            y_ = first[nm]
        if not np.array_equal(x, y_):
            if how != "alone" and b"_step_" in (note.encode()) and p.mask >= 4:
                continue
            fl = dec(np.ascontiguousarray(x), F32 if nm == "lse" else p.dtype), dec(np.ascontiguousarray(y_), F32 if nm == "lse" else p.dtype)
            k = np.argwhere((x != y_) & ~(np.isnan(fl[0]) & np.isnan(fl[1])))
            if not len(k):
                continue
            t = tuple(k[0])
            raise Fail(f"{how}: {nm} of seq {b} ({n} x {m}): {len(k)} of {x.size} differ, first {k[0].tolist()} {y_[t]:#x} {x[t]:#x} {note}")
    stats["law " + how] += 1


def graph(ctx, c, plan, r, stats, cfgs):
    """Captures the call, changes lengths to shorter ones, replays, compares."""
    t = tensors(c)
    for b in c.bufs.values():
        b.up()
    g, ge = ptr(), ptr()
    cc(cu.cuCtxSynchronize())
    cc(cu.cuStreamBeginCapture_v2(ptr(c.stream), 1), "capture")
    st = (lib.glint_forward if c.pass_ == 1 else lib.glint_backward)(C.byref(plan), C.byref(t), ptr(c.ws.addr() if c.ws.n else None), size_t(c.ws.n), ptr(c.stream))
    cc(cu.cuStreamEndCapture(ptr(c.stream), C.byref(g)), "end")
    if st:
        raise Fail("captured: " + names(st))
    cc(cu.cuGraphInstantiateWithFlags(C.byref(ge), g, u64(0)), "instantiate")
    first = {n: b.a.copy() for n, b in outs(c)}
    lk0 = c.bufs["seqlens_k"].a.copy() if "seqlens_k" in c.bufs else None
    if lk0 is not None and not c.p.tree:
        c.bufs["seqlens_k"].a[:] = 0
        c.bufs["seqlens_k"].up()
        cc(cu.cuCtxSynchronize())
        cc(cu.cuGraphLaunch(ge, ptr(c.stream)))
        cc(cu.cuStreamSynchronize(ptr(c.stream)))
        c.bufs["seqlens_k"].a[:] = lk0
        c.bufs["seqlens_k"].up()
    for n, b in outs(c):
        b.raw[:] = 0x3c
        b.up()
    cc(cu.cuCtxSynchronize())
    cc(cu.cuGraphLaunch(ge, ptr(c.stream)))
    cc(cu.cuStreamSynchronize(ptr(c.stream)))
    for n, b in outs(c):
        b.down()
        idx = np.concatenate([x.reshape(-1) for x in b.idx]) if b.idx else np.zeros(0, int)
        if not np.array_equal(b.a[idx], first[n][idx]):
            raise Fail(f"graph replay: {n} has other bits")
    cu.cuGraphExecDestroy(ge)
    cu.cuGraphDestroy(g)
    stats["graphs"] += 1


def open_context(isa, threads):
    o = Options(device=3 if GPU else 1, max_isa=isa)
    keep = []
    if not GPU:
        lib.glint_permit_amx(C.byref(o))
        if threads > 1:
            n = lib.glint_pool_size(threads)
            s = np.zeros(n + 64, np.uint8)
            a = -(-s.ctypes.data // 64) * 64
            pool = ptr()
            st = lib.glint_pool_init(ptr(a), size_t(n), threads, C.byref(pool), C.byref(o.executor))
            assert st == 0, st
            keep.append(s)
    n = lib.glint_context_size()
    s = np.zeros(n + 64, np.uint8)
    a = -(-s.ctypes.data // 64) * 64
    ctx = ptr()
    keep.append(s)
    st = lib.glint_context_init(ptr(a), size_t(n), C.byref(o), C.byref(ctx))
    if st:
        raise RuntimeError(f"context: {st} {names(st)}")
    return ctx, keep


def setup(path, gpu):
    global lib, GPU, cu, arena, stream
    GPU = gpu
    stream = None
    lib = C.CDLL(path)
    for n in "glint_status_name glint_status_sentence".split():
        getattr(lib, n).restype = cstr
    for n in "glint_context_size glint_pool_size".split():
        getattr(lib, n).restype = size_t
    lib.glint_variant_count.restype = u32
    if gpu:
        cu = C.CDLL("libcuda.so.1")
        cc(cu.cuInit(0))
        d = C.c_int()
        cc(cu.cuDeviceGet(C.byref(d), 0))
        x = ptr()
        cc(cu.cuDevicePrimaryCtxRetain(C.byref(x), d))
        cc(cu.cuCtxSetCurrent(x))
        arena = Arena(3 << 30)
        s = ptr()
        cc(cu.cuStreamCreate(C.byref(s), 1))
        stream = s.value


REFUSED = set()


def main():
    path, dev, seed, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    isa = int(sys.argv[5]) if len(sys.argv) > 5 and sys.argv[5].isdigit() else 0
    one = int(sys.argv[sys.argv.index("--one") + 1]) if "--one" in sys.argv else None
    like = sys.argv[sys.argv.index("--rows") + 1].encode() if "--rows" in sys.argv else b""
    setup(path, dev == "gpu")
    ctx, keep = open_context(isa, 1)
    ctx2, keep2 = (open_context(isa, 3) if not GPU else (None, None))
    rows = []
    for i in range(lib.glint_variant_count()):
        x = Info()
        lib.glint_variant_at(i, C.byref(x))
        if lib.glint_variant_available(ctx, i) == 0:
            x.index = i
            rows.append(x)
    sel = [x for x in rows if like in x.name]
    wide = not os.environ.get("NO_LOGIT")
    cfg = {"most": 300, "device_lengths": lambda i: True, "max_logit": lambda i: wide and (i.family == b"cpu" and i.math != 3 or i.family == b"sm80")}
    stats = collections.Counter()
    ran = collections.Counter()
    fails = []
    t0 = time.time()
    k = 0
    import faulthandler
    while time.time() - t0 < seconds and (one is None or k < 1):
        faulthandler.dump_traceback_later(300, exit=True)
        number = k if one is None else one
        k += 1
        r = np.random.default_rng([seed, number])
        if GPU:
            arena.at = 0
        c = None
        name = "?"
        try:
            if chance(r, .02):
                merge_case(ctx, r, stats)
                stats["merge"] += 1
                continue
            c = draw(r, sel, None, cfg)
            c.stream = stream
            c.ws = None
            plan = Plan()
            c.forced = chance(r, .7 if GPU else .5)
            if c.forced:
                st, plan = replan(ctx, c, c.info.index)
            else:
                st = lib.glint_plan(ctx, C.byref(c.p), c.pass_, C.byref(plan))
            if st:
                stats["refused " + names(st) + (" forced" if c.forced else "")] += 1
                if GPU and c.forced:
                    REFUSED.add(c.key)
                if one is not None:
                    print(explain(ctx, c.p, c.pass_), c.info.name, describe(c))
                if not GPU and names(st) not in ("GLINT_STRIDE_MISALIGNED", "GLINT_NOT_IN_SPEC") and not c.forced:
                    raise Fail("refused: " + explain(ctx, c.p, c.pass_))
                continue
            info = rows[[x.index for x in rows].index(plan.variant)]
            name = info.name.decode()
            c.math = info.math
            tolerances(c, info)
            if c.pass_ == 2:
                prepare_backward(c, r)
            st = call(ctx, c, plan, r)
            if st:
                stats["call refused " + names(st)] += 1
                if names(st) != "GLINT_TENSOR_MISALIGNED": 
                    b = C.create_string_buffer(2000)
                    raise Fail("call refused: " + names(st))
                for n, b in outs(c):
                    if b.stray()[0]:
                        raise Fail("refused and wrote " + n)
                continue
            ran[name] += 1
            (check_forward if c.pass_ == 1 else check_backward)(c, stats)
            check_stray(c)
            if "fault" in c.bufs:
                got = int(c.bufs["fault"].a[0])
                if c.faults and min(c.faults) >= 0 and got != min(c.faults):
                    raise Fail(f"fault {got}, want {min(c.faults)}")
                if c.faults and got == 0xffffffff:
                    raise Fail(f"no fault, want {c.faults}")
                if not c.faults and got != 0xffffffff:
                    raise Fail(f"fault {got}, want none")
            if GPU and chance(r, .1):
                graph(ctx, c, plan, r, stats, cfg)
            if c.p.order == 1:
                canonical(ctx, c, plan, r, stats)
            if chance(r, .5):
                refusals(ctx, c, plan, r, stats)
            if chance(r, .3):
                append_case(ctx, c, plan, r, stats)
                continue
            z = r.random()
            if z < .35 and not c.faults and not hasattr(c, "badpage"):
                alone(ctx, c, plan, r, stats)
                continue
            if z < .5 and not c.p.intervals and not c.p.tree and not c.p.order and info.math != 3:
                alone(ctx, c, plan, r, stats, pick(r, "interval", "chain"))
                continue
            if chance(r, .5):
                laws(ctx, ctx2, c, plan, r, stats)
        except Skip:
            pass
        except MemoryError:
            stats["memory"] += 1
        except Fail as e:
            fails.append(name)
            print(f"FAIL seed {seed} one {number} {name}{' forced' if c is not None and getattr(c, 'forced', 0) else ''}: {e}\n   {describe(c) if c is not None else ''}", flush=True)
            if len(fails) > 400:
                break
        except RuntimeError as e:
            print(f"DEVICE seed {seed} one {number} {name}: {e}\n   {describe(c) if c is not None else ''}", flush=True)
            break
        except Exception:
            stats["driver"] += 1
            if stats["driver"] < 4:
                print(f"DRIVER seed {seed} one {number}", traceback.format_exc(), flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(f"SUM seed {seed}: {k} drawn, {sum(ran.values())} ran on {len(ran)} of {len(sel)} rows, {len(fails)} failed; " + json.dumps({a: (round(b, 3) if isinstance(b, float) else b) for a, b in stats.items()}), flush=True)
    never = [x.name.decode() for x in sel if not ran[x.name.decode()]]
    print(f"NEVER {len(never)}: {never[:30]}", "FAILS", dict(collections.Counter(fails)), flush=True)
    return bool(fails)


def sums():
    """V all 0.7 and K zero: O is 0.7. How far off, by the number of keys, in rows of float32."""
    setup(sys.argv[1], sys.argv[2] == "gpu")
    ctx, keep = open_context(0, 1)
    for i in range(lib.glint_variant_count()):
        x = Info()
        lib.glint_variant_at(i, C.byref(x))
        if lib.glint_variant_available(ctx, i) or x.dtype != F32 or x.pass_ != 1 or x.kv_dtype or x.queries_up_to or b"tensor" in x.name or b"alibi" in x.name or b"interval" in x.name or b"tree" in x.name:
            continue
        out = []
        for n in (256, 1024, 4096, 16384, 65536):
            if GPU:
                arena.at = 0
            r = np.random.default_rng(1)
            c = Case()
            c.bufs = {}
            c.pass_ = 1
            c.ws = None
            c.stream = stream
            p = c.p = Problem()
            sq = 64
            lib.glint_problem_bshd(C.byref(p), F32, i64(1), i64(sq), i64(n), i64(1), i64(1), i64(x.head_dim))
            if x.features & 1:
                p.mask = 5
                p.window_left = n if x.features & 2 else -1
                p.window_right = n
            if x.features & 4 and GPU:
                p.softcap = 5.
            D = x.head_dim
            for nm, m, v in (("q", sq * D, 1.), ("k", n * D, 0.), ("v", n * D, .7), ("o", sq * D, 0.), ("lse", sq, 0.)):
                b = Buf(m, np.float32, r, 0)
                b.a[:] = v
                c.bufs[nm] = b
            st, pl = replan(ctx, c, i)
            if st:
                out.append(names(st))
                break
            st = call(ctx, c, pl, r)
            o = c.bufs["o"].a.astype(np.float64) / np.float64(np.float32(.7)) - 1
            out.append(f"{n}: {o[abs(o).argmax()]:.2e} lse {c.bufs['lse'].a[0] - math.log(n):.1e}")
        print(x.name.decode(), "; ".join(out), flush=True)


if __name__ == "__main__":
    sys.exit(sums() if "--sums" in sys.argv else main())
