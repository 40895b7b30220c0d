"""Build settings: flags of our own, set by .bazelrc's configurations."""

def _impl(_ctx):
    return []

string_setting = rule(
    implementation = _impl,
    build_setting = config.string(flag = True),
)

bool_setting = rule(
    implementation = _impl,
    build_setting = config.bool(flag = True),
)
