"""Rules of one variant: emit its source, compile it, and the dispatch table over several."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "C_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@local_cuda//:cuda.bzl", "FATBINARY")

GlintKernelInfo = provider(
    doc = "One compiled kernel, for the report.",
    fields = {
        "name": "the variant's name",
        "record": "the generator's record of it, as JSON",
        "source": "File: the emitted source",
        "object": "File: the object",
        "logs": "list of File: the compiler's .su file (CPU) or ptxas' logs (GPU)",
        "cubins": "list of File: what a GPU variant is made of, in the order of its logs",
        "compress": "of a GPU variant: how its module is packed",
    },
)

_GENERATOR = {
    "spec": attr.label(mandatory = True, allow_single_file = True),
    "generator": attr.label(default = "//gen:generator", allow_files = True),
    "_main": attr.label(default = "//gen:glint.lua", allow_single_file = True),
    "_lua": attr.label(default = "@lua//:lua", allow_single_file = True, executable = True, cfg = "exec"),
}

def _generate(ctx, arguments, outputs, message, inputs = []):
    ctx.actions.run(
        executable = ctx.executable._lua,
        arguments = [ctx.file._main.path, "emit", "--spec", ctx.file.spec.path] + arguments,
        inputs = depset([ctx.file._main, ctx.file.spec] + inputs, transitive = [ctx.attr.generator[DefaultInfo].files]),
        outputs = outputs,
        mnemonic = "GlintEmit",
        progress_message = message,
    )

def _emit_all_impl(ctx):
    wanted = ctx.actions.declare_file(ctx.label.name + ".outputs")
    ctx.actions.write(wanted, "".join([
        "%s %s\n" % (out.path, what)
        for outs, words in [(ctx.outputs.kernels, ctx.attr.variants), (ctx.outputs.tables, ["--table " + names for names in ctx.attr.rows])]
        for out, what in zip(outs, words)
    ]))
    outputs = ctx.outputs.kernels + ctx.outputs.tables
    _generate(ctx, ["--outputs", wanted.path], outputs, "Emitting %d sources" % len(outputs), [wanted])

glint_emit_all = rule(
    implementation = _emit_all_impl,
    doc = "Sources of variants and dispatch tables of one spec, in the time of one. Who depends on a source is built again when that source changes.",
    attrs = dict(
        _GENERATOR,
        kernels = attr.output_list(doc = "sources of kernels"),
        variants = attr.string_list(doc = "the variant of each of them"),
        tables = attr.output_list(doc = "dispatch tables"),
        rows = attr.string_list(doc = "the variants of each of them, with spaces between"),
    ),
)

def _emit_table_impl(ctx):
    arguments = ["--table"]
    for variant in ctx.attr.variants:
        arguments += ["--variant", variant]
    if not ctx.attr.variants:
        fail("the spec has no variant for the target's CPU")
    _generate(
        ctx,
        arguments + ["--out", ctx.outputs.out.path],
        [ctx.outputs.out],
        "Emitting the table of %d variants" % len(ctx.attr.variants),
    )

glint_emit_table = rule(
    implementation = _emit_table_impl,
    doc = "The dispatch table over the given variants.",
    attrs = dict(_GENERATOR, variants = attr.string_list(mandatory = True), out = attr.output(mandatory = True)),
)

_CC = {
    "deps": attr.label_list(providers = [CcInfo]),
    "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
}

_CC_RULE = {
    "fragments": ["cpp"],
    "toolchains": ["@bazel_tools//tools/cpp:toolchain_type"],
}

def _features(ctx, cc_toolchain):
    return cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )

def _link_object(ctx, cc_toolchain, features, object):
    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = cc_toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(objects = depset([object]), pic_objects = depset([object])),
        disallow_dynamic_library = True,
    )
    return linking_context

def _kernel_impl(ctx):
    # Bazel's own compile rule throws away the .su file of -fstack-usage, which the report and the stack test read.
    cc_toolchain = find_cpp_toolchain(ctx)
    features = _features(ctx, cc_toolchain)
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    object = ctx.actions.declare_file(ctx.label.name + ".o")
    stack = ctx.actions.declare_file(ctx.label.name + ".su")

    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = cc_toolchain,
        source_file = ctx.file.src.path,
        output_file = object.path,
        use_pic = True,
        include_directories = context.includes,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
        user_compile_flags = ctx.attr.copts + ctx.fragments.cpp.copts + ctx.fragments.cpp.conlyopts,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(feature_configuration = features, action_name = C_COMPILE_ACTION_NAME),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = C_COMPILE_ACTION_NAME,
            variables = variables,
        ) + ["-fstack-usage"],
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = C_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        inputs = depset([ctx.file.src], transitive = [context.headers, cc_toolchain.all_files]),
        outputs = [object, stack],
        mnemonic = "GlintCompile",
        progress_message = "Compiling %s" % ctx.file.src.basename,
    )
    return [
        DefaultInfo(files = depset([object])),
        OutputGroupInfo(source = depset([ctx.file.src]), stack_usage = depset([stack])),
        GlintKernelInfo(name = ctx.label.name, record = ctx.attr.record, source = ctx.file.src, object = object, logs = [stack], cubins = [], compress = ""),
        CcInfo(
            compilation_context = cc_common.create_compilation_context(),
            linking_context = _link_object(ctx, cc_toolchain, features, object),
        ),
    ]

glint_kernel = rule(
    implementation = _kernel_impl,
    doc = "Compiles one emitted CPU kernel.",
    attrs = dict(
        _CC,
        src = attr.label(mandatory = True, allow_single_file = [".c"]),
        copts = attr.string_list(),
        record = attr.string(),
    ),
    **_CC_RULE
)

def _arch(cubin):
    """80 of NAME.sm_80.cubin."""
    return cubin.basename.split(".")[-2].replace("sm_", "")

# What the driver is given of a cubin: a fatbin that it unpacks, where the spec and the installed CUDA have it so.
def _image(ctx, cubin, compress):
    if compress == "none" or not FATBINARY:
        return cubin
    image = ctx.actions.declare_file(cubin.basename.rpartition(".")[0] + ".fatbin")
    ctx.actions.run(
        executable = FATBINARY,
        arguments = [
            "--create=" + image.path,
            "--compress-mode=" + compress,
            "--image3=kind=elf,sm=%s,file=%s" % (_arch(cubin), cubin.path),
        ],
        inputs = [cubin],
        outputs = [image],
        mnemonic = "Fatbinary",
        progress_message = "Compressing %s" % cubin.basename,
    )
    return image

def _embed(ctx, cc_toolchain, features, images):
    """An object with images in read-only data. `images`: an image and the kernels in it, each of which has a symbol there."""
    lines = []
    for image, arch, names in images:
        symbols = ["glint_%s__sm%s_cubin" % (name, arch) for name in names]
        lines.append("    .balign 64")
        for symbol in symbols:
            lines += [
                "    .hidden %s" % symbol,
                "    .globl %s" % symbol,
                "    .type %s, @object" % symbol,
                "%s:" % symbol,
            ]
        lines.append("    .incbin \"%s\"" % image.path)
        lines += ["    .size %s, . - %s" % (symbol, symbol) for symbol in symbols]
    assembly = ctx.actions.declare_file(ctx.label.name + ".S")
    ctx.actions.write(assembly, "\n".join(
        ["    .section .rodata." + ctx.label.name + ", \"a\""] + lines + ["    .section .note.GNU-stack, \"\", @progbits", ""],
    ))
    object = ctx.actions.declare_file(ctx.label.name + ".cubins.o")
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(feature_configuration = features, action_name = C_COMPILE_ACTION_NAME),
        arguments = ["-c", assembly.path, "-o", object.path],
        inputs = depset([assembly] + [image for image, _, _ in images], transitive = [cc_toolchain.all_files]),
        outputs = [object],
        mnemonic = "GlintEmbed",
        progress_message = "Embedding the cubins of %s" % ctx.label.name,
    )
    return object

def _of_object(ctx, cc_toolchain, features, object):
    return CcInfo(
        compilation_context = cc_common.create_compilation_context(),
        linking_context = _link_object(ctx, cc_toolchain, features, object),
    )

def _gpu_kernel_impl(ctx):
    cc_toolchain = find_cpp_toolchain(ctx)
    features = _features(ctx, cc_toolchain)
    cubins = ctx.files.cubins
    images = [(_image(ctx, cubin, ctx.attr.compress), _arch(cubin), [ctx.label.name]) for cubin in cubins]
    object = _embed(ctx, cc_toolchain, features, images)
    return [
        DefaultInfo(files = depset([object])),
        GlintKernelInfo(
            name = ctx.label.name,
            record = ctx.attr.record,
            source = ctx.file.src,
            object = object,
            logs = ctx.attr.cubins[OutputGroupInfo].ptxas.to_list(),
            cubins = cubins,
            compress = ctx.attr.compress,
        ),
        _of_object(ctx, cc_toolchain, features, object),
    ]

glint_gpu_kernel = rule(
    implementation = _gpu_kernel_impl,
    doc = "Puts the cubins of one variant into read-only data, compressed, one symbol an architecture: glint_<variant>__sm80_cubin.",
    attrs = dict(
        _CC,
        src = attr.label(mandatory = True, allow_single_file = [".cu"]),
        cubins = attr.label(mandatory = True, providers = [OutputGroupInfo]),
        compress = attr.string(default = "size", values = ["size", "none"], doc = "how, if the installed CUDA can"),
        record = attr.string(),
    ),
    **_CC_RULE
)

def _kind(name):
    """Which module of an architecture a variant's kernels are in: those of one kind have most of their code in common.

    A module of all kernels packs to 5 % less. It takes a context longer to open: the driver unpacks a module into memory
    that it gives back, and memory that a process has not had before costs more than what is in it.
    """
    for pass_, how, kind in [
        ("bwd_", "_fused", "bwd_fused"),
        ("bwd_", "_split", "bwd_split"),
        ("fwd_", "_step_", "step"),
        ("dec_", "", "dec"),
    ]:
        if name.startswith(pass_) and how in name.rpartition("__")[2]:
            return kind
    return "fwd"

def _gpu_modules_impl(ctx):
    cc_toolchain = find_cpp_toolchain(ctx)
    features = _features(ctx, cc_toolchain)
    infos = [kernel[GlintKernelInfo] for kernel in ctx.attr.kernels if GlintKernelInfo in kernel and kernel[GlintKernelInfo].cubins]
    images = []
    shared = {}
    for info in infos:
        for cubin in info.cubins:
            shared.setdefault((_arch(cubin), _kind(info.name)), {})[info.name] = cubin
    for arch, kind in sorted(shared.keys()):
        named = shared[(arch, kind)]
        names = sorted(named.keys())
        cubins = [named[name] for name in names]
        module = ctx.actions.declare_file("%s.%s.sm_%s.cubin" % (ctx.label.name, kind, arch))
        ctx.actions.run(
            executable = ctx.executable._lua,
            arguments = [ctx.file._merge.path, module.path] + [cubin.path for cubin in cubins],
            inputs = cubins + [ctx.file._merge],
            outputs = [module],
            mnemonic = "MergeCubins",
            progress_message = "Merging %d cubins for sm_%s" % (len(cubins), arch),
        )
        images.append((_image(ctx, module, infos[0].compress), arch, names))  # a spec says one thing of all its rows
    object = _embed(ctx, cc_toolchain, features, images)
    return [DefaultInfo(files = depset([object])), _of_object(ctx, cc_toolchain, features, object)]

glint_gpu_modules = rule(
    implementation = _gpu_modules_impl,
    doc = "The cubins of several variants as a module an architecture and kind, with the symbols that glint_gpu_kernel would make; other kernels are left out.",
    attrs = {
        "kernels": attr.label_list(mandatory = True),
        "_merge": attr.label(default = "//tools:cubins.lua", allow_single_file = True),
        "_lua": attr.label(default = "@lua//:lua", allow_single_file = True, executable = True, cfg = "exec"),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    **_CC_RULE
)
