#include "examples/embed/json.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64, NUMBER = 40 };

struct json json_open(const char *text, size_t bytes)
{
    return (struct json){text, text + bytes, NULL};
}

static void space(struct json *json)
{
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\n' || *json->at == '\r' || *json->at == '\t'))
        json->at++;
}

static int take(struct json *json, char c)
{
    space(json);
    if (json->wrong || json->at == json->end || *json->at != c)
        return 0;
    json->at++;
    return 1;
}

static void expect(struct json *json, const char *what)
{
    if (!json->wrong)
        json->wrong = what;
}

void json_enter(struct json *json, char kind)
{
    if (!take(json, kind))
        expect(json, kind == '{' ? "an object" : "an array");
}

int json_more(struct json *json, char kind, int first)
{
    if (json->wrong)
        return 0;
    if (take(json, kind == '{' ? '}' : ']'))
        return 0;
    if (!first && !take(json, ',')) {
        expect(json, "a comma");
        return 0;
    }
    space(json);
    return 1;
}

ptrdiff_t json_string(struct json *json, const char **start)
{
    *start = "";
    if (!take(json, '"')) {
        expect(json, "a string");
        return -1;
    }
    *start = json->at;
    for (; json->at < json->end && *json->at != '"'; json->at++)
        if (*json->at == '\\' && ++json->at == json->end)
            break;
    if (json->at >= json->end) {
        json->at = json->end;
        expect(json, "the end of a string");
        return -1;
    }
    return json->at++ - *start;
}

ptrdiff_t json_key(struct json *json, const char **start)
{
    ptrdiff_t length = json_string(json, start);
    if (!take(json, ':')) {
        expect(json, "a colon");
        return -1;
    }
    return length;
}

double json_number(struct json *json)
{
    char text[NUMBER];
    size_t length = 0;
    space(json);
    while (!json->wrong && json->at < json->end && length + 1 < sizeof text && *json->at != '\0' &&
           strchr("+-.0123456789eE", *json->at))
        text[length++] = *json->at++;
    text[length] = '\0';
    char *end = text;
    double value = strtod(text, &end);
    if (length == 0 || *end != '\0') {
        expect(json, "a number");
        return 0;
    }
    return value;
}

uint64_t json_count(struct json *json)
{
    double value = json_number(json);
    if (!(value >= 0 && value <= 0x1p53) || value != (double)(uint64_t)value) {
        expect(json, "a whole number");
        return 0;
    }
    return (uint64_t)value;
}

/* Without recursion: what is open stands in `kinds`. */
void json_skip(struct json *json)
{
    char kinds[DEEPEST];
    int depth = 0, first = 1;
    const char *text;
    for (;;) {
        space(json);
        if (json->wrong || json->at == json->end) {
            expect(json, "a value");
            return;
        }
        const char c = *json->at;
        if (c == '{' || c == '[') {
            if (depth == DEEPEST) {
                expect(json, "fewer levels");
                return;
            }
            json->at++;
            kinds[depth++] = c;
            first = 1;
        } else {
            if (c == '"')
                json_string(json, &text);
            else if ((size_t)(json->end - json->at) >= 4 && (!memcmp(json->at, "true", 4) || !memcmp(json->at, "null", 4)))
                json->at += 4;
            else if ((size_t)(json->end - json->at) >= 5 && !memcmp(json->at, "false", 5))
                json->at += 5;
            else
                json_number(json);
            first = 0;
        }
        while (depth > 0 && !json_more(json, kinds[depth - 1], first)) {
            if (json->wrong)
                return;
            depth--;
            first = 0;
        }
        if (depth == 0)
            return;
        if (kinds[depth - 1] == '{')
            json_key(json, &text);
    }
}

int json_is(const char *start, ptrdiff_t length, const char *word)
{
    return length >= 0 && (size_t)length == strlen(word) && memcmp(start, word, (size_t)length) == 0;
}
