"""@lua//:lua is the system's Lua interpreter, 5.4 or newer."""

_BUILD = """
exports_files(["lua"], visibility = ["//visibility:public"])
"""

def _local_lua_impl(ctx):
    tried = []
    for name in ["lua5.4", "lua54", "lua-5.4", "lua5.5", "lua"]:
        path = ctx.which(name)
        if not path:
            continue
        result = ctx.execute([path, "-e", "io.write(_VERSION)"])
        version = result.stdout.replace("Lua ", "").split(".")
        if result.return_code == 0 and len(version) == 2 and int(version[0]) == 5 and int(version[1]) >= 4:
            ctx.symlink(path, "lua")
            ctx.file("BUILD", _BUILD)
            return
        tried.append("%s is %s" % (path, result.stdout or "not Lua"))
    fail("Lua 5.4 or newer is needed to generate the kernels and was not found%s. Debian and Ubuntu: apt install lua5.4" %
         (" (" + ", ".join(tried) + ")" if tried else ""))

local_lua = repository_rule(
    implementation = _local_lua_impl,
    local = True,
    configure = True,
    environ = ["PATH"],
)
