#include "examples/serve_text/server.h"

#include <stdio.h>
#include <string.h>

#include "examples/train_text/text.h"

/* ---- memory ---- */

int server_open(struct server *s, struct model *model, const struct glint_context *context, struct gpu *gpu,
                const struct server_shape *shape)
{
    memset(s, 0, sizeof *s);
    const struct cache_shape of_cache = {.layers = model->config.layers,
                                         .heads = model->config.heads,
                                         .slots = shape->slots,
                                         .pages = shape->pages,
                                         .longest = shape->longest,
                                         .proposed = shape->proposed,
                                         .kept = shape->kept};
    s->model = model;
    s->slots = shape->slots;
    s->pages = shape->pages;
    s->longest = shape->longest;
    s->pages_per_sequence = (s->longest + PAGE_ROWS - 1) / PAGE_ROWS;
    s->blocks = s->pages / BLOCK_PAGES;
    s->room = shape->room;
    if (s->pages < s->pages_per_sequence) {
        snprintf(s->reason, sizeof s->reason, "%zu pages of %d rows do not hold one sequence of %zu: %zu pages are needed",
                 s->pages, PAGE_ROWS, s->longest, s->pages_per_sequence);
        return -1;
    }
    if (cache_open(&s->cache, &of_cache, context, gpu) == 0)
        return 0;
    snprintf(s->reason, sizeof s->reason, "%s", s->cache.reason);
    return -1;
}

void server_layout(struct server *s, struct arena *arena, struct arena *device)
{
    const size_t rows = PREFILLS * CHUNK + s->slots * (1 + s->cache.shape.proposed);
    cache_layout(&s->cache, arena, device);
    s->table = arena_take(arena, s->slots * s->pages_per_sequence * sizeof *s->table);
    s->slot = arena_take(arena, s->slots * sizeof *s->slot);
    s->free_page = arena_take(arena, s->pages * sizeof *s->free_page);
    s->block = arena_take(arena, s->blocks * sizeof *s->block);
    s->list = arena_take(arena, s->blocks * sizeof *s->list);
    s->waiting = arena_take(arena, (s->room + s->slots) * sizeof *s->waiting); /* those that start again have room too */
    s->bytes = arena_take(arena, rows);
    s->positions = arena_take(arena, rows * sizeof *s->positions);
    s->step_slot = arena_take(arena, s->slots * sizeof *s->step_slot);
    model_rows_layout(&s->rows, &s->model->config, rows, arena);
}

void server_reset(struct server *s)
{
    memset(s->slot, 0, s->slots * sizeof *s->slot);
    memset(s->block, 0, s->blocks * sizeof *s->block);
    memset(&s->count, 0, sizeof s->count);
    s->free_pages = s->free_least = s->pages;
    for (size_t i = 0; i < s->pages; i++)
        s->free_page[i] = (int32_t)(s->pages - 1 - i);
    s->free_block = -1;
    for (size_t i = s->blocks; i-- > 0;) {
        s->list[i] = -1;
        s->block[i].next = s->free_block;
        s->free_block = (int32_t)i;
    }
    s->first_waiting = s->waits = 0;
    s->steps = s->arrivals = 0;
}

/* ---- blocks ---- */

static uint64_t fnv(uint64_t sum, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* The list of a block: by its bytes and by the block before it. */
static int32_t *list_of(struct server *s, int32_t parent, const unsigned char *bytes)
{
    return &s->list[fnv(fnv(UINT64_C(0xcbf29ce484222325), &parent, sizeof parent), bytes, CHUNK) % s->blocks];
}

static int32_t find_block(struct server *s, int32_t parent, const unsigned char *bytes)
{
    int32_t b = s->blocks ? *list_of(s, parent, bytes) : -1;
    while (b >= 0 && (s->block[b].parent != parent || memcmp(s->block[b].bytes, bytes, CHUNK) != 0))
        b = s->block[b].next;
    return b;
}

static void use_block(struct server *s, int32_t b, int by)
{
    for (; b >= 0; b = s->block[b].parent) { /* and all before it */
        s->block[b].users += (uint32_t)by;
        s->block[b].used = s->steps;
    }
}

/* Gives back the pages of the block that was used longest ago; 0 when every block is in use. */
static int evict(struct server *s)
{
    int32_t oldest = -1;
    for (size_t i = 0; i < s->blocks; i++) {
        const struct block *b = &s->block[i];
        if (b->taken && b->users == 0 && b->children == 0 && (oldest < 0 || b->used < s->block[oldest].used))
            oldest = (int32_t)i;
    }
    if (oldest < 0)
        return 0;
    struct block *b = &s->block[oldest];
    int32_t *at = list_of(s, b->parent, b->bytes);
    while (*at != oldest)
        at = &s->block[*at].next;
    *at = b->next;
    for (int i = 0; i < BLOCK_PAGES; i++)
        s->free_page[s->free_pages++] = b->page[i];
    if (b->parent >= 0)
        s->block[b->parent].children--;
    b->taken = 0;
    b->next = s->free_block;
    s->free_block = oldest;
    s->count.evicted++;
    return 1;
}

/* The pages of the chunk that a sequence has just computed become a block, unless another sequence made the same one
 * meanwhile. */
static void keep_block(struct server *s, size_t slot)
{
    struct slot *of = &s->slot[slot];
    const unsigned char *bytes = of->request->prompt + of->blocks * CHUNK;
    const int32_t b = s->free_block;
    if (of->blocks != of->position / CHUNK - 1 || b < 0 || find_block(s, of->last_block, bytes) >= 0)
        return;
    struct block *block = &s->block[b];
    s->free_block = block->next;
    memcpy(block->bytes, bytes, CHUNK);
    memcpy(block->page, s->table + slot * s->pages_per_sequence + of->blocks * BLOCK_PAGES, sizeof block->page);
    block->parent = of->last_block;
    block->users = 1;
    block->children = 0;
    block->used = s->steps;
    block->taken = 1;
    if (block->parent >= 0)
        s->block[block->parent].children++;
    int32_t *list = list_of(s, block->parent, bytes);
    block->next = *list;
    *list = b;
    of->last_block = b;
    of->blocks++;
}

/* ---- sequences ---- */

static void leave(struct server *s, size_t slot)
{
    struct slot *of = &s->slot[slot];
    const int32_t *row = s->table + slot * s->pages_per_sequence;
    for (size_t i = of->blocks * BLOCK_PAGES; i < of->pages; i++)
        s->free_page[s->free_pages++] = row[i];
    use_block(s, of->last_block, -1);
    of->request = NULL;
}

int server_take(struct server *s, struct request *request)
{
    if (request->prompt_bytes < 1 || request->length < 1 || request->prompt_bytes + request->length > s->longest) {
        snprintf(s->reason, sizeof s->reason,
                 "a request of %zu bytes and %zu to write: both must be 1 or more, and %zu together at most", request->prompt_bytes,
                 request->length, s->longest);
        return -1;
    }
    if (s->waits >= s->room)
        return 1;
    request->done = 0;
    s->waiting[(s->first_waiting + s->waits++) % (s->room + s->slots)] = request;
    return 0;
}

size_t server_busy(const struct server *s)
{
    size_t busy = s->waits;
    for (size_t i = 0; i < s->slots; i++)
        busy += s->slot[i].request != NULL;
    return busy;
}

size_t server_lost_pages(const struct server *s)
{
    size_t kept = s->free_pages;
    for (size_t i = 0; i < s->blocks; i++)
        kept += s->block[i].taken && s->block[i].users == 0 ? BLOCK_PAGES : 0;
    return s->pages - kept;
}

static size_t pages_of(size_t rows)
{
    return (rows + PAGE_ROWS - 1) / PAGE_ROWS;
}

/* Pages that are free or that eviction would free, less those that running sequences still need for their prompts and
 * one byte. */
static int64_t available_pages(const struct server *s)
{
    int64_t pages = (int64_t)s->free_pages;
    for (size_t i = 0; i < s->blocks; i++)
        pages += s->block[i].taken && s->block[i].users == 0 ? BLOCK_PAGES : 0;
    for (size_t i = 0; i < s->slots; i++) {
        const struct slot *of = &s->slot[i];
        const size_t needs = of->request ? pages_of(of->request->prompt_bytes + 1) : 0;
        pages -= needs > of->pages ? (int64_t)(needs - of->pages) : 0;
    }
    return pages;
}

/* A slot for a request. Blocks that begin as its prompt does are shared, but for the prompt's last byte: its row gives
 * the first logits. */
static void begin(struct server *s, size_t slot, struct request *request)
{
    struct slot *of = &s->slot[slot];
    *of = (struct slot){.request = request, .last_block = -1, .random = request->seed, .order = s->arrivals++};
    request->trace = UINT64_C(0xcbf29ce484222325);
    while ((of->blocks + 1) * CHUNK < request->prompt_bytes) {
        const int32_t b = find_block(s, of->last_block, request->prompt + of->blocks * CHUNK);
        if (b < 0)
            break;
        memcpy(s->table + slot * s->pages_per_sequence + of->blocks * BLOCK_PAGES, s->block[b].page, sizeof s->block[b].page);
        of->last_block = b;
        of->blocks++;
    }
    use_block(s, of->last_block, 1);
    of->position = of->blocks * CHUNK;
    of->pages = of->blocks * BLOCK_PAGES;
}

/* Waiting requests take free slots, in their order, as long as there are pages for their prompts. One may always
 * run. */
static void join(struct server *s)
{
    size_t running = 0;
    for (size_t i = 0; i < s->slots; i++)
        running += s->slot[i].request != NULL;
    for (size_t i = 0; i < s->slots && s->waits > 0; i++) {
        if (s->slot[i].request)
            continue;
        begin(s, i, s->waiting[s->first_waiting]);
        if (running > 0 && available_pages(s) < 0) {
            leave(s, i);
            return;
        }
        s->count.shared_rows += s->slot[i].position;
        s->first_waiting = (s->first_waiting + 1) % (s->room + s->slots);
        s->waits--;
        running++;
    }
}

/* The sequence that came last starts again, before all that wait. */
static void restart_last(struct server *s)
{
    size_t last = MAX_SLOTS;
    for (size_t i = 0; i < s->slots; i++)
        if (s->slot[i].request && (last == MAX_SLOTS || s->slot[i].order > s->slot[last].order))
            last = i;
    struct request *request = s->slot[last].request;
    leave(s, last);
    s->first_waiting = (s->first_waiting + s->room + s->slots - 1) % (s->room + s->slots);
    s->waiting[s->first_waiting] = request;
    s->waits++;
    s->count.restarted++;
}

/* Pages for the sequence's first `rows` rows. Whether it is still there: it may have had to start again. */
static int grow(struct server *s, size_t slot, size_t rows)
{
    struct slot *of = &s->slot[slot];
    while (of->request && of->pages * PAGE_ROWS < rows) {
        if (s->free_pages > 0) {
            s->table[slot * s->pages_per_sequence + of->pages++] = s->free_page[--s->free_pages];
            s->free_least = s->free_pages < s->free_least ? s->free_pages : s->free_least;
        } else if (!evict(s)) {
            restart_last(s);
        }
    }
    return of->request != NULL;
}

/* ---- a step ---- */

static void write_byte(struct server *s, size_t slot, const float *logits)
{
    struct slot *of = &s->slot[slot];
    struct request *request = of->request;
    request->trace = fnv(request->trace, logits, VOCABULARY * sizeof *logits);
    request->answer[of->written++] = text_draw(logits, request->temperature, &of->random);
    s->count.written++;
    if (of->written == request->length) {
        request->done = 1;
        s->count.finished++;
        leave(s, slot);
    }
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Pages for all rows of this step, for those that came first before the others: so the first of all always advances. */
static void find_pages(struct server *s)
{
    uint64_t done = 0; /* sequences that came before this one have their pages */
    for (;;) {
        size_t next = MAX_SLOTS;
        for (size_t i = 0; i < s->slots; i++)
            if (s->slot[i].request && s->slot[i].order >= done && (next == MAX_SLOTS || s->slot[i].order < s->slot[next].order))
                next = i;
        if (next == MAX_SLOTS)
            return;
        const struct slot *of = &s->slot[next];
        const size_t prompt = of->request->prompt_bytes;
        done = of->order + 1;
        grow(s, next, of->position < prompt ? smaller(prompt, of->position + CHUNK) : of->position + 1);
    }
}

static void put_row(struct server *s, unsigned char byte, size_t position)
{
    s->bytes[s->rows.count] = byte;
    s->positions[s->rows.count++] = position;
}

/* Whose prompts advance: those that came first. */
static void choose_prefills(struct server *s)
{
    s->prefills = 0;
    for (size_t i = 0; i < s->slots; i++) {
        const struct slot *of = &s->slot[i];
        if (!of->request || of->position >= of->request->prompt_bytes)
            continue;
        size_t at = s->prefills;
        while (at > 0 && s->slot[s->prefill_slot[at - 1]].order > of->order)
            at--;
        if (at == PREFILLS)
            continue;
        s->prefills += s->prefills < PREFILLS;
        for (size_t j = s->prefills - 1; j > at; j--)
            s->prefill_slot[j] = s->prefill_slot[j - 1];
        s->prefill_slot[at] = i;
    }
}

/* The rows that were put last become a sequence of the step. */
static void end_sequence(struct server *s, size_t slot, size_t rows)
{
    struct cache_numbers *n = &s->cache.step;
    const struct slot *of = &s->slot[slot];
    memcpy(n->table + n->sequences * s->pages_per_sequence, s->table + slot * s->pages_per_sequence, of->pages * sizeof *n->table);
    n->keys[n->sequences] = (int32_t)(of->position + rows);
    s->step_slot[n->sequences++] = slot;
    n->first[n->sequences] = (int32_t)s->rows.count;
}

static void gather_prompts(struct server *s)
{
    choose_prefills(s);
    for (size_t i = 0; i < s->prefills; i++) {
        const struct slot *of = &s->slot[s->prefill_slot[i]];
        const size_t rows = smaller(of->request->prompt_bytes - of->position, CHUNK);
        for (size_t r = 0; r < rows; r++)
            put_row(s, of->request->prompt[of->position + r], of->position + r);
        end_sequence(s, s->prefill_slot[i], rows);
    }
}

/* Byte `at` of a sequence: of its prompt, or of what is written of its answer. */
static unsigned char byte_of(const struct request *r, size_t at)
{
    return at < r->prompt_bytes ? r->prompt[at] : r->answer[at - r->prompt_bytes];
}

/* How many bytes before `a` and before `b` are the same, ALIKE at most. */
enum { ALIKE = 8, ENOUGH = 3, LOOK_BACK = 2048 };
static size_t alike(const struct request *r, size_t a, size_t b)
{
    size_t n = 0;
    while (n < ALIKE && n < a && byte_of(r, a - 1 - n) == byte_of(r, b - 1 - n))
        n++;
    return n;
}

/* Proposes what followed the longest run of last bytes that stood before, the newest of those that are equally long; at
 * the end of the text what was proposed goes on. No page is taken for it, and no byte is proposed that would be one too
 * many. */
static void propose(struct server *s, struct slot *of)
{
    const struct request *r = of->request;
    const size_t end = r->prompt_bytes + of->written; /* one more than of->position */
    size_t room = smaller(s->cache.shape.proposed, r->length - of->written - 1), best = ENOUGH - 1, from = 0;
    room = smaller(room, of->pages * PAGE_ROWS - of->position - 1);
    of->proposals = 0;
    for (size_t at = end - 1; room > 0 && best < ALIKE && at > 0 && at + LOOK_BACK > end; at--) {
        const size_t same = alike(r, at, end);
        if (same > best)
            best = same, from = at;
    }
    for (; from > 0 && of->proposals < room; from++)
        of->proposed[of->proposals++] = from < end ? byte_of(r, from) : of->proposed[from - end];
    s->count.proposed += of->proposals;
}

static void gather(struct server *s)
{
    s->rows.count = s->cache.step.sequences = 0;
    s->cache.step.first[0] = 0;
    gather_prompts(s);
    for (size_t i = 0; i < s->slots; i++) {
        struct slot *of = &s->slot[i];
        if (!of->request || of->position < of->request->prompt_bytes)
            continue;
        propose(s, of);
        put_row(s, of->request->answer[of->written - 1], of->position);
        for (size_t j = 0; j < of->proposals; j++)
            put_row(s, of->proposed[j], of->position + 1 + j);
        end_sequence(s, i, 1 + of->proposals);
    }
}

static int attend(void *user, size_t layer, const float *qkv, float *o)
{
    return cache_attend(user, layer, qkv, o);
}

static int compute(struct server *s)
{
    s->rows.bytes = s->bytes;
    s->rows.positions = s->positions;
    s->rows.attend = attend;
    s->rows.user = &s->cache;
    if (s->rows.count == 0 ||
        (cache_begin(&s->cache) == 0 && model_rows_forward(s->model, &s->rows) == 0 && cache_end(&s->cache) == 0))
        return 0;
    snprintf(s->reason, sizeof s->reason, "%s", s->cache.reason);
    return -1;
}

/* A chunk of a prompt is in the cache. The row of the prompt's last byte gives the answer's first one. */
static void end_chunk(struct server *s, size_t slot, size_t rows, const float *logits)
{
    struct slot *of = &s->slot[slot];
    of->position += rows;
    s->count.prompt_rows += rows;
    if (rows == CHUNK)
        keep_block(s, slot);
    if (of->position == of->request->prompt_bytes)
        write_byte(s, slot, logits + (rows - 1) * VOCABULARY);
}

/* Each row gives the byte after it. The next row counts if it is of that byte. */
static void accept(struct server *s, size_t slot, const float *logits)
{
    struct slot *of = &s->slot[slot];
    for (size_t j = 0; of->request; j++, logits += VOCABULARY) {
        of->position++;
        write_byte(s, slot, logits);
        if (j == of->proposals || !of->request || of->request->answer[of->written - 1] != of->proposed[j])
            return;
        s->count.accepted++;
    }
}

int server_step(struct server *s)
{
    s->steps++;
    join(s);
    find_pages(s);
    gather(s);
    if (compute(s) != 0)
        return -1;

    const int32_t *first = s->cache.step.first;
    for (size_t b = 0; b < s->cache.step.sequences; b++) {
        const size_t slot = s->step_slot[b], rows = (size_t)(first[b + 1] - first[b]);
        const float *logits = s->rows.logits + (size_t)first[b] * VOCABULARY;
        if (b < s->prefills)
            end_chunk(s, slot, rows, logits);
        else
            accept(s, slot, logits);
    }
    return 0;
}
