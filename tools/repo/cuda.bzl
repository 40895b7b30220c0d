"""@local_cuda//:cuda.bzl tells whether CUDA's compiler is installed, and works: HAS_NVCC, NVCC, CUDA_VERSION, CUDA_INCLUDE, and FATBINARY, which
compresses cubins, or "".

It is looked for, in this order, in $CUDA_HOME and $CUDA_PATH, on the PATH, in /usr/local/cuda and /opt/cuda, and among the Python packages
of `python3` (`pip install nvidia-cuda-nvcc`). Its host compiler and headers come with it or are the system's: a kernel of one line says
whether all is there. CUDA is optional: without it the GPU kernels are left out, and this says so.
"""

# What the first architecture of the default spec needs, and the rest of its build: sm_90 and C++17.
_OLDEST = (11, 8)

_PROBE = """// Is there all that a kernel needs?
extern "C" __global__ void probe(int *x) { *x = (int)threadIdx.x; }
"""

# Wheels of CUDA 13 and newer unpack to nvidia/cu13/bin/nvcc beside the packages' modules.
_WHEELS = """
import glob, sys
for path in sys.path:
    for nvcc in sorted(glob.glob(path + "/nvidia/cu*/bin/nvcc"), reverse=True):
        print(nvcc)
"""

def _candidates(ctx):
    paths = [home + "/bin/nvcc" for home in [ctx.os.environ.get(name, "") for name in ["CUDA_HOME", "CUDA_PATH"]] if home]
    on_path = ctx.which("nvcc")
    if on_path:
        paths.append(str(on_path))
    paths += ["/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc"]
    python = ctx.which("python3")
    if python:
        paths += ctx.execute([python, "-c", _WHEELS]).stdout.split("\n")
    return [path for path in paths if path.startswith("/") and ctx.path(path).exists]

def _version(ctx, nvcc):
    marker = "release "
    result = ctx.execute([nvcc, "--version"])
    return result.stdout.partition(marker)[2].partition(",")[0] if result.return_code == 0 else ""

# The first line of a compiler's answer that says what is wrong.
def _complaint(text):
    lines = [line for line in text.split("\n") if line.strip()]
    errors = [line for line in lines if "error" in line or "fatal" in line]
    return (errors + lines + ["no message"])[0].strip()

# Why this nvcc cannot be used, or "".
def _trouble(ctx, nvcc, version):
    numbers = version.split(".")
    if len(numbers) < 2 or not (numbers[0] + numbers[1]).isdigit():
        return "it does not say its version"
    if (int(numbers[0]), int(numbers[1])) < _OLDEST:
        return "it is CUDA %s, and %d.%d is the oldest that will do" % (version, _OLDEST[0], _OLDEST[1])
    result = ctx.execute([nvcc, "-cubin", "-arch=sm_80", "-std=c++17", "-o", "probe.cubin", "probe.cu"])
    return _complaint(result.stderr + result.stdout) if result.return_code != 0 else ""

# The folder of cuda.h, from the include folders that nvcc names when asked what it would do; "" when it has none.
def _include(ctx, nvcc):
    result = ctx.execute([nvcc, "--dryrun", "-cubin", "-o", "probe.cubin", "probe.cu"])
    for line in (result.stderr + result.stdout).split("\n"):
        if "INCLUDES=" in line:
            for word in line.partition("=")[2].replace('"', " ").split(" "):
                folder = word[2:] if word.startswith("-I") else ""
                if folder.startswith("/") and ctx.path(folder + "/cuda.h").exists:
                    return str(ctx.path(folder).realpath)
    return ""

# The fatbinary beside nvcc, when it knows --compress-mode; "" else.
def _fatbinary(ctx, nvcc):
    path = nvcc.rpartition("/")[0] + "/fatbinary"
    if not nvcc or not ctx.path(path).exists:
        return ""
    result = ctx.execute([path, "--help"])
    return path if "--compress-mode" in result.stdout + result.stderr else ""

def _local_cuda_impl(ctx):
    ctx.file("probe.cu", _PROBE, executable = False)
    nvcc, version, include, refused = "", "", "", []
    for path in _candidates(ctx):
        version = _version(ctx, path)
        trouble = _trouble(ctx, path, version)
        if not trouble:
            nvcc, include = path, _include(ctx, path)
            break
        refused.append("%s: %s" % (path, trouble))
    if not nvcc:
        # buildifier: disable=print
        print("Building without GPU kernels: CUDA's compiler, nvcc, %s. Where it may be: tools/README.md." %
              ("does not work here (%s)" % "; ".join(refused) if refused else "was not found"))
    ctx.file("BUILD", "exports_files([\"cuda.bzl\"])\n", executable = False)
    ctx.file(
        "cuda.bzl",
        "HAS_NVCC = %r\nNVCC = %r\nCUDA_VERSION = %r\nCUDA_INCLUDE = %r\nFATBINARY = %r\n" %
        (bool(nvcc), nvcc, version if nvcc else "", include, _fatbinary(ctx, nvcc)),
        executable = False,
    )

local_cuda = repository_rule(
    implementation = _local_cuda_impl,
    local = True,
    configure = True,
    environ = ["CUDA_HOME", "CUDA_PATH", "PATH"],
)
