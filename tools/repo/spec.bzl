"""The bridge from a spec file to Bazel: the list of variants, made by the generator.

    @NAME//:variants.bzl   SPEC (its path) and VARIANTS (a list of dicts sorted by name), the output of `gen/glint.lua list --format=bzl`
    @NAME//:spec           the spec file

It runs again when the spec, a Lua file of the generator, or GLINT_SPEC changes.
"""

load(":main.bzl", "main_label")

_BUILD = """
exports_files(["variants.bzl"])

alias(
    name = "spec",
    actual = "{spec}",
    visibility = ["//visibility:public"],
)
"""

def _lua_files(directory):
    files = []
    pending = [directory]
    for _ in range(1000):  # Starlark has no while
        if not pending:
            break
        path = pending.pop()
        for entry in path.readdir():
            if entry.basename.endswith(".lua"):
                files.append(entry)
            elif "." not in entry.basename and entry.basename not in ["BUILD", "README", "tests"]:
                pending.append(entry)
    return files

def _label(root, path):
    """The label of a file of the workspace, whose root and path are given as strings, or None for another file."""
    if not str(path).startswith(str(root) + "/"):
        return None
    directory = path.dirname
    for _ in range(100):
        if directory.get_child("BUILD").exists:
            package = str(directory)[len(str(root)) + 1:]
            return "//%s:%s" % (package, str(path)[len(str(directory)) + 1:])
        directory = directory.dirname
    return None

def _glint_spec_impl(ctx):
    root = ctx.path(Label("//:BUILD")).dirname
    generator = ctx.path(Label("//gen:glint.lua"))

    # The same interpreter as @lua//:lua; asking for that label shows its error when there is none.
    lua = ctx.path(Label("@lua//:lua"))

    name = "" if ctx.attr.spec else ctx.os.environ.get("GLINT_SPEC", "")
    if not name:
        spec = ctx.path(ctx.attr.spec or Label("//spec:attention.lua"))
    else:
        spec = ctx.path(name) if name.startswith("/") else ctx.path(str(root) + "/" + name)
        if not spec.exists:
            fail("GLINT_SPEC=%s: there is no such file (a relative path starts at %s)" % (name, root))

    # Bazel watches a file that is named by a label, and a symlink of the repository.
    label = _label(root, spec)
    if label:
        ctx.path(Label(label))
    else:
        ctx.symlink(spec, "spec.lua")
    for file in _lua_files(generator.dirname):
        ctx.path(Label(_label(root, file)))

    # From the root, with the path as the user would write it: errors then name the file that is to be edited.
    result = ctx.execute(
        [lua, "gen/glint.lua", "list", "--format=bzl", "--spec", str(spec)[len(str(root)) + 1:] if label else str(spec)],
        working_directory = str(root),
    )
    if result.return_code != 0:
        fail("\n\n" + result.stderr.strip() + "\n")
    ctx.file("variants.bzl", result.stdout, executable = False)
    ctx.file("BUILD", _BUILD.format(spec = main_label(label) if label else "spec.lua"), executable = False)

glint_spec = repository_rule(
    implementation = _glint_spec_impl,
    attrs = {"spec": attr.label(doc = "the spec file; without it GLINT_SPEC, or else spec/attention.lua")},
    local = True,
    environ = ["GLINT_SPEC"],
)
