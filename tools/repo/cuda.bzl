"""@local_cuda//:cuda.bzl tells whether CUDA's compiler is installed: HAS_NVCC, NVCC, CUDA_VERSION.

It is looked for in $CUDA_HOME, on the PATH and in /usr/local/cuda. CUDA is optional: without it the GPU kernels are left out.
"""

def _local_cuda_impl(ctx):
    candidates = []
    home = ctx.os.environ.get("CUDA_HOME", "")
    if home:
        candidates.append(ctx.path(home + "/bin/nvcc"))
    on_path = ctx.which("nvcc")
    if on_path:
        candidates.append(on_path)
    candidates.append(ctx.path("/usr/local/cuda/bin/nvcc"))

    nvcc, version = "", ""
    for path in candidates:
        if not path.exists:
            continue
        result = ctx.execute([path, "--version"])
        marker = "release "
        if result.return_code == 0 and marker in result.stdout:
            nvcc = str(path)
            version = result.stdout.partition(marker)[2].partition(",")[0]
            break
    if not nvcc:
        # buildifier: disable=print
        print("CUDA's compiler (nvcc) was not found: building without GPU kernels. Set CUDA_HOME if it is somewhere unusual.")
    ctx.file("BUILD", "exports_files([\"cuda.bzl\"])\n", executable = False)
    ctx.file(
        "cuda.bzl",
        "HAS_NVCC = %r\nNVCC = %r\nCUDA_VERSION = %r\n" % (bool(nvcc), nvcc, version),
        executable = False,
    )

local_cuda = repository_rule(
    implementation = _local_cuda_impl,
    local = True,
    configure = True,
    environ = ["CUDA_HOME", "PATH"],
)
