"""action_inputs: what the actions of a target read, for tests of what has to be compiled again after a change."""

_Actions = provider(fields = {"inputs": "list of (mnemonic, depset of File)"})

def _actions_of_impl(target, ctx):
    return [_Actions(inputs = [(action.mnemonic, action.inputs) for action in target.actions])]

_actions_of = aspect(implementation = _actions_of_impl)

def _action_inputs_impl(ctx):
    lines = []
    for mnemonic, inputs in ctx.attr.target[_Actions].inputs:
        if mnemonic != ctx.attr.mnemonic:
            continue
        lines.append("action")
        lines += sorted([
            file.path
            for file in inputs.to_list()
            if file.is_source and not file.path.startswith("external/") and not file.path.startswith("/")
        ])
    out = ctx.actions.declare_file(ctx.label.name + ".txt")
    ctx.actions.write(out, "\n".join(lines + [""]))
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles(files = [out]))]

action_inputs = rule(
    implementation = _action_inputs_impl,
    doc = "NAME.txt: for each action of `target` of that kind a line \"action\" and the repository's files that it reads. Nothing is " +
          "compiled.",
    attrs = {
        "target": attr.label(mandatory = True, aspects = [_actions_of]),
        "mnemonic": attr.string(mandatory = True, doc = "such as Nvcc, GlintCompile, CppCompile"),
    },
)
