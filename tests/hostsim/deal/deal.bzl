"""Which checks each variant runs: of those that are simulated, and of those of a CPU."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")
load("//tools:defs.bzl", "test_tables")
load(":rooms.bzl", "CPU_ROOMS", "ROOMS", "formats_only")

# A symbol for each image of a table, without kernels (tests/hostsim/image.h); for each kernel that a table calls.
_IMAGES = "for name in %s; do echo \"const unsigned long long $${name}_cubin[] = {0x6d69737465697571};\"; done >$@"
_KERNELS = "sed -n 's/^glint_cpu_phase_fn \\(.*\\);$$/const char \\1[1];/p' $< >$@"

def _names(name, room, symbols, srcs, backend):
    """NAME_names [VARIANT...]: names.c over the variants of a room.

    Args:
      name: of the targets
      room: its variants, and the label of its spec
      symbols: a command that writes what the table refers to beside the library
      srcs: of the program, beside names.c
      backend: libraries before the table and behind it, in the order of linking
    """
    table = name + "_table"
    test_tables(table + "_source", {table: room.variants}, room.spec)
    native.genrule(
        name = name + "_symbols_source",
        testonly = True,
        srcs = [table + ".c"],
        outs = [name + "_symbols.c"],
        cmd = symbols,
        tags = ["manual"],
    )
    cc_library(
        name = name + "_symbols",
        testonly = True,
        srcs = [name + "_symbols.c"],
        linkstatic = True,
        tags = ["manual"],
    )
    cc_binary(
        name = name + "_names",
        testonly = True,
        srcs = srcs,
        tags = ["manual"],
        deps = [":names"] + backend[0] + [table] + backend[1] + [name + "_symbols"],
    )
    return name + "_names"

def _names_of_gpus(room):
    images = ["glint_%s__sm%s" % (variant["name"], arch) for variant in ROOMS[room].variants for arch in variant["archs"]]
    backend = (["//tests/hostsim:backend_hostsim", "//lib:core"], ["//lib:cuda", "//tests/hostsim:gpu_rows"])
    return _names(room.replace("/", "_"), ROOMS[room], _IMAGES % " ".join(images), [], backend)

def _names_of_cpus(room):
    """On a CPU that has every instruction set."""
    name = "cpu_" + room.replace("/", "_")
    backend = (["//tests/checks:backend_host", "//lib:core"], [])
    return _names(name, CPU_ROOMS[room], _KERNELS, ["every_isa.c"], backend)

def _deal(name, folder, rooms, programs, formats):
    """ROOM/VARIANT.checks for each variant of some rooms, in a folder; `formats`: of which variants only those checks are named."""
    place = "$(RULEDIR)/" + folder
    runs = " && ".join(
        ["$$run $(execpath %s) %s >%s%s.names" % (programs[room], formats.get(room, ""), place, room) for room in rooms] +
        ["$(execpath @lua//:lua) $(execpath :deal.lua) %s %s" % (place, " ".join(rooms.keys()))],
    ) if rooms else "true"
    native.genrule(
        name = name,
        testonly = True,
        srcs = programs.values(),
        outs = [folder + room + ".names" for room in rooms] +
               ["%s%s/%s.checks" % (folder, room, variant["name"]) for room in rooms for variant in rooms[room].variants],
        cmd = select({
            "//tools:cross": "run=$(execpath @local_aarch64//:run); " + runs,
            "//conditions:default": "run=; " + runs,
        }),
        tags = ["manual"],
        tools = [
            ":deal.lua",
            "@lua//:lua",
        ] + select({
            "//tools:cross": ["@local_aarch64//:run"],
            "//conditions:default": [],
        }),
        visibility = ["//tests:__subpackages__"],
    )

def deal(name):
    """Deals all checks of all rooms' variants out to them (deal.lua): ROOM/VARIANT.checks for each, in the folder cpu for those of CPUs.

    Args:
      name: the target that makes the files of simulated variants; NAME_cpu makes those of CPUs
    """
    _deal(
        name,
        "",
        ROOMS,
        {room: _names_of_gpus(room) for room in ROOMS},
        {
            room: " ".join([variant["name"] for variant in ROOMS[room].variants if formats_only(variant, ROOMS[room].variants)])
            for room in ROOMS
        },
    )
    _deal(
        name + "_cpu",
        "cpu/",
        CPU_ROOMS,
        {room: _names_of_cpus(room) for room in CPU_ROOMS},
        {},
    )
