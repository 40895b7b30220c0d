/* A golden file: what a GPU gave for each micro-test of a group. Lines beginning with # say which GPU, driver and day, and
 * "# text NAME DIGEST" which texts of the primitives they were (texts.lua); every other line is
 *     name words hash word[0] word[words / 8] ... word[words * 7 / 8]
 * in hexadecimal but for the number of words. Of an approximate result there are all words. */
#ifndef GLINT_HOSTSIM_MICRO_GOLDEN_H
#define GLINT_HOSTSIM_MICRO_GOLDEN_H

#include <cinttypes>
#include <cstdio>
#include <string>

#include "tests/hostsim/micro/cases.h"

inline std::string golden_line(const micro_case &c, const uint32_t *words, size_t n)
{
    char text[64];
    std::string line = c.name;

    snprintf(text, sizeof text, " %zu %016" PRIx64, n, micro_hash(words, n));
    line += text;
    const size_t shown = c.approximate || n < 8 ? n : 8;
    for (size_t i = 0; i < shown; ++i) {
        snprintf(text, sizeof text, " %08x", words[n * i / shown]);
        line += text;
    }
    return line;
}

#endif
