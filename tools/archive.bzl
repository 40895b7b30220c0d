"""Archives: the one that a program links, and the tar that a user installs."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_LINK_STATIC_LIBRARY_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# ar wants unique short names: lib/cpu/run.c is run.o, and lib/run.c is too. Members are named after the path instead.
_MERGE = """
set -eu
ar="$1"; out="$2"; list="$3"; ld="$4"; strip="$5"; script="$6"
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
members=""
while IFS=' ' read -r member objects; do
    if [ -z "$strip" ]; then
        cp "$objects" "$directory/$member"
    else
        # shellcheck disable=SC2086 # a list of files
        "$ld" -r -T "$script" -o "$directory/$member" $objects
        "$strip" --strip-unneeded --remove-section=.eh_frame --remove-section=.comment "$directory/$member"
    fi
    members="$members $member"
done <"$list"
rm -f "$out"
case "$ar" in */*) ar=$(readlink -f "$ar") ;; esac
out=$(readlink -f "$(dirname "$out")")/$(basename "$out")
cd "$directory"
"$ar" rcD "$out" $members
"""

def _member(object):
    path = object.short_path
    for part in ["_objs/", "generated/"]:
        path = path.replace(part, "")
    parts = [part for part in path.replace(".pic.o", ".o").split("/") if part not in [".."]]

    # lib/core/plan.o: the target's name in the middle is Bazel's
    return "_".join(parts)

# The member that holds an object of a packed archive: kernels of an instruction set share one, and so do those of all
# GPUs.
def _pack(member):
    if "__cpu_" in member:
        return "kernels_%s.o" % member.partition("__cpu_")[2].rpartition("_m")[0]
    return "kernels_gpu.o" if member.endswith(".cubins.o") else member

def _glint_archive_impl(ctx):
    cc_toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(ctx = ctx, cc_toolchain = cc_toolchain)
    merged = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])

    objects = {}
    flags = []
    for linker_input in merged.linking_context.linker_inputs.to_list():
        flags += linker_input.user_link_flags
        for library in linker_input.libraries:
            for object in library.pic_objects or library.objects:
                objects[_member(object)] = object
    if not objects:
        fail("%s: the dependencies have no objects" % ctx.label)
    archive = ctx.actions.declare_file("lib%s.a" % (ctx.attr.archive or ctx.label.name))
    members = {}
    for name in sorted(objects.keys()):
        members.setdefault(_pack(name) if ctx.attr.pack else name, []).append(objects[name].path)
    list_file = ctx.actions.declare_file(archive.basename + ".members")
    ctx.actions.write(list_file, "".join(["%s %s\n" % (name, " ".join(members[name])) for name in sorted(members.keys())]))
    ctx.actions.run_shell(
        command = _MERGE,
        arguments = [
            cc_common.get_tool_for_action(feature_configuration = features, action_name = CPP_LINK_STATIC_LIBRARY_ACTION_NAME),
            archive.path,
            list_file.path,
            cc_toolchain.ld_executable,
            cc_toolchain.strip_executable if ctx.attr.pack else "",
            ctx.file._script.path,
        ],
        inputs = depset([list_file, ctx.file._script] + objects.values(), transitive = [cc_toolchain.all_files]),
        outputs = [archive],
        use_default_shell_env = True,
        mnemonic = "GlintArchive",
        progress_message = "Archiving %s (%d objects)" % (archive.basename, len(objects)),
    )

    # The dependents see this archive alone, as a user's program would.
    library = cc_common.create_library_to_link(
        actions = ctx.actions,
        feature_configuration = features,
        cc_toolchain = cc_toolchain,
        static_library = archive,
        pic_static_library = archive,
    )
    linker_input = cc_common.create_linker_input(
        owner = ctx.label,
        libraries = depset([library]),
        user_link_flags = depset(flags + ctx.attr.linkopts),
    )
    headers = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.hdrs]).compilation_context
    return [
        DefaultInfo(files = depset([archive])),
        CcInfo(
            compilation_context = headers,
            linking_context = cc_common.create_linking_context(linker_inputs = depset([linker_input])),
        ),
    ]

glint_archive = rule(
    implementation = _glint_archive_impl,
    doc = "Merges all objects of `deps` into one deterministic archive, and is a C library with the headers of `hdrs` for its dependents.",
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(providers = [CcInfo]),
        "archive": attr.string(doc = "NAME of libNAME.a, if not the target's"),
        "linkopts": attr.string_list(),
        "pack": attr.bool(doc = "kernels of an instruction set in one member, without local symbols and unwind tables"),
        "_script": attr.label(default = "//tools:pack.ld", allow_single_file = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

_TAR = """
set -eu
out="$1"; root="$2"; list="$3"
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
while IFS=' ' read -r name file; do
    install -D -m 644 "$file" "$directory/$root/$name"
done <"$list"
tar --create --file="$out" --directory="$directory" --format=ustar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX "$root"
"""

def _dist_tar_impl(ctx):
    list_file = ctx.actions.declare_file(ctx.label.name + ".contents")
    lines = []
    inputs = [list_file]
    for target, names in ctx.attr.files.items():
        files = {file.basename: file for file in target.files.to_list()}
        for name in names.split(" "):
            basename = name.rpartition("/")[2]
            if basename not in files:
                fail("%s has no file %s" % (target.label, basename))
            lines.append("%s %s\n" % (name, files[basename].path))
            inputs.append(files[basename])
    ctx.actions.write(list_file, "".join(sorted(lines)))
    ctx.actions.run_shell(
        command = _TAR,
        arguments = [ctx.outputs.out.path, ctx.attr.root, list_file.path],
        inputs = inputs,
        outputs = [ctx.outputs.out],
        use_default_shell_env = True,
        mnemonic = "DistTar",
        progress_message = "Packing %s" % ctx.outputs.out.basename,
    )
    return [DefaultInfo(files = depset([ctx.outputs.out]))]

dist_tar = rule(
    implementation = _dist_tar_impl,
    doc = "A tar with the same bytes for the same files: no times, no owners, sorted.",
    attrs = {
        "files": attr.label_keyed_string_dict(allow_files = True, doc = "target: where its files go, space-separated"),
        "root": attr.string(mandatory = True, doc = "the one folder at the top"),
        "out": attr.output(mandatory = True),
    },
)
