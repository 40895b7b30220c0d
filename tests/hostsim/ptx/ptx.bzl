"""nvcc's PTX of GPU kernels in the simulator, in place of their source: what ships is what is checked.

    ./bazelw test //tests:fwd_bf16_d64_causal__sm80_m128n80__ptx            a variant's checks on the PTX of its newest architecture
    ./bazelw test //tests:fwd_bf16_d64_causal__sm80_m128n80__ptx_sm80       the checks on the PTX of its oldest architecture, on a simulated sm_80
    ./bazelw test //tests:ptx                                               all of them
"""

load("@local_cuda//:cuda.bzl", "HAS_NVCC", "NVCC")
load("@rules_cc//cc:defs.bzl", "cc_library")
load("//tests/hostsim:hostsim.bzl", "KERNEL", "simulated_library")
load("//tools:cuda.bzl", "DEVICE_FLAGS", "NVCC_FLAGS")
load("//tools:defs.bzl", "glint_cc_test", "needs_nvcc", "without_sanitizer")

# After -O1 the checks take as long as after -O2, and the compiler is done in two thirds of the time. nvcc has
# contracted what it wanted to.
TRANSLATED = KERNEL + ["-O1", "-ffp-contract=off", "-Wno-psabi"]

# nvcc names its temporary files after the source and its process number: tools/cuda.bzl.
_NVCC = """
export TMPDIR="$1.tmp"
mkdir -p "$TMPDIR"
out=$1
shift
status=0
"$@" -o "$out" || status=1
rm -rf "$TMPDIR"
exit $status
"""

_Faults = provider(fields = {"drawn": "SEED:COUNT, or nothing"})

def _faults_impl(ctx):
    return [_Faults(drawn = ctx.build_setting_value)]

faults_setting = rule(
    implementation = _faults_impl,
    doc = "Which faults translated PTX gets: --//tests/hostsim/ptx:faults=SEED:COUNT.",
    build_setting = config.string(flag = True),
)

def _compiled(ctx):
    if not HAS_NVCC:
        fail("nvcc was not found")
    ptx = ctx.actions.declare_file(ctx.label.name.replace("_kernel_translated", "") + ".ptx")
    ctx.actions.run_shell(
        command = _NVCC,
        arguments = [ptx.path, NVCC, "-ptx", "-lineinfo", "-arch=sm_" + ctx.attr.arch] + DEVICE_FLAGS + ctx.attr.nvccopts + [ctx.file.src.path],
        inputs = [ctx.file.src] + ctx.files.hdrs,
        outputs = [ptx],
        env = {"PATH": NVCC.rpartition("/")[0] + ":/usr/local/bin:/usr/bin:/bin"},
        mnemonic = "NvccPtx",
        progress_message = "Compiling %s to PTX for sm_%s" % (ctx.file.src.basename, ctx.attr.arch),
    )
    return ptx

def _ptx_source_impl(ctx):
    ptx = ctx.file.src if ctx.file.src.extension == "ptx" else _compiled(ctx)
    faults = ctx.attr._faults[_Faults].drawn
    out = ctx.actions.declare_file(ctx.label.name + ".cc")
    ctx.actions.run(
        executable = ctx.executable._lua,
        arguments = [ctx.file._translator.path] + (["--faults=" + faults] if faults else []) + [ptx.path, out.path] + ctx.attr.symbols,
        inputs = [ptx] + ctx.files._parts,
        outputs = [out],
        mnemonic = "TranslatePtx",
        progress_message = "Translating %s" % ptx.basename,
    )
    return [DefaultInfo(files = depset([out])), OutputGroupInfo(ptx = depset([ptx]))]

ptx_source = rule(
    implementation = _ptx_source_impl,
    doc = "NAME.cc, the kernels of a .cu file as nvcc compiles them, or of a .ptx file, for the simulator; output group `ptx` has the PTX.",
    attrs = {
        "src": attr.label(mandatory = True, allow_single_file = [".cu", ".ptx"]),
        "hdrs": attr.label_list(allow_files = True),
        "arch": attr.string(doc = "of a .cu file, such as 80, 90a"),
        "nvccopts": attr.string_list(),
        "symbols": attr.string_list(doc = "images by the names that a table row has for them; none: kernels by their own names"),
        "_faults": attr.label(default = "//tests/hostsim/ptx:faults"),
        "_translator": attr.label(default = "//tests/hostsim/ptx:translate.lua", allow_single_file = True),
        "_parts": attr.label(default = "//tests/hostsim/ptx:translator"),
        "_lua": attr.label(default = "@lua//:lua", allow_single_file = True, executable = True, cfg = "exec"),
    },
)

# The one .ptx among what nvcc keeps.
_KEEP = """
export TMPDIR="$1.tmp"
mkdir -p "$TMPDIR"
out=$1
shift
"$@" --keep --keep-dir "$TMPDIR" -o "$TMPDIR/kept.cubin" >"$TMPDIR/log" 2>&1 && cp "$TMPDIR"/*.ptx "$out" || { cat "$TMPDIR/log" >&2; exit 1; }
rm -rf "$TMPDIR"
"""

def _kept_ptx_impl(ctx):
    if not HAS_NVCC:
        fail("nvcc was not found")
    kept = ctx.actions.declare_file(ctx.label.name + ".ptx")
    ctx.actions.run_shell(
        command = _KEEP,
        arguments = [kept.path, NVCC, "-arch=sm_" + ctx.attr.arch] + NVCC_FLAGS + [ctx.file.src.path],
        inputs = [ctx.file.src] + ctx.files.hdrs,
        outputs = [kept],
        env = {"PATH": NVCC.rpartition("/")[0] + ":/usr/local/bin:/usr/bin:/bin"},
        mnemonic = "NvccKept",
        progress_message = "Compiling %s to PTX for sm_%s, as a cubin" % (ctx.file.src.basename, ctx.attr.arch),
    )
    return [DefaultInfo(files = depset([kept]))]

kept_ptx = rule(
    implementation = _kept_ptx_impl,
    doc = "NAME.ptx, which ptxas gets while nvcc makes a cubin of `src`.",
    attrs = {
        "src": attr.label(mandatory = True, allow_single_file = [".cu"]),
        "hdrs": attr.label_list(allow_files = True),
        "arch": attr.string(mandatory = True),
    },
)

def ptx_library(name, src, arch = "", hdrs = [], nvccopts = [], symbols = [], **kwargs):
    """A C++ library of the kernels of a .cu file as nvcc compiles them, or of a .ptx file.

    Args:
      name: the target
      src: the label of the .cu or .ptx file
      arch: of a .cu file, such as 90a
      hdrs: what nvcc reads beside it
      nvccopts: more of nvcc's flags
      symbols: images by the names that a table row has for them; none: kernels by their own names
      **kwargs: visibility and the like
    """
    compatible = (needs_nvcc() if arch else []) + without_sanitizer()
    ptx_source(
        name = name + "_translated",
        testonly = True,
        src = src,
        arch = arch,
        hdrs = hdrs,
        nvccopts = nvccopts,
        symbols = symbols,
        tags = ["manual"],
        target_compatible_with = compatible,
        visibility = ["//tests:__subpackages__"],
    )
    cc_library(
        name = name,
        testonly = True,
        srcs = [name + "_translated"],
        alwayslink = not symbols,  # they are found by name
        copts = TRANSLATED,
        linkstatic = True,
        tags = ["manual"],
        target_compatible_with = compatible,
        deps = ["//tests/hostsim/ptx:run_time"],
        **kwargs
    )

def _simulated_archs(variant):
    """The architectures whose PTX is simulated, by the end of the test's name: the newest, and the oldest if it is another."""
    archs = [str(arch) for arch in variant["archs"]]
    return dict({"__ptx": archs[-1]}, **({"__ptx_sm" + archs[0]: archs[0]} if len(archs) > 1 else {}))

def ptx_variant_tests(variant, linked, always, package = "//generated", only = [], **kwargs):
    """The checks of one GPU variant on its PTX: NAME__ptx, and NAME__ptx_sm80 for an older architecture.

    Args:
      variant: the element of VARIANTS
      linked: the variants that the library must hold; those beside `variant` are simulated from their source
      always: names of the tests that are run with all others; the rest is manual
      package: where glint_kernels() made the sources
      only: arguments that leave checks out: --formats, --share=I/N (tests/checks/runner.h)
      **kwargs: spec and simulated of simulated_library()

    Returns:
      the tests' names
    """
    names = []
    for end, arch in _simulated_archs(variant).items():
        name = variant["name"] + end
        names.append(name)
        ptx_library(
            name = name + "_kernel",
            src = "%s:%s.cu" % (package, variant["name"]),
            arch = arch,
            hdrs = ["//lib:%s_headers" % variant["family"]],
            symbols = ["glint_%s__sm%s_cubin" % (variant["name"], each) for each in variant["archs"]],
        )
        simulated_library(
            name = name + "_library",
            kernels = {variant["name"]: name + "_kernel"},
            tags = ["manual"],
            variants = linked,
            **kwargs
        )
        glint_cc_test(
            name = name,
            size = "medium",
            args = ["--variant=" + variant["name"]] + only,
            env = {"HOSTSIM_SM": arch.rstrip("a")},
            tags = ["hostsim", "ptx"] + ([] if name in always else ["manual"]),
            target_compatible_with = needs_nvcc() + without_sanitizer(),
            deps = [  # in the order of linking
                "//tests/checks:variant_test",
                "//tests/hostsim:backend_hostsim",
                name + "_library",
            ],
        )
    return names
