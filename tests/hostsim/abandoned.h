/* For programs most of whose launches end in a report: it leaves fibers where they are, with what their frames own and
 * copies half made, which is no leak. Included once a program. */
#ifndef GLINT_HOSTSIM_ABANDONED_H
#define GLINT_HOSTSIM_ABANDONED_H

/* LeakSanitizer, a library, asks: sanitizer/lsan_interface.h. */
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off();
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off()
{
    return 1;
}

#endif
