#include "examples/embed/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "examples/embed/weights.h"

/* ---- Unicode ---- */

#include "examples/embed/unicode.inc"

enum { LONGEST_WORD = 100, WORD_BYTES = 4 * LONGEST_WORD }; /* in code points; a longer word is [UNK] */

#define IN(table, code) in_ranges(table, sizeof table / sizeof table[0], code)

static int in_ranges(const int32_t (*ranges)[2], size_t count, int32_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (code > ranges[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && code >= ranges[low][0];
}

/* The next code point of `text`; a byte that is no UTF-8 is the replacement character. */
static int32_t next_code(const char *text, size_t bytes, size_t *at)
{
    const unsigned char *s = (const unsigned char *)text + *at;
    const size_t left = bytes - *at, length = s[0] < 0x80   ? 1
                                              : s[0] < 0xc2 ? 0
                                              : s[0] < 0xe0 ? 2
                                              : s[0] < 0xf0 ? 3
                                              : s[0] < 0xf5 ? 4
                                                            : 0;
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int32_t code = length > 1 ? s[0] & (0x7f >> length) : s[0];
    size_t i = 1;
    for (; i < length && i < left && (s[i] & 0xc0) == 0x80; i++)
        code = code << 6 | (s[i] & 0x3f);
    if (length == 0 || i < length || code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        (*at)++;
        return 0xfffd;
    }
    *at += length;
    return code;
}

static size_t put_code(char *to, int32_t code)
{
    const size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const int lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length; i-- > 1; code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(lead[length] | code);
    return length;
}

static int is_space(int32_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || (c >= 0x80 && IN(SPACES, c));
}

static int is_control(int32_t c)
{
    return c < 0x20 || c == 0x7f || c == 0xfffd || (c >= 0x80 && IN(CONTROLS, c));
}

static int is_punctuation(int32_t c)
{
    return c < 0x80 ? (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126)
                    : IN(PUNCTUATION, c);
}

static int is_chinese(int32_t c)
{
    static const int32_t ranges[][2] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
                                        {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b820, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    return c >= 0x3400 && IN(ranges, c);
}

/* Without marks and case: 0 to 3 code points. */
static size_t fold(int32_t c, int32_t to[3])
{
    to[0] = c;
    if (c < 0x80) {
        to[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
        return 1;
    }
    if (IN(MARKS, c))
        return 0;
    if (c >= 0xac00 &&
        c <= 0xd7a3) { /* The Unicode Standard, 3.12: a syllable is a leading consonant, a vowel and perhaps a trailing one */
        const int32_t syllable = c - 0xac00, trailing = syllable % 28;
        to[0] = 0x1100 + syllable / (21 * 28);
        to[1] = 0x1161 + syllable % (21 * 28) / 28;
        to[2] = 0x11a7 + trailing;
        return trailing ? 3 : 2;
    }
    for (size_t i = 0; i < sizeof SPLIT / sizeof SPLIT[0]; i++)
        if (SPLIT[i][0] == c) {
            memcpy(to, SPLIT[i] + 1, 3 * sizeof *to);
            return to[2] ? 3 : 2;
        }
    size_t low = 0, high = sizeof MOVED / sizeof MOVED[0];
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (c > MOVED[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    if (low < sizeof MOVED / sizeof MOVED[0] && c >= MOVED[low][0] && (c - MOVED[low][0]) % MOVED[low][3] == 0)
        to[0] = c + MOVED[low][2];
    return 1;
}

/* ---- the vocabulary ---- */

static uint32_t hash(const char *text, size_t bytes, int inside)
{
    uint32_t h = inside ? 0x9e3779b9u : 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h ^ h >> 15;
}

/* A piece inside of a word is written ##piece, and looked up by what follows the marks. */
static int is_inside(const struct piece *piece)
{
    return piece->bytes > 2 && piece->text[0] == '#' && piece->text[1] == '#';
}

static int32_t look_up(const struct tokenizer *tokenizer, const char *text, size_t bytes, int inside)
{
    for (size_t slot = hash(text, bytes, inside) & (tokenizer->slots - 1); tokenizer->table[slot];
         slot = (slot + 1) & (tokenizer->slots - 1)) {
        const struct piece *piece = &tokenizer->pieces[tokenizer->table[slot] - 1];
        const size_t marks = inside ? 2 : 0;
        if (is_inside(piece) == inside && piece->bytes - marks == bytes && memcmp(piece->text + marks, text, bytes) == 0)
            return (int32_t)(tokenizer->table[slot] - 1);
    }
    return -1;
}

int tokenizer_open(struct tokenizer *tokenizer, const char *path)
{
    memset(tokenizer, 0, sizeof *tokenizer);
    tokenizer->file = file_open(path, &tokenizer->file_bytes, tokenizer->reason, sizeof tokenizer->reason);
    if (!tokenizer->file)
        return -1;
    for (size_t i = 0; i < tokenizer->file_bytes; i++)
        tokenizer->count += tokenizer->file[i] == '\n';
    tokenizer->count += tokenizer->file[tokenizer->file_bytes - 1] != '\n';
    for (tokenizer->slots = 1; tokenizer->slots < 2 * tokenizer->count; tokenizer->slots *= 2)
        ;
    return 0;
}

void tokenizer_layout(struct tokenizer *tokenizer, struct arena *arena)
{
    tokenizer->pieces = arena_take(arena, tokenizer->count * sizeof *tokenizer->pieces);
    tokenizer->table = arena_take(arena, tokenizer->slots * sizeof *tokenizer->table);
}

int tokenizer_fill(struct tokenizer *tokenizer)
{
    const char *at = (const char *)tokenizer->file, *end = at + tokenizer->file_bytes;
    memset(tokenizer->table, 0, tokenizer->slots * sizeof *tokenizer->table);
    for (size_t i = 0; i < tokenizer->count; i++) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        line = line ? line : end;
        struct piece piece = {at, (size_t)(line - at) - (line > at && line[-1] == '\r')};
        const int inside = is_inside(&piece), marks = inside ? 2 : 0;
        size_t slot = hash(piece.text + marks, piece.bytes - (size_t)marks, inside) & (tokenizer->slots - 1);
        while (tokenizer->table[slot])
            slot = (slot + 1) & (tokenizer->slots - 1);
        tokenizer->pieces[i] = piece;
        tokenizer->table[slot] = (uint32_t)i + 1;
        at = line < end ? line + 1 : end;
    }
    tokenizer->unknown = look_up(tokenizer, "[UNK]", 5, 0);
    tokenizer->first = look_up(tokenizer, "[CLS]", 5, 0);
    tokenizer->last = look_up(tokenizer, "[SEP]", 5, 0);
    if (tokenizer->unknown < 0 || tokenizer->first < 0 || tokenizer->last < 0) {
        snprintf(tokenizer->reason, sizeof tokenizer->reason, "the vocabulary lacks one of [UNK], [CLS] and [SEP]");
        return -1;
    }
    return 0;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    file_close(tokenizer->file, tokenizer->file_bytes);
    tokenizer->file = NULL;
}

/* ---- a text ---- */

struct writing {
    const struct tokenizer *tokenizer;
    int32_t *tokens;
    size_t count, most;
    char word[WORD_BYTES + 4];
    size_t bytes, codes; /* of the word; codes goes on beyond LONGEST_WORD */
};

static void put_token(struct writing *w, int32_t token)
{
    if (w->count < w->most)
        w->tokens[w->count++] = token;
}

/* The longest piece from `begin` on, again and again; [UNK] for the whole word where there is none at some place. */
static void end_word(struct writing *w)
{
    const size_t before = w->count;
    int known = w->codes <= LONGEST_WORD;
    for (size_t begin = 0, end; known && begin < w->bytes; begin = end) {
        int32_t token = -1;
        for (end = w->bytes; end > begin; end--) {
            const int whole_codes = end == w->bytes || (w->word[end] & 0xc0) != 0x80;
            token = whole_codes ? look_up(w->tokenizer, w->word + begin, end - begin, begin > 0) : -1;
            if (token >= 0)
                break;
        }
        known = token >= 0;
        put_token(w, token);
    }
    if (!known) {
        w->count = before;
        put_token(w, w->tokenizer->unknown);
    }
    w->bytes = w->codes = 0;
}

static void add_code(struct writing *w, int32_t code)
{
    if (++w->codes <= LONGEST_WORD)
        w->bytes += put_code(w->word + w->bytes, code);
}

size_t tokenize(const struct tokenizer *tokenizer, const char *text, size_t bytes, int32_t *tokens, size_t most)
{
    struct writing w = {.tokenizer = tokenizer, .tokens = tokens, .most = most - 1};
    put_token(&w, tokenizer->first);
    for (size_t at = 0; at < bytes && w.count < w.most;) {
        int32_t code = next_code(text, bytes, &at), parts[3];
        if (is_space(code)) {
            end_word(&w);
            continue;
        }
        if (is_control(code))
            continue;
        const int chinese = is_chinese(code);
        if (chinese)
            end_word(&w);
        const size_t count = fold(code, parts);
        for (size_t i = 0; i < count; i++) {
            const int alone = is_punctuation(parts[i]);
            if (alone)
                end_word(&w);
            add_code(&w, parts[i]);
            if (alone)
                end_word(&w);
        }
        if (chinese)
            end_word(&w);
    }
    end_word(&w);
    w.most = most;
    put_token(&w, tokenizer->last);
    return w.count;
}
