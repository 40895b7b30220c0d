"""The rooms whose variants are simulated: folders of tests with a spec of their own, and the GPU variants that each tests."""

load("@bias_spec//:variants.bzl", _BIAS = "VARIANTS")
load("@glint_spec//:variants.bzl", _LIBRARY = "VARIANTS")
load("@intervals_spec//:variants.bzl", _INTERVALS = "VARIANTS")
load("@odd_spec//:variants.bzl", _ODD = "VARIANTS")
load("@parts_spec//:variants.bzl", _PARTS = "VARIANTS")
load("@sm90a_spec//:variants.bzl", _SM90A = "VARIANTS")
load("@step_spec//:variants.bzl", _STEP = "VARIANTS")
load("@trees_spec//:variants.bzl", _TREES = "VARIANTS")
load("@triangle_spec//:variants.bzl", _TRIANGLE = "VARIANTS")

def _of_gpus(variants, words = [""]):
    """Those of a GPU whose names have one of some words."""
    return [variant for variant in variants if variant["family"] != "cpu" and [word for word in words if word in variant["name"]]]

# By the packages of the tests; the library's own first.
ROOMS = {
    package: struct(variants = variants, spec = "@%s_spec//:spec" % spec)
    for package, spec, variants in [
        ("tests", "glint", _of_gpus(_LIBRARY)),
        ("tests/bias", "bias", _of_gpus(_BIAS, ["alibi", "tensor"])),
        ("tests/bias/triangle", "triangle", _of_gpus(_TRIANGLE, ["tensor"])),
        ("tests/intervals", "intervals", _of_gpus(_INTERVALS)),
        ("tests/odd", "odd", _of_gpus(_ODD)),
        ("tests/parts", "parts", _of_gpus(_PARTS)),
        ("tests/sm90a", "sm90a", _of_gpus(_SM90A)),
        ("tests/step", "step", _of_gpus(_STEP)),
        ("tests/trees", "trees", _of_gpus(_TREES, ["_tree_"])),
    ]
    if variants
}

def formats_only(variant, variants):
    """Does a GPU's variant run the checks of formats alone? A kernel of float16 is the text of bfloat16's but for one type,
    lib/device/element.h."""
    name = variant["name"]
    twin = name.replace("_f16_", "_bf16_")
    return variant["family"] != "cpu" and name != twin and bool([other for other in variants if other["name"] == twin])

def dealt_to(package, variant):
    """The label of the file that names the checks that a room's simulated variant runs.

    Args:
      package: of the tests
      variant: an element of VARIANTS
    """
    if package not in ROOMS or variant["name"] not in [other["name"] for other in ROOMS[package].variants]:
        fail("//%s tests %s, and tests/hostsim/deal/rooms.bzl has no such variant there" % (package, variant["name"]))
    return "//tests/hostsim/deal:%s/%s.checks" % (package, variant["name"])
