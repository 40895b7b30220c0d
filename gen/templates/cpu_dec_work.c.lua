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
$ if biased then
    const struct glint_tensors *tensors;
$ end
$ if biased and not bias_tensor then
    float least; /* weights below its exponential count as 0 */
$ end
$ if intervals then
    const int32_t *key_begin, *key_end; /* intervals of the sequence's queries, or NULL */
    int64_t least_before, most_before, least_keys, most_keys; /* of before() and keys_of() of the rows */
$ end
$ if tree_bits then
    struct glint_cpu_tree tree; /* its bits are NULL where there is none */
$ end
};

$ if intervals then
/* Row r of the block sees the keys [before(r), keys_of(r)), none when that is empty: then both are 0. */
static struct glint_cpu_keys_seen seen_by(const struct work *w, int64_t r)
{
    const int64_t query = (w->first_row + r) / w->group;
$ if tree_bits then
    const struct glint_cpu_keys_seen seen = w->tree.bits
        ? glint_cpu_seen_in_tree(w->problem, w->key_begin, w->key_end, w->tree, query)
        : glint_cpu_seen_by(w->problem, w->band, w->key_begin, w->key_end, query);
$ else
    const struct glint_cpu_keys_seen seen = glint_cpu_seen_by(w->problem, w->band, w->key_begin, w->key_end, query);
$ end
    return seen.first < seen.end ? seen : (struct glint_cpu_keys_seen){0, 0};
}

static int64_t before(const struct work *w, int64_t r)
{
    return seen_by(w, r).first;
}

static int64_t keys_of(const struct work *w, int64_t r)
{
    return seen_by(w, r).end;
}

$   if tree_bits then
/* The first key of the tree, and whether row r sees a key of those that it begins and ends with. */
static int64_t first_of_tree(const struct work *w)
{
    return w->tree.bits ? glint_clamp(w->problem->seqlen_k - w->problem->seqlen_q, 0, w->problem->seqlen_k) : w->problem->seqlen_k;
}

static bool chooses(const struct work *w, int64_t r, int64_t key)
{
    const uint32_t *row = w->tree.bits + (w->first_row + r) / w->group * w->tree.words;
    return key < first_of_tree(w) || glint_cpu_tree_has(row, key - w->problem->seqlen_k + w->problem->seqlen_q);
}

$   end
/* Of all rows together; rows that see nothing have no part in where the others begin. */
static void find_extent(struct work *w)
{
    w->least_before = w->least_keys = w->problem->seqlen_k;
    w->most_before = w->most_keys = 0;
    for (int64_t r = 0; r < w->rows; r++) {
        const struct glint_cpu_keys_seen seen = seen_by(w, r);
        w->least_keys = seen.end < w->least_keys ? seen.end : w->least_keys;
        w->most_keys = seen.end > w->most_keys ? seen.end : w->most_keys;
        w->most_before = seen.first > w->most_before ? seen.first : w->most_before;
        if (seen.end > 0)
            w->least_before = seen.first < w->least_before ? seen.first : w->least_before;
    }
$   if tree_bits then
    w->least_keys = glint_clamp(w->least_keys, 0, first_of_tree(w)); /* no later key is seen by all for certain */
$   end
}
$ elseif bounds_first then
/* Row r of the block sees the keys [before(r), keys_of(r)), none when that is empty. */
static int64_t before(const struct work *w, int64_t r)
{
    return glint_clamp((w->first_row + r) / w->group + w->band.first, 0, w->problem->seqlen_k);
}
$ else
/* Keys that row r of the block sees: the first so many. */
$ end
$ if not intervals then
static int64_t keys_of(const struct work *w, int64_t r)
{
    return glint_clamp((w->first_row + r) / w->group + w->band.last + 1, 0, w->problem->seqlen_k);
}
$ end

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
