/* glint_plan_cost: the formulas of glint.h, in time that does not grow with the lengths. */
#include "lib/check.h"
#include "lib/variant.h"

enum { DECODE_BLOCK = 32 }; /* decode begins at a multiple of so many keys: GLINT_DEC_BLOCK */

static int64_t divide_down(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return -divide_down(-a, b);
}

/* Sum of floor((a i + b) / m) for 0 <= i < n. Whole parts of a and b are taken out; what is left counts the points
 * under a line, and the same points counted from the other axis are a line with fewer of them: Euclid's algorithm,
 * so O(log m) steps. */
static uint64_t sum_of_floors(uint64_t n, uint64_t m, uint64_t a, uint64_t b)
{
    uint64_t sum = 0;
    for (;;) {
        if (n > 0)
            sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
        a %= m;
        b %= m;
        const uint64_t top = a * n + b, under = m;
        if (top < m)
            return sum;
        n = top / m;
        b = top % m;
        m = a;
        a = under;
    }
}

/* Tiles of one row of tiles, whose queries are [first, last], in which a pair is visible. */
static int64_t tiles_of(const struct glint_problem *p, struct glint_band band, int64_t first, int64_t last, int64_t n)
{
    const int64_t low = first + band.first > 0 ? first + band.first : 0;
    const int64_t high = last + band.last < p->seqlen_k ? last + band.last : p->seqlen_k - 1;
    return low <= high ? high / n - low / n + 1 : 0;
}

/* Tiles of m queries x n keys in which a pair is visible; of 1 x 1 that is the number of visible pairs. The tiles of
 * row j go from that of key max(0, j m + first) to that of key min(seqlen_k - 1, j m + m - 1 + last). The number is at
 * most that of all pairs, so a sum that wraps around on the way to it does no harm. */
static int64_t visible_tiles(const struct glint_problem *p, int64_t m, int64_t n)
{
    const struct glint_band band = glint_band_of(p);
    const int64_t rows = p->seqlen_q / m, rest = p->seqlen_q % m, last_key = p->seqlen_k - 1, reach = m - 1 + band.last;
    if (last_key < 0 || band.first > band.last)
        return 0;
    uint64_t sum = rest > 0 ? (uint64_t)tiles_of(p, band, p->seqlen_q - rest, p->seqlen_q - 1, n) : 0;
    const int64_t low = divide_up(-reach, m), high = divide_down(last_key - band.first, m) + 1; /* low < high */
    const int64_t begin = glint_between(low, 0, rows), end = glint_between(high, 0, rows);
    const int64_t cut = glint_between(divide_up(last_key - reach, m), begin, end);   /* from here on: to the last key */
    const int64_t past = glint_between(divide_down(-band.first, m) + 1, begin, end); /* and from after the first */
    sum += (uint64_t)(end - begin) + (uint64_t)(end - cut) * (uint64_t)(last_key / n);
    if (cut > begin)
        sum += sum_of_floors((uint64_t)(cut - begin), (uint64_t)n, (uint64_t)m, (uint64_t)(begin * m + reach));
    if (end > past)
        sum -= sum_of_floors((uint64_t)(end - past), (uint64_t)n, (uint64_t)m, (uint64_t)(past * m + band.first));
    return (int64_t)sum;
}

static uint64_t times(uint64_t a, int64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, (uint64_t)b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

enum glint_status glint_plan_cost(const struct glint_plan *plan, struct glint_cost *cost)
{
    struct glint_fault fault;
    if (!plan || !cost)
        return GLINT_NULL_ARGUMENT;
    if (cost->struct_size != sizeof *cost)
        return GLINT_STRUCT_SIZE;
    const enum glint_status status = glint_check_plan(plan, (enum glint_pass)plan->pass, &fault);
    if (status != GLINT_OK)
        return status;
    const struct glint_problem *p = &plan->problem;
    const struct glint_variant *v = &glint_variants[plan->variant];
    const bool backward = plan->pass == GLINT_BACKWARD;
    const int64_t pairs = visible_tiles(p, 1, 1), head_dim = p->head_dim, head_dim_v = p->head_dim_v;
    const int64_t first = glint_first_key(p, 0), keys = pairs > 0 ? glint_last_key(p, p->seqlen_q - 1) - first + 1 : 0;

    const uint64_t heads_q = times((uint64_t)p->batch, p->heads_q), heads_kv = times((uint64_t)p->batch, p->heads_kv);
    const uint64_t a_flop = times(heads_q, backward ? 6 * head_dim + 4 * head_dim_v : 2 * head_dim + 2 * head_dim_v);
    uint64_t of_tiles = times(times((uint64_t)visible_tiles(p, v->tile_m, v->tile_n), v->tile_m), v->tile_n);
    if (v->queries_up_to > 0)
        of_tiles = pairs > 0 ? (uint64_t)p->seqlen_q * (uint64_t)(keys + first % DECODE_BLOCK) : 0;

    const int64_t element = glint_dtype_bytes(p->dtype), scale = p->kv_scales == GLINT_SCALES_ROW ? 4 : 0;
    const int64_t row = head_dim * element, row_v = head_dim_v * element;
    /* of K and of V together, of 8 bits with their scales */
    const int64_t key = p->kv_dtype == 0 ? row + row_v : head_dim + head_dim_v + 2 * scale;
    const uint64_t rows_q = times(heads_q, p->seqlen_q), lse = times(rows_q, 4);
    const uint64_t queries = times(rows_q, row), outputs = times(rows_q, row_v);
    const uint64_t seen = times(times(heads_kv, keys), key), all = times(times(heads_kv, p->seqlen_k), row + row_v);
    *cost = (struct glint_cost){
        .struct_size = sizeof *cost,
        .bytes_read = plus(backward ? plus(plus(queries, times(outputs, 2)), lse) : queries, seen),
        .bytes_written = backward ? plus(queries, all) : plus(outputs, lse),
        .flops = pairs > 0 ? times(a_flop, pairs) : 0,
        .tile_flops = of_tiles > UINT64_C(0x7fffffffffffffff) ? UINT64_MAX : times(a_flop, (int64_t)of_tiles),
    };
    return GLINT_OK;
}
