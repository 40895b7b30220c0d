"""cuda_cubin: compiles a .cu file to one cubin an architecture."""

load("@local_cuda//:cuda.bzl", "CUDA_VERSION", "HAS_NVCC", "NVCC")

# Device code only: no C++ library and no exceptions reach the archive, for the cubin is data there.
NVCC_FLAGS = ["-cubin", "-O3", "-std=c++17", "-I.", "-Xptxas=-v", "--Werror=all-warnings"]

# Runs nvcc with its messages in the log; shows them when it fails.
_RUN = """
log="$1"; shift
if ! "$@" >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
"""

def _cuda_cubin_impl(ctx):
    if not HAS_NVCC:
        fail("nvcc was not found")
    cubins, logs = [], []
    for arch in ctx.attr.archs:
        cubin = ctx.actions.declare_file("%s.sm_%s.cubin" % (ctx.attr.out or ctx.label.name, arch))
        log = ctx.actions.declare_file("%s.sm_%s.ptxas" % (ctx.attr.out or ctx.label.name, arch))
        ctx.actions.run_shell(
            command = _RUN,
            arguments = [log.path, NVCC, "-arch=sm_" + arch] + NVCC_FLAGS + ctx.attr.nvccopts + ["-o", cubin.path, ctx.file.src.path],
            inputs = [ctx.file.src] + ctx.files.hdrs,
            outputs = [cubin, log],
            env = {"PATH": NVCC.rpartition("/")[0] + ":/usr/local/bin:/usr/bin:/bin", "TMPDIR": "/tmp", "CUDA_VERSION": CUDA_VERSION},
            mnemonic = "Nvcc",
            progress_message = "Compiling %s for sm_%s" % (ctx.file.src.basename, arch),
        )
        cubins.append(cubin)
        logs.append(log)
    return [
        DefaultInfo(files = depset(cubins)),
        OutputGroupInfo(cubin = depset(cubins), ptxas = depset(logs)),
    ]

cuda_cubin = rule(
    implementation = _cuda_cubin_impl,
    doc = "NAME.sm_XX.cubin for each architecture; output group `ptxas` has NAME.sm_XX.ptxas, ptxas' registers, spills and warnings.",
    attrs = {
        "src": attr.label(mandatory = True, allow_single_file = [".cu"]),
        "hdrs": attr.label_list(allow_files = True),
        "archs": attr.string_list(mandatory = True, doc = "numbers such as 80, 90a"),
        "nvccopts": attr.string_list(),
        "out": attr.string(doc = "the files' name, if not the target's"),
    },
)
