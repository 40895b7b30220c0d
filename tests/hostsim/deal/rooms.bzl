"""The rooms whose checks are dealt: folders of tests with a spec of their own, and the variants that each tests."""

load("@bias_spec//:variants.bzl", _BIAS = "VARIANTS")
load("@glint_spec//:variants.bzl", _LIBRARY = "VARIANTS")
load("@intervals_spec//:variants.bzl", _INTERVALS = "VARIANTS")
load("@odd_spec//:variants.bzl", _ODD = "VARIANTS")
load("@parts_spec//:variants.bzl", _PARTS = "VARIANTS")
load("@sm90a_spec//:variants.bzl", _SM90A = "VARIANTS")
load("@step_spec//:variants.bzl", _STEP = "VARIANTS")
load("@trees_spec//:variants.bzl", _TREES = "VARIANTS")
load("@triangle_spec//:variants.bzl", _TRIANGLE = "VARIANTS")

# The tests of each spec, and the words of which the names of their variants have one; the library's own first.
_SPECS = [
    ("tests", "glint", _LIBRARY, [""]),
    ("tests/bias", "bias", _BIAS, ["alibi", "tensor"]),
    ("tests/bias/triangle", "triangle", _TRIANGLE, ["tensor"]),
    ("tests/intervals", "intervals", _INTERVALS, [""]),
    ("tests/odd", "odd", _ODD, [""]),
    ("tests/parts", "parts", _PARTS, [""]),
    ("tests/sm90a", "sm90a", _SM90A, [""]),
    ("tests/step", "step", _STEP, [""]),
    ("tests/trees", "trees", _TREES, ["_tree_"]),
]

def _rooms(of_cpus):
    rooms = {
        package: struct(
            spec = "@%s_spec//:spec" % spec,
            variants = [
                variant
                for variant in variants
                if (variant["family"] == "cpu") == of_cpus and [word for word in words if word in variant["name"]]
            ],
        )
        for package, spec, variants, words in _SPECS
    }
    return {package: room for package, room in rooms.items() if room.variants}

# By the packages of the tests: those whose GPU variants are simulated, and those that test variants of CPUs.
ROOMS = _rooms(of_cpus = False)
CPU_ROOMS = _rooms(of_cpus = True)

def formats_only(variant, variants):
    """Does a GPU's variant run the checks of formats alone? A kernel of float16 is the text of bfloat16's but for one type,
    lib/device/element.h."""
    name = variant["name"]
    twin = name.replace("_f16_", "_bf16_")
    return variant["family"] != "cpu" and name != twin and bool([other for other in variants if other["name"] == twin])

def dealt_to(package, variant):
    """The label of the file that names the checks that a room's variant runs, on a CPU or simulated; None for a CPU's in no room.

    Args:
      package: of the tests
      variant: an element of VARIANTS
    """
    of_cpu = variant["family"] == "cpu"
    rooms = CPU_ROOMS if of_cpu else ROOMS
    if package not in rooms or variant["name"] not in [other["name"] for other in rooms[package].variants]:
        if of_cpu:
            return None
        fail("//%s tests %s, and tests/hostsim/deal/rooms.bzl has no such variant there" % (package, variant["name"]))
    return "//tests/hostsim/deal:%s%s/%s.checks" % ("cpu/" if of_cpu else "", package, variant["name"])
