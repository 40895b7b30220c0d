"""lua_test: a test that is a Lua program."""

_SCRIPT = """#!/bin/sh
# From the root of the runfiles, where paths are those of the repository.
exec "$PWD/{lua}" {src} "$@"
"""

def _lua_test_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(
        script,
        _SCRIPT.format(lua = ctx.file._lua.short_path, src = ctx.file.src.short_path),
        is_executable = True,
    )
    runfiles = ctx.runfiles(files = [ctx.file._lua, ctx.file.src] + ctx.files.data)
    return [DefaultInfo(executable = script, runfiles = runfiles)]

lua_test = rule(
    implementation = _lua_test_impl,
    doc = "Runs a Lua file with the system's Lua, in the root of the repository's files: `src`, and those of `data`. Exit status 0 passes.",
    attrs = {
        "src": attr.label(mandatory = True, allow_single_file = [".lua"]),
        "data": attr.label_list(allow_files = True),
        "_lua": attr.label(default = "@lua//:lua", allow_single_file = True),
    },
    test = True,
)
