"""What each GPU variant costs in the simulator: NAME.costs, for //generated:report.

    ./bazelw build //tests/hostsim/cost:fwd_bf16_d64_causal__sm80_m128n32
"""

load("@rules_cc//cc:defs.bzl", "cc_binary")
load("//tests/hostsim:hostsim.bzl", "simulated_library")
load("//tools:defs.bzl", "test_tables")

def _costs_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".costs")
    ctx.actions.run_shell(
        command = '"$1" "$2" >"$3"',
        arguments = [ctx.executable.program.path, ctx.label.name, out.path],
        tools = [ctx.executable.program],
        outputs = [out],
        mnemonic = "Costs",
        progress_message = "Counting what %s costs" % ctx.label.name,
    )
    return [DefaultInfo(files = depset([out]))]

_costs = rule(
    implementation = _costs_impl,
    attrs = {"program": attr.label(mandatory = True, executable = True, cfg = "target")},
)

def simulated_costs(variants):
    """One target a GPU variant, in this package.

    Args:
      variants: VARIANTS of a spec's repository
    """
    simulated = [variant for variant in variants if variant["family"] != "cpu"]
    test_tables("tables", {variant["name"] + "__table": [variant] for variant in simulated})
    for variant in simulated:
        name = variant["name"]
        simulated_library(
            name = name + "_library",
            table = name + "__table",
            tags = ["manual"],
            variants = [variant],
        )
        cc_binary(
            name = name + "_program",
            testonly = True,
            linkstatic = True,
            tags = ["manual"],
            deps = [ # in the order of linking
                ":measure",
                name + "_library",
            ],
        )
        _costs(
            name = name,
            testonly = True,
            program = name + "_program",
            tags = ["manual"],
            visibility = ["//visibility:public"],
        )
