"""Bazel's own Java rules: it reads its Java toolchains whenever it looks for one for C. No Java is built here."""

java_binary = native.java_binary
java_import = native.java_import
java_library = native.java_library
java_runtime = native.java_runtime
java_toolchain = native.java_toolchain
