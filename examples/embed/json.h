/* Reads JSON by walking over it: the caller says what it expects next, and skips what it does not want. Nothing is
 * copied or allocated. */
#ifndef EXAMPLES_EMBED_JSON_H
#define EXAMPLES_EMBED_JSON_H

#include <stddef.h>
#include <stdint.h>

struct json {
    const char *at, *end;
    const char *wrong; /* NULL, or what was expected at `at`: every later call does nothing then */
};

struct json json_open(const char *text, size_t bytes);

/* Steps into an object or an array; `kind` is '{' or '['. */
void json_enter(struct json *json, char kind);

/* Whether another member or element follows; if not, steps out. Call it before each one, `first` true for the first. */
int json_more(struct json *json, char kind, int first);

/* The next string, as it is written (escapes stay escapes); the key of a member and its colon. Length -1 when it is
 * none. */
ptrdiff_t json_string(struct json *json, const char **start);
ptrdiff_t json_key(struct json *json, const char **start);

/* The next number; 0 when it is none. json_count wants a whole one from 0 to 2^53. */
double json_number(struct json *json);
uint64_t json_count(struct json *json);

/* Steps over the next value, whatever it is. */
void json_skip(struct json *json);

/* Whether a string of json_string or json_key is this word. */
int json_is(const char *start, ptrdiff_t length, const char *word);

#endif
