"""glint_report: what each variant costs, as tables for people (text, Markdown) and for programs (CSV)."""

load(":kernel.bzl", "GlintKernelInfo")

def _glint_report_impl(ctx):
    manifest = ctx.actions.declare_file(ctx.label.name + ".manifest")
    workspaces = ctx.actions.declare_file(ctx.label.name + ".workspaces")
    costs = ctx.actions.declare_file(ctx.label.name + ".costs")
    outputs = [
        ctx.actions.declare_file("%s.%s" % (ctx.label.name, ending))
        for ending in ["txt", "md", "csv", "gpu.csv"] + (["costs.csv"] if ctx.attr.costs else [])
    ]

    lines = []
    inputs = [manifest, workspaces, costs, ctx.file._program, ctx.file._ptxas] + ctx.files.costs
    for kernel in ctx.attr.kernels:
        info = kernel[GlintKernelInfo]
        record = json.decode(info.record)
        target = record["isa"] if "isa" in record else "sm_" + "/".join([str(arch) for arch in record["archs"]])
        lines.append("\t".join(
            [str(record[field]) for field in ["name", "pass", "dtype", "head_dim", "mask", "family"]] +
            [target, str(record["tile_m"]), str(record["tile_n"]), info.object.path, ",".join([log.path for log in info.logs])] +
            [",".join([cubin.path for cubin in info.cubins]), str(record.get("smem_bytes", "")), record.get("spills", "")],
        ))
        inputs += [info.object] + info.logs + info.cubins
    ctx.actions.write(manifest, "\n".join(lines + [""]))
    ctx.actions.write(costs, "\n".join([file.path for file in ctx.files.costs] + [""]))

    # A program of the target: on another machine's, under its emulator.
    command = [ctx.executable.workspaces]
    if ctx.executable.runner:
        command = [ctx.executable.runner] + command
    ctx.actions.run_shell(
        command = '"${@:2}" >"$1"',
        arguments = [workspaces.path] + [program.path for program in command],
        inputs = [],
        tools = command,
        outputs = [workspaces],
        mnemonic = "ReportWorkspaces",
        progress_message = "Planning each variant for the report",
    )
    ctx.actions.run(
        executable = ctx.executable._lua,
        arguments = [file.path for file in [ctx.file._program, ctx.file._ptxas, manifest, workspaces, costs] + outputs],
        inputs = inputs,
        outputs = outputs,
        mnemonic = "Report",
        use_default_shell_env = True,  # readelf
        progress_message = "Writing the report of %d variants" % len(ctx.attr.kernels),
    )
    return [DefaultInfo(files = depset(outputs), runfiles = ctx.runfiles(files = outputs))]

glint_report = rule(
    implementation = _glint_report_impl,
    doc = "NAME.txt, NAME.md and NAME.csv about the given kernels, NAME.gpu.csv about each architecture of GPU kernels, NAME.costs.csv " +
          "about each place in them if `costs` are given.",
    attrs = {
        "kernels": attr.label_list(providers = [GlintKernelInfo]),
        "workspaces": attr.label(executable = True, cfg = "target", doc = "//tools:report_workspace, linked with these kernels"),
        "costs": attr.label(allow_files = True, doc = "what was counted in the simulator: NAME.costs files"),
        "runner": attr.label(executable = True, cfg = "exec", doc = "runs a program of the target, if this machine cannot"),
        "_program": attr.label(default = "//tools:report.lua", allow_single_file = True),
        "_ptxas": attr.label(default = "//tools:ptxas.lua", allow_single_file = True),
        "_lua": attr.label(default = "@lua//:lua", allow_single_file = True, executable = True, cfg = "exec"),
    },
)
