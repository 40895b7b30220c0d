"""Exact attention by Glint for PyTorch tensors, on the CPU and on NVIDIA GPUs, with gradients: attention(q, k, v).

Nothing is compiled against PyTorch: this file calls libglint_shared.so through ctypes with the tensors' addresses and strides, the
memory of PyTorch's own allocator and its current stream. It mirrors lib/glint.h, which says what every field means.

The library is looked for in $GLINT_LIBRARY, beside this file, and in bazel-bin/examples/pytorch/.
"""

import ctypes
import functools
import os
import pathlib
import threading

import torch
from torch.autograd.function import once_differentiable

FORWARD, BACKWARD = 1, 2
DTYPES = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}
MASKS = {"none": 1, "top_left": 2, "bottom_right": 3}
BANDS = {"top_left": 4, "bottom_right": 5}
UNBOUNDED = -1
LENGTHS_DEVICE, LENGTHS_RAGGED = 1, 2
DEVICE_CPU, DEVICE_CUDA = 1, 3
WORKSPACE_ALIGNMENT = 256

u32, i32, i64, u64, f32 = ctypes.c_uint32, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_float
size_t, pointer, string = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p


class Struct(ctypes.Structure):
    """Every struct that a caller fills in starts with its size."""

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(self), **fields)


class Strides(ctypes.Structure):
    _fields_ = [("batch", i64), ("head", i64), ("row", i64)]


class Problem(Struct):
    _fields_ = [("struct_size", u32), ("dtype", u32), ("mask", u32), ("softmax_scale", f32), ("batch", i64), ("heads_q", i64),
                ("heads_kv", i64), ("head_dim", i64), ("seqlen_q", i64), ("seqlen_k", i64), ("q", Strides), ("k", Strides), ("v", Strides),
                ("o", Strides), ("dout", Strides), ("dq", Strides), ("dk", Strides), ("dv", Strides),
                ("window_left", i64), ("window_right", i64), ("rows_q", i64), ("rows_k", i64), ("lengths", u32), ("order", u32),
                ("softcap", f32), ("sinks", u32), ("page_rows", i64), ("pages", i64), ("pages_per_sequence", i64),
                ("kv_dtype", u32), ("kv_scales", u32), ("diagonal", i64), ("intervals", u32), ("alibi", u32),
                ("max_logit", u32), ("bias_dtype", u32), ("dbias", u32), ("tree", u32), ("bias", i64 * 4),
                ("head_dim_v", i64), ("reserved", u64 * 1)]


class Plan(ctypes.Structure):
    _fields_ = [("struct_size", u32), ("pass_", u32), ("variant", u32), ("reserved", u32), ("workspace_bytes", size_t), ("context", pointer),
                ("problem", Problem), ("internal", u64 * 32)]


class Tensors(Struct):
    _fields_ = [("struct_size", u32), ("reserved", u32)] + [
        (name, pointer) for name in "q k v o lse dout dq dk dv first_q first_k seqlens_q seqlens_k fault sinks dsinks page_table k_scale v_scale dlse key_begin key_end alibi_slopes max_logit bias dbias tree_bits".split()]


class Executor(ctypes.Structure):
    _fields_ = [("struct_size", u32), ("concurrency", u32), ("parallel_for", pointer), ("user", pointer)]


class Options(Struct):
    _fields_ = [("struct_size", u32), ("device", u32), ("cuda_device", i32), ("max_isa", u32), ("executor", Executor), ("amx", u32),
                ("reserved", u32)]


class VariantInfo(Struct):
    _fields_ = [(name, u32) for name in "struct_size pass_ dtype features head_dim head_dim_v isa sm tile_m tile_n alignment_bytes math queries_up_to "
                "kv_dtype".split()] + [("name", string), ("family", string)]


class GlintError(RuntimeError):
    """A status that is not GLINT_OK, with its sentence or the planner's explanation."""


def find_library():
    here = pathlib.Path(__file__).resolve().parent
    candidates = [here / "libglint_shared.so", here.parent.parent / "bazel-bin/examples/pytorch/libglint_shared.so"]
    if "GLINT_LIBRARY" in os.environ:
        candidates = [pathlib.Path(os.environ["GLINT_LIBRARY"])]
    for path in candidates:
        if path.exists():
            return str(path.resolve())
    raise GlintError(f"no {' and no '.join(map(str, candidates))}: ./bazelw build //examples/pytorch:libglint_shared.so")


@functools.cache
def library():
    lib = ctypes.CDLL(find_library())
    for name, result, arguments in [
        ("glint_status_name", string, [ctypes.c_int]),
        ("glint_status_sentence", string, [ctypes.c_int]),
        ("glint_context_size", size_t, []),
        ("glint_context_init", ctypes.c_int, [pointer, size_t, pointer, pointer]),
        ("glint_context_driver_error", i32, [pointer]),
        ("glint_permit_amx", ctypes.c_int, [pointer]),
        ("glint_pool_size", size_t, [u32]),
        ("glint_pool_init", ctypes.c_int, [pointer, size_t, u32, pointer, pointer]),
        ("glint_plan", ctypes.c_int, [pointer, pointer, ctypes.c_int, pointer]),
        ("glint_plan_variant", ctypes.c_int, [pointer, pointer, ctypes.c_int, u32, pointer]),
        ("glint_explain", ctypes.c_int, [pointer, pointer, ctypes.c_int, string, size_t, pointer]),
        ("glint_forward", ctypes.c_int, [pointer, pointer, pointer, size_t, pointer]),
        ("glint_backward", ctypes.c_int, [pointer, pointer, pointer, size_t, pointer]),
        ("glint_variant_count", u32, []),
        ("glint_variant_at", ctypes.c_int, [u32, pointer]),
        ("glint_variant_available", ctypes.c_int, [pointer, u32]),
    ]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def check(status, what):
    if status:
        lib = library()
        raise GlintError(f"{what}: {lib.glint_status_name(status).decode()}: {lib.glint_status_sentence(status).decode()}")


def aligned(bytes, alignment):
    """A buffer of the host, and the first aligned address in it."""
    buffer = ctypes.create_string_buffer(bytes + alignment)
    return buffer, -(-ctypes.addressof(buffer) // alignment) * alignment


class Context:
    """An open Glint context on one of PyTorch's devices, kept for the life of the process. The CPU's has a pool of as many threads as
    PyTorch has when it is first used."""

    def __init__(self, device):
        lib = library()
        options = Options(device=DEVICE_CUDA, cuda_device=device.index) if device.type == "cuda" else Options(device=DEVICE_CPU)
        if device.type == "cpu":
            threads, pool = min(torch.get_num_threads(), 256), pointer()
            bytes = lib.glint_pool_size(threads)
            self.pool_storage, address = aligned(bytes, 64)
            check(lib.glint_pool_init(address, bytes, threads, ctypes.byref(pool), ctypes.byref(options.executor)), "glint_pool_init")
            lib.glint_permit_amx(ctypes.byref(options))  # where there is no AMX the next instruction set is taken
        bytes = lib.glint_context_size()
        self.storage, address = aligned(bytes, 64)
        self.handle = pointer()
        status = lib.glint_context_init(address, bytes, ctypes.byref(options), ctypes.byref(self.handle))
        check(status, f"glint_context_init on {device}, driver error {lib.glint_context_driver_error(address)}" if status else "")

    def plan(self, problem, which, variant=None):
        """A plan by the library's choice of variant, or for one row of its table."""
        lib, plan = library(), Plan()
        if variant is None:
            status = lib.glint_plan(self.handle, ctypes.byref(problem), which, ctypes.byref(plan))
        else:
            status = lib.glint_plan_variant(self.handle, ctypes.byref(problem), which, variant, ctypes.byref(plan))
        if status and variant is None:
            text = ctypes.create_string_buffer(1024)
            lib.glint_explain(self.handle, ctypes.byref(problem), which, text, len(text), None)
            raise GlintError(text.value.decode())
        check(status, "glint_plan_variant")
        return plan


_contexts, _opening = {}, threading.Lock()


def context(device):
    """The context of a tensor's device, opened when first asked for; opening may be slow, and must not happen in a graph capture."""
    with _opening:
        if device not in _contexts:
            _contexts[device] = Context(device)
        return _contexts[device]


def variant_info(index):
    info = VariantInfo()
    check(library().glint_variant_at(index, ctypes.byref(info)), "glint_variant_at")
    return info


def strides(t):
    """Of [batch, heads, seqlen, head_dim]."""
    return Strides(t.stride(0), t.stride(1), t.stride(2))


# One shape is planned once. A plan is a pure function of what is in the key, so any number of threads may share it.
@functools.lru_cache(maxsize=1024)
def planned(device, which, dtype, sizes, seqlen_k, heads_kv, layout, fields):
    batch, heads_q, seqlen_q, head_dim = sizes
    problem = Problem(dtype=DTYPES[dtype], batch=batch, heads_q=heads_q, heads_kv=heads_kv, head_dim=head_dim, head_dim_v=head_dim, seqlen_q=seqlen_q,
                      seqlen_k=seqlen_k, **dict(fields))
    for name, of in zip("q k v o dout dq dk dv".split(), layout):
        setattr(problem, name, Strides(*of))
    return context(device).plan(problem, which)


def call(which, fields, seqlen_k, tensors, lse, others):
    """Runs one pass on [B, H, N, D] tensors: q, k, v, o and for backward dout, dq, dk, dv. `fields` are of the problem, ((name, value), ...);
    `others` are further tensors of the call by name."""
    q, k = tensors[0], tensors[1]
    plan = planned(q.device, which, q.dtype, tuple(q.shape), seqlen_k, k.shape[1], tuple(t.stride()[:3] for t in tensors), fields)
    names = ("q", "k", "v", "o") if which == FORWARD else ("q", "k", "v", "o", "dout", "dq", "dk", "dv")
    addresses = Tensors(lse=lse.data_ptr(), **{name: t.data_ptr() for name, t in [*zip(names, tensors), *others.items()]})
    # PyTorch's allocator gives the workspace back to others of the same stream only: it may be dropped as soon as the
    # call is enqueued.
    cuda = q.device.type == "cuda"
    workspace = torch.empty(plan.workspace_bytes + (0 if cuda else WORKSPACE_ALIGNMENT), dtype=torch.uint8, device=q.device)
    at = -(-workspace.data_ptr() // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT  # CUDA: the allocator's blocks are aligned to 512
    stream = torch.cuda.current_stream(q.device).cuda_stream if cuda else None
    run = library().glint_forward if which == FORWARD else library().glint_backward
    check(run(ctypes.byref(plan), ctypes.byref(addresses), at, plan.workspace_bytes, stream), "glint_forward" if which == FORWARD else "glint_backward")


def usable(t):
    """The tensor itself, or a packed copy where Glint cannot read it in place: head_dim must be contiguous, addresses and strides
    multiples of 16 bytes. Views of a fused QKV tensor, transposed and expanded tensors are read in place."""
    strides_fit = all(size == 1 or step * t.element_size() % 16 == 0 for size, step in zip(t.shape[:3], t.stride()[:3]))
    in_place = t.stride(3) == 1 and strides_fit and t.data_ptr() % 16 == 0
    return t if in_place else t.clone(memory_format=torch.contiguous_format)


def output_like(t, whole=True):
    """Memory for a result of t's shape, packed, in t's order of dimensions where head_dim is the last of them; zeros where not all of it will
    be written."""
    make = torch.empty_like if whole else torch.zeros_like
    out = make(t)
    return out if out.stride(3) == 1 else make(t, memory_format=torch.contiguous_format)


class Attention(torch.autograd.Function):
    """[B, H, N, D] tensors of any strides. Returns O and LSE, with gradients for q, k, v, sinks and a bias. `fields` are of the problem; `others`
    are tensors of the call without a gradient: seqlens_q, seqlens_k, page_table, key_begin, key_end, tree_bits, alibi_slopes, and max_logit, which is written."""

    @staticmethod
    def forward(ctx, q, k, v, sinks, bias, fields, seqlen_k, others):
        q, k, v, sinks = usable(q), usable(k), usable(v), None if sinks is None else sinks.contiguous()
        if bias is not None:
            if ctx.needs_input_grad[4] and any(size > 1 and step == 0 for size, step in zip(bias.shape, bias.stride())):
                bias = bias.contiguous()  # each element has a gradient of its own
            steps = tuple(0 if size == 1 else step for size, step in zip(bias.shape, bias.stride()))
            fields, others = (*fields, ("bias_dtype", DTYPES[bias.dtype]), ("bias", steps)), {**others, "bias": bias}
        whole = "seqlens_k" not in others
        o = output_like(q, whole)
        lse = torch.full(q.shape[:3], -torch.inf, dtype=torch.float32, device=q.device)
        call(FORWARD, fields, seqlen_k, (q, k, v, o), lse, {**others, **({} if sinks is None else {"sinks": sinks})})
        ctx.save_for_backward(q, k, v, o, lse, sinks, bias)
        ctx.fields = tuple(field for field in fields if field[0] != "max_logit")  # which forward alone writes
        ctx.seqlen_k, ctx.others = seqlen_k, {name: t for name, t in others.items() if name not in ("max_logit", "bias")}
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, dlse):
        if dout is None and dlse is None:
            return (None,) * 8
        q, k, v, o, lse, sinks, bias = ctx.saved_tensors
        dout = torch.zeros_like(o) if dout is None else dout
        whole = "seqlens_k" not in ctx.others
        dq, dk, dv = output_like(q, whole), output_like(k, whole), output_like(v, whole)
        dsinks = None if sinks is None else torch.empty_like(sinks)
        dbias = torch.empty_strided(bias.shape, bias.stride(), dtype=bias.dtype, device=bias.device) if ctx.needs_input_grad[4] else None
        others = {**ctx.others, **({} if sinks is None else {"sinks": sinks, "dsinks": dsinks}), **({} if bias is None else {"bias": bias}),
                  **({} if dbias is None else {"dbias": dbias}), **({} if dlse is None else {"dlse": dlse.contiguous()})}
        fields = ctx.fields if dbias is None else (*ctx.fields, ("dbias", 1))
        call(BACKWARD, fields, ctx.seqlen_k, (q, k, v, o, usable(dout), dq, dk, dv), lse, others)
        return dq, dk, dv, dsinks, dbias, None, None, None


def to_bhnd(t, layout):
    if layout == "bhnd":
        return t
    return t.transpose(1, 2) if layout == "bnhd" else t.unsqueeze(1)


def tree_words(tree):
    """int32 [B, N, (N + 31) // 32] of bool [B, N, N]: bit s % 32 of word s // 32 is element s."""
    batch, rows, columns = tree.shape
    bits = torch.nn.functional.pad(tree, (0, -columns % 32)).reshape(batch, rows, (columns + 31) // 32, 32).to(torch.int64)
    words = (bits << torch.arange(32, device=tree.device)).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def attention(q, k, v, causal=None, scale=None, layout=None, return_lse=False, window=None, softcap=0.0, sinks=None, seqlens_q=None,
              seqlens_k=None, page_table=None, diagonal=0, key_begin=None, key_end=None, alibi=None, return_max_logit=False,
              bias=None, tree=None):
    """softmax(scale q k^T + bias + mask) v, with gradients for q, k, v, bias and sinks.

    layout  "bhnd" for [batch, heads, seqlen, head_dim] (the default for four dimensions), "bnhd" for [batch, seqlen, heads, head_dim],
            "bnd" for [batch, seqlen, head_dim] with one head (the default for three). q may have a multiple of the heads of k and v.
    causal  None or False, "top_left" or "bottom_right": which corner the diagonal starts in when seqlen_q and seqlen_k differ. True is
            taken only when they are equal, and with seqlens_k, where it is "bottom_right".
    scale   1 / sqrt(head_dim) if None.
    window  (left, right): a query sees so many keys before the diagonal and after it; None or -1 is no limit. With `causal`, right is 0. Without,
            the diagonal is that of "bottom_right" where lengths differ.
    diagonal  with `causal` or `window`, any number: keys by which the diagonal lies further to the right. A chunk of queries that begins at query a,
            against keys that begin at key c, has its part of the whole's mask by causal="top_left", diagonal=a - c.
    key_begin, key_end  int32 [batch, seqlen_q] on the tensors' device, either or both: query i of sequence b sees the keys key_begin[b, i] <= j <
            key_end[b, i], cut to those that there are, and of these what the mask leaves. An empty interval sees nothing.
    tree    int32 [batch, seqlen_q, (seqlen_q + 31) // 32] on the tensors' device, or bool [batch, seqlen_q, seqlen_q], of which it is made: the last
            seqlen_q keys are new tokens, guesses in a tree, and query i sees new key s where bit s % 32 of word s // 32 is set, its ancestors and
            itself; and the keys before them. A window counts tokens along a query's path (glint.h). Without gradients, and not beside alibi.
    alibi   float32 [heads of q]: slopes, without a gradient. After the scale and a softcap, -alibi[h] |position - j| is added to the score of key j. The
            position of query i is i + diagonal with "top_left", and otherwise i + seqlen_k - seqlen_q + diagonal.
    bias    float32 or the dtype of q, with four dimensions of which each is that of [batch, heads of q, seqlen_q, seqlen_k] or 1, and any strides: is
            added to scores after the scale and a softcap, and before the mask. It has a gradient if it requires one.
    softcap  c: scores become c tanh(score / c), after the scale and before the mask. 0: they do not.
    sinks   float32 [heads of q]: logits that only the denominator has.
    seqlens_q, seqlens_k  int32 [batch] on the tensors' device: how many queries and keys of each sequence there are, the rest being room. They are
            never read on the host. Results beyond a length are 0.
    page_table  int32 [batch, pages of a sequence] with seqlens_k: k and v are pools of pages, [pages, heads, rows, head_dim] in layout "bhnd",
            [pages, rows, heads, head_dim] in "bnhd". No gradients.
    float32, float16 or bfloat16, on the CPU or on a GPU. return_lse: also log(sum(exp(scores))) as float32 [batch, heads, seqlen_q], which
    has a gradient, too. return_max_logit: also float32 [heads of q], the largest score of each head over the batch, without a gradient, for QK-clip.
    What the library was built without is refused, with the line of the spec that would allow it.
    """
    layout = layout or {3: "bnd", 4: "bhnd"}.get(q.dim())
    if layout not in ("bhnd", "bnhd", "bnd"):
        raise ValueError(f"layout {layout!r}: 'bhnd', 'bnhd' or 'bnd'")
    if any(t.dim() != len(layout) for t in (q, k, v)):
        raise ValueError(f"q, k and v have {q.dim()}, {k.dim()} and {v.dim()} dimensions, not those of '{layout}'")
    if q.dtype not in DTYPES or {q.dtype, k.dtype, v.dtype} != {q.dtype} or {k.device, v.device} != {q.device}:
        raise ValueError("q, k and v must have one device and one dtype: float32, float16 or bfloat16")
    q, k, v = (to_bhnd(t, layout) for t in (q, k, v))
    batch, heads_q, seqlen_q, head_dim = q.shape
    if k.shape != v.shape or k.shape[3] != head_dim or (page_table is None and k.shape[0] != batch):
        raise ValueError(f"shapes do not fit, as [B, H, N, D]: q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}")
    if page_table is not None and (seqlens_k is None or torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))):
        raise ValueError("a page_table comes with seqlens_k, and without gradients: call it under torch.no_grad()")
    if seqlens_q is not None and seqlens_k is None:
        raise ValueError("seqlens_q comes with seqlens_k")
    if tree is not None and torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v)):
        raise ValueError("a tree comes without gradients: call it under torch.no_grad()")
    if tree is not None and tree.dtype == torch.bool and tree.dim() == 3:
        tree = tree_words(tree)
    others = {}
    for name, t, dtype, shape in [("seqlens_q", seqlens_q, "int32", (batch,)), ("seqlens_k", seqlens_k, "int32", (batch,)),
                                  ("page_table", page_table, "int32", (batch, page_table.shape[-1] if page_table is not None else 0)),
                                  ("key_begin", key_begin, "int32", (batch, seqlen_q)), ("key_end", key_end, "int32", (batch, seqlen_q)),
                                  ("tree_bits", tree, "int32", (batch, seqlen_q, (seqlen_q + 31) // 32)),
                                  ("alibi_slopes", alibi, "float32", (heads_q,))]:
        if t is not None:
            if t.dtype != getattr(torch, dtype) or tuple(t.shape) != shape or t.device != q.device or not t.is_contiguous():
                raise ValueError(f"{name} must be {dtype} {list(shape)}, contiguous, on the device of q")
            others[name] = t
    if sinks is not None and (sinks.dtype != torch.float32 or tuple(sinks.shape) != (heads_q,) or sinks.device != q.device):
        raise ValueError(f"sinks must be float32 [{heads_q}] on the device of q")

    seqlen_k = k.shape[2] if page_table is None else page_table.shape[1] * k.shape[2]
    whole = (batch, heads_q, seqlen_q, seqlen_k)
    if bias is not None and (bias.dtype not in (torch.float32, q.dtype) or bias.device != q.device or bias.dim() != 4 or
                             any(size not in (1, full) for size, full in zip(bias.shape, whole))):
        raise ValueError(f"bias must be float32 or {q.dtype} {list(whole)}, or 1 in any of these places, on the device of q")
    same = seqlen_q == seqlen_k and seqlens_k is None
    if causal is True:
        if not same and seqlens_k is None:
            raise ValueError(f"seqlen_q {seqlen_q} is not seqlen_k {seqlen_k}: say causal='top_left' or 'bottom_right'")
        causal = "top_left" if same else "bottom_right"
    fields = {"mask": MASKS[causal or "none"], "softmax_scale": float(scale if scale is not None else head_dim**-0.5), "softcap": float(softcap),
              "sinks": int(sinks is not None)}
    if window is not None:
        left, right = (UNBOUNDED if side is None else int(side) for side in window)
        fields.update(mask=BANDS[causal or ("top_left" if same else "bottom_right")], window_left=left, window_right=0 if causal else right)
    if diagonal:
        fields["diagonal"] = int(diagonal)
    if tree is not None:
        fields["tree"] = 1
    if alibi is not None:
        fields["alibi"] = 1
    if key_begin is not None or key_end is not None:
        fields["intervals"] = 1
        for name, bound in [("key_begin", 0), ("key_end", 2**31 - 1)]:
            if name not in others:
                others[name] = torch.full((batch, seqlen_q), bound, dtype=torch.int32, device=q.device)
    if seqlens_k is not None:
        fields["lengths"] = LENGTHS_DEVICE
    if page_table is not None:
        fields.update(page_rows=k.shape[2], pages=k.shape[0], pages_per_sequence=page_table.shape[1])
    logit = torch.empty(heads_q, dtype=torch.float32, device=q.device) if return_max_logit else None
    if return_max_logit:
        fields["max_logit"], others["max_logit"] = 1, logit
    o, lse = Attention.apply(q, k, v, sinks, bias, tuple(fields.items()), seqlen_k, others)
    o = {"bhnd": o, "bnhd": o.transpose(1, 2), "bnd": o.squeeze(1)}[layout]
    results = (o,) + ((lse,) if return_lse else ()) + ((logit,) if return_max_logit else ())
    return results if len(results) > 1 else o
