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
                ("window_left", i64), ("window_right", i64), ("rows_q", i64), ("rows_k", i64), ("lengths", u32), ("reserved_word", u32), ("softcap", f32), ("sinks", u32),
                ("page_rows", i64), ("pages", i64), ("pages_per_sequence", i64), ("reserved", u64 * 4)]


class Plan(ctypes.Structure):
    _fields_ = [("struct_size", u32), ("pass_", u32), ("variant", u32), ("reserved", u32), ("workspace_bytes", size_t), ("context", pointer),
                ("problem", Problem), ("internal", u64 * 32)]


class Tensors(Struct):
    _fields_ = [("struct_size", u32), ("reserved", u32)] + [
        (name, pointer) for name in "q k v o lse dout dq dk dv first_q first_k seqlens_q seqlens_k fault sinks dsinks page_table".split()]


class Executor(ctypes.Structure):
    _fields_ = [("struct_size", u32), ("concurrency", u32), ("parallel_for", pointer), ("user", pointer)]


class Options(Struct):
    _fields_ = [("struct_size", u32), ("device", u32), ("cuda_device", i32), ("max_isa", u32), ("executor", Executor), ("amx", u32),
                ("reserved", u32)]


class VariantInfo(Struct):
    _fields_ = [(name, u32) for name in "struct_size pass_ dtype features head_dim isa sm tile_m tile_n alignment_bytes math reserved".split()] + [
        ("name", string), ("family", string)]


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
def planned(device, which, dtype, mask, scale, sizes, seqlen_k, heads_kv, layout):
    batch, heads_q, seqlen_q, head_dim = sizes
    problem = Problem(dtype=DTYPES[dtype], mask=mask, softmax_scale=scale, batch=batch, heads_q=heads_q, heads_kv=heads_kv, head_dim=head_dim,
                      seqlen_q=seqlen_q, seqlen_k=seqlen_k)
    for name, of in zip("q k v o dout dq dk dv".split(), layout):
        setattr(problem, name, Strides(*of))
    return context(device).plan(problem, which)


def call(which, mask, scale, tensors, lse):
    """Runs one pass on [B, H, N, D] tensors: q, k, v, o and for backward dout, dq, dk, dv."""
    q, k = tensors[0], tensors[1]
    plan = planned(q.device, which, q.dtype, mask, scale, tuple(q.shape), k.shape[2], k.shape[1], tuple(t.stride()[:3] for t in tensors))
    names = ("q", "k", "v", "o") if which == FORWARD else ("q", "k", "v", "o", "dout", "dq", "dk", "dv")
    addresses = Tensors(lse=lse.data_ptr(), **{name: t.data_ptr() for name, t in zip(names, tensors)})
    # PyTorch's allocator gives the workspace back to others of the same stream only: it may be dropped as soon as the call is enqueued.
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


def output_like(t):
    """Memory for a result of t's shape, packed, in t's order of dimensions where head_dim is the last of them."""
    out = torch.empty_like(t)
    return out if out.stride(3) == 1 else torch.empty_like(t, memory_format=torch.contiguous_format)


class Attention(torch.autograd.Function):
    """[B, H, N, D] tensors of any strides. Returns O and LSE; only O has a gradient."""

    @staticmethod
    def forward(ctx, q, k, v, mask, scale):
        q, k, v = usable(q), usable(k), usable(v)
        o = output_like(q)
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
        call(FORWARD, mask, scale, (q, k, v, o), lse)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.mask, ctx.scale = mask, scale
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, _):
        if dout is None:
            return None, None, None, None, None
        q, k, v, o, lse = ctx.saved_tensors
        dq, dk, dv = output_like(q), output_like(k), output_like(v)
        call(BACKWARD, ctx.mask, ctx.scale, (q, k, v, o, usable(dout), dq, dk, dv), lse)
        return dq, dk, dv, None, None


def to_bhnd(t, layout):
    if layout == "bhnd":
        return t
    return t.transpose(1, 2) if layout == "bnhd" else t.unsqueeze(1)


def attention(q, k, v, causal=None, scale=None, layout=None, return_lse=False):
    """softmax(scale q k^T + mask) v, with gradients for q, k and v.

    layout  "bhnd" for [batch, heads, seqlen, head_dim] (the default for four dimensions), "bnhd" for [batch, seqlen, heads, head_dim],
            "bnd" for [batch, seqlen, head_dim] with one head (the default for three). q may have a multiple of the heads of k and v.
    causal  None or False, "top_left" or "bottom_right": which corner the diagonal starts in when seqlen_q and seqlen_k differ. True is
            taken only when they are equal.
    scale   1 / sqrt(head_dim) if None.
    float32, float16 or bfloat16, on the CPU or on a GPU. return_lse: also log(sum(exp(scores))) as float32 [batch, heads, seqlen_q].
    """
    layout = layout or {3: "bnd", 4: "bhnd"}.get(q.dim())
    if layout not in ("bhnd", "bnhd", "bnd"):
        raise ValueError(f"layout {layout!r}: 'bhnd', 'bnhd' or 'bnd'")
    if any(t.dim() != len(layout) for t in (q, k, v)):
        raise ValueError(f"q, k and v have {q.dim()}, {k.dim()} and {v.dim()} dimensions, not those of '{layout}'")
    if q.dtype not in DTYPES or {q.dtype, k.dtype, v.dtype} != {q.dtype} or {k.device, v.device} != {q.device}:
        raise ValueError("q, k and v must have one device and one dtype: float32, float16 or bfloat16")
    q, k, v = (to_bhnd(t, layout) for t in (q, k, v))
    if k.shape != v.shape or (k.shape[0], k.shape[3]) != (q.shape[0], q.shape[3]):
        raise ValueError(f"shapes do not fit, as [B, H, N, D]: q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}")
    if causal is True:
        if q.shape[2] != k.shape[2]:
            raise ValueError(f"seqlen_q {q.shape[2]} is not seqlen_k {k.shape[2]}: say causal='top_left' or 'bottom_right'")
        causal = "top_left"
    o, lse = Attention.apply(q, k, v, MASKS[causal or "none"], float(scale if scale is not None else q.shape[3] ** -0.5))
    o = {"bhnd": o, "bnhd": o.transpose(1, 2), "bnd": o.squeeze(1)}[layout]
    return (o, lse) if return_lse else o
