"""All repositories of the build: what is found on the machine, and the specs."""

load("//tools/repo:aarch64.bzl", "local_aarch64")
load("//tools/repo:check.bzl", "local_check")
load("//tools/repo:cuda.bzl", "local_cuda")
load("//tools/repo:host.bzl", "local_host")
load("//tools/repo:lua.bzl", "local_lua")
load("//tools/repo:spec.bzl", "glint_spec")

def glint_repositories():
    """Declares them; each is looked at when something first needs it."""
    local_lua(name = "lua")
    local_check(name = "check")
    local_cuda(name = "local_cuda")
    local_host(name = "local_host")
    local_aarch64(name = "local_aarch64")

    # The library's spec: spec/attention.lua, or --repo_env=GLINT_SPEC=FILE.
    glint_spec(name = "glint_spec")

    # One variant a template, of which generated/golden/ keeps the source.
    glint_spec(
        name = "golden_spec",
        spec = "//generated:golden/golden.lua",
    )

    # A second spec in the same build, for tests: head dims off the powers of two.
    glint_spec(
        name = "odd_spec",
        spec = "//tests/specs:odd.lua",
    )

    # A third one: query heads of a key head shared by several blocks at every length.
    glint_spec(
        name = "parts_spec",
        spec = "//tests/specs:parts.lua",
    )

    # Kernels for AMX, of which tests run a few with the tiles emulated.
    glint_spec(
        name = "amx_spec",
        spec = "//tests/specs:amx.lua",
    )

    # Kernels for AVX-512 BF16, beside rows of AVX-512.
    glint_spec(
        name = "dot_spec",
        spec = "//tests/specs:dot.lua",
    )

    # Hopper's kernels.
    glint_spec(
        name = "sm90a_spec",
        spec = "//tests/specs:sm90a.lua",
    )

    # Rows that read intervals of keys.
    glint_spec(
        name = "intervals_spec",
        spec = "//tests/specs:intervals.lua",
    )

    # Rows that read a tree.
    glint_spec(
        name = "trees_spec",
        spec = "//tests/specs:trees.lua",
    )

    # Rows with a bias.
    glint_spec(
        name = "bias_spec",
        spec = "//tests/specs:bias.lua",
    )

    # Rows with a bias by a tensor and without a softcap: triangle attention.
    glint_spec(
        name = "triangle_spec",
        spec = "//tests/specs:triangle.lua",
    )

    # Hopper's kernels of a server's step.
    glint_spec(
        name = "step_spec",
        spec = "//tests/specs:step.lua",
    )

    # Heads of 8, for the node tests of an ONNX operator.
    glint_spec(
        name = "onnx_spec",
        spec = "//tests/specs:onnx.lua",
    )

    # Caches of 8 bits.
    glint_spec(
        name = "cache_spec",
        spec = "//tests/specs:cache.lua",
    )

    # What serve_text needs on a GPU.
    glint_spec(
        name = "serve_spec",
        spec = "//examples:serve_text/spec.lua",
    )

    # The smallest library, without a GPU family.
    glint_spec(
        name = "minimal_spec",
        spec = "//spec:minimal.lua",
    )

    # The kernels in which the simulator must find deliberate faults.
    glint_spec(
        name = "mutations_spec",
        spec = "//tests/specs:mutations.lua",
    )
    glint_spec(
        name = "sm90a_mutations_spec",
        spec = "//tests/specs:sm90a_mutations.lua",
    )
