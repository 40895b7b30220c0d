#define GLINT_CPU_LANES ${lanes} /* floats in a vector */
#define GLINT_CPU_ROWS ${micro_rows}
#define GLINT_CPU_VECS ${micro_vecs}
#define GLINT_CPU_DTYPE bf16
#define GLINT_CPU_ELEMENT uint16_t
#define GLINT_CPU_TOGETHER 2 /* see glint_row_vector */

enum {
    HEAD_DIM = ${head_dim},
    ROWS = ${tile_m},  /* of Q that a task works on: queries of all the heads that share a key head */
    CHUNK = ${tile_n}, /* keys */
};
#include "lib/cpu/cpu.h"
#include "lib/cpu/amx_decode.h"
$ if capped then
#include "lib/cpu/softcap.h"
$ end

$ include("cpu_dec_work.c.lua")

/* The matrices of a lane's scratch: lib/cpu/cpu.h gives their shapes. */
struct matrices {
    uint16_t *q, *edge;
    uint32_t *p;
    float *o, *s, *sums, *max, *sum, *all_o, *all_max, *all_sum, *row;
};

static struct matrices matrices_of(const struct glint_cpu_call *call, float *scratch)
{
    const uint64_t *region = call->geometry.region;
    struct matrices m = {.q = (uint16_t *)(scratch + region[GLINT_AMX_DEC_Q]), .edge = (uint16_t *)(scratch + region[GLINT_AMX_DEC_EDGE]),
                         .p = (uint32_t *)(scratch + region[GLINT_AMX_DEC_P]), .o = scratch + region[GLINT_AMX_DEC_O],
                         .s = scratch + region[GLINT_AMX_DEC_S], .sums = scratch + region[GLINT_AMX_DEC_SUMS], .max = scratch + region[GLINT_AMX_DEC_STATS],
                         .all_o = scratch + region[GLINT_AMX_DEC_ALL_O], .row = scratch + region[GLINT_AMX_DEC_ROW]};
    m.sum = m.max + ROWS;
    m.all_max = m.max + 2 * ROWS;
    m.all_sum = m.max + 3 * ROWS;
    return m;
}

/* The rows of Q across, a panel after another; rows that fill up a panel are zero. */
static void load_queries(const struct work *w, const struct glint_tensors *t, const struct matrices *m)
{
    const struct glint_problem *p = w->problem;
    for (int64_t first = 0; first < w->rows; first += GLINT_DEC_PANEL) {
        const struct glint_rows rows = {.row = m->edge, .stride = HEAD_DIM, .rows = glint_clamp(w->rows - first, 0, GLINT_DEC_PANEL)};
        for (int64_t r = 0; r < rows.rows; r++) {
            const int64_t row = w->first_row + first + r, query = row / w->group, head = w->head_kv * w->group + row % w->group;
            memcpy(m->edge + r * HEAD_DIM, (const glint_element *)t->q + w->batch * p->q.batch + head * p->q.head + query * p->q.row,
                   HEAD_DIM * sizeof *m->edge);
        }
        glint_pack_across(m->q + first / GLINT_DEC_PANEL * GLINT_DIM_STEPS * GLINT_TILE_HALVES, &rows, 16);
    }
}

/* 16 rows of K or V, `bytes` apart. They are read where they lie and nothing is asked for ahead: on a Xeon of the
 * Sapphire Rapids class hardware does that well enough, and each way of asking took longer
 * (bench/results/cpu_amx_decode.md). */
struct sixteen {
    const uint16_t *row;
    ptrdiff_t bytes;
};

/* The sixteen rows of the keys from `key` on, of which [begin, end) are read. All others are zero, as what is there may
 * be anything, or no memory; with `clean` infinities and NaN are zero, too. */
GLINT_OUTLINE struct sixteen bring_together(const struct work *w, bool of_v, int64_t key, int64_t begin, int64_t end, bool clean, uint16_t *edge)
{
    memset(edge, 0, 16 * HEAD_DIM * sizeof *edge);
    begin = begin > key ? begin : key;
    end = end < key + 16 ? end : key + 16;
    const int64_t stride = of_v ? w->problem->v.row : w->problem->k.row;
    for (int64_t at = begin, count; at < end; at += count) {
        const struct place here = place_of(w, of_v, at, end - at);
        count = here.rows;
        for (int64_t i = 0; i < count; i++)
            memcpy(edge + (at - key + i) * HEAD_DIM, here.row + i * stride, HEAD_DIM * sizeof *edge);
    }
    for (int64_t i = 0; clean && i < 16; i++)
        glint_dec_clean(edge + i * HEAD_DIM);
    return (struct sixteen){edge, HEAD_DIM * sizeof *edge};
}

GLINT_INLINE struct sixteen sixteen_at(const struct work *w, const bool of_v, int64_t key, int64_t begin, int64_t end, bool clean, uint16_t *edge)
{
    if (begin <= key && key + 16 <= end && !clean) {
        const struct place here = place_of(w, of_v, key, 16);
        if (here.rows == 16)
            return (struct sixteen){here.row, (of_v ? w->problem->v.row : w->problem->k.row) * (int64_t)sizeof *here.row};
    }
    return bring_together(w, of_v, key, begin, end, clean, edge);
}

$ if capped then
/* Scores capped, where a problem asks for it; what they are multiplied by next. */
GLINT_OUTLINE float cap_scores(const struct glint_problem *p, float *s, int64_t count)
{
    if (p->softcap == 0.0f)
        return p->softmax_scale;
    const struct glint_softcap cap = glint_softcap_of(p->softcap);
    for (int64_t i = 0; i < count; i += GLINT_CPU_LANES)
        glint_store(s + i, glint_softcap(glint_load(s + i) * p->softmax_scale, cap));
    return 1.0f;
}

$ end
/* The softmax's steps, with `few` a constant. */
GLINT_INLINE void softmax_of(const int few, const struct matrices *m, int64_t tile, int64_t tile_end, const struct glint_dec_sight *sight,
                             const struct glint_problem *p, float *max, float *sum)
{
    float of_panel[2][GLINT_DEC_PANEL];
    const float scale = ${capped and "cap_scores(p, m->s + tile * 16 * few, (tile_end - tile) * 16 * few)" or "p->softmax_scale"};
    glint_dec_finish_scores(few, m->s, tile, tile_end, sight, scale, of_panel[0]);
    glint_dec_weigh(few, m->p, m->s, tile, tile_end, of_panel[0], of_panel[1]);
    memcpy(max, of_panel[0], sizeof(float) * (size_t)few);
    memcpy(sum, of_panel[1], sizeof(float) * (size_t)few);
}

GLINT_OUTLINE void softmax(int few, const struct matrices *m, int64_t tile, int64_t tile_end, const struct glint_dec_sight *sight,
                           const struct glint_problem *p, float *max, float *sum)
{
    switch (few) {
    case 8: softmax_of(8, m, tile, tile_end, sight, p, max, sum); break;
    case 4: softmax_of(4, m, tile, tile_end, sight, p, max, sum); break;
    case 2: softmax_of(2, m, tile, tile_end, sight, p, max, sum); break;
    default: softmax_of(1, m, tile, tile_end, sight, p, max, sum);
    }
}

/* Keys of a chunk that something is read or computed of. */
struct span {
    int64_t first_key; /* the chunk's */
    int64_t begin, end;
    int few;
};

/* A sweep over the keys of a chunk for up to four tiles of V along head_dim, from `step` on, and the narrower last
 * one. */
GLINT_INLINE void sweep(const struct work *w, const struct matrices *m, const struct span *x, const int step, const int steps, const bool rest,
                        bool clean)
{
    glint_dec_begin_values();
    for (int64_t tile = x->begin / 16; tile * 16 < x->end; tile++) {
        const int64_t key = x->first_key + tile * 16;
        const struct sixteen v = sixteen_at(w, true, key, x->first_key + x->begin, x->first_key + x->end, clean, m->edge);
        glint_dec_values_of_tile(steps, rest, m->p + tile * 32 * x->few, v.row + step * 32, v.row + GLINT_DEC_STEPS * 32, v.bytes);
    }
    glint_dec_end_values(steps, rest, m->sums + step * GLINT_TILE_FLOATS, m->sums + GLINT_DEC_STEPS * GLINT_TILE_FLOATS);
}

/* sums = P V. */
GLINT_INLINE void products_with_values(const struct work *w, const struct matrices *m, const struct span *x, bool clean)
{
$ local steps, rest = head_dim // 32, head_dim % 32 > 0
$ local step = 0
$ repeat
$   local count = math.min(steps - step, 4)
    sweep(w, m, x, ${step}, ${count}, ${tostring(rest and step == 0)}, clean);
$   step = step + 4
$ until step >= steps
}

/* The same where V has infinities or NaN among the keys. */
GLINT_OUTLINE void values_with_special(const struct work *w, const struct matrices *m, const struct span *x, const struct glint_dec_sight *sight,
                                       int64_t rows)
{
    products_with_values(w, m, x, true);
    for (int64_t r = 0; r < rows; r++) {
        float *o = m->o + r * GLINT_DEC_DIM;
        glint_dec_take_row(o, m->sums, r);
        for (int64_t key = sight->first[r], count; key < sight->end[r]; key += count) {
            const struct place here = place_of(w, true, x->first_key + key, sight->end[r] - key);
            count = here.rows;
            for (int64_t i = 0; i < count; i++) {
                float p;
                memcpy(&p, m->p + ((key + i) / 16 * x->few + r) * 32 + 16 + (key + i) % 16, sizeof p);
                glint_dec_add_special(o, p, here.row + i * w->problem->v.row);
            }
        }
    }
}

/* What a chunk gives the rows of a panel. */
static void panel_by_chunk(const struct work *w, const struct matrices *m, int64_t first_row, int64_t first_key)
{
    const int64_t rows = glint_clamp(w->rows - first_row, 0, GLINT_DEC_PANEL);
    int few = 1;
    while (few < rows)
        few *= 2;
    struct matrices mine = *m; /* the panel's own */
    mine.q += first_row / GLINT_DEC_PANEL * GLINT_DIM_STEPS * GLINT_TILE_HALVES;
    mine.o += first_row * GLINT_DEC_DIM;

    /* Some row sees the keys [begin, end), none when that is empty; every row sees [inner, inner_end). */
    struct glint_dec_sight sight = {{0}, {0}, 0, 0};
    for (int64_t r = 0; r < rows; r++) {
$ if bounds_first then
        sight.first[r] = (int32_t)glint_clamp(before(w, first_row + r) - first_key, 0, CHUNK);
$ end
        sight.end[r] = (int32_t)glint_clamp(keys_of(w, first_row + r) - first_key, 0, CHUNK);
    }
    const struct span x = {first_key, sight.first[0], ${bounds_first and "w->band.first > w->band.last ? sight.first[0] : sight.end[rows - 1]" or "sight.end[rows - 1]"}, few};
    if (x.begin >= x.end) {
        memset(mine.o, 0, sizeof(float) * (size_t)rows * GLINT_DEC_DIM);
        for (int64_t r = 0; r < rows; r++)
            m->max[first_row + r] = -INFINITY, m->sum[first_row + r] = 0.0f;
        return;
    }
    sight.inner = (sight.first[rows - 1] + 15) / 16;
    sight.inner_end = sight.end[0] / 16;
    const int64_t tile_end = (x.end + 15) / 16;

    glint_dec_tiles_of_scores(few);
    glint_dec_hold_queries(mine.q);
    for (int64_t tile = x.begin / 16; tile < tile_end; tile++) {
        const int64_t key = first_key + tile * 16;
        const struct sixteen k = sixteen_at(w, false, key, first_key + x.begin, first_key + x.end, false, m->edge);
        glint_dec_scores_of_tile(tile, m->s + tile * 16 * few, few, k.row, k.bytes, mine.q);
    }
    softmax(few, m, x.begin / 16, tile_end, &sight, w->problem, m->max + first_row, m->sum + first_row);

    glint_dec_tiles_of_values((int)rows);
    products_with_values(w, &mine, &x, false);
    bool finite = true;
    for (int64_t r = 0; r < rows; r++)
        finite &= glint_dec_take_row(mine.o + r * GLINT_DEC_DIM, mine.sums, r);
    if (!finite)
        values_with_special(w, &mine, &x, &sight, rows);
}

/* What one chunk of keys gives each row that sees some of it: O, not divided by the sum; the maximum; the sum. */
static void chunk(const struct work *w, const struct matrices *m, int64_t first_key)
{
    for (int64_t first_row = 0; first_row < w->rows; first_row += GLINT_DEC_PANEL)
        panel_by_chunk(w, m, first_row, first_key);
}

$ include("cpu_dec_tasks.c.lua")
