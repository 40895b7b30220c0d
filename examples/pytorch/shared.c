/* What libglint_shared.so exports: the functions of glint.h, and nothing else. In the archive their symbols are hidden,
 * so that a plugin that links Glint does not export it by accident; whoever wants a shared object asks for one, here.
 * shared.sh gives the archive's functions the prefix archive_ and lists them in exports.h, a line EXPORT(name) each.
 * The dynamic linker asks a resolver once, when the object is loaded; calls then go straight to the archive's
 * function. */
#include "glint.h"

#define EXPORT(name)                                                              \
    extern __typeof__(name) archive_##name __attribute__((visibility("hidden"))); \
    static __typeof__(name) *resolve_##name(void)                                 \
    {                                                                             \
        return archive_##name;                                                    \
    }                                                                             \
    __typeof__(name) name __attribute__((visibility("default"), ifunc("resolve_" #name)));
#include "exports.h"
