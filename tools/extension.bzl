"""The repositories of WORKSPACE for Bazel's module system."""

load("//tools:repositories.bzl", "glint_repositories")

def _glint_impl(_ctx):
    glint_repositories()

glint = module_extension(implementation = _glint_impl)
