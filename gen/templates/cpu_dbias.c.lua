/* dBias of one query block of one head, or of all blocks where queries share it: what the groups and the heads that
 * share it leave, in order. A row of key sums is of queries, whose lanes are summed in order, too, where they share. */
static void sum_dbias(const struct glint_cpu_call *call, float *scratch, int64_t task)
{
    const struct glint_problem *p = call->problem;
    const struct glint_cpu_dbias *d = &call->dbias;
    const struct glint_bias_strides *s = &p->bias;
    const int64_t blocks = call->geometry.query_blocks, parts = s->query != 0 ? blocks : 1, heads = s->head != 0 ? p->heads_q : 1;
    const int64_t part = task % parts, head = task / parts % heads, batch = task / parts / heads;
    const int64_t queries = s->query != 0 ? glint_clamp(p->seqlen_q - part * TILE_M, 0, TILE_M) : 1;
    const int64_t slots = glint_cpu_dbias_slots(p), slot = d->key_blocks * TILE_N * d->pitch;
    const struct glint_dbias_part of = {glint_cpu_dbias_sums(p, d, batch, head, TILE_N),
                                        s->batch != 0 ? 1 : (p->batch + d->per_group - 1) / d->per_group, s->head != 0 ? 1 : slots,
                                        slots * slot, slot};
    const glint_veci lane = glint_lane_index();
    float *tile = scratch + call->geometry.region[GLINT_BWD_P_T], *all = scratch + call->geometry.region[GLINT_BWD_DS_T];
    memset(all, 0, sizeof(float) * PITCH_M);
    for (int64_t first_key = 0; first_key < p->seqlen_k; first_key += TILE_N) {
        const int64_t keys = glint_clamp(p->seqlen_k - first_key, 0, TILE_N);
        for (int64_t r = 0; r < keys; r++) {
            const int64_t at = (first_key + r) * d->pitch;
            float *row = tile + r * PITCH_M;
            if (s->query != 0) {
                for (int64_t x = 0; x < queries; x += GLINT_CPU_LANES)
                    glint_store(row + x, glint_dbias_total(&of, at + part * PITCH_M + x));
            } else {
                glint_vec total = glint_splat(0.0f);
                for (int64_t i = 0; i < p->seqlen_q; i += GLINT_CPU_LANES) {
                    const glint_veci query = lane < (int32_t)glint_clamp(p->seqlen_q - i, 0, GLINT_CPU_LANES);
                    total += (glint_vec)(query & (glint_veci)glint_dbias_total(&of, at + i / TILE_M * PITCH_M + i % TILE_M));
                }
                row[0] = 0.0f;
                for (int i = 0; i < GLINT_CPU_LANES; i++)
                    row[0] += total[i];
            }
            for (int64_t x = 0; x < queries && s->key == 0; x++)
                all[x] += row[x];
        }
        const int64_t at = batch * s->batch + head * s->head + part * TILE_M * s->query + first_key * s->key;
        if (s->key != 0)
            glint_dbias_tile(p, call->tensors->dbias, at, tile, PITCH_M, queries, keys);
        else if (first_key + keys == p->seqlen_k)
            glint_dbias_tile(p, call->tensors->dbias, at, all, PITCH_M, queries, 1);
    }
}

