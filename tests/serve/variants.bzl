"""Which rows of examples/serve_text/spec.lua serve on a GPU."""

load("@serve_spec//:variants.bzl", "VARIANTS")

# Without tiles that are for other lengths, and rows that only glint_plan_variant takes.
GPU = [
    variant
    for variant in VARIANTS
    if variant["family"] != "cpu" and "up_to" not in variant and variant.get("math") != "tf32x3"
]
