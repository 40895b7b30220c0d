#!/usr/bin/env python3
"""A server's step on a GPU: one to thousands of queries of each sequence against a cache, linear and in pages, and mixed batches.

    ./bazelw build --repo_env=GLINT_SPEC=bench/specs/steps.lua //examples/pytorch:libglint_shared.so     (or bench/specs/steps_narrow.lua, for 8 bits
    at 80 and 256 and with trees, or bench/specs/steps_sm80.lua and bench/specs/steps_sm80_wide.lua, for --family sm80)
    FA3=folder bench/gpu/steps.py [check] [law] [schedules] [cliff] [mixed] [masks] [trees] [narrow] [few] [paged] [small] [ragged] [rows] [--csv FILE] [--dims 128,64] [--family sm80]

check   O and LSE of a step's rows against float32, at lengths around every boundary
law     a token's bits in a whole prompt, in chunks, alone, in pages and in a batch: every comparison is of all bits
schedules  of each row of a step that the library has: 200 random schedules of sequences of 1,000 to 30,000 tokens, in chunks of any size, speculated and single tokens, over a
        linear cache and pages, alone and beside other sequences; all of O and LSE are compared with the whole prompt's
cliff   1 to 2,048 queries against 8,192 and 65,536 keys
mixed   single tokens, speculated ones and chunks of prompts in one call
masks   a step's rows with windows and a softcap, beside the same without
trees   new tokens in a tree, and with intervals that hide nothing, beside a causal mask, in turn; where the library has a step with them, check and law ask it, too
narrow  a step over a cache of int8 and of e4m3 beside one of bf16, in turn, and up to 12 queries decode and the plan's choice
few     a step's time over decode's, 1 to 16 queries in groups of 1 to 16 query heads
paged   a step over pages of 16, 64 and 256 beside a step over linear keys, and the plan's choices
small   a step where there is little to do, with lengths of the host, on the device, and in pages
ragged  prompts of 16 to 240 tokens in one call, beside as many of one length that have the same FLOPs, in turn: by the library's choice and by a step
rows    every row of the library that takes a problem, for the bounds of lib/choose.c
Without a part: all but schedules, trees, narrow, few, paged, small, ragged and rows. --family: the step's rows are those of this family, which cliff and mixed time in place of the library's choice, beside
a bound: the larger of the bytes at the card's rate and the FLOPs at the row's own rate for a prompt of 16,384. law says then, too, whether the other
family's step gives the same bits. What is timed in cliff and mixed is the library's choice. Times are microseconds, medians of 5 replays of a CUDA graph of 20 calls. FA3 names a folder that has
FlashAttention-3's flash_attn_interface: its flash_attn_with_kvcache is timed in the same process, in turn. The exit status is 1 when a check
failed, and then nothing is timed."""
import argparse
import ctypes
import math
import os
import pathlib
import random as python_random
import re
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/pytorch"))
import glint_torch as glint  # noqa: E402

fa3 = None
if "FA3" in os.environ:
    sys.path.insert(0, os.environ["FA3"])
    import flash_attn_interface as fa3  # noqa: E402

DEVICE = torch.device("cuda", 0)
rng = python_random.Random()
DIMS = {128: (32, 8), 64: (64, 8), 96: (32, 8), 80: (32, 8), 192: (16, 4), 256: (16, 4)}  # head_dim: query heads, key heads
HOST, LENGTHS, RAGGED = 0, 1, 2
I8, E4M3 = 4, 5
NARROW = {torch.int8: (I8, "i8", 127), torch.float8_e4m3fn: (E4M3, "e4m3", 448)}  # kv_dtype, its name, the largest number
SCALES_ROW = 3
CAUSAL, NONE, BAND_TOP_LEFT, BAND = 3, 1, 4, 5
FAMILIES = ("sm90a", "sm80")  # that have a step
BYTES_A_SECOND = {"H200": 4.4e12, "H100": 3.05e12}  # what a card reads at most
family, forced = "sm90a", None  # whose rows a step's are; and "step" where --family asks for them


def ints(values):
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


class Call:
    """One planned call. q and o are [rows, heads, head_dim], or [batch, queries, heads, head_dim]; k and v [batch, keys, heads, head_dim], or with a
    table [pages, rows of a page, heads, head_dim]; of 8 bits they are what narrowed() gives. With `first` and no table the sequences are whole prompts, and k and v have one batch.
    K and V that have been expanded are one sequence's, which all of the batch read.
    `interval` is key_begin and key_end, one number a query each, and `tree` tree_bits, some words a query."""

    def __init__(self, q, k, v, lens=None, first=None, table=None, most=None, mask=CAUSAL, window=(0, 0), softcap=0.0, row=None, interval=None, tree=None,
                 sinks=None):
        (k, k_scale), (v, v_scale) = (x if isinstance(x, tuple) else (x, None) for x in (k, v))
        heads, dim, heads_kv = q.shape[-2], q.shape[-1], k.shape[2]
        ragged, paged = first is not None, table is not None
        rows = q.shape[0] if ragged else q.shape[1]
        batch = first.numel() - 1 if ragged else q.shape[0]
        keys = table.shape[1] * k.shape[1] if paged else k.shape[1]
        problem = glint.Problem(dtype=glint.DTYPES[q.dtype], mask=mask, softmax_scale=dim**-0.5, batch=batch, heads_q=heads, heads_kv=heads_kv,
                                head_dim=dim, seqlen_q=most or rows, seqlen_k=keys, lengths=RAGGED if ragged else LENGTHS if lens is not None else HOST)
        if ragged:
            problem.rows_q = rows
            if not paged:
                problem.rows_k, problem.seqlen_k = keys, most
        if paged:
            problem.page_rows, problem.pages, problem.pages_per_sequence = k.shape[1], k.shape[0], table.shape[1]
        problem.q = problem.o = glint.Strides(0 if ragged else rows * heads * dim, dim, heads * dim)
        problem.k = problem.v = glint.Strides(k.stride(0) and k.shape[1] * heads_kv * dim, dim, heads_kv * dim)
        problem.window_left, problem.window_right = window
        problem.softcap, problem.sinks = softcap, int(sinks is not None)
        problem.intervals, problem.tree = int(interval is not None), int(tree is not None)
        kind = NARROW.get(k.dtype)
        if kind:
            problem.kv_dtype, problem.kv_scales = kind[0], SCALES_ROW
        if row in ("step", *FAMILIES):
            row = step_row(q.dtype, dim, mask, window, softcap, kind, row if row in FAMILIES else None, "tree" if problem.tree else "interval" if problem.intervals else None)
        self.plan = glint.context(DEVICE).plan(problem, glint.FORWARD, row)
        self.o = torch.full_like(q, math.nan)
        self.lse = torch.full((heads, rows) if ragged else (batch, heads, rows), math.nan, device=DEVICE)
        self.work = torch.full((self.plan.workspace_bytes + 256,), 255, dtype=torch.uint8, device=DEVICE)
        self.at = -(-self.work.data_ptr() // 256) * 256
        begin, end = interval or (None, None)
        self.kept = (q, k, v, lens, first, table, k_scale, v_scale, begin, end, tree, sinks)
        address = lambda t: None if t is None else t.data_ptr()  # noqa: E731
        self.tensors = glint.Tensors(q=address(q), k=address(k), v=address(v), o=address(self.o), lse=address(self.lse), first_q=address(first), first_k=None if paged else address(first),
                                     seqlens_k=address(lens), page_table=address(table), k_scale=address(k_scale), v_scale=address(v_scale),
                                     key_begin=address(begin), key_end=address(end), tree_bits=address(tree), sinks=address(sinks))

    def __call__(self):
        status = glint.library().glint_forward(ctypes.byref(self.plan), ctypes.byref(self.tensors), self.at, self.plan.workspace_bytes,
                                               torch.cuda.current_stream().cuda_stream)
        glint.check(status, "glint_forward")
        return self

    @property
    def row(self):
        return glint.variant_info(self.plan.variant).name.decode()


def names():
    return [glint.variant_info(i).name.decode() for i in range(glint.library().glint_variant_count())]


def step_row(dtype, dim, mask, window, softcap, narrow=None, of=None, kind=None):
    of = of or family
    kind = kind or ("none" if mask == NONE else "causal" if mask == CAUSAL or window[0] < 0 else "band")
    kind += "_softcap" if softcap else ""
    start = f"fwd_{'bf16' if dtype == torch.bfloat16 else 'f16'}{'_' + narrow[1] if narrow else ''}_d{dim}_{kind}__{of}_step_"
    return next(i for i, name in enumerate(names()) if name.startswith(start))


def decode_row(narrow, dim):
    """The row of decode in bfloat16 whose cache is of 8 bits, or of bfloat16 where `narrow` is None."""
    start = f"dec_bf16_{NARROW[narrow][1] + '_' if narrow else ''}d{dim}_"
    return next(i for i, name in enumerate(names()) if name.startswith(start))


def has_step(*what, **of):
    """Whether the library has the row that step_row looks for."""
    try:
        return step_row(*what, **of) >= 0
    except StopIteration:
        return False


def has_mask(kind, dim, kv=None):
    """Whether the family has a step of this head_dim in bfloat16 under a mask ("causal", "interval" for intervals, "tree"), over a cache of kv."""
    return any(name.startswith(f"fwd_bf16_{NARROW[kv][1] + '_' if kv else ''}d{dim}_{kind}__{family}_step_") for name in names())


def there(cases):
    """Those of some cases, which begin with a head_dim, that the family has a step for; it says which it leaves out."""
    out = sorted({case[0] for case in cases if not has_mask("causal", case[0])})
    if out:
        print(f"  no step of {family} has head_dim {', '.join(map(str, out))}: not asked", flush=True)
    return [case for case in cases if case[0] not in out]


def random(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


def narrowed(x, dtype):
    """K or V, [batch or pages, rows, heads, head_dim], in 8 bits with a scale a row: the numbers, and the scales as a call wants them."""
    if dtype is None:
        return x
    most = NARROW[dtype][2]
    scale = x.float().abs().amax(-1).clamp_min(1e-20) / most
    numbers = x.float() / scale[..., None]
    return (numbers.round() if dtype == torch.int8 else numbers).to(dtype), scale.transpose(1, 2).contiguous()


def widened(x):
    """What the numbers of narrowed() mean, in float32."""
    return x[0].float() * x[1].transpose(1, 2)[..., None] if isinstance(x, tuple) else x


def pages_of(lengths, rows, heads, dim, dtype=torch.bfloat16):
    """Pools in a random order of pages, and the table of sequences of these lengths."""
    counts = [-(-n // rows) for n in lengths]
    order, table, at = torch.randperm(sum(counts)).int(), torch.zeros(len(lengths), max(counts), dtype=torch.int32), 0
    for i, count in enumerate(counts):
        table[i, :count] = order[at:at + count]
        at += count
    return random(sum(counts), rows, heads, dim, dtype=dtype), random(sum(counts), rows, heads, dim, dtype=dtype), table.to(DEVICE)


def keys_of(pool, table, i, length):
    return pool[table[i, :-(-length // pool.shape[1])].long()].reshape(-1, *pool.shape[2:])[:length]


def random_intervals(queries, keys):
    """key_begin and key_end of one sequence: blocks of queries that see a stretch of keys, some of it beyond what there is, and some queries that see nothing."""
    begin, length = torch.randint(-5, keys, (queries,)), torch.randint(0, 2 * keys, (queries,))
    begin, length = (x[torch.arange(queries) // 37 * 37] for x in (begin, length))
    return torch.where(torch.arange(queries) % 11 == 3, 0, begin).int().to(DEVICE), (begin + length).int().to(DEVICE)


def random_tree(queries):
    """Whether a query sees a new token, [queries, queries]: each has a parent at random, before it."""
    seen = torch.eye(queries, dtype=torch.bool)
    for i in range(1, queries):
        seen[i] |= seen[int(torch.randint(max(0, i - 9), i, ()))]
    return seen


def words_of(seen, words):
    """tree_bits of one sequence, `words` words a query; bits beyond the sequence's queries are set, which no row reads."""
    wide = torch.ones(seen.shape[0], 32 * words, dtype=torch.bool)
    wide[:, :seen.shape[1]] = seen
    return (wide.view(-1, words, 32).long() << torch.arange(32)).sum(-1).int().to(DEVICE)


def chain(queries, words):
    return words_of(torch.ones(queries, queries, dtype=torch.bool).tril(), words)


def reference(q, k, v, mask, window=(0, 0), softcap=0.0, interval=None, seen=None):
    """One sequence in float32: q [queries, heads, head_dim]. `seen` is a tree's, of whose path a causal mask hides nothing."""
    queries, heads, dim = q.shape
    keys, group = k.shape[0], heads // k.shape[1]
    o, lse = torch.empty(queries, heads, dim, device=DEVICE), torch.empty(heads, queries, device=DEVICE)
    ahead = torch.arange(keys, device=DEVICE)[None] - torch.arange(queries, device=DEVICE)[:, None] - (0 if mask == BAND_TOP_LEFT else keys - queries)
    left, right = (-1, -1) if mask == NONE else (-1, 0) if mask == CAUSAL else window
    hidden = (ahead > (right if right >= 0 else queries + keys)) | (ahead < -(left if left >= 0 else queries + keys))
    if seen is not None:  # under a causal mask or a window to the left, which goes along a query's path
        path, new = seen.to(DEVICE), keys - queries
        behind = torch.cat([torch.arange(new, 0, -1, device=DEVICE).expand(queries, new) + path.sum(1, keepdim=True) - 1, path.flip(1).cumsum(1).flip(1) - path.int()], 1)
        hidden = torch.cat([torch.zeros(queries, new, dtype=torch.bool, device=DEVICE), ~path], 1) | (behind > (left if left >= 0 else queries + keys))
    if interval is not None:
        at = torch.arange(keys, device=DEVICE)[None]
        hidden |= (at < interval[0][:, None]) | (at >= interval[1][:, None])
    for h in range(heads):
        s = q[:, h].float() @ k[:, h // group].float().T * dim**-0.5
        if softcap:
            s = softcap * torch.tanh(s / softcap)
        s.masked_fill_(hidden, -math.inf)
        lse[h] = torch.logsumexp(s, -1)
        o[:, h] = torch.softmax(s, -1).nan_to_num() @ v[:, h // group].float()
    return o, lse


def right(name, o, lse, want_o, want_lse):
    error = ((o.float() - want_o).norm() / want_o.norm()).item()
    off = torch.where(lse == want_lse, 0, lse - want_lse).abs().max().item()
    ok = error < 4e-3 and off < 2e-3  # bf16 rounds O by 2^-9; NaN is neither
    if not ok:
        print(f"  wrong: {name}: O {error:.1e} of the norm, LSE {off:.1e}", flush=True)
    return ok


def check():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    good = total = 0
    for dim, heads, heads_kv, dtype in there(((128, 32, 8, torch.bfloat16), (128, 10, 2, torch.float16), (64, 16, 2, torch.bfloat16), (64, 7, 1, torch.bfloat16),
                                              (96, 12, 4, torch.bfloat16), (80, 12, 4, torch.bfloat16), (192, 12, 4, torch.bfloat16), (192, 10, 2, torch.float16),
                                              (256, 8, 2, torch.bfloat16), (256, 7, 1, torch.float16))):
        plain = [(*shape, (0, 0), 0.0) for shape in ((2, 1, 1000, 3), (2, 5, 1000, 3), (1, 64, 700, 3), (1, 130, 3000, 3), (1, 300, 300, 3), (2, 40, 2500, 1),
                                                     (1, 1, 20000, 3), (1, 17, 9000, 3), (1, 600, 2000, 3), (1, 100, 5000, 1), (1, 3, 70000, 3), (1, 150, 20000, 3))]
        masks = [(2, 300, 700, BAND, (64, 0), 0.0), (1, 130, 3000, BAND, (1000, 0), 0.0), (1, 600, 600, BAND_TOP_LEFT, (100, 50), 0.0),
                 (2, 500, 100, BAND_TOP_LEFT, (30, 200), 0.0), (2, 500, 100, BAND, (30, -1), 5.0), (1, 1, 20000, BAND, (4096, 0), 0.0),
                 (1, 17, 70000, BAND, (9000, 0), 0.0), (2, 40, 2500, BAND, (-1, 10), 0.0), (1, 2000, 2000, BAND, (127, 0), 20.0), (1, 3, 40000, BAND, (20000, 0), 20.0),
                 (1, 300, 900, CAUSAL, (0, 0), 10.0), (2, 70, 5000, NONE, (0, 0), 1.0), (1, 1, 9000, CAUSAL, (0, 0), 50.0)]
        for batch, queries, keys, mask, window, softcap in plain + masks:
            softcap = softcap if has_step(dtype, dim, mask, window, softcap) else 0.0
            if not has_step(dtype, dim, mask, window, softcap):
                continue
            q, k, v = random(batch, queries, heads, dim, dtype=dtype), random(batch, keys, heads_kv, dim, dtype=dtype), random(batch, keys, heads_kv, dim, dtype=dtype)
            call = Call(q, k, v, mask=mask, window=window, softcap=softcap, row="step")()
            want = [reference(q[b], k[b], v[b], mask, window, softcap) for b in range(batch)]
            good += right(f"d{dim} {heads}:{heads_kv} batch {batch} {queries} x {keys} mask {mask} {window} softcap {softcap}", call.o, call.lse, torch.stack([o for o, _ in want]),
                          torch.stack([lse for _, lse in want]))
            total += 1
        for rows, mask, window, softcap in ((16, CAUSAL, (0, 0), 0.0), (64, CAUSAL, (0, 0), 0.0), (128, CAUSAL, (0, 0), 0.0), (256, CAUSAL, (0, 0), 0.0),
                                            (64, BAND, (200, 0), 0.0), (16, BAND, (1500, 7), 8.0)):
            softcap = softcap if has_step(dtype, dim, mask, window, softcap) else 0.0
            if not has_step(dtype, dim, mask, window, softcap):
                continue
            queries, keys = [1, 1, 5, 64, 300, 20, 1, 33], [1, 900, 2000, 64, 1500, 3333, 5000, 33]
            k, v, table = pages_of(keys, rows, heads_kv, dim, dtype)
            firsts = [0, *torch.tensor(queries).cumsum(0).tolist()]
            q = random(firsts[-1], heads, dim, dtype=dtype)
            call = Call(q, k, v, ints(keys), ints(firsts), table, max(queries), mask, window, softcap, "step")()
            for i, n in enumerate(keys):
                a, b = firsts[i], firsts[i + 1]
                good += right(f"d{dim} {heads}:{heads_kv} pages of {rows}, {b - a} x {n} mask {mask} {window} softcap {softcap}", call.o[a:b], call.lse[:, a:b],
                              *reference(q[a:b], keys_of(k, table, i, n), keys_of(v, table, i, n), mask, window, softcap))
                total += 1
    print(f"check: {good} of {total} are right", flush=True)
    return good == total


def check_narrow():
    torch.manual_seed(3)
    good = total = 0
    for dim, heads, heads_kv, dtype in ((dim, *shape, dtype) for dtype in NARROW for dim, *shape in ((128, 32, 8), (64, 7, 1), (96, 12, 4), (80, 12, 4), (192, 12, 4), (256, 8, 2)) if has(dtype, dim)):
        for batch, queries, keys, mask, window in ((2, 1, 1000, CAUSAL, (0, 0)), (2, 5, 1000, CAUSAL, (0, 0)), (1, 130, 3000, CAUSAL, (0, 0)), (1, 300, 300, CAUSAL, (0, 0)),
                                                   (1, 1, 20000, CAUSAL, (0, 0)), (1, 600, 5000, CAUSAL, (0, 0)), (1, 3, 70000, CAUSAL, (0, 0)), (2, 300, 700, BAND, (64, 0)),
                                                   (1, 17, 70000, BAND, (9000, 0))):
            if not has_step(torch.bfloat16, dim, mask, window, 0.0, NARROW[dtype]):
                continue
            q = random(batch, queries, heads, dim)
            k, v = (narrowed(random(batch, keys, heads_kv, dim), dtype) for _ in range(2))
            call = Call(q, k, v, mask=mask, window=window, row="step")()
            want = [reference(q[b], widened(k)[b], widened(v)[b], mask, window) for b in range(batch)]
            good += right(f"{dtype} d{dim} {heads}:{heads_kv} batch {batch} {queries} x {keys} mask {mask} {window}", call.o, call.lse, torch.stack([o for o, _ in want]),
                          torch.stack([lse for _, lse in want]))
            total += 1
        for rows, mask, window in ((16, CAUSAL, (0, 0)), (64, CAUSAL, (0, 0)), (256, CAUSAL, (0, 0)), (64, BAND, (200, 0))):
            if not has_step(torch.bfloat16, dim, mask, window, 0.0, NARROW[dtype]):
                continue
            queries, keys = [1, 1, 5, 64, 300, 20, 1, 33], [1, 900, 2000, 64, 1500, 3333, 5000, 33]
            k, v, table = pages_of(keys, rows, heads_kv, dim)
            k, v = narrowed(k, dtype), narrowed(v, dtype)
            firsts = [0, *torch.tensor(queries).cumsum(0).tolist()]
            q = random(firsts[-1], heads, dim)
            call = Call(q, k, v, ints(keys), ints(firsts), table, max(queries), mask, window, row="step")()
            for i, n in enumerate(keys):
                a, b = firsts[i], firsts[i + 1]
                good += right(f"{dtype} d{dim} {heads}:{heads_kv} pages of {rows}, {b - a} x {n} mask {mask} {window}", call.o[a:b], call.lse[:, a:b],
                              *reference(q[a:b], keys_of(widened(k), table, i, n), keys_of(widened(v), table, i, n), mask, window))
                total += 1
    print(f"check, 8 bits: {good} of {total} are right", flush=True)
    return good == total


def check_masks():
    """Trees and intervals of random bits, in pages, ragged; sequences of few and of many new tokens."""
    torch.manual_seed(4)
    good = total = 0
    for dim, heads, heads_kv, kv in ((*shape, kv) for kv in (None, *NARROW) for shape in ((128, 32, 8), (64, 7, 1), (96, 12, 4), (80, 12, 4), (192, 12, 4), (256, 8, 2))):
        for kind, rows, mask, window in ((kind, *rest) for kind in ("interval", "tree") if has_mask(kind, dim, kv)
                                         for rest in ((16, CAUSAL, (0, 0)), (64, CAUSAL, (0, 0)), (256, BAND, (700, 0)))):
            queries, keys = [1, 1, 5, 64, 300, 20, 1, 33], [1, 900, 2000, 64, 1500, 3333, 5000, 33]
            k, v, table = pages_of(keys, rows, heads_kv, dim)
            k, v = narrowed(k, kv), narrowed(v, kv)
            firsts, words = [0, *torch.tensor(queries).cumsum(0).tolist()], -(-max(queries) // 32)
            q = random(firsts[-1], heads, dim)
            spans = [random_intervals(n, m) for n, m in zip(queries, keys)]
            trees_seen = [random_tree(n) if kind == "tree" else None for n in queries]
            call = Call(q, k, v, ints(keys), ints(firsts), table, max(queries), mask, window, row="step",
                        interval=tuple(torch.cat([s[side] for s in spans]) for side in (0, 1)),
                        tree=torch.cat([words_of(seen, words) for seen in trees_seen]) if kind == "tree" else None)()
            for i, n in enumerate(keys):
                a, b = firsts[i], firsts[i + 1]
                o, lse = reference(q[a:b], keys_of(widened(k), table, i, n), keys_of(widened(v), table, i, n), mask, window, 0.0, spans[i], trees_seen[i])
                blind = torch.isneginf(lse).all(0)
                good += right(f"{kv or ''} {kind} d{dim} {heads}:{heads_kv} pages of {rows}, {b - a} x {n} mask {mask} {window}", call.o[a:b], call.lse[:, a:b], o, lse) if not blind.all() else (
                    bool((call.o[a:b] == 0).all() and torch.isneginf(call.lse[:, a:b]).all()))
                total += 1
    print(f"check, trees and intervals: {good} of {total} are right", flush=True)
    return good == total


def law_masks():
    """Intervals that hide nothing and a chain give the bits of a causal mask; tokens with intervals of their own have the same bits in a prompt, in chunks and alone."""
    torch.manual_seed(5)
    good = total = 0
    plain = ((128, 32, 8, 5000), (64, 16, 2, 9000), (96, 12, 4, 5000), (80, 12, 4, 5000), (192, 12, 4, 5000), (256, 8, 2, 5000))
    for dim, heads, heads_kv, rows, kv in (*((*case, None) for case in there(plain)), *((*case, kv) for kv in NARROW for case in plain if has(kv, case[0]))):
        q, k, v = 3 * random(1, rows, heads, dim), narrowed(random(1, rows, heads_kv, dim), kv), narrowed(random(1, rows, heads_kv, dim), kv)
        whole = Call(q, k, v, row="step")() if has_mask("causal", dim, kv) else None
        own = tuple(x[None] for x in random_intervals(rows, rows))
        with_own = Call(q, k, v, row="step", interval=own)() if has_mask("interval", dim, kv) else None

        def compare(name, call, beside, low, high):
            nonlocal good, total
            ok = same(call.o.reshape(-1, heads, dim), beside.o[0, low:high]) and same(call.lse.reshape(heads, -1), beside.lse[0, :, low:high])
            good, total = good + ok, total + 1
            if not ok:
                print(f"  differs: {kv or ''} d{dim} {heads}:{heads_kv}: {name}, queries {low} to {high}", flush=True)

        for i in range(60):
            low = int(torch.randint(0, rows, ()))
            high = min(rows, low + (1 if i < 10 else int(2 ** (torch.rand(()) * 11))))
            part, lens, n = q[:, low:high].contiguous(), ints([high]), high - low
            everything = torch.zeros(1, n, dtype=torch.int32, device=DEVICE), torch.full((1, n), 2**31 - 1, dtype=torch.int32, device=DEVICE)
            if whole and has_mask("tree", dim, kv):
                compare("a chain", Call(part, k, v, lens=lens, row="step", tree=chain(n, -(-n // 32))[None])(), whole, low, high)
            if whole and has_mask("interval", dim, kv):
                compare("intervals that hide nothing", Call(part, k, v, lens=lens, row="step", interval=everything)(), whole, low, high)
            if with_own:
                mine = tuple(x[:, low:high].contiguous() for x in own)
                compare("intervals of its own", Call(part, k, v, lens=lens, row="step", interval=mine)(), with_own, low, high)
    print(f"law, trees and intervals: {good} of {total} have the same bits", flush=True)
    return good == total


def has(dtype, dim):
    """Whether the family has a step of this head_dim over a cache of this type."""
    return any(name.startswith(f"fwd_bf16_{NARROW[dtype][1]}_d{dim}_") and f"__{family}_step_" in name for name in names())


def same(a, b):
    word = torch.int16 if a.element_size() == 2 else torch.int32
    return torch.equal(a.contiguous().view(word), b.contiguous().view(word))


LAW = ((128, 32, 8, 5000, 0, 0.0), (64, 16, 2, 5000, 0, 0.0), (128, 10, 2, 26000, 0, 0.0), (64, 7, 1, 26000, 0, 0.0),
       (128, 32, 8, 5000, 1000, 0.0), (64, 16, 2, 9000, 100, 0.0), (128, 10, 2, 26000, 4096, 50.0), (64, 7, 1, 26000, 9000, 0.0), (64, 16, 2, 5000, 0, 20.0),
       (96, 12, 4, 9000, 0, 0.0), (96, 12, 4, 5000, 1000, 0.0), (80, 12, 4, 9000, 0, 0.0), (80, 12, 4, 5000, 1000, 0.0), (256, 8, 2, 26000, 0, 0.0),
       (256, 8, 2, 5000, 1000, 0.0), (192, 12, 4, 26000, 0, 0.0), (192, 12, 4, 5000, 1000, 0.0), (192, 7, 1, 9000, 1000, 30.0), (256, 7, 1, 9000, 1000, 30.0))
LAW_NARROW = ((128, 32, 8, 5000, 0, 0.0), (64, 7, 1, 26000, 0, 0.0), (128, 10, 2, 9000, 1000, 0.0), (96, 12, 4, 9000, 0, 0.0), (192, 12, 4, 9000, 1000, 0.0),
              (80, 12, 4, 9000, 0, 0.0), (80, 12, 4, 5000, 1000, 0.0), (256, 8, 2, 26000, 0, 0.0), (256, 7, 1, 9000, 1000, 0.0))


def law(plain=LAW):
    torch.manual_seed(2)
    good = total = 0
    narrow_cases = ((*case, kv) for kv in NARROW for case in LAW_NARROW if has(kv, case[0]))
    for dim, heads, heads_kv, rows, window, softcap, kv in (*((*case, None) for case in there(plain)), *narrow_cases):
        asked = torch.bfloat16, dim, BAND if window else CAUSAL, (window, 0), softcap, NARROW.get(kv)
        if not has_step(*asked):
            continue
        q, k16, v16 = 3 * random(1, rows, heads, dim), random(1, rows, heads_kv, dim), random(1, rows, heads_kv, dim)
        k, v = narrowed(k16, kv), narrowed(v16, kv)
        how = dict(mask=BAND if window else CAUSAL, window=(window - 1, 0) if window else (0, 0), softcap=softcap, row="step")
        whole = Call(q, k, v, **how)()
        kind = f"{NARROW[kv][1]}_" if kv else ""
        other = next(other for other in FAMILIES if other != family)
        if forced and has_step(*asked, of=other):
            twin = Call(q, k, v, **{**how, "row": other})()
            print(f"  {kind}d{dim} {heads}:{heads_kv} {rows} tokens, window {window}, softcap {softcap}: beside {twin.row.split('__')[1]} O "
                  f"{'has the same bits' if same(twin.o, whole.o) else 'differs'}, LSE {'has the same bits' if same(twin.lse, whole.lse) else 'differs'}", flush=True)

        def compare(name, o, lse, low, high):
            nonlocal good, total
            ok = same(o.reshape(-1, heads, dim), whole.o[0, low:high]) and same(lse.reshape(heads, -1), whole.lse[0, :, low:high])
            good, total = good + ok, total + 1
            if not ok:
                print(f"  differs: {kv or ''} d{dim} {heads}:{heads_kv} window {window} softcap {softcap}: {name}", flush=True)

        for _ in range(40):  # schedules of chunks: most of them short, over a linear cache with its length on the device
            low = int(torch.randint(0, rows, ()))
            high = min(rows, low + int(2 ** (torch.rand(()) * 12)))
            call = Call(q[:, low:high].contiguous(), k, v, lens=ints([high]), **how)()
            compare(f"queries {low} to {high}", call.o, call.lse, low, high)
        for t in (0, 1, 63, 127, 128, 129, 1023, 1024, 1025, 2047, 3000, 4095, 4096, 4999, *((8191, 8192, 16383, 16384, 20480, 25999) if rows > 9000 else ())):
            call = Call(q[:, t:t + 1].contiguous(), k, v, lens=ints([t + 1]), **how)()
            compare(f"token {t}", call.o, call.lse, t, t + 1)
        for page in (16, 64, 256):  # a step over pages: chunks, speculated and single tokens of the same sequence in one call
            count = -(-rows // page)
            order = torch.randperm(count).to(DEVICE)
            pad = lambda x: torch.cat([x[0], torch.zeros(count * page - rows, heads_kv, dim, device=DEVICE, dtype=x.dtype)]).view(count, page, heads_kv, dim)  # noqa: E731
            pool_k, pool_v = random(count, page, heads_kv, dim), random(count, page, heads_kv, dim)
            pool_k[order], pool_v[order] = pad(k16), pad(v16)
            pool_k, pool_v = narrowed(pool_k, kv), narrowed(pool_v, kv)
            for _ in range(10):
                spans = []
                for _ in range(12):
                    low = int(torch.randint(0, rows, ()))
                    spans.append((low, min(rows, low + (1, 1, 5, 64, 300, 1500)[int(torch.randint(0, 6, ()))])))
                firsts = [0, *torch.tensor([b - a for a, b in spans]).cumsum(0).tolist()]
                table = order.int()[None].expand(len(spans), count).contiguous()
                call = Call(torch.cat([q[0, a:b] for a, b in spans]), pool_k, pool_v, ints([b for _, b in spans]), ints(firsts), table, max(b - a for a, b in spans), **how)()
                for i, (a, b) in enumerate(spans):
                    compare(f"{b - a} queries at {a} of a step over pages of {page}", call.o[firsts[i]:firsts[i + 1]], call.lse[:, firsts[i]:firsts[i + 1]], a, b)
    print(f"law: {good} of {total} have the same bits", flush=True)
    return good == total

SCHEDULES, SETTINGS = 200, 8  # of a row: schedules in all, and sequences that they share
ROW = re.compile(r"fwd_(bf16|f16)_(?:(i8|e4m3)_)?d(\d+)_(none|causal|band|interval|tree)(_softcap)?__(\w+?)_step_")


def drawn(limits):
    """An integer between two, as likely in each octave."""
    low, high = limits
    return min(high, int(low * (high / low) ** rng.random()))


def a_schedule(tokens, most, sizes=None):
    """A sequence in chunks, (low, high) each: of a prompt, as many as `most` or one of `sizes`, and runs of single and of 2 to 8 speculated tokens."""
    spans, low = [], 0
    while low < tokens:
        kind = rng.randrange(3)
        size, count = ((rng.choice(sizes) if sizes else drawn((16, most)), 1), (1, rng.randint(1, 20)), (rng.randint(2, 8), rng.randint(1, 10)))[kind]
        for _ in range(count):
            if low < tokens:
                spans.append((low, min(tokens, low + size)))
                low = spans[-1][1]
    return spans


class Sequence:
    """One sequence, its whole prompt's O and LSE by one row, and what the same tokens get by a schedule."""

    def __init__(self, row, tokens, heads, heads_kv, dim, dtype, kv, kind, softcap):
        self.row, self.tokens, self.kv, self.kind = row, tokens, kv, kind
        self.heads, self.heads_kv, self.dim = heads, heads_kv, dim
        self.q = 3 * random(tokens, heads, dim, dtype=dtype)
        self.k16, self.v16 = random(1, tokens, heads_kv, dim, dtype=dtype), random(1, tokens, heads_kv, dim, dtype=dtype)
        self.k, self.v = narrowed(self.k16, kv), narrowed(self.v16, kv)
        self.how = dict(row=row, mask={"none": NONE, "band": BAND}.get(kind, CAUSAL), window=(drawn((50, 10000)), 0) if kind == "band" else (0, 0),
                        softcap=20.0 if softcap else 0.0, sinks=torch.randn(heads, device=DEVICE) if rng.random() < 0.5 else None)
        self.own = random_intervals(tokens, tokens) if kind == "interval" else None
        how = dict(self.how)
        if kind == "interval":
            how["interval"] = tuple(x[None] for x in self.own)
        if kind == "tree":  # a prompt's own tree would have a word a token for each 32 of them; a chain has the causal row's bits
            how["row"] = step_row(dtype, dim, CAUSAL, (0, 0), softcap, NARROW.get(kv))
        self.whole = Call(self.q[None], self.k, self.v, **how)()
        self.pools, self.calls = {}, 0

    def keys_for(self, high):
        return self.tokens if self.kind == "none" else high

    def begin(self):
        self.o, self.lse = torch.full_like(self.q, math.nan), torch.full((self.heads, self.tokens), math.nan, device=DEVICE)

    def equal(self):
        return same(self.o, self.whole.o[0]) and same(self.lse, self.whole.lse[0])

    def first_off(self):
        off = (self.o.view(torch.int16) != self.whole.o[0].view(torch.int16)).any(-1).any(-1) | (self.lse.view(torch.int32) != self.whole.lse[0].view(torch.int32)).any(0)
        return f"{int(off.sum())} of {self.tokens} tokens, the first {int(off.nonzero()[0, 0])}"

    def of_masks(self, at, queries):
        """Arguments of a call with these tokens, [..., queries]."""
        more = dict(self.how)
        if self.kind == "interval":
            more["interval"] = tuple(x[at].contiguous() for x in self.own)
        if self.kind == "tree":
            bits = chain(queries, -(-queries // 32))
            more["tree"] = bits.expand(at.shape[0], -1, -1).contiguous()
        return more

    def linear(self, spans):
        """Chunks of one length: each alone with its keys' number of the host, or all as a batch with theirs on the device."""
        size = spans[0][1] - spans[0][0]
        if len(spans) <= 2:
            for low, high in spans:
                keys = self.keys_for(high)
                cut = lambda x: (x[0][:, :keys].contiguous(), x[1][:, :, :keys].contiguous()) if isinstance(x, tuple) else x[:, :keys]  # noqa: E731
                at = torch.arange(low, high, device=DEVICE)[None]
                call = Call(self.q[None, low:high], cut(self.k), cut(self.v), **self.of_masks(at, size))()
                self.o[low:high], self.lse[:, low:high] = call.o[0], call.lse[0]
            self.calls += len(spans)
            return
        at = ints([low for low, _ in spans]).long()[:, None] + torch.arange(size, device=DEVICE)
        many = lambda x: x.expand(len(spans), *x.shape[1:])  # noqa: E731
        k, v = ((many(x[0]), many(x[1]).contiguous()) if isinstance(x, tuple) else many(x) for x in (self.k, self.v))
        call = Call(self.q[at], k, v, lens=ints([self.keys_for(high) for _, high in spans]), **self.of_masks(at, size))()
        self.o[at], self.lse[:, at] = call.o, call.lse.transpose(0, 1)
        self.calls += 1

    def pool(self, page):
        """The sequence in pages, anywhere in a pool that has pages of others, too."""
        if page not in self.pools:
            count = -(-self.tokens // page)
            places = torch.randperm(count + 9)[:count].to(DEVICE)
            pools = []
            for x in (self.k16, self.v16):
                pool = random(count + 9, page, self.heads_kv, self.dim, dtype=x.dtype)
                pool[places] = torch.cat([x[0], torch.zeros(count * page - self.tokens, *x.shape[2:], device=DEVICE, dtype=x.dtype)]).view(count, page, *x.shape[2:])
                pools.append(narrowed(pool, self.kv))
            self.pools[page] = (*pools, places.int())
        return self.pools[page]

    def paged(self, spans, page):
        """Chunks of any lengths in one call, beside up to 8 sequences of others."""
        pool_k, pool_v, places = self.pool(page)
        others = [(rng.randint(1, 70), rng.randint(70, self.tokens)) for _ in range(rng.choice((0, 0, 1, 8)))]
        order = [(high - low, self.keys_for(high), low) for low, high in spans] + [(queries, keys, None) for queries, keys in others]
        rng.shuffle(order)
        queries, firsts = [n for n, _, _ in order], [0]
        for n in queries:
            firsts.append(firsts[-1] + n)
        table = places.expand(len(order), -1).clone()
        strange = torch.tensor([low is None for _, _, low in order], device=DEVICE)
        table[strange] = torch.randint(0, places.numel() + 9, (int(strange.sum()), places.numel()), device=DEVICE, dtype=torch.int32)
        at = torch.cat([torch.arange(low, low + n) if low is not None else torch.full((n,), -1) for n, _, low in order]).to(DEVICE)
        mine, shown = at >= 0, at.clamp_min(0)
        more = self.of_masks(shown, max(queries))
        if self.kind == "tree":
            bits = chain(max(queries), -(-max(queries) // 32))
            more["tree"] = torch.cat([bits[:n] for n in queries])
        call = Call(self.q[shown], pool_k, pool_v, ints([keys for _, keys, _ in order]), ints(firsts), table, max(queries), **more)()
        self.o[at[mine]], self.lse[:, at[mine]] = call.o[mine], call.lse[:, mine]
        self.calls += 1

    def served(self, in_pages):
        """Whether a schedule drawn at random gives the whole prompt's bits, and what it was."""
        self.begin()
        most = 256 if self.kind == "tree" else 4096
        if in_pages:
            page, spans, parts = rng.choice((16, 32, 64, 128, 256)), a_schedule(self.tokens, most), rng.choice((1, 2, 5))
            rng.shuffle(spans)
            for part in range(parts):
                if spans[part::parts]:
                    self.paged(spans[part::parts], page)
        else:
            page, spans, sizes = 0, a_schedule(self.tokens, most, [drawn((16, most)) for _ in range(3)]), {}
            for low, high in spans:
                sizes.setdefault(high - low, []).append((low, high))
            for group in sizes.values():
                self.linear(group)
        return self.equal(), f"{len(spans)} chunks, {f'pages of {page}' if page else 'linear'}", len(spans)


def schedules(dims):
    torch.manual_seed(6)
    rng.seed(6)
    good = total = 0
    for row, name in enumerate(names()):
        parts = ROW.match(name)
        if not parts or parts[6] != family or int(parts[3]) not in dims:
            continue
        dtype, kv = torch.float16 if parts[1] == "f16" else torch.bfloat16, next((kv for kv, (_, word, _) in NARROW.items() if word == parts[2]), None)
        mine = chunks = calls = 0
        for setting in range(SETTINGS):
            tokens = int(1000 * 30 ** (setting / (SETTINGS - 1)) * rng.uniform(0.9, 1)) + 100
            heads_kv = rng.choice((1, 2))
            sequence = Sequence(row, tokens, heads_kv * rng.choice((1, 2, 4, 5, 7, 8)), heads_kv, int(parts[3]), dtype, kv, parts[4], bool(parts[5]))
            for i in range(SCHEDULES // SETTINGS):
                ok, what, count = sequence.served(i % 2 == 0)
                mine, chunks = mine + ok, chunks + count
                if not ok:
                    print(f"  differs: {name} {sequence.heads}:{heads_kv} {tokens} tokens, {what}: {sequence.first_off()}", flush=True)
            calls += sequence.calls
        print(f"  {name}: {mine} of {SCHEDULES} schedules, {chunks} chunks in {calls} calls", flush=True)
        good, total = good + mine, total + SCHEDULES
    print(f"schedules: {good} of {total} have the whole prompt's bits", flush=True)
    return 0 < total == good


def graph_of(function, calls=20):
    function()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            function()
    graph.replay()
    return graph, calls


def timed(functions, calls=20, rounds=5):
    """Microseconds of each, in turn."""
    graphs, times = [graph_of(f, calls) for f in functions], [[] for _ in functions]
    for _ in range(rounds):
        for (graph, calls), mine in zip(graphs, times):
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            graph.replay()
            b.record()
            b.synchronize()
            mine.append(1e3 * a.elapsed_time(b) / calls)
    return [sorted(mine)[rounds // 2] for mine in times]


class Table:
    def __init__(self, path):
        self.ratios, self.bounds, self.rates, self.file = {}, {}, {}, open(path, "w") if path else None
        if self.file:
            self.file.write(f"# {torch.cuda.get_device_name(0)}; bf16; bench/gpu/steps.py\ncase,impl,us\n")

    def bound(self, call, sequences):
        """Microseconds of causal sequences, (queries, keys) each: bytes at the card's rate, or FLOPs at the row's."""
        q, k = call.kept[:2]
        heads, dim, heads_kv = q.shape[-2], q.shape[-1], k.shape[2]
        flops = lambda pairs: 4 * dim * heads * sum(n * m - n * (n - 1) / 2 for n, m in pairs)  # noqa: E731
        if dim not in self.rates:
            length = 16384
            prompt = Call(random(1, length, heads, dim), random(1, length, heads_kv, dim), random(1, length, heads_kv, dim), row="step")
            self.rates[dim] = flops([(length, length)]) / timed([prompt], 3)[0] / 1e-6
            print(f"  d{dim} a prompt of {length}: {self.rates[dim] / 1e12:.0f} TFLOP/s  {prompt.row}", flush=True)
        rate = next(rate for card, rate in BYTES_A_SECOND.items() if card in torch.cuda.get_device_name(0))
        return 1e6 * max(2 * dim * sum(2 * heads_kv * m + 2 * heads * n for n, m in sequences) / rate, flops(sequences) / self.rates[dim])

    def add(self, part, case, call, peer, sequences=None):
        us = timed([call, peer] if fa3 and peer else [call])
        ratio = us[1] / us[0] if len(us) > 1 else math.nan
        if len(us) > 1:
            self.ratios.setdefault(part, []).append((ratio, case))
        beside = ""
        if forced and sequences:
            bound = self.bound(call, sequences)
            self.bounds.setdefault(part, []).append(((us[0] - 8) / bound, case))
            beside = f"  bound {bound:8.1f}, less 8 us {(us[0] - 8) / bound:5.2f}"
            if self.file:
                self.file.write(f"{case},bound,{bound:.2f}\n")
        print(f"  {case:46} {us[0]:8.1f}" + (f" {us[1]:8.1f} {ratio:5.2f}" if len(us) > 1 else "") + beside + f"  {call.row}", flush=True)
        for impl, t in zip(("glint", "flash_attention_3"), us):
            if self.file:
                self.file.write(f"{case},{impl},{t:.2f}\n")
        if self.file:
            self.file.flush()

    def among(self, case, calls):
        """Of calls with the row that each has: those that take more than three times the fastest one's are not timed."""
        first = []
        for call in calls:
            call()
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            call()
            b.record()
            b.synchronize()
            first.append(a.elapsed_time(b))
        calls = [call for call, ms in zip(calls, first) if ms < 3 * min(first) + 0.05]
        us = timed(calls, 10, 3)
        print(f"  {case:44} " + "  ".join(f"{call.row.split('__')[1]} {t:.1f}" for t, call in sorted(zip(us, calls), key=lambda pair: pair[0])), flush=True)
        if self.file:
            self.file.writelines(f"{case},{call.row},{t:.2f}\n" for t, call in zip(us, calls))
            self.file.flush()

    def close(self):
        for part, bounds in self.bounds.items():
            over = [f"{case} {ratio:.2f}" for ratio, case in sorted(bounds, reverse=True) if ratio > 1.3]
            print(f"{part}: time less 8 us is at most 1.3 times the bound in {len(bounds) - len(over)} of {len(bounds)} cases; not in: {', '.join(over[:6]) or 'none'}", flush=True)
        for part, ratios in self.ratios.items() if fa3 else ():
            mean = math.exp(sum(math.log(r) for r, _ in ratios) / len(ratios))
            print(f"{part}: FlashAttention-3's time over Glint's: {mean:.3f}, least {min(ratios)[0]:.2f} ({min(ratios)[1]}), {len(ratios)} cases", flush=True)


def cliff(table, dims):
    for dim in dims:
        heads, heads_kv = DIMS[dim]
        for batch, keys in ((1, 8192), (1, 65536), (8, 8192)):
            k, v = random(batch, keys, heads_kv, dim), random(batch, keys, heads_kv, dim)
            pool_k, pool_v, pages = pages_of([keys] * batch, 64, heads_kv, dim)
            lens = ints([keys] * batch)
            for queries in (1, 2, 4, 8, 9, 16, 32, 64, 128, 256, 512, 1024, 2048):
                q = random(batch, queries, heads, dim)
                table.add(f"d{dim} linear, {'up to 32' if queries <= 32 else 'from 64'} queries", f"d{dim} {batch} x {queries} x {keys} linear", Call(q, k, v, row=forced),
                          lambda: fa3.flash_attn_with_kvcache(q, k, v, causal=True), [(queries, keys)] * batch)
                table.add(f"d{dim} pages, {'up to 32' if queries <= 32 else 'from 64'} queries", f"d{dim} {batch} x {queries} x {keys} pages",
                          Call(q, pool_k, pool_v, lens=lens, table=pages, row=forced),
                          lambda: fa3.flash_attn_with_kvcache(q, pool_k, pool_v, cache_seqlens=lens, page_table=pages, causal=True), [(queries, keys)] * batch)


STEPS = {
    "64 tokens at 8k": [(1, 8192)] * 64,
    "32 tokens at 1k to 16k": [(1, 1024 + 480 * i) for i in range(32)],
    "64 tokens at 4k and a chunk of 512 at 2k": [(1, 4096)] * 64 + [(512, 2048)],
    "32 tokens at 8k and 2 chunks of 1024 at 8k": [(1, 8192)] * 32 + [(1024, 8192)] * 2,
    "32 x 5 tokens at 4k": [(5, 4096)] * 32,
    "8 tokens at 32k": [(8, 32768)],
    "a chunk of 256 at 32k": [(256, 32768)],
    "8 prompts of 20 to 300": [(20 + 40 * i, 20 + 40 * i) for i in range(8)],
    "a prompt of 2048": [(2048, 2048)],
}


def mixed(table, dims):
    for dim in dims:
        heads, heads_kv = DIMS[dim]
        for name, sequences in STEPS.items():
            queries, keys = [n for n, _ in sequences], [n for _, n in sequences]
            k, v, pages = pages_of(keys, 64, heads_kv, dim)
            first, lens = ints([0, *torch.tensor(queries).cumsum(0).tolist()]), ints(keys)
            q = random(sum(queries), heads, dim)
            table.add(f"d{dim} mixed", f"d{dim} {name}", Call(q, k, v, lens, first, pages, max(queries), row=forced),
                      lambda: fa3.flash_attn_with_kvcache(q, k, v, cache_seqlens=lens, page_table=pages, causal=True, cu_seqlens_q=first,
                                                          max_seqlen_q=max(queries)), sequences)


MASKS = {"causal": {}, "softcap 30": dict(softcap=30.0), "window 128": dict(mask=BAND, window=(127, 0)), "window 1024": dict(mask=BAND, window=(1023, 0)),
         "window 4096": dict(mask=BAND, window=(4095, 0))}


def masks(table, dims):
    for dim in dims:
        heads, heads_kv = DIMS[dim]
        for batch, queries, keys in ((1, 8192, 8192), (1, 1024, 16384), (8, 16, 16384), (32, 1, 8192)):
            k, v, pages = pages_of([keys] * batch, 64, heads_kv, dim)
            q, lens = random(batch, queries, heads, dim), ints([keys] * batch)
            for name, how in MASKS.items():
                if dim not in (64, 128) and "softcap" in how:
                    continue
                window = how.get("window", (-1, -1))
                peer = lambda: fa3.flash_attn_with_kvcache(q, k, v, cache_seqlens=lens, page_table=pages, causal=True, window_size=window)  # noqa: E731
                table.add(f"d{dim} {name}", f"d{dim} {batch} x {queries} x {keys} pages {name}", Call(q, k, v, lens=lens, table=pages, row="step", **how),
                          None if "softcap" in how else peer)


def trees(table, dims):
    for dim in dims:
        heads, heads_kv = DIMS[dim]
        for batch, queries, keys in ((batch, queries, keys) for batch in (1, 8) for queries in (8, 20, 64) for keys in (4096, 32768)):
            k, v, pages = pages_of([keys] * batch, 64, heads_kv, dim)
            q, how = random(batch, queries, heads, dim), dict(lens=ints([keys] * batch), table=pages, row="step")
            seen = torch.eye(queries, dtype=torch.bool)
            for i in range(1, queries):
                seen[i] |= seen[(i - 1) // 2]
            everything = torch.zeros(batch, queries, dtype=torch.int32, device=DEVICE), torch.full((batch, queries), keys, dtype=torch.int32, device=DEVICE)
            calls = {"causal": Call(q, k, v, **how)}
            if has_mask("tree", dim):
                calls["tree"] = Call(q, k, v, tree=words_of(seen, -(-queries // 32)).expand(batch, -1, -1).contiguous(), **how)
            if has_mask("interval", dim):
                calls["intervals"] = Call(q, k, v, interval=everything, **how)
            us, case = timed(list(calls.values())), f"d{dim} {batch} x {queries} x {keys} pages"
            print(f"  {case:40} " + "  ".join(f"{name} {t:.1f} {t / us[0]:.3f}" for name, t in zip(calls, us)) + f"  {calls['causal'].row}", flush=True)
            if table.file:
                table.file.writelines(f"{case} {name},{call.row},{t:.2f}\n" for (name, call), t in zip(calls.items(), us))


def narrow(table, dims):
    for dim in dims:
        heads, heads_kv = DIMS[dim]
        kinds = [None, *(dtype for dtype in NARROW if has(dtype, dim))]
        for batch, keys in ((1, 8192), (1, 65536), (8, 8192), (8, 65536)):
            k, v, pages = pages_of([keys] * batch, 64, heads_kv, dim)
            lens = ints([keys] * batch)
            caches = [(narrowed(k, kind), narrowed(v, kind)) for kind in kinds]
            lines = [tuple((x[0].view(batch, keys, heads_kv, dim), x[1].view(batch, heads_kv, keys)) if isinstance(x, tuple) else x.view(batch, keys, heads_kv, dim) for x in cache)
                     for cache in caches]
            for queries in (1, 2, 3, 4, 5, 6, 8, 12, 16, 64, 128, 256, 512, 1024, 2048):
                if batch * queries * keys > 1 << 28:
                    continue
                q = random(batch, queries, heads, dim)
                calls = {"step": [Call(q, *cache, row="step") for cache in lines], "step, pages": [Call(q, *cache, lens=lens, table=pages, row="step") for cache in caches]}
                if queries <= 12:
                    calls["chosen"] = [Call(q, *cache) for cache in lines]
                    calls["decode"] = [Call(q, *cache, row=decode_row(kind, dim)) for kind, cache in zip(kinds, lines)]
                us = timed([call for group in calls.values() for call in group])
                for way, group in calls.items():
                    mine, us = us[:len(group)], us[len(group):]
                    print(f"  d{dim} {batch} x {queries} x {keys} {way:12} " + "  ".join(f"{NARROW[kind][1] if kind else 'bf16'} {t:.1f} {mine[0] / t:.2f}" for kind, t in zip(kinds, mine)) +
                          f"  {group[-1].row}", flush=True)
                    if table.file:
                        table.file.writelines(f"d{dim} {batch} x {queries} x {keys} {way.replace(',', '')},{call.row},{t:.2f}\n" for call, t in zip(group, mine))
                        table.file.flush()

def few(table, dims):
    """A step's time over decode's. Rows are (query, query head) pairs of a key head; decode's time grows with every 8 of them."""
    if table.file:
        table.file.write("case,decode us,step us,chosen us\n")
    for dim in dims:
        kinds, means = [(None, "linear"), (None, "pages"), *((torch.int8, "linear") for _ in [0] if has(torch.int8, dim))], {}
        for batch, keys in ((1, 1024), (1, 2048), (1, 8192), (1, 65536), (8, 8192), (64, 2048)):
            k, v, pages = pages_of([keys] * batch, 64, 8, dim)
            lens = ints([keys] * batch)
            for kind, place in kinds:
                cache = narrowed(k, kind), narrowed(v, kind)
                if place == "linear":
                    cache = tuple((x[0].view(batch, keys, 8, dim), x[1].view(batch, 8, keys)) if kind else x.view(batch, keys, 8, dim) for x in cache)
                how = dict(lens=lens, table=pages) if place == "pages" else {}
                for group in (1, 2, 4, 5, 7, 8, 16):
                    for queries in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16):
                        if not (8 <= group * queries <= 64 or queries == 1) or (keys < 2048 and queries > 1):
                            continue
                        q = random(batch, queries, 8 * group, dim)
                        calls = [Call(q, *cache, row=row, **how) for row in (decode_row(kind, dim), "step", None)]
                        us = timed(calls, 10, 3)
                        case = f"d{dim} {batch} x {queries} x {keys} group {group} {'i8' if kind else 'bf16'} {place}"
                        rows = -(-group * queries // 8) * 8
                        means.setdefault((kind, place, keys * min(batch, 2), rows), []).append(us[1] / us[0])
                        if table.file:
                            table.file.write(f"{case},{us[0]:.2f},{us[1]:.2f},{us[2]:.2f}\n")
                if table.file:
                    table.file.flush()
        for (kind, place, keys, rows), ratios in sorted(means.items(), key=str):
            print(f"  d{dim} {'i8' if kind else 'bf16'} {place} {keys} keys, up to {rows} rows: a step over decode {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}, "
                  f"{min(ratios):.2f} to {max(ratios):.2f} of {len(ratios)}", flush=True)


def paged(table, dims):
    """A step over pages beside itself over linear keys, and beside the choice over linear keys."""
    for dim in dims:
        heads, heads_kv = DIMS[dim]
        for batch, keys in ((1, 8192), (1, 65536), (8, 8192)):
            pools = {page: pages_of([keys] * batch, page, heads_kv, dim) for page in (16, 64, 256)}
            k, v = (x.view(batch, keys, heads_kv, dim) for x in pools[64][:2])
            lens = ints([keys] * batch)
            for queries in (1, 2, 4, 8, 9, 16, 32, 64, 128, 256, 512, 1024, 2048):
                q = random(batch, queries, heads, dim)
                calls = {"linear step": Call(q, k, v, row="step"), "linear step lengths": Call(q, k, v, lens=lens, row="step"),
                         **{f"pages of {page} step": Call(q, pool_k, pool_v, lens=lens, table=pages, row="step") for page, (pool_k, pool_v, pages) in pools.items()},
                         "linear chosen": Call(q, k, v), "linear lengths chosen": Call(q, k, v, lens=lens),
                         "pages of 64 chosen": Call(q, *pools[64][:2], lens=lens, table=pools[64][2])}
                us = dict(zip(calls, timed(list(calls.values()), 5 if queries * keys * batch > 1 << 24 else 20, 5)))
                print(f"  d{dim} {batch} x {queries} x {keys} " + "  ".join(f"{name} {t:.1f}" for name, t in us.items()) +
                      "  linear over pages: " + " ".join(f"{us['linear step'] / us[f'pages of {page} step']:.3f}" for page in pools) + f"  {calls['linear chosen'].row}", flush=True)
                if table.file:
                    table.file.writelines(f"d{dim} {batch} x {queries} x {keys} {name},{call.row},{us[name]:.2f}\n" for name, call in calls.items())
                    table.file.flush()


def small(table, dims):
    """A step where there is little to do, so that its fixed time shows: with lengths of the host, on the device, and in pages."""
    for dim in dims:
        heads, heads_kv = DIMS[dim]
        for batch, queries, keys in ((1, 1, 1024), (1, 8, 2048), (1, 1, 8192), (1, 8, 8192), (1, 32, 8192), (1, 8, 65536), (2, 8, 8192), (8, 8, 8192), (1, 256, 2048), (4, 20, 200)):
            k, v, pages = pages_of([keys] * batch, 64, heads_kv, dim) if keys % 64 == 0 else (None, None, None)
            linear = [x.view(batch, keys, heads_kv, dim) for x in (k, v)] if pages is not None else [random(batch, keys, heads_kv, dim) for _ in range(2)]
            q, lens = random(batch, queries, heads, dim), ints([keys] * batch)
            calls = {"host": Call(q, *linear, row="step"), "device": Call(q, *linear, lens=lens, row="step")}
            if pages is not None:
                calls["pages"] = Call(q, k, v, lens=lens, table=pages, row="step")
            us, case = timed(list(calls.values()), 20, 9), f"d{dim} {batch} x {queries} x {keys}"
            print(f"  {case:24} " + "  ".join(f"{name} {t:.1f}" for name, t in zip(calls, us)), flush=True)
            if table.file:
                table.file.writelines(f"{case} {name},{call.row},{t:.2f}\n" for (name, call), t in zip(calls.items(), us))


def ragged(table, dims):
    for dim in dims:
        heads, heads_kv = DIMS[dim]
        for batch in (16, 64, 256):
            lengths = [16 + 224 * (i * 5 % batch) // (batch - 1) for i in range(batch)]
            flops = lambda all_of: sum(n * (n + 1) for n in all_of)  # noqa: E731
            equal = [round((flops(lengths) / batch) ** 0.5)] * batch
            calls = []
            for all_of in (equal, lengths):
                total, first = sum(all_of), ints([0, *torch.tensor(all_of).cumsum(0).tolist()])
                q, k, v = random(total, heads, dim), random(1, total, heads_kv, dim), random(1, total, heads_kv, dim)
                calls += [Call(q, k, v, first=first, most=max(all_of), row=row) for row in (forced, "step")]
            us = timed(calls)
            for i, way in enumerate(("chosen", "step")):
                ratio = us[i] / flops(equal) * flops(lengths) / us[i + 2]
                case = f"d{dim} {batch} prompts, {way}"
                print(f"  {case:40} of {equal[0]} {us[i]:.1f}  of 16 to 240 {us[i + 2]:.1f}  {ratio:.3f} of the rate  {calls[i + 2].row}", flush=True)
                if table.file:
                    table.file.write(f"{case.replace(',', '')} of {equal[0]},{calls[i].row},{us[i]:.2f}\n{case.replace(',', '')} of 16 to 240,{calls[i + 2].row},{us[i + 2]:.2f}\n")


def rows(table, dims):
    def calls(*tensors, **how):
        found = []
        for row, name in enumerate(names()):
            try:
                if name.startswith(("fwd_bf16", "dec_bf16")) and f"_d{tensors[0].shape[-1]}_" in name:
                    found.append(Call(*tensors, row=row, **how))
            except glint.GlintError:
                pass
        return found

    for dim in dims:
        heads, heads_kv = DIMS[dim]
        for batch, keys in ((1, 1024), (1, 8192), (1, 65536), (8, 1024), (8, 8192), (64, 2048)):
            k, v = random(batch, keys, heads_kv, dim), random(batch, keys, heads_kv, dim)
            pool_k, pool_v, pages = pages_of([keys] * batch, 64, heads_kv, dim)
            lens = ints([keys] * batch)
            for queries in (1, 2, 3, 4, 6, 8, 9, 16, 64, 256, 512, 1024):
                if batch * queries > 8192:
                    continue
                q = random(batch, queries, heads, dim)
                table.among(f"d{dim} {batch} x {queries} x {keys} host", calls(q, k, v))
                if queries > 8:
                    table.among(f"d{dim} {batch} x {queries} x {keys} device", calls(q, k, v, lens=lens))
                else:
                    table.among(f"d{dim} {batch} x {queries} x {keys} pages", calls(q, pool_k, pool_v, lens=lens, table=pages))
        for batch, length in ((64, 16), (64, 64), (32, 128), (16, 256), (8, 512), (4, 1024), (2, 2048), (1, 4096), (1, 16384)):  # whole prompts
            q, k, v = random(batch, length, heads, dim), random(batch, length, heads_kv, dim), random(batch, length, heads_kv, dim)
            first = ints([length * i for i in range(batch + 1)])
            table.among(f"d{dim} {batch} prompts of {length} host", calls(q, k, v))
            table.among(f"d{dim} {batch} prompts of {length} device", calls(q, k, v, lens=ints([length] * batch)))
            table.among(f"d{dim} {batch} prompts of {length} ragged", calls(q.flatten(0, 1), k.flatten(0, 1)[None], v.flatten(0, 1)[None], first=first, most=length))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["check", "law", "schedules", "cliff", "mixed", "masks", "trees", "narrow", "few", "paged", "small", "ragged", "rows", []])
    parser.add_argument("--csv")
    parser.add_argument("--dims", default="128,64")
    parser.add_argument("--family", choices=FAMILIES)
    options = parser.parse_args()
    global family, forced
    family, forced = options.family or family, "step" if options.family else None
    parts, dims = options.parts or ["check", "law", "cliff", "mixed", "masks"], [int(d) for d in options.dims.split(",")]
    torch.set_grad_enabled(False)
    for part, function in (("check", check), *([("check", check_narrow)] if any(has(torch.int8, dim) for dim in DIMS) else []), ("law", law), ("schedules", lambda: schedules(dims)),
                           *([("check", check_masks), ("law", law_masks)] if any(has_mask("tree", dim, kv) for dim in DIMS for kv in (None, *NARROW)) else [])):
        if part in parts and not function():
            return 1
    table = Table(options.csv)
    for part, function in (("rows", rows), ("narrow", narrow), ("few", few), ("paged", paged), ("small", small), ("mixed", mixed), ("masks", masks), ("trees", trees), ("ragged", ragged), ("cliff", cliff)):
        if part in parts:
            function(table, dims)
    table.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
