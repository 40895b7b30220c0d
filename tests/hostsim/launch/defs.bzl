"""Programs that plan and launch a kernel of their own, in the simulator and on a GPU."""

load("//tests/hostsim:hostsim.bzl", "simulated_kernel")
load("//tests/hostsim/ptx:ptx.bzl", "ptx_library")
load("//tools:cuda.bzl", "cuda_cubin")
load("//tools:defs.bzl", "glint_cc_binary", "glint_cc_test", "needs_nvcc", "not_cross", "without_sanitizer")
load("//tools:kernel.bzl", "glint_gpu_kernel")

def launch_program(name, test):
    """NAME.c with the kernel of NAME.cu: the test runs it in the simulator, TEST__ptx as nvcc compiles it, NAME_on_device on a GPU that runs sm_90a.

    Args:
      name: of both sources.
      test: name of the test.
    """
    simulated_kernel(
        name = name + "_simulated",
        source = name + ".cu",
        variant = {
            "name": name,
            "archs": ["90a"],
        },
    )
    cuda_cubin(
        name = name + "_cubin",
        src = name + ".cu",
        out = name,
        archs = ["90a"],
        hdrs = ["//lib:sm90a_headers"],
        target_compatible_with = needs_nvcc(),
    )
    glint_gpu_kernel(
        name = name,
        src = name + ".cu",
        cubins = name + "_cubin",
        target_compatible_with = needs_nvcc(),
    )
    ptx_library(
        name = name + "_ptx",
        src = name + ".cu",
        arch = "90a",
        hdrs = ["//lib:sm90a_headers"],
        symbols = ["glint_%s__sm90a_cubin" % name],
    )
    for end, kernel, compatible in [("", name + "_simulated", []), ("__ptx", name + "_ptx", needs_nvcc() + without_sanitizer())]:
        glint_cc_test(
            name = test + end,
            srcs = [
                name + ".c",
                "machine.h",
                "machine_hostsim.c",
            ],
            target_compatible_with = compatible + not_cross(),
            deps = [  # in the order of linking
                "//tests/hostsim:driver",
                "//lib:core",
                "//lib:cuda",
                kernel,
            ],
        )
    glint_cc_binary(
        name = name + "_on_device",
        testonly = True,
        srcs = [
            name + ".c",
            "machine.h",
            "machine_device.c",
        ],
        target_compatible_with = needs_nvcc() + not_cross(),
        deps = [  # in the order of linking
            "//tests/cuda:device",
            "//lib:core",
            "//lib:cuda",
            name,
        ],
    )
