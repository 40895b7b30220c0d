"""cuda_cubin: compiles a .cu file to one cubin an architecture. cuda_refusal: the message of one that must not compile."""

load("@local_cuda//:cuda.bzl", "CUDA_VERSION", "HAS_NVCC", "NVCC")

# Device code only: no C++ library and no exceptions reach the archive, for the cubin is data there.
DEVICE_FLAGS = ["-O3", "-std=c++17", "-I.", "-Ilib/device/ptx"]

# ptxas makes no fma of a product and a sum: those that are wanted are in the PTX, so the PTX says every rounding
# (docs/checked.md).
NVCC_FLAGS = ["-cubin"] + DEVICE_FLAGS + ["-Xptxas=-v,-fmad=false", "--Werror=all-warnings"]

# compile LOG LUA PTXAS NAME REASON NVCC...: runs nvcc with its messages in the log, shows them when it fails, and lets
# ptxas.lua judge them.
#
# nvcc names its temporary files after the source and its process number. In a sandbox that number is small and the same
# each time, while /tmp is everybody's: one source compiled for two architectures at once would be two compilations
# writing one file. So each has a folder.
_COMPILE = """
compile() {
    log="$1" lua="$2" judge="$3" name="$4" reason="$5"; shift 5
    local status=0
    export TMPDIR="$log.tmp"
    mkdir -p "$TMPDIR"
    "$@" >"$log" 2>&1 || status=1
    rm -rf "$TMPDIR"
    if [ $status != 0 ]; then
        cat "$log" >&2
        return 1
    fi
    sed -i '/Compile time/d' "$log"
    "$lua" "$judge" "$name" "$log" ${reason:+"$reason"}
}
"""
_RUN = _COMPILE + "compile \"$@\""

# The message is what is made; a compilation that succeeds fails.
_REFUSE = _COMPILE + """
message="$1"; shift
if compile "$@" 2>"$message"; then
    echo "$4 compiled, and should not have" >&2
    exit 1
fi
"""

_ATTRS = {
    "src": attr.label(mandatory = True, allow_single_file = [".cu"]),
    "hdrs": attr.label_list(allow_files = True),
    "nvccopts": attr.string_list(),
    "spills": attr.string(doc = "why local memory is allowed; without it, using any is an error"),
    "_judge": attr.label(default = "//tools:ptxas.lua", allow_single_file = True),
    "_lua": attr.label(default = "@lua//:lua", allow_single_file = True, executable = True, cfg = "exec"),
}

def _compile(ctx, script, arguments, name, arch, log, cubin, outputs):
    if not HAS_NVCC:
        fail("nvcc was not found")
    ctx.actions.run_shell(
        command = script,
        arguments = arguments + [log.path, ctx.executable._lua.path, ctx.file._judge.path, name, ctx.attr.spills] +
                    [NVCC, "-arch=sm_" + arch] + NVCC_FLAGS + ctx.attr.nvccopts + ["-o", cubin, ctx.file.src.path],
        inputs = [ctx.file.src, ctx.file._judge] + ctx.files.hdrs,
        tools = [ctx.executable._lua],
        outputs = outputs,
        env = {"PATH": NVCC.rpartition("/")[0] + ":/usr/local/bin:/usr/bin:/bin", "CUDA_VERSION": CUDA_VERSION},
        mnemonic = "Nvcc",
        progress_message = "Compiling %s for sm_%s" % (ctx.file.src.basename, arch),
    )

def _cuda_cubin_impl(ctx):
    name = ctx.attr.out or ctx.label.name
    cubins, logs = [], []
    for arch in ctx.attr.archs:
        cubin = ctx.actions.declare_file("%s.sm_%s.cubin" % (name, arch))
        log = ctx.actions.declare_file("%s.sm_%s.ptxas" % (name, arch))
        _compile(ctx, _RUN, [], name, arch, log, cubin.path, [cubin, log])
        cubins.append(cubin)
        logs.append(log)
    return [
        DefaultInfo(files = depset(cubins)),
        OutputGroupInfo(cubin = depset(cubins), ptxas = depset(logs)),
    ]

cuda_cubin = rule(
    implementation = _cuda_cubin_impl,
    doc = "NAME.sm_XX.cubin for each architecture; output group `ptxas` has NAME.sm_XX.ptxas, ptxas' registers, spills and warnings.",
    attrs = dict(
        _ATTRS,
        archs = attr.string_list(mandatory = True, doc = "names such as 80, 90a"),
        out = attr.string(doc = "the files' name, if not the target's"),
    ),
)

def _cuda_refusal_impl(ctx):
    message = ctx.actions.declare_file(ctx.label.name + ".txt")
    log = ctx.actions.declare_file(ctx.label.name + ".ptxas")
    _compile(ctx, _REFUSE, [message.path], ctx.label.name, ctx.attr.arch, log, "/dev/null", [message, log])
    return [DefaultInfo(files = depset([message]), runfiles = ctx.runfiles(files = [message]))]

cuda_refusal = rule(
    implementation = _cuda_refusal_impl,
    doc = "NAME.txt, why `src` does not compile; an error when it does. For tests.",
    attrs = dict(_ATTRS, arch = attr.string(mandatory = True)),
)
