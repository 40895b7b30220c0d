/* One (batch, key head) pair and a block of its rows. Row r is query r / group of query head r % group. */
struct work {
$ if narrow then
    const struct glint_cpu_call *call;
$ end
    const struct glint_problem *problem;
    const int32_t *page_table;
    int64_t batch, head_kv, group, first_row, rows;
    const glint_kv *k, *v; /* of the key head, in its sequence; in pages in the first one */
$ if not products then
    bool early;            /* K and V are more than the second-level cache holds: rows_of */
$ end
    struct glint_band band;
};

$ if bounds_first then
/* Row r of the block sees the keys [before(r), keys_of(r)), none when that is empty. */
static int64_t before(const struct work *w, int64_t r)
{
    return glint_clamp((w->first_row + r) / w->group + w->band.first, 0, w->problem->seqlen_k);
}
$ else
/* Keys that row r of the block sees: the first so many. */
$ end
static int64_t keys_of(const struct work *w, int64_t r)
{
    return glint_clamp((w->first_row + r) / w->group + w->band.last + 1, 0, w->problem->seqlen_k);
}

/* Rows of K or V that lie one after another. */
struct place {
    const glint_kv *row;
    int64_t rows;
};

/* Where the row of a key is, and how many of the next `rows` rows follow there. In pages, out of line: */
GLINT_OUTLINE struct place place_in_page(const struct work *w, bool of_v, int64_t key, int64_t rows)
{
    const struct glint_strides *s = of_v ? &w->problem->v : &w->problem->k;
    const struct glint_cpu_keys at = glint_cpu_keys_at(w->problem, w->page_table, w->batch, key);
    return (struct place){(of_v ? w->v : w->k) + at.page * s->batch + at.row * s->row, rows < at.rows ? rows : at.rows};
}

GLINT_INLINE struct place place_of(const struct work *w, const bool of_v, int64_t key, int64_t rows)
{
    rows = glint_clamp(rows, 0, GLINT_DEC_BLOCK);
    if (w->page_table)
        return place_in_page(w, of_v, key, rows);
    return (struct place){of_v ? w->v + key * w->problem->v.row : w->k + key * w->problem->k.row, rows};
}
