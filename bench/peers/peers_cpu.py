#!/usr/bin/env python3
"""Times PyTorch's and onnxruntime's CPU attention beside Glint's, on the same shapes, in turn.

    ./bazelw build //bench:glint_bench
    python3 -m venv peers && peers/bin/pip install numpy onnxruntime torch
    peers/bin/python bench/peers/peers_cpu.py --csv bench/results/cpu.csv
    peers/bin/python bench/peers/peers_cpu.py --dtype bf16 --head-dim 64,128,256 --csv bench/results/cpu_bf16.csv
    peers/bin/python bench/peers/peers_cpu.py --decode --ggml DIR --csv bench/results/cpu_decode.csv

Either peer may be missing: what is installed is measured. Every repetition visits every cell, and in a cell every implementation, in
an order that rotates, so that a slow minute of the machine is shared by all of them. A line says which instruction set Glint used, and for
bf16, where there is AMX, it is another one: geometric means by instruction set, pass and mask follow the table. Glint runs in a process of its own, as a
stopwatch that answers one request a line (glint_bench --serve). Inputs are [batch, seqlen, heads, head_dim] for all.

--decode is one query a sequence against a cache of keys and values, [batch, heads, keys, head_dim] for all. The peers are then PyTorch's
scaled_dot_product_attention with enable_gqa, onnxruntime's GroupQueryAttention, whose cache is updated in place, and ggml's
ggml_flash_attn_ext when --ggml names a folder with its shared libraries. --kv-dtype i8 is a cache of int8 with a float32 scale a row, which
the spec must list (kv_dtypes); ggml's is then q8_0, int8 with an f16 scale for 32 elements, and the others have none.
"""

import argparse
import csv
import ctypes
import itertools
import math
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import time

import numpy as np

COLUMNS = ["impl", "variant", "pass", "dtype", "head_dim", "mask", "seqlen_q", "seqlen_k", "batch", "heads_q", "heads_kv", "threads",
           "ms", "tflops"]
DECODE_COLUMNS = ["layout", "gbytes_s", "of_read"]  # as glint_bench --decode; of_read is empty here


class Cell:
    """One shape, pass, mask and number of threads."""

    layout = "bshd"
    kv_dtype = "same"  # K and V are stored as the rest

    def __init__(self, pass_name, dtype, head_dim, mask, seqlen, batch, heads, threads):
        self.pass_name, self.dtype, self.head_dim, self.mask = pass_name, dtype, head_dim, mask
        self.seqlen, self.batch, self.heads, self.threads = seqlen, batch, heads, threads
        self.queries, self.heads_kv = seqlen, heads

    def request(self):
        s = self
        return (f"{s.pass_name} {s.dtype} {s.head_dim} {s.mask} {s.queries} {s.seqlen} {s.batch} {s.heads} {s.heads_kv} {s.threads} "
                f"{s.layout}")

    def name(self):
        s = self
        return f"{s.pass_name} {s.dtype} d{s.head_dim} {s.mask:6} S={s.seqlen:<5} {s.threads} threads"

    def row(self):
        s = self
        return [s.pass_name, s.dtype, s.head_dim, s.mask, s.queries, s.seqlen, s.batch, s.heads, s.heads_kv, s.threads]

    def tflops(self, ms):
        flops = 4.0 * self.batch * self.heads * self.seqlen * self.seqlen * self.head_dim
        flops *= (2.5 if self.pass_name == "bwd" else 1.0) * (0.5 if self.mask == "causal" else 1.0)
        return flops / ms * 1e-9


class DecodeCell(Cell):
    """One query a sequence against `keys` keys of a cache."""

    layout = "bhsd"

    def __init__(self, dtype, kv_dtype, head_dim, keys, batch, heads, heads_kv, threads):
        super().__init__("fwd", dtype, head_dim, "none", keys, batch, heads, threads)
        self.queries, self.heads_kv, self.kv_dtype = 1, heads_kv, kv_dtype

    def request(self):
        return f"{super().request()} {self.kv_dtype}"

    def stored(self):
        return self.dtype if self.kv_dtype == "same" else f"{self.dtype}/{self.kv_dtype}"

    def row(self):
        before, _, *after = super().row()
        return [before, self.stored(), *after]

    def name(self):
        s = self
        return f"{s.stored():7} d{s.head_dim:<3} {s.heads}:{s.heads_kv} heads, {s.seqlen} keys, {s.threads} threads"

    def kv_bytes(self):
        """Of K and V, and of the scale of a row where they are int8."""
        row = self.head_dim * (4 if self.dtype == "f32" else 2) if self.kv_dtype == "same" else self.head_dim + 4
        return 2 * self.batch * self.heads_kv * self.seqlen * row

    def tflops(self, ms):
        return 4e-9 * self.batch * self.heads * self.seqlen * self.head_dim / ms


def time_calls(call, least_ms, warm):
    """Milliseconds of one call, averaged over as many as last least_ms, after one that is not counted when warm is asked for."""
    if warm:
        call()
    calls, start = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        took = 1e3 * (time.perf_counter() - start)
        if took >= least_ms:
            return took / calls


def reference(q, k, v, causal):
    """Attention of the last head of the last batch in float64; q, k, v are [batch, seqlen, heads, head_dim]."""
    q, k, v = (x[-1, :, -1, :].astype(np.float64) for x in (q, k, v))
    scores = q @ k.T / math.sqrt(q.shape[1])
    if causal:
        scores[np.triu_indices(len(q), 1)] = -np.inf
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True) @ v


def make_inputs(cell):
    random = np.random.default_rng(0)
    shape = (cell.batch, cell.seqlen, cell.heads, cell.head_dim)
    return [random.standard_normal(shape, dtype=np.float32) for _ in range(4)]


class Cache:
    """Random K and V of decode's cells: a block of memory a dtype, of which all cells and peers use the start. bf16 is torch's own."""

    def __init__(self):
        self.block = {}

    def get(self, cell, dtype):
        count = cell.batch * cell.heads_kv * cell.seqlen * cell.head_dim
        random = np.random.default_rng(0)
        if dtype not in self.block or self.block[dtype][0].size < count:
            self.block[dtype] = [random.standard_normal(count, dtype=np.float32).astype(dtype) for _ in range(2)]
        q = random.standard_normal((cell.batch, cell.heads, 1, cell.head_dim), dtype=np.float32).astype(dtype)
        return q, *(x[:count].reshape(cell.batch, cell.heads_kv, cell.seqlen, cell.head_dim) for x in self.block[dtype])


def check_decode(name, cell, out, q, k, v):
    """The last head of the last batch against float64, loosely: ggml adds up in f16. The last row of `out` is that head's."""
    q, k, v = (np.asarray(x[-1, -1], np.float64) for x in (q, k, v))
    weights = np.exp(k @ q[0] / math.sqrt(cell.head_dim))
    want = weights @ v / weights.sum()
    got = np.asarray(out, np.float64).reshape(-1, cell.head_dim)[-1]
    error = np.abs(got - want).max() / np.abs(want).max()
    limit = {"f32": 1e-4, "f16": 3e-2, "bf16": 5e-2}[cell.dtype] if cell.kv_dtype == "same" else 5e-2
    assert error < limit, f"{name} differs by {error:.1e} of the largest element"


class Glint:
    name = "glint"

    def __init__(self, program, least_ms, isa):
        self.process = subprocess.Popen([program, "--serve", "--least-ms", str(least_ms), "--isa", isa], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)

    def supports(self, cell):
        return True

    def sample(self, cell):
        self.process.stdin.write(cell.request() + "\n")
        variant, _, answer = self.process.stdout.readline().strip().partition(" ")
        if variant in ("error", ""):
            raise RuntimeError(f"glint: {answer or 'the stopwatch stopped'}")
        return variant, float(answer)


class Torch:
    name = "pytorch"

    def __init__(self, least_ms, cache):
        import torch

        self.torch, self.least_ms, self.cache, self.calls, self.last = torch, least_ms, cache, {}, {}
        self.bf16 = {}
        self.version = torch.__version__

    def supports(self, cell):
        return cell.kv_dtype == "same"

    def prepare_decode(self, cell):
        torch = self.torch
        q, k, v = (torch.from_numpy(x) for x in self.cache.get(cell, np.float32 if cell.dtype == "f32" else np.float16))
        if cell.dtype == "bf16":  # the same block, converted once and again when it grew
            for name, x in (("k", k), ("v", v)):
                if name not in self.bf16 or self.bf16[name].numel() < x.numel():
                    self.bf16[name] = x.to(torch.bfloat16).flatten()
            q = q.to(torch.bfloat16)
            k, v = (self.bf16[name][:x.numel()].view(x.shape) for name, x in (("k", k), ("v", v)))

        def forward():
            with torch.no_grad():
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=cell.heads != cell.heads_kv)

        check_decode(self.name, cell, forward().double().numpy(), *(x[-1:, -1:].double().numpy() for x in (q, k, v)))
        return forward

    def prepare(self, cell):
        if isinstance(cell, DecodeCell):
            return self.prepare_decode(cell)
        torch = self.torch
        dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[cell.dtype]
        backward = cell.pass_name == "bwd"
        arrays = make_inputs(cell)
        q, k, v, dout = (torch.from_numpy(a).to(dtype).transpose(1, 2).requires_grad_(backward) for a in arrays)
        attention = torch.nn.functional.scaled_dot_product_attention
        causal = cell.mask == "causal"
        out = attention(q, k, v, is_causal=causal)
        if cell.dtype == "f32" and cell.seqlen <= 512:
            error = np.abs(out[-1, -1].detach().numpy() - reference(*arrays[:3], causal)).max()
            assert error < 1e-4, f"pytorch differs by {error}"
        if backward:
            return lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

        def forward():
            with torch.no_grad():
                attention(q, k, v, is_causal=causal)

        return forward

    def sample(self, cell):
        self.torch.set_num_threads(cell.threads)
        call = self.calls.get(cell) or self.calls.setdefault(cell, self.prepare(cell))
        ms = time_calls(call, self.least_ms, self.last.get(cell, 0) < self.least_ms)
        self.last[cell] = ms
        return "scaled_dot_product_attention", ms


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    """One field of a protocol buffer: an int as varint, a float as 32 bits, everything else as bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


ONNX_TYPES = {"f32": 1, "i32": 6, "f16": 10}


def onnx_model(operator, domain, attributes, inputs, outputs):
    """An ONNX model of one node, as bytes, without the onnx package; inputs and outputs are {name: (dtype, shape)}."""

    def value(name, dtype, shape):
        dims = b"".join(field(1, field(1, n)) for n in shape)
        return field(1, name) + field(2, field(1, field(1, ONNX_TYPES[dtype]) + field(2, dims)))

    node = b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs)
    node += field(4, operator) + field(7, domain)
    for name, number in attributes.items():
        kind, slot = (1, 2) if isinstance(number, float) else (2, 3)
        node += field(5, field(1, name) + field(slot, number) + field(20, kind))
    graph = field(1, node) + field(2, "attention")
    graph += b"".join(field(11, value(name, *what)) for name, what in inputs.items())
    graph += b"".join(field(12, value(name, *what)) for name, what in outputs.items())
    opsets = field(8, field(1, "") + field(2, 23)) + field(8, field(1, "com.microsoft") + field(2, 1))
    return field(1, 10) + field(7, graph) + opsets


class Onnxruntime:
    """One operator of onnxruntime: its own MultiHeadAttention, or ONNX's Attention of operator set 23. Forward, float32."""

    def __init__(self, operator, least_ms):
        import onnxruntime

        self.runtime, self.operator, self.least_ms = onnxruntime, operator, least_ms
        self.name = "onnxruntime" if operator == "MultiHeadAttention" else "onnxruntime_attention23"
        self.version, self.calls, self.last = onnxruntime.__version__, {}, {}

    def supports(self, cell):
        return cell.pass_name == "fwd" and cell.dtype == "f32"

    def session(self, model, threads):
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        # Its threads spin while it works, as they like to, and stop when it is done: they must not run into the others'
        # time.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        return self.runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def prepare(self, cell):
        causal = cell.mask == "causal"
        shape = (cell.batch, cell.seqlen, cell.heads * cell.head_dim)
        if self.operator == "MultiHeadAttention":
            domain, attributes = "com.microsoft", {"num_heads": cell.heads, "unidirectional": int(causal)}
        else:
            domain, attributes = "", {"q_num_heads": cell.heads, "kv_num_heads": cell.heads, "is_causal": int(causal)}
        model = onnx_model(self.operator, domain, attributes, {name: ("f32", shape) for name in "qkv"}, {"o": ("f32", shape)})
        session = self.session(model, cell.threads)
        arrays = make_inputs(cell)[:3]
        binding = session.io_binding()
        for name, array in zip("qkv", arrays):
            binding.bind_ortvalue_input(name, self.runtime.OrtValue.ortvalue_from_numpy(array.reshape(shape)))
        out = self.runtime.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
        binding.bind_ortvalue_output("o", out)
        session.run_with_iobinding(binding)
        if cell.seqlen <= 512:
            got = out.numpy().reshape(arrays[0].shape)[-1, :, -1, :]
            error = np.abs(got - reference(*arrays, causal)).max()
            assert error < 1e-4, f"{self.name} differs by {error}"
        return lambda: session.run_with_iobinding(binding)

    def sample(self, cell):
        call = self.calls.get(cell) or self.calls.setdefault(cell, self.prepare(cell))
        ms = time_calls(call, self.least_ms, self.last.get(cell, 0) < self.least_ms)
        self.last[cell] = ms
        return self.operator, ms


class OnnxruntimeDecode(Onnxruntime):
    """GroupQueryAttention with a cache of fixed size in place: the step writes its own key, the last one, where it lies already."""

    def __init__(self, least_ms, cache):
        super().__init__("GroupQueryAttention", least_ms)
        self.name, self.cache = "onnxruntime", cache

    def supports(self, cell):
        return cell.dtype in ("f32", "f16") and cell.kv_dtype == "same"

    def prepare(self, cell):
        q, k, v = self.cache.get(cell, np.float32 if cell.dtype == "f32" else np.float16)
        step, kept = ((cell.batch, 1, heads * cell.head_dim) for heads in (cell.heads, cell.heads_kv))
        arrays = {"q": q.reshape(step), "k": k[:, :, -1].reshape(kept), "v": v[:, :, -1].reshape(kept), "past_k": k, "past_v": v,
                  "last": np.full(cell.batch, cell.seqlen - 1, np.int32), "total": np.array([cell.seqlen], np.int32)}
        inputs = {name: ("i32" if x.dtype == np.int32 else cell.dtype, x.shape) for name, x in arrays.items()}
        outputs = {"o": (cell.dtype, step), "present_k": (cell.dtype, k.shape), "present_v": (cell.dtype, v.shape)}
        attributes = {"num_heads": cell.heads, "kv_num_heads": cell.heads_kv}
        session = self.session(onnx_model(self.operator, "com.microsoft", attributes, inputs, outputs), cell.threads)
        values = {name: self.runtime.OrtValue.ortvalue_from_numpy(x) for name, x in arrays.items()}
        out = self.runtime.OrtValue.ortvalue_from_numpy(np.zeros(step, q.dtype))
        binding = session.io_binding()
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_ortvalue_output("o", out)
        binding.bind_ortvalue_output("present_k", values["past_k"])
        binding.bind_ortvalue_output("present_v", values["past_v"])
        session.run_with_iobinding(binding)
        check_decode(self.name, cell, out.numpy(), q, k, v)
        return lambda: session.run_with_iobinding(binding)


class Ggml:
    """ggml's attention with a cache in f16 or q8_0: its queries and results are f32. `folder` has libggml-base.so and libggml-cpu.so."""

    name = "ggml"

    class Parameters(ctypes.Structure):  # struct ggml_init_params
        _fields_ = [("bytes", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]

    def __init__(self, folder, least_ms, cache):
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self.least_ms, self.cache, self.calls, self.last = least_ms, cache, {}, {}
        ctypes.CDLL(os.path.join(folder, "libggml-base.so"), ctypes.RTLD_GLOBAL)
        self.cpu = ctypes.CDLL(os.path.join(folder, "libggml-cpu.so"))
        for name, result, arguments in (
                ("ggml_init", pointer, [self.Parameters]), ("ggml_get_data", pointer, [pointer]), ("ggml_new_graph", pointer, [pointer]),
                ("ggml_new_tensor_4d", pointer, [pointer, ctypes.c_int] + 4 * [number]),
                ("ggml_flash_attn_ext", pointer, 5 * [pointer] + 3 * [ctypes.c_float]),
                ("ggml_build_forward_expand", None, 2 * [pointer]), ("ggml_version", ctypes.c_char_p, []),
                ("ggml_nbytes", ctypes.c_size_t, [pointer]),
                ("ggml_quantize_chunk", ctypes.c_size_t, [ctypes.c_int, pointer, pointer] + 3 * [number] + [pointer]),
                ("ggml_threadpool_params_init", None, [pointer, ctypes.c_int]), ("ggml_backend_graph_compute", ctypes.c_int, 2 * [pointer]),
                ("ggml_threadpool_new", pointer, [pointer]), ("ggml_threadpool_pause", None, [pointer]),
                ("ggml_threadpool_resume", None, [pointer]), ("ggml_backend_cpu_init", pointer, []),
                ("ggml_backend_cpu_set_n_threads", None, [pointer, ctypes.c_int]),
                ("ggml_backend_cpu_set_threadpool", None, 2 * [pointer])):
            function = getattr(self.cpu, name)  # which finds those of libggml-base.so too
            function.restype, function.argtypes = result, arguments
        self.version, self.backends = self.cpu.ggml_version().decode(), {}

    def backend(self, threads):
        """A backend with a pool of threads that stays, and the pool."""
        if threads not in self.backends:
            parameters = ctypes.create_string_buffer(1 << 16)  # struct ggml_threadpool_params, whatever its size
            self.cpu.ggml_threadpool_params_init(parameters, threads)
            pool, backend = self.cpu.ggml_threadpool_new(parameters), self.cpu.ggml_backend_cpu_init()
            self.cpu.ggml_backend_cpu_set_n_threads(backend, threads)
            self.cpu.ggml_backend_cpu_set_threadpool(backend, pool)
            self.backends[threads] = backend, pool
        return self.backends[threads]

    def supports(self, cell):
        return cell.kv_dtype == "i8" or cell.dtype == "f16"

    def prepare(self, cell):
        base, (q, k, v) = self.cpu, self.cache.get(cell, np.float16)
        q = q.astype(np.float32)
        # Its own memory, for the tensors, the graph and what a call needs beside them.
        context = base.ggml_init(self.Parameters(k.nbytes + v.nbytes + (64 << 20), None, False))
        if not context:
            raise RuntimeError("no memory for a context of ggml")
        tensors = []
        cached = 1 if cell.kv_dtype == "same" else 8
        for kind, x in ((0, q), (cached, k), (cached, v)):  # GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0
            tensors.append(base.ggml_new_tensor_4d(context, kind, *reversed(x.shape)))
            data = base.ggml_get_data(tensors[-1])
            if kind == 8:
                wide = x.astype(np.float32)
                base.ggml_quantize_chunk(kind, wide.ctypes.data, data, 0, wide.size // cell.head_dim, cell.head_dim, None)
            else:
                ctypes.memmove(data, x.ctypes.data, x.nbytes)
        out = base.ggml_flash_attn_ext(context, *tensors, None, 1 / math.sqrt(cell.head_dim), 0, 0)
        graph = base.ggml_new_graph(context)
        base.ggml_build_forward_expand(graph, out)

        def forward():
            status = base.ggml_backend_graph_compute(self.backend(cell.threads)[0], graph)
            assert status == 0, f"ggml's status is {status}"

        forward()
        got = np.ctypeslib.as_array((ctypes.c_float * q.size).from_address(base.ggml_get_data(out)))
        check_decode(self.name, cell, got, q, k, v)
        return forward

    def sample(self, cell):
        pool = self.backend(cell.threads)[1]
        self.cpu.ggml_threadpool_resume(pool)
        call = self.calls.get(cell) or self.calls.setdefault(cell, self.prepare(cell))
        ms = time_calls(call, self.least_ms, self.last.get(cell, 0) < self.least_ms)
        self.cpu.ggml_threadpool_pause(pool)  # else its threads spin into the others' time
        self.last[cell] = ms
        return "ggml_flash_attn_ext", ms


def find_peers(arguments):
    """What is installed; a missing peer is said once."""
    cache = Cache()
    makers = [("torch", lambda: Torch(arguments.least_ms, cache))]
    if arguments.decode:
        makers.append(("onnxruntime", lambda: OnnxruntimeDecode(arguments.least_ms, cache)))
        if arguments.ggml:
            makers.append(("ggml", lambda: Ggml(arguments.ggml, arguments.least_ms, cache)))
    else:
        makers += [("onnxruntime", lambda: Onnxruntime("MultiHeadAttention", arguments.least_ms)),
                   ("onnxruntime", lambda: Onnxruntime("Attention", arguments.least_ms))]
    peers = []
    for package, make in makers:
        if package in arguments.without:
            continue
        try:
            peers.append(make())
            print(f"{peers[-1].name} {peers[-1].version}", file=sys.stderr)
        except (ImportError, OSError) as error:
            print(f"{package} is not installed here and is left out: {error}", file=sys.stderr)
    return peers


def measure(arguments, implementations, cells):
    """{(implementation's name, cell): [variant, [ms, ...]]}"""
    results, started, told = {}, time.monotonic(), 0.0
    for rep in range(arguments.reps):
        for number, cell in enumerate(cells if rep % 2 == 0 else reversed(cells)):
            able = [one for one in implementations if one.supports(cell)]
            for turn in range(len(able)):
                one = able[(turn + rep + number) % len(able)]
                time.sleep(0.01)  # the threads of the one before come to rest
                try:
                    variant, ms = one.sample(cell)
                except Exception as error:  # a peer that cannot do a cell costs that cell only
                    if one.name == "glint":
                        raise
                    print(f"{one.name}: {cell.name()}: {str(error).splitlines()[0]}", file=sys.stderr)
                    one.supports = lambda other, bad=cell, before=one.supports: other is not bad and before(other)
                    continue
                results.setdefault((one.name, cell), [variant, []])[1].append(ms)
            if time.monotonic() - told > 5:
                told = time.monotonic()
                share = (rep + (number + 1) / len(cells)) / arguments.reps
                print(f"repetition {rep + 1} of {arguments.reps}, cell {number + 1} of {len(cells)}, "
                      f"about {(told - started) * (1 / share - 1):.0f} s left", file=sys.stderr)
    return results


def isa_of(variant):
    """The instruction set in the name of one of Glint's variants."""
    found = re.search(r"__cpu_(\w+)_m\d+n\d+$", variant)
    return found[1] if found else variant


def print_means(results, cells, names):
    """Geometric means and the least of a peer's time over Glint's, by what Glint's kernel is."""
    groups = {}
    for name in names:
        for cell in cells:
            if (name, cell) in results:
                variant, ours = results["glint", cell]
                key = isa_of(variant), cell.dtype, cell.pass_name, cell.mask, name
                groups.setdefault(key, []).append(statistics.median(results[name, cell][1]) / statistics.median(ours))
    print()
    for (isa, dtype, pass_name, mask, name), ratios in sorted(groups.items()):
        print(f"{isa:10} {dtype:4} {pass_name} {mask:6} {name + ' / glint':32} geometric mean {statistics.geometric_mean(ratios):5.2f}, "
              f"least {min(ratios):5.2f}, of {len(ratios)}")


def report(results, cells, names):
    speed = f" {'GB/s':>8}" if isinstance(cells[0], DecodeCell) else ""
    print(f"\n{'':46} {'glint on':>10} {'ms':>10}{speed}" + "".join(f"{name + ' / glint':>32}" for name in names))
    worst = None
    for cell in cells:
        ours = statistics.median(results["glint", cell][1])
        line = f"{cell.name():46} {isa_of(results['glint', cell][0]):>10} {ours:10.4f}"
        if isinstance(cell, DecodeCell):
            line += f" {1e-6 * cell.kv_bytes() / ours:8.1f}"
        for name in names:
            if (name, cell) not in results:
                line += f"{'-':>32}"
                continue
            ratio = statistics.median(results[name, cell][1]) / ours
            line += f"{ratio:32.2f}"
            if worst is None or ratio < worst[0]:
                worst = ratio, name, cell
        print(line)
    ratios = [statistics.median(results[name, cell][1]) / statistics.median(results["glint", cell][1])
              for name in names for cell in cells if (name, cell) in results]
    print_means(results, cells, names)
    if ratios:
        print(f"\nglint is ahead in {sum(r > 1 for r in ratios)} of {len(ratios)} comparisons; "
              f"the closest: {worst[1]} / glint = {worst[0]:.2f} in {worst[2].name()}")


def write_csv(path, results):
    with open(path, "w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        decode = any(isinstance(cell, DecodeCell) for _, cell in results)
        writer.writerow(COLUMNS + (DECODE_COLUMNS if decode else []))
        for (name, cell), (variant, samples) in results.items():
            ms = statistics.median(samples)
            row = [name, variant, *cell.row(), f"{ms:.6f}", f"{cell.tflops(ms):.6f}"]
            writer.writerow(row + ([cell.layout, f"{1e-6 * cell.kv_bytes() / ms:.3f}", ""] if decode else []))


def main():
    def integers(text):
        return [int(word) for word in text.split(",")]

    def words(text):
        return text.split(",")

    def groups(text):
        return [tuple(int(heads) for heads in word.split(":")) for word in words(text)]

    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glint", default=str(root / "bazel-bin/bench/glint_bench"), help="the benchmark's program (%(default)s)")
    parser.add_argument("--decode", action="store_true", help="one query a sequence against a cache; --seqlen lists its keys")
    parser.add_argument("--pass", dest="passes", type=words, default=["fwd", "bwd"])
    parser.add_argument("--dtype", type=words, help="(f32; with --decode f32,f16,bf16)")
    parser.add_argument("--kv-dtype", type=words, help="with --decode: same, i8 (same)")
    parser.add_argument("--head-dim", type=integers, default=[64, 128])
    parser.add_argument("--mask", type=words, default=["none", "causal"])
    parser.add_argument("--seqlen", type=integers, help="(128,512,2048; with --decode 1024,8192,32768)")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=groups, help="(8; with --decode query heads and key heads: 32:8,32:32,8:1)")
    parser.add_argument("--threads", type=integers, default=[1, 2])
    parser.add_argument("--isa", default="best", help="of glint_bench. With x86_64_v3 PyTorch, too, is kept to AVX2; onnxruntime and ggml "
                        "take what the CPU has")
    parser.add_argument("--reps", type=int, default=7, help="repetitions; the median counts (%(default)s)")
    parser.add_argument("--least-ms", type=int, default=20, help="milliseconds that a repetition lasts at least (%(default)s)")
    parser.add_argument("--without", type=words, default=[], help="peers to leave out: torch,onnxruntime")
    parser.add_argument("--ggml", help="with --decode: the folder of ggml's shared libraries")
    parser.add_argument("--csv", help="write the results to this file")
    arguments = parser.parse_args()
    if not os.access(arguments.glint, os.X_OK):
        sys.exit(f"{arguments.glint} is not there: ./bazelw build //bench:glint_bench, or name it with --glint")

    dtypes = arguments.dtype or (["f32", "f16", "bf16"] if arguments.decode else ["f32"])
    seqlens = arguments.seqlen or ([1024, 8192, 32768] if arguments.decode else [128, 512, 2048])
    heads = arguments.heads or ([(32, 8), (32, 32), (8, 1)] if arguments.decode else [(8,)])
    if any(len(group) != 1 + arguments.decode for group in heads):
        parser.error("--heads: with --decode give query heads and key heads, such as 32:8; without it query heads, such as 8")
    if not arguments.decode and arguments.kv_dtype:
        parser.error("--kv-dtype is of --decode")
    if any(word not in ("same", "i8") for word in arguments.kv_dtype or []):
        parser.error("--kv-dtype: same or i8")
    if arguments.decode:
        cells = [DecodeCell(t, k, d, s, arguments.batch, *h, n)
                 for n, t, k, d, h, s in itertools.product(arguments.threads, dtypes, arguments.kv_dtype or ["same"], arguments.head_dim,
                                                           heads, seqlens)]
        # The largest first, so that the shared cache is made once.
        cells.sort(key=lambda cell: -cell.heads_kv * cell.seqlen * cell.head_dim)
    else:
        cells = [Cell(p, t, d, m, s, arguments.batch, h[0], n)
                 for n, t, d, m, p, s, h in itertools.product(arguments.threads, dtypes, arguments.head_dim, arguments.mask,
                                                              arguments.passes, seqlens, heads)]
    if arguments.isa == "x86_64_v3":  # read when they are loaded: PyTorch's own kernels, oneDNN, MKL
        os.environ |= {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    peers = find_peers(arguments)
    results = measure(arguments, [Glint(arguments.glint, arguments.least_ms, arguments.isa), *peers], cells)
    report(results, cells, [peer.name for peer in peers])
    if arguments.csv:
        write_csv(arguments.csv, results)
        print(f"written: {arguments.csv}")


if __name__ == "__main__":
    main()
