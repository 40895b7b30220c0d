"""Builds and runs every mutation of mutations.bzl, and tests that each became what it should."""

load("//tests/hostsim:hostsim.bzl", "simulated_kernel")
load("//tools:defs.bzl", "glint_cc_binary", "not_cross", "test_tables", "without_sanitizer")
load("//tools:kernel.bzl", "glint_emit_all")
load(":mutations.bzl", "BACKWARD_CASES", "CAPPED_CASES", "DECODE_CASES", "FORWARD_CASES", "FULL_CASES", "WINDOW_CASES")

_LUA = {"_lua": attr.label(default = "@lua//:lua", allow_single_file = True, executable = True, cfg = "exec")}

def _mutated_impl(ctx):
    ctx.actions.run(
        executable = ctx.executable._lua,
        arguments = [ctx.file._apply.path, ctx.file.src.path, ctx.outputs.out.path, str(ctx.attr.count), ctx.attr.was, ctx.attr.now],
        inputs = [ctx.file._apply, ctx.file.src],
        outputs = [ctx.outputs.out],
        mnemonic = "Mutate",
        progress_message = "Mutating %s" % ctx.outputs.out.basename,
    )

_mutated = rule(
    implementation = _mutated_impl,
    doc = "An emitted kernel with one change.",
    attrs = dict(
        _LUA,
        src = attr.label(mandatory = True, allow_single_file = [".cu"]),
        out = attr.output(mandatory = True),
        was = attr.string(mandatory = True),
        now = attr.string(),
        count = attr.int(default = 1),
        _apply = attr.label(default = "//tests/hostsim/mutations:apply.lua", allow_single_file = True),
    ),
)

def _long(text):
    return "[==[\n%s]==]" % text

def _chosen_impl(ctx):
    faults = ctx.actions.declare_file(ctx.label.name + ".lua")
    ctx.actions.write(
        faults,
        "return {\n" + "".join([
            "{ number = %d, was = %s, now = %s, count = %d },\n" % (number, _long(was), _long(now), count)
            for number, was, now, count in zip(ctx.attr.number, ctx.attr.was, ctx.attr.now, ctx.attr.count)
        ]) + "}\n",
    )
    ctx.actions.run(
        executable = ctx.executable._lua,
        arguments = [file.path for file in [ctx.file._choose, ctx.file.src, ctx.outputs.out, faults] + ctx.files.headers],
        inputs = [ctx.file._choose, ctx.file.src, faults] + ctx.files.headers,
        outputs = [ctx.outputs.out],
        mnemonic = "Mutate",
        progress_message = "Mutating %s" % ctx.outputs.out.basename,
    )

_chosen = rule(
    implementation = _chosen_impl,
    doc = "An emitted kernel with all of its faults, to be chosen from when it runs.",
    attrs = dict(
        _LUA,
        src = attr.label(mandatory = True, allow_single_file = [".cu"]),
        out = attr.output(mandatory = True),
        number = attr.int_list(doc = "whose change `was`, `now` and `count` are"),
        was = attr.string_list(),
        now = attr.string_list(),
        count = attr.int_list(),
        headers = attr.label_list(allow_files = [".h"], doc = "in the order in which one includes the other"),
        _choose = attr.label(default = "//tests/hostsim/mutations:choose.lua", allow_single_file = True),
    ),
)

def _outcome_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".txt")
    ctx.actions.run(
        executable = ctx.executable.judge,
        arguments = ["--out=" + out.path, "--source=" + ctx.file.source.path] +
                    ["--%s=%s" % (name, value) for name, value in ctx.attr.arguments.items()] +
                    (["--found=" + ",".join([file.path for file in ctx.files.found])] if ctx.files.found else []),
        inputs = [ctx.file.source] + ctx.files._headers + ctx.files.found,
        outputs = [out],
        mnemonic = "Judge",
        progress_message = "Judging %s" % ctx.label.name,
    )
    return [DefaultInfo(files = depset([out]))]

_outcome = rule(
    implementation = _outcome_impl,
    doc = "What became of a mutation: NAME.txt.",
    attrs = {
        "judge": attr.label(mandatory = True, executable = True, cfg = "target"),
        "source": attr.label(mandatory = True, allow_single_file = [".cu"]),
        "arguments": attr.string_dict(),
        "found": attr.label_list(doc = "outcomes; only the checks that found their faults are run"),
        "_headers": attr.label(default = "//lib:device_headers", allow_files = True),
    },
)

def _kernels(kernels, spec):
    """For each kernel that is changed its source, the table that it is in, and the forward kernel beside a backward one."""
    sources = dict({kernel: variant for kernel, (variant, _) in kernels.items()}, **{
        kernel + "_forward": forward
        for kernel, (_, forward) in kernels.items()
        if forward
    })
    glint_emit_all(
        name = "sources",
        kernels = [kernel + ".cu" for kernel in sources],
        spec = spec,
        tags = ["manual"],
        variants = [variant["name"] for variant in sources.values()],
    )
    test_tables("tables", {
        kernel + "_table": [variant] + ([forward] if forward else [])
        for kernel, (variant, forward) in kernels.items()
    }, spec)
    for kernel, (_, forward) in kernels.items():
        if forward:
            simulated_kernel(
                name = kernel + "_forward",
                source = kernel + "_forward.cu",
                tags = ["manual"],
                variant = forward,
            )

def _cases(mutation, variant):
    if "cases" in mutation:
        return mutation["cases"]
    if variant["pass"] == "dec":
        return DECODE_CASES
    if "softcap" in variant:
        return CAPPED_CASES
    if variant["mask"] == "band":
        return WINDOW_CASES
    if variant["pass"] == "fwd":
        return FORWARD_CASES
    return BACKWARD_CASES if variant["mask"] == "causal" else FULL_CASES

def _judge_program(name, kernel, variant, forward, source):
    simulated_kernel(
        name = name + "_kernel",
        source = source,
        tags = ["manual"],
        variant = variant,
    )
    glint_cc_binary(
        name = name + "_judge",
        testonly = True,
        linkopts = ["-ldl"],
        tags = ["manual"],
        deps = [  # in the order of linking
            "//tests/hostsim/mutations:judge",
            "//tests/hostsim:backend_hostsim",
            "//lib:core",
            kernel + "_table",
            "//lib:cuda",
            "//tests/hostsim:gpu_rows",
            name + "_kernel",
        ] + ([kernel + "_forward"] if forward else []),
    )

def _judged(mutation, variant, judge, source, cases, found = [], **more):
    _outcome(
        name = mutation["name"],
        testonly = True,
        found = found,
        arguments = dict(
            more,
            name = mutation["name"],
            kernel = mutation["kernel"],
            breaks = mutation["breaks"],
            meant = " ".join(mutation["caught"]) or "nothing",
            variant = variant["name"],
            cases = ",".join(cases),
        ),
        judge = judge,
        source = source,
        tags = ["manual"],
    )

_OUTCOMES = dict(
    _LUA,
    outcomes = attr.label_list(),
    _table = attr.label(default = "//tests/hostsim/mutations:table.lua", allow_single_file = True),
)

def _table_test_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    outcomes = " ".join([file.short_path for file in ctx.files.outcomes])
    ctx.actions.write(
        script,
        "#!/bin/sh\nexec \"$PWD/%s\" %s check %s\n" % (ctx.executable._lua.short_path, ctx.file._table.short_path, outcomes),
        is_executable = True,
    )
    return [DefaultInfo(
        executable = script,
        runfiles = ctx.runfiles(files = [ctx.executable._lua, ctx.file._table] + ctx.files.outcomes),
    )]

_table_test = rule(
    implementation = _table_test_impl,
    doc = "Passes when every outcome is as it was meant to be; its output is the table of them all.",
    attrs = _OUTCOMES,
    test = True,
)

def _table_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".md")
    ctx.actions.run_shell(
        command = '"$1" "$2" markdown "${@:4}" >"$3"',
        arguments = [file.path for file in [ctx.executable._lua, ctx.file._table, out] + ctx.files.outcomes],
        inputs = [ctx.file._table] + ctx.files.outcomes,
        outputs = [out],
        tools = [ctx.executable._lua],
        mnemonic = "MutationTable",
    )
    return [DefaultInfo(files = depset([out]))]

_table = rule(
    implementation = _table_impl,
    doc = "NAME.md: the table of all outcomes.",
    attrs = _OUTCOMES,
)

def _tests(names):
    _table_test(
        name = "mutations_test",
        size = "small",
        outcomes = names,
        tags = ["hostsim"],
        target_compatible_with = without_sanitizer() + not_cross(),
    )
    _table(
        name = "mutations",
        testonly = True,
        outcomes = names,
        tags = ["manual"],
    )

def _apart(mutation, variant, forward):
    """A fault that has a kernel of its own."""
    source = "mutated/%s.cu" % mutation["name"]
    _mutated(
        name = mutation["name"] + "_source",
        src = mutation["kernel"] + ".cu",
        out = source,
        count = mutation.get("count", 1),
        now = mutation["now"],
        tags = ["manual"],
        was = mutation["was"],
    )
    _judge_program(mutation["name"], mutation["kernel"], variant, forward, source)
    _judged(mutation, variant, mutation["name"] + "_judge", source, _cases(mutation, variant))

def _together(kernel, faults, variant, forward, headers, found):
    """The others of a kernel, and the kernel as it is, which every check passes that found a fault of the kernel's."""
    source = "mutated/%s.cu" % kernel
    changes = []
    for i, fault in enumerate(faults):
        changes += [(i + 1, was, now, count) for was, now, count in [(fault["was"], fault["now"], fault.get("count", 1))] +
                                                                    [(was, now, 1) for was, now in fault.get("also", [])]]
    _chosen(
        name = kernel + "_chosen",
        src = kernel + ".cu",
        out = source,
        count = [count for _, _, _, count in changes],
        headers = headers,
        now = [now for _, _, now, _ in changes],
        number = [number for number, _, _, _ in changes],
        tags = ["manual"],
        was = [was for _, was, _, _ in changes],
    )
    _judge_program(kernel, kernel, variant, forward, source)
    for i, fault in enumerate(faults):
        _judged(fault, variant, kernel + "_judge", source, _cases(fault, variant), fault = str(i + 1))
    unchanged = dict(name = "unchanged_" + kernel, kernel = kernel, breaks = "nothing: the kernel as it is", caught = [])
    cases = [] if found else {case: None for fault in faults for case in _cases(fault, variant)}.keys()
    _judged(unchanged, variant, kernel + "_judge", source, cases, found = found)
    return unchanged["name"]

def mutation_tests(mutations, kernels, headers, spec):
    """mutations_test, and mutations.md, the table for people. A kernel is compiled once with all of its faults but those that are apart: choose.lua.

    Args:
      mutations: dicts, see mutations.bzl
      kernels: the kernels by the name that mutations have for them: (variant, forward variant or None)
      headers: labels of the headers that faults are in, by kernel, in the order in which one includes the other
      spec: the label of their spec
    """
    _kernels(kernels, spec)
    names = [mutation["name"] for mutation in mutations]
    for mutation in mutations:
        if mutation.get("apart"):
            _apart(mutation, *kernels[mutation["kernel"]])
    for kernel, (variant, forward) in kernels.items():
        faults = [mutation for mutation in mutations if mutation["kernel"] == kernel and not mutation.get("apart")]
        found = [mutation["name"] for mutation in mutations if mutation["kernel"] == kernel and mutation["caught"]]
        names.append(_together(kernel, faults, variant, forward, headers[kernel], found))
    _tests(names)
