#!/usr/bin/env python3
"""Prints unicode.inc: what a BERT tokenizer without case asks of Unicode, as tables of ranges.

    python3 examples/embed/unicode.py > examples/embed/unicode.inc

Each code point is decomposed (NFD), loses its nonspacing marks (Mn) and becomes lower case. Hangul syllables are not in the tables: they
decompose by arithmetic."""
import sys
import unicodedata


def folded(code):
    kept = "".join(c for c in unicodedata.normalize("NFD", chr(code)) if unicodedata.category(c) != "Mn")
    return "".join(c.lower() for c in kept)


def codes():
    return (c for c in range(0x80, 0x110000) if not 0xD800 <= c <= 0xDFFF and not 0xAC00 <= c <= 0xD7A3)


def ranges(wanted):
    found = []
    for code in codes():
        if wanted(unicodedata.category(chr(code))):
            if found and found[-1][1] == code - 1:
                found[-1][1] = code
            else:
                found.append([code, code])
    return found


def runs(pairs):
    """Code points that follow each other at a step of 1 or 2 and move by the same distance."""
    found = []
    for code, to in pairs:
        last = found[-1] if found else None
        step = code - last[1] if last else 0
        if last and to - code == last[2] and step in (1, 2) and last[3] in (0, step):
            last[1], last[3] = code, step
        else:
            found.append([code, code, to - code, 0])
    return [(first, last, distance, step or 1) for first, last, distance, step in found]


def table(name, rows, a_line):
    print(f"static const int32_t {name}[][{len(rows[0])}] = {{")
    for at in range(0, len(rows), a_line):
        print("    " + ", ".join("{" + ", ".join(str(x) for x in row) + "}" for row in rows[at : at + a_line]) + ",")
    print("};\n")


changed = [(c, folded(c)) for c in codes() if folded(c) != chr(c) and unicodedata.category(chr(c)) != "Mn"]
several = [(c, s) for c, s in changed if len(s) != 1]
assert all(1 < len(s) <= 3 for _, s in several)
print(f"/* Unicode {unicodedata.unidata_version}, made by unicode.py. */\n")
print("/* Nonspacing marks, which go; punctuation; controls and unassigned code points, which go; spaces: first and last. */")
table("MARKS", ranges(lambda k: k == "Mn"), 8)
table("PUNCTUATION", ranges(lambda k: k[0] == "P"), 8)
table("CONTROLS", ranges(lambda k: k in ("Cc", "Cf", "Cn", "Co")), 8)
table("SPACES", ranges(lambda k: k == "Zs"), 8)
print("/* Code points that become one other: first, last, distance, step. */")
table("MOVED", runs([(c, ord(s)) for c, s in changed if len(s) == 1]), 6)
print("/* Code points that become two or three others. */")
table("SPLIT", [(c, *(ord(x) for x in s), *([0] * (3 - len(s)))) for c, s in several], 4)
sys.stdout.flush()
