"""Which checks each simulated variant runs."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")
load("//tools:defs.bzl", "test_tables")
load(":rooms.bzl", "ROOMS", "formats_only")

# A symbol for each image of a table, without kernels (tests/hostsim/image.h).
_IMAGES = "for name in %s; do echo \"const unsigned long long $${name}_cubin[] = {0x6d69737465697571};\"; done >$@"

def _names(room, variants, spec):
    """ROOM_names [VARIANT...]: names.c over the variants of a room."""
    name = room.replace("/", "_")
    test_tables(name + "_table_source", {name + "_table": variants}, spec)
    native.genrule(
        name = name + "_images_source",
        testonly = True,
        outs = [name + "_images.c"],
        cmd = _IMAGES % " ".join(["glint_%s__sm%s" % (variant["name"], arch) for variant in variants for arch in variant["archs"]]),
    )
    cc_library(
        name = name + "_images",
        testonly = True,
        srcs = [name + "_images.c"],
        linkstatic = True,
    )
    cc_binary(
        name = name + "_names",
        testonly = True,
        tags = ["manual"],
        deps = [  # in the order of linking
            ":names",
            "//tests/hostsim:backend_hostsim",
            "//lib:core",
            name + "_table",
            "//lib:cuda",
            "//tests/hostsim:gpu_rows",
            name + "_images",
        ],
    )
    return name + "_names"

def deal(name):
    """Deals all checks of all rooms' variants out to them (deal.lua): ROOM/VARIANT.checks for each.

    Args:
      name: the target that makes the files
    """
    programs = {room: _names(room, ROOMS[room].variants, ROOMS[room].spec) for room in ROOMS}
    formats = {
        room: " ".join([variant["name"] for variant in ROOMS[room].variants if formats_only(variant, ROOMS[room].variants)])
        for room in ROOMS
    }
    native.genrule(
        name = name,
        testonly = True,
        srcs = programs.values(),
        outs = [room + ".names" for room in ROOMS] +
               ["%s/%s.checks" % (room, variant["name"]) for room in ROOMS for variant in ROOMS[room].variants],
        cmd = " && ".join(
            ["$(execpath %s) %s >$(RULEDIR)/%s.names" % (programs[room], formats[room], room) for room in ROOMS] +
            ["$(execpath @lua//:lua) $(execpath :deal.lua) $(RULEDIR) " + " ".join(ROOMS.keys())],
        ) if ROOMS else "true",
        tags = ["manual"],
        tools = [
            ":deal.lua",
            "@lua//:lua",
        ],
        visibility = ["//tests:__subpackages__"],
    )
