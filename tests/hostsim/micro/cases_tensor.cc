/* The micro-tests of the copy engine: tensor.cu, and, without an entry, what the encoder of tensor maps says. */
#include "tests/hostsim/micro/cases.h"

using std::string;
using std::to_string;
using std::vector;

static uint32_t element_bytes(int type)
{
    static const uint32_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

    return bytes[type];
}

/* A tensor of `rank` dimensions, densely packed but for rows of a multiple of 16 bytes. */
static micro_map tensor(int rank, int type, vector<uint64_t> dims, vector<uint32_t> box, int swizzle)
{
    micro_map map;
    uint64_t stride = (dims[0] * element_bytes(type) + 15) / 16 * 16;

    map.rank = rank;
    map.type = type;
    map.swizzle = swizzle;
    for (int i = 0; i < rank; ++i) {
        map.dims[i] = dims[(size_t)i];
        map.box[i] = box[(size_t)i];
        if (i + 1 < rank)
            map.strides[i] = stride;
        stride *= i + 1 < rank ? dims[(size_t)i + 1] : 1;
    }
    return map;
}

static size_t tensor_words(const micro_map &map)
{
    uint64_t bytes = (map.dims[0] * element_bytes(map.type) + 15) / 16 * 16; /* stores fill the last 16 bytes of a row */

    for (int i = 1; i < map.rank; ++i)
        bytes += (map.dims[i] - 1) * map.strides[i - 1];
    return (map.offset + bytes + 3) / 4;
}

/* Bytes of the box, and those that it spreads over in shared memory: with a swizzle, rows lie as far apart as its pattern is wide. */
static uint32_t box_bytes(const micro_map &map, bool spread)
{
    uint32_t bytes = spread && map.swizzle != TENSOR_MAP_NO_SWIZZLE ? 16u << map.swizzle : map.box[0] * element_bytes(map.type);

    for (int i = 1; i < map.rank; ++i)
        bytes *= (map.box[i] + map.steps[i] - 1) / map.steps[i];
    return bytes;
}

enum { HARD = 100 }; /* a regime: micro_hard_f32 */

static uint32_t float_word(micro_random &random, int type, int regime)
{
    if (element_bytes(type) == 4)
        return regime == HARD ? micro_hard_f32(random) : micro_f32(random, regime);
    auto draw = type == TENSOR_MAP_F16 ? micro_f16 : micro_bf16;
    const uint32_t low = draw(random, regime);
    return low | draw(random, regime) << 16;
}

/* how: load, store, reduce. */
static micro_case tile(const string &name, const string &how, micro_map map, vector<int32_t> at, uint32_t offset = 0,
                       int regime = -1)
{
    micro_random random(name);
    micro_case c;
    const uint32_t bytes = box_bytes(map, false), room = (offset + box_bytes(map, true) + 1023) / 1024 * 1024;
    const size_t words = tensor_words(map);
    auto draw = [&] { return regime < 0 ? random.word() : float_word(random, map.type, regime); };

    map.of_output = how != "load";
    c.name = "tma_" + how + "/" + name;
    c.entry = "micro_tma_" + how + "_" + to_string(map.rank);
    c.threads = 128;
    c.map = map;
    c.shared_bytes = 1024 + room;
    c.arg[0] = room / 4;
    c.arg[1] = bytes;
    c.arg[2] = offset;
    for (size_t i = 0; i < at.size(); ++i)
        c.arg[3 + i] = (uint32_t)at[i];
    for (size_t i = 0; i < (how == "load" ? words : room / 4); ++i)
        c.in.push_back(draw());
    for (size_t i = 0; i < (how == "load" ? room / 4 : words); ++i)
        c.out.push_back(how == "reduce" ? draw() : how == "store" ? 0x11111111u * (uint32_t)(i % 7) : 0);
    return c;
}

/* Tiles may begin before the tensor to be loaded, but not to be stored or added: the copy engine calls that illegal. */
static void loads_and_stores(vector<micro_case> &cases, const string &name, const micro_map &map, vector<int32_t> at,
                             uint32_t offset = 0)
{
    cases.push_back(tile(name, "load", map, at, offset));
    for (int32_t &i : at)
        i = i < 0 ? -i : i;
    cases.push_back(tile(name, "store", map, at, offset));
}

/* Every swizzle with every width of box that it may have, each at several places: inside, across an end, wholly outside. A tile begins
 * at a multiple of 16 bytes along dimension 0: the copy engine takes any other place for an illegal instruction. */
static void boxes(vector<micro_case> &cases)
{
    for (int swizzle = 0; swizzle < 4; ++swizzle)
        for (uint32_t bytes = 16; bytes <= (swizzle ? 16u << swizzle : 256u); bytes += bytes < 64 ? 16 : 32)
            for (int type : {TENSOR_MAP_U8, TENSOR_MAP_BF16, TENSOR_MAP_F32}) {
                const uint32_t width = bytes / element_bytes(type);
                const int32_t u = 16 / (int32_t)element_bytes(type);
                const micro_map map = tensor(2, type, {300 / element_bytes(type), 50}, {width, 20}, swizzle);
                const string name = "s" + to_string(swizzle) + "_t" + to_string(type) + "_w" + to_string(bytes);
                loads_and_stores(cases, name + "_inside", map, {u, 7});
                loads_and_stores(cases, name + "_before", map, {-u, -3});
                loads_and_stores(cases, name + "_after", map, {(int32_t)map.dims[0] / u * u - u, 41}, 1024);
                loads_and_stores(cases, name + "_outside", map, {0, 50});
            }
    for (uint32_t offset = 128; offset <= 1152; offset += 128) /* tiles that begin within the pattern of the swizzle */
        for (int swizzle = 1; swizzle < 4; ++swizzle)
            loads_and_stores(cases, "s" + to_string(swizzle) + "_offset" + to_string(offset),
                             tensor(2, TENSOR_MAP_F16, {64, 64}, {8u << swizzle, 16}, swizzle), {0, 8}, offset);
}

static void ranks(vector<micro_case> &cases)
{
    for (int type : {TENSOR_MAP_U16, TENSOR_MAP_U32, TENSOR_MAP_F16, TENSOR_MAP_F64, TENSOR_MAP_S64, TENSOR_MAP_TF32}) {
        const uint32_t w = 32 / element_bytes(type);
        const int32_t u = 16 / (int32_t)element_bytes(type);
        const string name = "t" + to_string(type);
        loads_and_stores(cases, name + "_1d", tensor(1, type, {100}, {2 * w}, 0), {3 * u});
        loads_and_stores(cases, name + "_3d", tensor(3, type, {40, 9, 7}, {w, 4, 3}, 1), {-u, 6, 2});
        loads_and_stores(cases, name + "_4d", tensor(4, type, {40, 9, 5, 3}, {2 * w, 4, 2, 2}, 2), {8 / u * u, -2, 4, 1});
        loads_and_stores(cases, name + "_5d", tensor(5, type, {20, 9, 5, 3, 2}, {4 * w, 4, 2, 2, 2}, 3), {u, 7, -1, 2, 1});
    }
    /* All slabs of a tile by one copy: {width of a slab, rows, slabs, heads, batch} over the same bytes. */
    micro_map slabs = tensor(5, TENSOR_MAP_BF16, {64, 70, 2, 3, 2}, {64, 32, 2, 1, 1}, 3);
    slabs.strides[0] = 3 * 256; /* a row of all heads */
    slabs.strides[1] = 128;
    slabs.strides[2] = 256;
    slabs.strides[3] = 70 * 3 * 256;
    loads_and_stores(cases, "slabs", slabs, {0, 60, 0, 1, 1});
    for (uint32_t step = 2; step <= 8; step += 3) {
        micro_map steps = tensor(3, TENSOR_MAP_BF16, {64, 40, 5}, {32, 16, 4}, 2);
        steps.steps[1] = step;
        steps.steps[2] = 2;
        loads_and_stores(cases, "step" + to_string(step), steps, {0, 3, 1});
        loads_and_stores(cases, "step" + to_string(step) + "_ends", steps, {40, -4, 2});
        steps.steps[0] = 2;
        cases.push_back(tile("step0_" + to_string(step), "load", steps, {0, 3, 1}));
    }
    micro_map wide = tensor(2, TENSOR_MAP_U8, {256, 256}, {256, 256}, 0);
    loads_and_stores(cases, "largest", wide, {0, 0});
    micro_map nan = tensor(2, TENSOR_MAP_BF16, {40, 10}, {64, 16}, 3);
    nan.fill = TENSOR_MAP_FILL_NAN;
    cases.push_back(tile("nan_bf16", "load", nan, {-8, -2}));
    nan = tensor(2, TENSOR_MAP_F32, {20, 10}, {32, 16}, 3);
    nan.fill = TENSOR_MAP_FILL_NAN;
    cases.push_back(tile("nan_f32", "load", nan, {-8, -2}));
    nan = tensor(2, TENSOR_MAP_F16, {40, 10}, {64, 16}, 3);
    nan.fill = TENSOR_MAP_FILL_NAN;
    cases.push_back(tile("nan_f16", "load", nan, {-8, -2}));
    for (int type :
         {TENSOR_MAP_F32, TENSOR_MAP_F32_FTZ, TENSOR_MAP_TF32, TENSOR_MAP_TF32_FTZ}) /* what a load does to the numbers */
        cases.push_back(tile("numbers_t" + to_string(type), "load", tensor(2, type, {64, 16}, {32, 16}, 3), {0, 0}, 0, HARD));
}

static void reductions(vector<micro_case> &cases)
{
    for (int type :
         {TENSOR_MAP_F32, TENSOR_MAP_F32_FTZ, TENSOR_MAP_BF16, TENSOR_MAP_F16, TENSOR_MAP_U32, TENSOR_MAP_S32, TENSOR_MAP_U64})
        for (int regime : {0, 2, 3, 4, 5}) {
            if (type == TENSOR_MAP_U64 && regime != 5)
                continue;
            const uint32_t w = 128 / element_bytes(type);
            const int32_t u = 16 / (int32_t)element_bytes(type);
            const string name = "t" + to_string(type) + "_regime" + to_string(regime);
            cases.push_back(tile(name, "reduce", tensor(2, type, {70, 30}, {w, 16}, 3), {u, 20}, 0, regime));
            cases.push_back(
                tile(name + "_3d", "reduce", tensor(3, type, {70, 12, 3}, {w / 2, 8, 2}, 0), {64 / u * u, 1, 2}, 0, regime));
        }
}

static void bulk(vector<micro_case> &cases)
{
    for (uint32_t bytes : {16u, 48u, 1024u, 20000u}) {
        micro_random random("bulk" + to_string(bytes));
        micro_case c;
        c.name = "bulk/" + to_string(bytes);
        c.entry = "micro_bulk";
        c.arg[1] = bytes;
        c.shared_bytes = 1024 + bytes;
        for (uint32_t i = 0; i < bytes / 4; ++i)
            c.in.push_back(micro_f32(random, (int)random.below(MICRO_REGIMES)));
        for (uint32_t i = 0; i < bytes / 2; ++i)
            c.out.push_back(micro_f32(random, (int)random.below(MICRO_REGIMES)));
        cases.push_back(c);
    }
}

/* What the driver says to tensor maps, right and wrong ones. */
static void encodings(vector<micro_case> &cases)
{
    const micro_map good = tensor(3, TENSOR_MAP_BF16, {128, 64, 4}, {64, 32, 2}, 3);
    auto add = [&](const string &name, const micro_map &map) {
        micro_case c;
        c.name = "encode/" + name;
        c.map = map;
        c.in.assign(64, 0);
        c.out.assign(1, 0);
        cases.push_back(c);
    };
#define WRONG(name, change) \
    do {                    \
        micro_map m = good; \
        change;             \
        add(name, m);       \
    } while (0)
    add("good", good);
    WRONG("rank_6", m.rank = 6);
    WRONG("rank_2", m.rank = 2);
    for (uint64_t offset : {2, 8, 16, 32, 64})
        WRONG("address_" + to_string(offset), m.offset = offset);
    for (int type = 0; type <= 16; ++type)
        WRONG("type_" + to_string(type), m.type = type);
    for (int i = 0; i < 3; ++i) {
        const string which = to_string(i);
        for (uint64_t dim : {0ull, 1ull, 0x7fffffffull, 0x80000000ull, 0xffffffffull, 0x100000000ull, 0x100000001ull})
            WRONG("dim" + which + "_" + to_string(dim), m.dims[i] = dim);
        for (uint32_t box : {0u, 1u, 2u, 7u, 8u, 12u, 16u, 65u, 72u, 128u, 255u, 256u, 257u})
            WRONG("box" + which + "_" + to_string(box), m.box[i] = box);
        for (uint32_t step : {0u, 1u, 2u, 8u, 9u, 100u})
            WRONG("step" + which + "_" + to_string(step), m.steps[i] = step);
    }
    for (int i = 0; i < 2; ++i)
        for (uint64_t stride : {0ull, 8ull, 16ull, 24ull, 32ull, 48ull, 128ull, 256ull, 272ull, 16368ull, 0xfffffffff0ull,
                                0x10000000000ull, 0x10000000010ull})
            WRONG("stride" + to_string(i) + "_" + to_string(stride), m.strides[i] = stride);
    for (int swizzle = 0; swizzle <= 8; ++swizzle)
        for (uint32_t box : {8u, 16u, 24u, 32u, 48u, 64u, 128u})
            WRONG("swizzle" + to_string(swizzle) + "_box" + to_string(box), (m.swizzle = swizzle, m.box[0] = box));
    for (int interleave = 0; interleave <= 3; ++interleave)
        for (int swizzle = 0; swizzle < 4; ++swizzle)
            for (int rank = 2; rank <= 3; ++rank)
                WRONG("interleave" + to_string(interleave) + "_swizzle" + to_string(swizzle) + "_rank" + to_string(rank),
                      (m.interleave = interleave, m.swizzle = swizzle, m.rank = rank));
    for (int l2 = 0; l2 <= 4; ++l2)
        WRONG("l2_" + to_string(l2), m.l2 = l2);
    for (int fill = 0; fill <= 2; ++fill)
        for (int type = 0; type <= 12; ++type)
            WRONG("fill" + to_string(fill) + "_type" + to_string(type), (m.fill = fill, m.type = type, m.box[0] = 16));
    WRONG("step0_box_odd", (m.steps[0] = 3, m.box[0] = 60));
    WRONG("box_too_many_bytes", (m.box[1] = 256, m.box[2] = 256));
    for (uint32_t box : {17u, 31u, 32u, 33u, 48u, 55u, 56u, 57u, 58u, 63u, 64u})
        WRONG("box_bytes_" + to_string(box * 4096), m.box[2] = box);
    WRONG("box_beyond_dims", (m.dims[0] = 8, m.dims[1] = 3));
    WRONG("strides_descend", (m.strides[0] = 4096, m.strides[1] = 256));
#undef WRONG
}

/* What no copy alone shows: maps fetched beforehand, order between stores and copies, groups, and copies into several blocks. */
static void sequences(vector<micro_case> &cases)
{
    const micro_map square = tensor(2, TENSOR_MAP_F32, {32, 24}, {32, 16}, 3);
    micro_case fetched = tile("prefetch_map", "load", square, {0, 5});
    fetched.entry = "micro_tma_prefetch_map";
    cases.push_back(fetched);

    micro_case fenced = tile("fence_async_global", "load", square, {0, 5}, 0, 2);
    const size_t words = fenced.in.size();
    fenced.entry = "micro_fence_async_global";
    fenced.map.of_output = true;
    fenced.arg[0] = (uint32_t)words;
    fenced.shared_bytes += 512;
    fenced.out.assign(words + fenced.arg[1] / 4 + 128, 0);
    cases.push_back(fenced);

    micro_random random("bulk_groups");
    micro_case groups;
    groups.name = "bulk_groups";
    groups.entry = "micro_bulk_groups";
    groups.shared_bytes = 1024;
    for (int i = 0; i < 128; ++i)
        groups.in.push_back(random.word());
    groups.out.assign(224, 0);
    cases.push_back(groups);

    const micro_map maps[] = {tensor(1, TENSOR_MAP_F16, {100}, {64}, 0), tensor(2, TENSOR_MAP_F32, {32, 24}, {32, 16}, 3),
                              tensor(3, TENSOR_MAP_BF16, {40, 9, 7}, {16, 4, 3}, 1),
                              tensor(4, TENSOR_MAP_F16, {40, 9, 5, 3}, {32, 4, 2, 2}, 2),
                              tensor(5, TENSOR_MAP_U16, {20, 9, 5, 3, 2}, {64, 4, 2, 2, 2}, 3)};
    for (const micro_map &map : maps)
        for (uint32_t blocks = 1; blocks <= 3; ++blocks) {
            const vector<int32_t> at = {8, 6, 2, 1, 1};
            const string rank = to_string(map.rank);
            micro_case c = tile("multicast_" + rank + "d_to" + to_string(blocks), "load", map,
                                vector<int32_t>(at.begin(), at.begin() + map.rank));
            c.entry = "micro_tma_multicast_" + rank;
            c.blocks = c.cluster = 2;
            c.arg[8] = blocks;
            c.out.resize(2 * c.arg[0]);
            cases.push_back(c);
        }
}

vector<micro_case> tensor_cases()
{
    vector<micro_case> cases;

    encodings(cases);
    boxes(cases);
    ranks(cases);
    reductions(cases);
    bulk(cases);
    sequences(cases);
    return cases;
}
