"""cuda_cubin: compiles a .cu file to one cubin an architecture. cuda_refusal: the message of one that must not compile."""

load("@local_cuda//:cuda.bzl", "CUDA_VERSION", "HAS_NVCC", "NVCC")

# Device code only: no C++ library and no exceptions reach the archive, for the cubin is data there.
DEVICE_FLAGS = ["-O3", "-std=c++17", "-I.", "-Ilib/device/ptx", "-Ilib/device/nvcc"]

# ptxas makes no fma of a product and a sum: those that are wanted are in the PTX, so the PTX says every rounding
# (docs/checked.md).
NVCC_FLAGS = ["-cubin"] + DEVICE_FLAGS + ["-Xptxas=-v,-fmad=false", "--Werror=all-warnings"]

# Architectures whose machine code is made of another one's PTX, so that one PTX is made for all of them. Kernels ask
# only whether they are compiled for sm_90 or newer (__CUDA_ARCH__): the cubins are the same as of a PTX of their own, but
# for the byte that says of which PTX.
_PTX_OF = {"86": "80", "87": "80", "89": "80"}

# compile LUA PTXAS NAME REASON SOURCE OUTPUTS NVCC...: OUTPUTS are words LOG CUBIN ARCH of each architecture. nvcc makes each
# cubin, of a PTX that is made before where the first word is of=ARCH. Its messages are in the log, and shown when it fails;
# ptxas.lua judges them.
#
# nvcc names its temporary files after the source and its process number. In a sandbox that number is small and the same
# each time, while /tmp is everybody's: one source compiled for two architectures at once would be two compilations
# writing one file. So each has a folder.
_COMPILE = """
logged() {
    local log="$1"; shift
    "$@" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
}
compile_all() {
    local lua="$1" judge="$2" name="$3" reason="$4" source="$5"; local -a outputs=($6); shift 6
    if [[ "${outputs[0]}" = of=* ]]; then
        logged "$TMPDIR/ptx.log" "${@/#-cubin/-ptx}" -arch="compute_${outputs[0]#of=}" -o "$TMPDIR/kernel.ptx" "$source" || return 1
        source="$TMPDIR/kernel.ptx" outputs=("${outputs[@]:1}")
    fi
    set -- "$@" "$source" -o
    while [ "${#outputs[@]}" != 0 ]; do
        logged "${outputs[0]}" "$@" "${outputs[1]}" "-arch=sm_${outputs[2]}" || return 1
        sed -i '/Compile time/d' "${outputs[0]}"
        "$lua" "$judge" "$name" "${outputs[0]}" ${reason:+"$reason"} || return 1
        outputs=("${outputs[@]:3}")
    done
}
compile() {
    local status=0 outputs="${6#of=* }"
    export TMPDIR="${outputs%% *}.tmp"
    mkdir -p "$TMPDIR"
    compile_all "$@" || status=1
    rm -rf "$TMPDIR"
    return $status
}
"""
_RUN = _COMPILE + "compile \"$@\""

# The message is what is made; a compilation that succeeds fails.
_REFUSE = _COMPILE + """
message="$1"; shift
if compile "$@" 2>"$message"; then
    echo "$3 compiled, and should not have" >&2
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

def _compile(ctx, script, arguments, name, of, archs, logs, cubins, outputs):
    """One action: the cubins of some architectures, of the PTX of one, or of their own where `of` is None."""
    if not HAS_NVCC:
        fail("nvcc was not found")
    words = ["of=" + of] if of else []
    for arch, log, cubin in zip(archs, logs, cubins):
        words += [log.path, cubin, arch]
    ctx.actions.run_shell(
        command = script,
        arguments = arguments +
                    [ctx.executable._lua.path, ctx.file._judge.path, name, ctx.attr.spills, ctx.file.src.path, " ".join(words)] +
                    [NVCC] + NVCC_FLAGS + ctx.attr.nvccopts,
        inputs = [ctx.file.src, ctx.file._judge] + ctx.files.hdrs,
        tools = [ctx.executable._lua],
        outputs = outputs,
        env = {"PATH": NVCC.rpartition("/")[0] + ":/usr/local/bin:/usr/bin:/bin", "CUDA_VERSION": CUDA_VERSION},
        mnemonic = "Nvcc",
        progress_message = "Compiling %s for %s" % (ctx.file.src.basename, ", ".join(["sm_" + arch for arch in archs])),
    )

def _cuda_cubin_impl(ctx):
    name = ctx.attr.out or ctx.label.name
    cubins = {arch: ctx.actions.declare_file("%s.sm_%s.cubin" % (name, arch)) for arch in ctx.attr.archs}
    logs = {arch: ctx.actions.declare_file("%s.sm_%s.ptxas" % (name, arch)) for arch in ctx.attr.archs}
    groups = {}
    for arch in ctx.attr.archs:
        groups.setdefault(_PTX_OF.get(arch, arch), []).append(arch)
    for of, archs in groups.items():
        _compile(
            ctx,
            _RUN,
            [],
            name,
            None if archs == [of] else of,
            archs,
            [logs[arch] for arch in archs],
            [cubins[arch].path for arch in archs],
            [cubins[arch] for arch in archs] + [logs[arch] for arch in archs],
        )
    return [
        DefaultInfo(files = depset(cubins.values())),
        OutputGroupInfo(cubin = depset(cubins.values()), ptxas = depset(logs.values())),
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
    _compile(ctx, _REFUSE, [message.path], ctx.label.name, None, [ctx.attr.arch], [log], ["/dev/null"], [message, log])
    return [DefaultInfo(files = depset([message]), runfiles = ctx.runfiles(files = [message]))]

cuda_refusal = rule(
    implementation = _cuda_refusal_impl,
    doc = "NAME.txt, why `src` does not compile; an error when it does. For tests.",
    attrs = dict(_ATTRS, arch = attr.string(mandatory = True)),
)
