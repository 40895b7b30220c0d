#!/usr/bin/env python3
"""The ONNX operator Attention's own node tests, as the `onnx` package writes them out, through Glint's C API.

    python3 tests/onnx/attention.py bazel-bin/tests/onnx/case

A test that asks for what Glint does not have is counted under its reason. One that Glint should have and refuses is a failure. Without the
package nothing is tested, and it says so."""
import math
import os
import subprocess
import sys
import tempfile
import warnings

FLOAT, INT64, FLOAT16, BFLOAT16 = 1, 7, 10, 16
DTYPES = {FLOAT: 1, FLOAT16: 2, BFLOAT16: 3}  # enum glint_dtype
NONE, CAUSAL_TOP_LEFT, CAUSAL_BOTTOM_RIGHT, BAND_TOP_LEFT, BAND_BOTTOM_RIGHT = 1, 2, 3, 4, 5


class NotHere(Exception):
    """What a test asks for that Glint does not have."""


def heads_of(tensor, heads):
    """[batch, heads, seqlen, head_dim] of an input, which may be [batch, seqlen, heads * head_dim]; and whether it was."""
    if tensor.ndim == 4:
        return tensor, False
    batch, rows, width = tensor.shape
    return tensor.reshape(batch, rows, heads, width // heads).transpose(0, 2, 1, 3), True


def run(program, test, node, work):
    """O of a test as Glint computes it, and what it should be."""
    import numpy
    import onnx

    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    inputs, outputs = test.data_sets[0]
    named = {}
    values = iter(inputs)
    for at, name in enumerate(node.input):
        if name:
            named["q k v attn_mask past_key past_value nonpad".split()[at]] = next(values)
    if "attn_mask" in named:
        raise NotHere("a mask or a bias as a tensor")
    if len(node.output) > 3 and node.output[3]:
        raise NotHere("scores as an output")
    q, flat = heads_of(named["q"], attributes.get("q_num_heads", 1))
    k, _ = heads_of(named["k"], attributes.get("kv_num_heads", 1))
    v, _ = heads_of(named["v"], attributes.get("kv_num_heads", 1))
    past = 0
    if "past_key" in named:  # the host appends
        past = named["past_key"].shape[2]
        k, v = numpy.concatenate([named["past_key"], k], axis=2), numpy.concatenate([named["past_value"], v], axis=2)
    if v.shape[3] != k.shape[3]:
        raise NotHere("values of another head dim than keys")
    if k.shape[3] % 8 != 0:
        raise NotHere("a head dim that is no multiple of 8")
    dtype = DTYPES[test.model.graph.input[0].type.tensor_type.elem_type]
    lengths = named.get("nonpad")

    # Query i stands at i + offset: 0 at first, what came before with a cache.
    bottom_right = lengths is not None or "past_key" in named
    if bottom_right and lengths is None and past != k.shape[2] - q.shape[2]:
        raise NotHere("queries that are not the last keys'")
    left, right = attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)
    causal = attributes.get("is_causal", 0)
    mask = NONE
    if left >= 0 or right >= 0:
        mask, right = (BAND_BOTTOM_RIGHT if bottom_right else BAND_TOP_LEFT), 0 if causal else right
    elif causal:
        mask = CAUSAL_BOTTOM_RIGHT if bottom_right else CAUSAL_TOP_LEFT
    band = mask in (BAND_TOP_LEFT, BAND_BOTTOM_RIGHT)

    batch, heads_q, rows, dim = q.shape
    words = {"layout": "bshd" if flat else "bhsd", "dtype": dtype, "batch": batch, "heads_q": heads_q, "heads_kv": k.shape[1], "head_dim": dim,
             "seqlen_q": rows, "seqlen_k": k.shape[2], "mask": mask, "window_left": left if band else 0, "window_right": right if band else 0,
             "softmax_scale": repr(float(attributes.get("scale", 0)) or 1 / math.sqrt(dim)), "softcap": repr(float(attributes.get("softcap", 0))),
             "lengths": int(lengths is not None)}
    there, back = os.path.join(work, "in"), os.path.join(work, "out")
    with open(there, "wb") as file:
        file.write((" ".join(f"{name}={value}" for name, value in words.items()) + "\n").encode())
        for tensor in (q, k, v):
            file.write(numpy.ascontiguousarray(tensor.transpose(0, 2, 1, 3) if flat else tensor).tobytes())
        if lengths is not None:
            file.write(lengths.astype(numpy.int32).tobytes())
    said = subprocess.run([program, there, back], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if said.returncode != 0:
        raise AssertionError(said.stdout.decode().strip())
    shape = (batch, rows, heads_q, dim) if flat else (batch, heads_q, rows, dim)
    return numpy.fromfile(back, dtype=q.dtype, count=q.size).reshape(shape).reshape(outputs[0].shape), outputs[0]


def main():
    program = os.path.abspath(sys.argv[1])
    try:
        warnings.simplefilter("ignore")
        import numpy
        import onnx
        from onnx.backend.test.loader import load_model_tests
    except ImportError as missing:
        print(f"skipped: {missing}")
        return 0

    passed, reasons, failed = [], {}, 0
    with tempfile.TemporaryDirectory() as work, numpy.errstate(all="ignore"):
        for test in load_model_tests(kind="node"):
            nodes = test.model.graph.node if test.model else []
            if len(nodes) != 1 or nodes[0].op_type != "Attention":
                continue
            name = test.name[len("test_attention_"):]
            try:
                have, want = run(program, test, nodes[0], work)
                have, want = have.astype(numpy.float64), want.astype(numpy.float64)
                # The reference rounds what is between to the type as well: two units in its last place.
                unit = {FLOAT16: 2.0**-9, BFLOAT16: 2.0**-6}.get(test.model.graph.input[0].type.tensor_type.elem_type, 0.0)
                if not numpy.allclose(have, want, rtol=max(test.rtol, unit), atol=max(test.atol, 1e-6), equal_nan=True):
                    raise AssertionError(f"off by {numpy.abs(have - want).max():.3g}")
                passed.append(name)
            except NotHere as reason:
                reasons.setdefault(str(reason), []).append(name)
            except AssertionError as fault:
                failed += 1
                print(f"FAILED {name}: {fault}")
    for reason, names in sorted(reasons.items()):
        print(f"not applicable, {reason}: {len(names)} ({', '.join(names)})")
    print(f"onnx {onnx.__version__}: {len(passed)} passed ({', '.join(passed)}), {failed} failed")
    return int(failed > 0 or not passed)


if __name__ == "__main__":
    sys.exit(main())
