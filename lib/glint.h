/* Glint: exact attention, forward and backward, as a fixed-allocation C11 library. This is its only public header.
 *
 *   forward    S = softmax_scale * Q K^T + mask    P = softmax(S, by row)    O = P V    LSE_i = log sum_j exp(S_ij)
 *   backward   delta_i = sum_d dO_id O_id          dV = P^T dO               dS = P * (dO V^T - delta)
 *              dQ = softmax_scale * dS K           dK = softmax_scale * dS^T Q
 *
 * With a softcap c, S = c tanh(softmax_scale * Q K^T / c) + mask, and dS = P * (dO V^T - delta) * (1 - (S / c)^2). With
 * ALiBi, a slope m_h a query head, P and LSE have S_ij - m_h |i + offset - j| in place of S_ij; with a bias B they have
 * S_ij + B_ij, and dB = P * (dO V^T - delta), summed over the dimensions that B broadcasts. With sinks, a logit s_h
 * a query head, LSE_i = log(exp(s_h) + sum_j exp(S_ij)) and P_ij = exp(S_ij - LSE_i): the denominator has a term for
 * the sink, which is neither scaled nor capped; ds_h = -sum over the batch and the rows of exp(s_h - LSE_i) delta_i.
 * Where LSE goes into a loss, too, and dLSE is its gradient, delta_i = sum_d dO_id O_id - dLSE_i in all of these.
 *
 * (Dao, "FlashAttention-2", arXiv:2307.08691, algorithms 1 and 2.) Nothing of size seqlen_q x seqlen_k is ever stored.
 *
 * Rules said once:
 *  - Memory. The library never allocates. The caller gives storage for the context, tensors and a workspace; each has a
 *    size query. After glint_context_init returns, no call allocates, neither on the host nor on a device.
 *  - Failure. Every function that can fail returns a glint_status and changes nothing when it refuses. Nothing prints,
 *    exits, aborts, reads the environment or installs a handler.
 *  - Threads. Any number of threads may use one open context at a time, each with a workspace of its own.
 *    glint_context_init and glint_context_close must not run beside other calls on the same context.
 *  - Versions. Every struct that the caller passes, to be read or to be written, starts with `struct_size`; set it to
 *    sizeof the struct (the *_INIT macros do). Another size is refused and nothing is written. glint_plan and
 *    glint_pool_init set it themselves.
 *  - Units. Strides and lengths count elements, never bytes. Byte counts have `bytes` in their name. LSE is a natural
 *    logarithm.
 *  - Special values. A query that sees no key gives O = 0, LSE = -inf (its head's sink, if there are sinks) and zero
 *    gradients, and adds nothing to dK and dV, and to the sinks' gradient its dLSE alone. A key that the mask hides is
 *    never multiplied in: NaN or inf in its K or V row does not reach queries that cannot see it. NaN or inf in a
 *    visible element reaches the rows that see it, as IEEE arithmetic has it, and no other row: a query that sees keys
 *    whose scores are all -inf has O = NaN and LSE = -inf; with a sink O = 0, and LSE is the sink. A sink of -inf gives
 *    the bits of no sink; NaN or inf in one reaches all rows of its head, and no other.
 */
#ifndef GLINT_H
#define GLINT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GLINT_VERSION_MAJOR 0
#define GLINT_VERSION_MINOR 1
#define GLINT_VERSION_PATCH 0

/* Status codes. The numbers are stable: new ones are added, none changes meaning. */
enum glint_status {
    GLINT_OK = 0,

    /* arguments and structs */
    GLINT_NULL_ARGUMENT = 1,      /* a required pointer is NULL */
    GLINT_STRUCT_SIZE = 2,        /* struct_size is not one that this library knows */
    GLINT_CONTEXT_CLOSED = 3,     /* the context is closed, or was never opened */
    GLINT_STORAGE_TOO_SMALL = 4,  /* fewer bytes than glint_context_size() */
    GLINT_STORAGE_MISALIGNED = 5, /* context storage is not aligned to GLINT_CONTEXT_ALIGNMENT */
    GLINT_BAD_OPTION = 6,         /* a field of glint_options is out of range */
    GLINT_BAD_EXECUTOR = 7,       /* the executor has no parallel_for, or its concurrency is out of range */
    GLINT_BAD_INDEX = 8,          /* a variant index is not below glint_variant_count() */

    /* the problem */
    GLINT_BAD_PASS = 16,          /* not a value of enum glint_pass */
    GLINT_BAD_DTYPE = 17,         /* not a value of enum glint_dtype */
    GLINT_BAD_MASK = 18,          /* not a value of enum glint_mask */
    GLINT_BAD_HEAD_DIM = 19,      /* not a positive multiple of 8 */
    GLINT_BAD_BATCH = 20,         /* below 1 or above GLINT_MAX_EXTENT */
    GLINT_BAD_HEADS = 21,         /* a head count is below 1 or above GLINT_MAX_EXTENT */
    GLINT_BAD_HEAD_GROUP = 22,    /* heads_q is not a multiple of heads_kv */
    GLINT_BAD_SEQLEN = 23,        /* a length is negative or above GLINT_MAX_EXTENT */
    GLINT_BAD_SCALE = 24,         /* softmax_scale is not finite */
    GLINT_BAD_STRIDE = 25,        /* a stride is negative, or rows, heads or batches of an output overlap */
    GLINT_STRIDE_MISALIGNED = 26, /* no variant takes these strides: one is not a multiple of its alignment */
    GLINT_SIZE_OVERFLOW = 27,     /* an offset or a byte count does not fit in 63 bits */
    GLINT_BAD_RESERVED = 28,      /* a reserved field is not zero */
    GLINT_BAD_WINDOW = 29,        /* a window is out of range, or is set and the mask is no band */
    GLINT_BAD_LENGTHS = 30,       /* lengths is not a value of enum glint_lengths, or no row here takes it */
    GLINT_BAD_SOFTCAP = 31,       /* softcap is neither 0 nor from 2^-126 to 2^124 */

    /* the table */
    GLINT_NOT_IN_SPEC = 32,   /* no variant in the library computes this: pass, dtype, kv_dtype, head_dim, mask */
    GLINT_NOT_ON_DEVICE = 33, /* such variants exist, but none runs on this context's device */

    /* the call */
    GLINT_BAD_PLAN = 40,             /* not a plan that glint_plan made, or changed since */
    GLINT_WRONG_PASS = 41,           /* a forward plan given to glint_backward, or the reverse */
    GLINT_NULL_TENSOR = 42,          /* a tensor that this pass needs is NULL */
    GLINT_TENSOR_MISALIGNED = 43,    /* a tensor's address is not a multiple of the variant's alignment */
    GLINT_TENSOR_OVERLAP = 44,       /* an output shares bytes with another tensor or with the workspace */
    GLINT_WORKSPACE_TOO_SMALL = 45,  /* fewer bytes than plan.workspace_bytes, or NULL when some are needed */
    GLINT_WORKSPACE_MISALIGNED = 46, /* not aligned to GLINT_WORKSPACE_ALIGNMENT */
    GLINT_BAD_STREAM = 47,           /* a stream was given to a context on the CPU: it must be NULL */

    /* the problem, continued */
    GLINT_BAD_SINKS = 48,    /* sinks is neither 0 nor 1, or not taken here; or a call has them and its plan does not */
    GLINT_BAD_KV_DTYPE = 49, /* kv_dtype is neither 0 nor GLINT_I8 nor GLINT_E4M3, or is set for the backward pass */
    GLINT_BAD_SCALES = 50,   /* kv_scales does not go with kv_dtype, or a call has scales and its plan has none */
    GLINT_BAD_PAGES = 51,    /* page_rows, pages, pages_per_sequence or a page table is not one that is taken here */
    GLINT_BAD_RAGGED = 52,   /* rows_q or rows_k is out of range, or ragged sequences are half said */
    GLINT_BAD_APPEND = 53,   /* glint_append: a dtype, scales or lengths to which no rows are appended */
    GLINT_BAD_MERGE = 54,    /* glint_merge: the number of parts is not 1 ... GLINT_MAX_PARTS */
    GLINT_BAD_DIAGONAL = 55, /* a diagonal is set, and the mask has none */
    GLINT_BAD_ORDER = 56,    /* order is not a value of enum glint_order, or is not taken here or by the pass */

    /* the problem, continued */
    GLINT_BAD_INTERVALS = 57, /* intervals is neither 0 nor 1; or a call has them and its plan does not */
    GLINT_BAD_ALIBI = 58,     /* alibi is neither 0 nor 1; or a call has slopes and its plan does not */
    GLINT_BAD_BIAS = 59,      /* bias_dtype or dbias is out of range, or ALiBi is set; or a plan has none */
    GLINT_BAD_LOGIT = 60,     /* max_logit is neither 0 nor 1, or not taken here or by the pass; or a plan has none */
    GLINT_BAD_TREE = 61,      /* tree is neither 0 nor 1, or is set backward or beside ALiBi; or a plan has none */

    /* devices and their driver; the driver's own code is kept in the context: glint_context_driver_error() */
    GLINT_NO_DRIVER = 64,            /* a GPU was asked for and no driver library was found */
    GLINT_DRIVER_TOO_OLD = 65,       /* the driver lacks a function that Glint needs */
    GLINT_NO_DEVICE = 66,            /* the driver has no device of that ordinal */
    GLINT_NO_KERNEL_IMAGE = 67,      /* no variant was compiled for this device's architecture */
    GLINT_DRIVER_ERROR = 68,         /* any other failure of a driver call */
    GLINT_DEVICE_OUT_OF_MEMORY = 69, /* the driver could not load the kernels into device memory */
    GLINT_DEVICE_LOST = 70,          /* a sticky device error: close the context; nothing else will succeed */
    GLINT_NO_AMX = 71,               /* the CPU or its system has no AMX, or does not permit it: glint_permit_amx */

    GLINT_SELFTEST_FAILED = 80 /* a variant gave a wrong answer; glint_selftest_result names it */
};

/* A stable sentence for a status; never NULL, also for numbers that are no status. Pure, thread-safe. */
const char *glint_status_sentence(enum glint_status status);

/* The name of the enumerator, such as "GLINT_BAD_STRIDE". Pure, thread-safe. */
const char *glint_status_name(enum glint_status status);

/* What a variant computes. Values are stable; 0 is no value, so that a zeroed struct is refused rather than guessed
 * at. */
enum glint_pass { GLINT_FORWARD = 1, GLINT_BACKWARD = 2 };
enum glint_dtype {
    GLINT_F32 = 1,
    GLINT_F16 = 2,
    GLINT_BF16 = 3,
    GLINT_I8 = 4,  /* of K and V alone: int8 */
    GLINT_E4M3 = 5 /* of K and V alone: OCP FP8 E4M3FN, 1.4.3 bits, largest 448, 0x7f and 0xff NaN, no infinity */
};

/* Which keys a query sees. Every mask is a band: query i sees the keys j, 0 <= j < seqlen_k, of
 *
 *   GLINT_MASK_NONE            all
 *   GLINT_MASK_CAUSAL_*        j <= i + offset
 *   GLINT_MASK_BAND_*          i + offset - window_left <= j <= i + offset + window_right
 *
 * A sliding window of W keys, the query's own included, has window_left = W - 1 and window_right = 0.
 *
 * The offset below is that of a problem whose `diagonal` is 0. glint_problem.diagonal is added to it: a chunk of
 * queries that begins at query a, against keys that begin at key c, sees by TOP_LEFT and diagonal = a - c what it sees
 * of them in the whole.
 *
 * A query for which that leaves no key sees none. There is no default alignment of the diagonal: when seqlen_q !=
 * seqlen_k the two differ. */
enum glint_mask {
    GLINT_MASK_NONE = 1,
    GLINT_MASK_CAUSAL_TOP_LEFT = 2,     /* offset = 0: on the diagonal are the first query and the first key */
    GLINT_MASK_CAUSAL_BOTTOM_RIGHT = 3, /* offset = seqlen_k - seqlen_q: on it are the last query and the last key */
    GLINT_MASK_BAND_TOP_LEFT = 4,       /* offset = 0 */
    GLINT_MASK_BAND_BOTTOM_RIGHT = 5    /* offset = seqlen_k - seqlen_q */
};

/* A side of a window that hides no key. */
#define GLINT_UNBOUNDED INT64_C(-1)

/* ---- the context ------------------------------------------------------------------------------------------------- */

/* How the CPU family runs in parallel. parallel_for(user, count, body, argument) must
 *  - call body(argument, i) exactly once for every i in [0, count): in any order, on any threads, at the same time or
 *    one after another;
 *  - return after all of them have returned, with their writes visible to the caller.
 * count never exceeds concurrency. When several threads use the context at a time, parallel_for is called from
 * several threads at a time. The library never depends on two bodies running at the same time. */
struct glint_executor {
    uint32_t struct_size;
    uint32_t concurrency; /* 1 ... GLINT_MAX_CONCURRENCY: bodies worth running at a time; workspace grows with it */
    void (*parallel_for)(void *user, uint32_t count, void (*body)(void *argument, uint32_t index), void *argument);
    void *user;
};
#define GLINT_MAX_CONCURRENCY 1024u

enum glint_device_kind {
    GLINT_DEVICE_AUTO = 0, /* the current or first GPU that the library has kernels for, else the CPU */
    GLINT_DEVICE_CPU = 1,
    GLINT_DEVICE_CUDA_CURRENT = 2, /* the CUDA context that is current on the calling thread */
    GLINT_DEVICE_CUDA = 3          /* the device with ordinal `cuda_device`, through its primary context */
};

/* Instruction sets of the CPU family, lowest first within an architecture. */
enum glint_isa {
    GLINT_ISA_ANY = 0,         /* as an option: no cap, take the best that the CPU has */
    GLINT_ISA_X86_64 = 1,      /* baseline: SSE2 */
    GLINT_ISA_X86_64_V3 = 2,   /* AVX2, FMA, F16C */
    GLINT_ISA_X86_64_V4 = 3,   /* AVX-512 F, BW, CD, DQ, VL */
    GLINT_ISA_X86_64_BF16 = 4, /* also AVX-512 BF16: for GLINT_BF16; glint_plan takes it on AMD's CPUs */
    GLINT_ISA_X86_64_AMX = 5,  /* also tiles, AMX-BF16: for GLINT_BF16, where glint_options.amx is set */
    GLINT_ISA_AARCH64 = 16     /* Armv8.0-A with Advanced SIMD */
};

/* The name of an instruction set in a spec and in a variant's name, such as "x86_64_v3"; NULL for GLINT_ISA_ANY and
 * for numbers that are none. Static. Pure, thread-safe. */
const char *glint_isa_name(uint32_t isa);

struct glint_options {
    uint32_t struct_size;
    uint32_t device;                /* enum glint_device_kind */
    int32_t cuda_device;            /* ordinal for GLINT_DEVICE_CUDA; otherwise 0 */
    uint32_t max_isa;               /* enum glint_isa: never use a CPU variant above this one */
    struct glint_executor executor; /* all zero: serial, on the calling thread */
    uint32_t amx;                   /* 1: the process has the permission to use AMX (glint_permit_amx); else 0 */
    uint32_t reserved;              /* zero */
};
#define GLINT_OPTIONS_INIT                                                                           \
    {                                                                                                \
        sizeof(struct glint_options), GLINT_DEVICE_AUTO, 0, GLINT_ISA_ANY, {0, 0, NULL, NULL}, 0, 0, \
    }

/* AMX. Linux lets a process use the tile registers only after it has asked, once for all of its threads (arch_prctl,
 * ARCH_REQ_XCOMP_PERM). The library makes no system call: the host asks, and says so in glint_options.amx.
 * glint_permit_amx (in libglint_pool.a) does both.
 *  - Without the option, or on a CPU without AMX, the next instruction set is taken, and glint_explain says why. It is
 *    no error.
 *  - A 1 without the permission ends in SIGILL at the first tile instruction. Children made by fork keep the
 *    permission, exec takes it away.
 *  - Tiles are configured within a task and left as they were found: the configuration that a thread had is there again
 *    afterwards. What its tiles held is not, as with any function call: the psABI lets a callee overwrite tile
 *    registers. A signal handler may use AMX beside it.
 */

/* Opaque, lives in the caller's storage; the pointer is the storage's address. */
struct glint_context;
#define GLINT_CONTEXT_ALIGNMENT 64u
#define GLINT_WORKSPACE_ALIGNMENT 256u

/* Bytes of storage that glint_context_init needs: a constant of the library's build. Pure, thread-safe. */
size_t glint_context_size(void);

/* Opens a context in `storage`, which is the caller's: storage_bytes >= glint_context_size(), aligned to
 * GLINT_CONTEXT_ALIGNMENT, and not moved until the context is closed. All that is slow, or makes a driver allocate,
 * happens here: the CPU is probed, the driver is loaded, and every kernel for the device is loaded. `options` is
 * copied; NULL stands for GLINT_OPTIONS_INIT. On failure *context is NULL, and there is nothing to close. */
enum glint_status glint_context_init(void *storage, size_t storage_bytes, const struct glint_options *options,
                                     struct glint_context **context);

/* Closes the context and unloads its kernels. Work that was given to a stream must have finished. The answer is
 * GLINT_CONTEXT_CLOSED for NULL and for a context that is closed already. When the driver fails to unload a kernel
 * its failure is the status, and the context is closed all the same. */
enum glint_status glint_context_close(struct glint_context *context);

/* What the context runs on. Strings are static. Thread-safe. */
struct glint_device_info {
    uint32_t struct_size;
    uint32_t device;          /* GLINT_DEVICE_CPU or GLINT_DEVICE_CUDA */
    uint32_t isa;             /* CPU: the best enum glint_isa that glint_plan takes before lower ones; else 0 */
    int32_t cuda_device;      /* GPU ordinal, else -1 */
    uint32_t sm;              /* GPU: compute capability, 10 * major + minor; else 0 */
    uint32_t concurrency;     /* CPU: the executor's; GPU: multiprocessors */
    uint32_t variants_loaded; /* rows of the table that run on this device */
    int32_t driver_error;     /* as glint_context_driver_error */
};
#define GLINT_DEVICE_INFO_INIT                                \
    {                                                         \
        sizeof(struct glint_device_info), 0, 0, 0, 0, 0, 0, 0 \
    }
enum glint_status glint_context_device(const struct glint_context *context, struct glint_device_info *info);

/* The driver's own code (CUresult) behind the last failed call on this context, or behind a glint_context_init that
 * failed in this storage; 0 if there was none. `storage` has been given to glint_context_init. Thread-safe. */
int32_t glint_context_driver_error(const void *storage);

/* ---- the problem ------------------------------------------------------------------------------------------------- */

/* Element strides of a tensor of logical shape [batch, heads, seqlen, head_dim]; head_dim is contiguous. Any order
 * of the outer dimensions and any padding works, so views of a fused QKV tensor do. Inputs may have stride 0
 * (broadcast). Outputs must not overlap themselves: from the smallest stride up, each must step over all elements of
 * the dimensions inside it. A dimension of extent 1 may have any non-negative stride. */
struct glint_strides {
    int64_t batch, head, row;
};

/* Element strides of a bias, of logical shape [batch, heads_q, seqlen_q, seqlen_k]; 0 broadcasts. */
struct glint_bias_strides {
    int64_t batch, head, query, key;
};

/* Lengths, batch and heads are limited to this, so that index arithmetic is exact; tensors may exceed 2^31 elements. */
#define GLINT_MAX_EXTENT INT64_C(0x3fffffff)

/* Where the lengths of the sequences are. The rules are below, in the section on sequences. */
enum glint_lengths {
    GLINT_LENGTHS_HOST = 0,   /* in the problem: every sequence has seqlen_q queries and seqlen_k keys */
    GLINT_LENGTHS_DEVICE = 1, /* in the call: sequences differ, in tensors that are laid out for bounds */
    GLINT_LENGTHS_RAGGED = 2  /* in the call: sequences differ and follow one another */
};

/* Where 8-bit K and V have their scales: float32 arrays of the call, k_scale and v_scale, contiguous. */
enum glint_scales {
    GLINT_SCALES_NONE = 0,   /* K and V are of the problem's dtype */
    GLINT_SCALES_TENSOR = 1, /* [1] */
    GLINT_SCALES_HEAD = 2,   /* [heads_kv] */
    GLINT_SCALES_ROW = 3     /* the shape of K below, without head_dim */
};

/* In which order a forward pass adds. Rounding makes an order's bits its own, and variants for few queries add in
 * another order than variants for many.
 *
 *   GLINT_ORDER_ANY         the order of the fastest variant: a query's bits may change with seqlen_q
 *   GLINT_ORDER_CANONICAL   the order of one variant, whatever the lengths. O and LSE of a query have the same bits in
 *                           a whole prompt, in any chunk of it, as a single token and beside speculative ones, linear
 *                           and in pages, ragged or not, in any batch, on any number of threads
 *
 * The canonical order holds within a context, for the same dtype, kv_dtype, head_dim, mask (causal masks count as one,
 * and so do bands of one window), softmax_scale, softcap, slope and sink, and for the same keys: a key's number in its
 * sequence counts. A variant for many queries is slower with few: docs/limits.md says how much. */
enum glint_order { GLINT_ORDER_ANY = 0, GLINT_ORDER_CANONICAL = 1 };

/* Shapes, as the problem says where its rows are. Query head h reads key head h / (heads_q / heads_kv).
 *
 *   tensor          lengths or bounds of each sequence       ragged
 *   Q, O, dO, dQ    [batch, heads_q,  seqlen_q, head_dim]    [heads_q,  rows_q, head_dim]
 *   K, V, dK, dV    [batch, heads_kv, seqlen_k, head_dim]    [heads_kv, rows_k, head_dim]
 *   K, V in pages   [pages, heads_kv, page_rows, head_dim]   [pages, heads_kv, page_rows, head_dim]
 *   LSE             [batch, heads_q,  seqlen_q]              [heads_q,  rows_q]
 *   bias, dBias     [batch, heads_q,  seqlen_q, seqlen_k]    as there
 *
 * Rows of V, O, dO and dV have head_dim_v elements in the place of head_dim: as many, as yet. Elements are of dtype;
 * K's and V's of kv_dtype, where that is not 0. LSE is float32 and contiguous. strides.batch
 * of a ragged tensor counts for nothing, and is not negative. */
struct glint_problem {
    uint32_t struct_size;
    uint32_t dtype;      /* enum glint_dtype */
    uint32_t mask;       /* enum glint_mask */
    float softmax_scale; /* finite; commonly 1 / sqrt(head_dim) */
    int64_t batch;       /* 1 ... GLINT_MAX_EXTENT */
    int64_t heads_q;     /* 1 ... GLINT_MAX_EXTENT, a multiple of heads_kv */
    int64_t heads_kv;
    int64_t head_dim; /* a multiple of 8 that the spec lists */
    int64_t seqlen_q; /* 0 ... GLINT_MAX_EXTENT */
    int64_t seqlen_k; /* 0 ... GLINT_MAX_EXTENT */
    struct glint_strides q, k, v, o;
    struct glint_strides dout, dq, dk, dv; /* read for GLINT_BACKWARD only */
    int64_t window_left, window_right;     /* GLINT_MASK_BAND_*: 0 ... GLINT_MAX_EXTENT or GLINT_UNBOUNDED; else 0 */
    int64_t rows_q, rows_k;                /* ragged: 0 ... GLINT_MAX_EXTENT; else 0, and rows_k also in pages */
    uint32_t lengths;                      /* enum glint_lengths */
    uint32_t order;                        /* enum glint_order; backward: GLINT_ORDER_ANY */
    float softcap;                         /* 0: none; else 2^-126 ... 2^124, on a GPU over |softmax_scale| too */
    uint32_t sinks;                        /* 1: glint_tensors.sinks is read; 0: there are none */
    int64_t page_rows;                     /* 16, 32, 64, 128 or 256; 0: linear */
    int64_t pages;                         /* in the pool: 1 ... GLINT_MAX_EXTENT; linear: 0 */
    int64_t pages_per_sequence;            /* of a row of the table: 1 ... GLINT_MAX_EXTENT; linear: 0 */
    uint32_t kv_dtype;                     /* 0: K and V have dtype; forward also GLINT_I8 and GLINT_E4M3 */
    uint32_t kv_scales;                    /* enum glint_scales: TENSOR, HEAD or ROW where kv_dtype is set, else NONE */
    int64_t diagonal;                      /* added to the mask's offset: any number; with GLINT_MASK_NONE 0 */
    uint32_t intervals;                    /* 1: glint_tensors.key_begin and .key_end are read; 0: there are none */
    uint32_t alibi;                        /* 1: glint_tensors.alibi_slopes is read; 0: there are none */
    uint32_t max_logit;                    /* 1: glint_tensors.max_logit is written; backward: 0 */
    uint32_t bias_dtype;                   /* GLINT_F32 or dtype: glint_tensors.bias is read; 0: there is none */
    uint32_t dbias;                        /* 1: glint_tensors.dbias is written by backward; 0: it is not */
    uint32_t tree;                         /* 1: glint_tensors.tree_bits is read; backward: 0 */
    struct glint_bias_strides bias;        /* of bias and of dbias; of no bias it counts for nothing */
    int64_t head_dim_v;                    /* of V and O: head_dim, as no variant has another width yet */
    uint64_t reserved[1];                  /* zero */
};

/* Fills in a problem whose tensors are contiguous in the order [batch, seqlen, heads, head_dim], no mask and
 * softmax_scale 1 / sqrt(head_dim), with V and O as wide as Q and K. No checks: glint_plan makes them all. */
void glint_problem_bshd(struct glint_problem *problem, enum glint_dtype dtype, int64_t batch, int64_t seqlen_q, int64_t seqlen_k,
                        int64_t heads_q, int64_t heads_kv, int64_t head_dim);

/* The same for the order [batch, heads, seqlen, head_dim]. */
void glint_problem_bhsd(struct glint_problem *problem, enum glint_dtype dtype, int64_t batch, int64_t seqlen_q, int64_t seqlen_k,
                        int64_t heads_q, int64_t heads_kv, int64_t head_dim);

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* A checked problem and how it will be run: plain data, copied freely, valid while its context is open. Read-only
 * for the caller. */
struct glint_plan {
    uint32_t struct_size;
    uint32_t pass;    /* enum glint_pass */
    uint32_t variant; /* index into the table: glint_variant_at */
    uint32_t reserved;
    size_t workspace_bytes; /* exact: this many work, one less is refused */
    const struct glint_context *context;
    struct glint_problem problem;
    uint64_t internal[32]; /* the backend's launch geometry and a check sum over the plan */
};

/* Checks the problem, chooses the variant, computes the workspace. A pure function of its arguments; costs under 2
 * microseconds. On refusal *plan is untouched and glint_explain says what to change. Of several variants for one key
 * the rule of lib/choose.c takes one, and glint_explain says what it decided by.
 *
 *   strides           a variant whose alignment they do not have is passed over as long as another takes them
 *   batch and heads   play no part, so a sequence's result does not depend on what it is batched with
 *   lengths           do not choose between TF32 and TF32X3 of enum glint_math: glint_plan_variant does. They choose
 *                     nothing with GLINT_ORDER_CANONICAL
 *   AMX               is taken where glint_options.amx is set
 *   AVX-512 BF16      is taken on AMD's CPUs, whose vdpbf16ps does 32 products in a multiply-add's time. On others its
 *                     variants come last
 *
 * Few queries are multiplied in another arithmetic than many where an instruction set has variants for only one of
 * the two: AVX-512 BF16 has none for decode, and a spec may leave AMX's out. */
enum glint_status glint_plan(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                             struct glint_plan *plan);

/* What the longest call of a plan takes: with lengths of the call no shorter ones have more pairs or bytes. A host that
 * knows its machine's rates holds a deadline with it. With e bytes an element, D = head_dim, Dv = head_dim_v, Sq =
 * seqlen_q and Sk = seqlen_k:
 *
 *   keys        of a sequence, those that some query sees: they lie side by side
 *   pairs       of a head of a sequence: visible (query, key) pairs
 *   flops       batch heads_q pairs times 2 D + 2 Dv forward (two products), 6 D + 4 Dv backward (five); an exponential
 *               counts as 0
 *   tile_flops  as flops, with all pairs of the variant's tiles (tile_m x tile_n) that have a visible pair. In decode
 *               all queries with `keys`, from a multiple of 32 on
 *   read        forward    e batch (heads_q Sq D + heads_kv keys (D + Dv))                    Q, K, V
 *               backward   e batch (heads_q Sq (D + 2 Dv) + heads_kv keys (D + Dv)) + lse     Q, O, dO, K, V, LSE
 *   written     forward    e batch heads_q Sq Dv + lse                                        O, LSE
 *               backward   e batch (heads_q Sq D + heads_kv Sk (D + Dv))                      dQ, dK, dV
 *   lse         4 batch heads_q Sq
 *
 * Of 8-bit K and V a row is D or Dv bytes, and 4 more for a scale of its own. Bytes count each needed element of a
 * tensor once, as if caches held all that is read again; traffic of the workspace, lengths, page tables, slopes and
 * sinks are not counted, nor are dLSE, a bias and dBias. A number that does not fit is UINT64_MAX. Of ragged sequences
 * it is what `batch` sequences of the bounds would take, which is more than the rows can hold where rows_q or rows_k is
 * less than that. */
struct glint_cost {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t bytes_read, bytes_written;
    uint64_t flops, tile_flops;
};
#define GLINT_COST_INIT                          \
    {                                            \
        sizeof(struct glint_cost), 0, 0, 0, 0, 0 \
    }

/* The cost of a plan, in time that no length changes much: under 2 microseconds. A pure function, thread-safe. */
enum glint_status glint_plan_cost(const struct glint_plan *plan, struct glint_cost *cost);

/* Writes one or more lines of text about the problem on this context to `buffer`, with a NUL at the end if buffer_bytes
 * > 0.
 *
 *   the problem can be planned   the variant, its tile, its workspace, and why it was chosen
 *   it cannot                    the field at fault, its value, what would be right, and the nearest variant or the
 *                                line of the spec that would allow it
 *
 * Returns the status that glint_plan returns. *needed_bytes, if given, receives the size of the whole text with its
 * NUL. */
enum glint_status glint_explain(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                                char *buffer, size_t buffer_bytes, size_t *needed_bytes);

/* Why glint_forward or glint_backward would refuse (or accept) these arguments, as glint_explain says it. Runs
 * nothing. */
struct glint_tensors;
enum glint_status glint_explain_call(const struct glint_plan *plan, enum glint_pass pass, const struct glint_tensors *tensors,
                                     const void *workspace, size_t workspace_bytes, const void *stream, char *buffer,
                                     size_t buffer_bytes, size_t *needed_bytes);

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Addresses; on a GPU context device addresses. Unused ones may be NULL, and so may tensors without elements.
 * Outputs must not share bytes with any other tensor. Interleaved outputs, such as dQ, dK and dV as views of one
 * fused buffer, are fine when they have equal strides; with different strides, address ranges that meet count as
 * overlap. No tensor, inputs included, may meet the workspace. */
struct glint_tensors {
    uint32_t struct_size;
    uint32_t reserved;
    const void *q, *k, *v; /* read by both passes */
    void *o;               /* written by forward, read by backward */
    float *lse;            /* written by forward, read by backward */
    const void *dout;      /* read by backward */
    void *dq, *dk, *dv;    /* written by backward */

    /* Of GLINT_LENGTHS_DEVICE and GLINT_LENGTHS_RAGGED; otherwise NULL. On a GPU context in device memory, as all
     * tensors are. */
    const int32_t *first_q, *first_k; /* [batch + 1]: of ragged sequences, else NULL; first_k in pages too */
    const int32_t *seqlens_q;         /* [batch], or NULL: all queries of each sequence */
    const int32_t *seqlens_k;         /* [batch]; ragged and not in pages also NULL: all keys of each sequence */

    /* Or NULL. Lowered to the index of the first sequence with a length outside of 0 ... its bound, a first row that
     * is none, or a page outside of the pool, if that is less than what it holds: set it to GLINT_NO_FAULT once, and
     * read it after any number of calls. */
    uint32_t *fault;

    /* Of a problem with sinks; otherwise NULL. */
    const float *sinks; /* [heads_q], read by both passes */
    float *dsinks;      /* [heads_q], written by backward; forward does not look at it */

    const int32_t *page_table; /* [batch, pages_per_sequence]; where K and V are linear NULL */

    /* Of 8-bit K and V; otherwise NULL. Shaped as kv_scales says, contiguous. */
    const float *k_scale, *v_scale;

    /* Shaped as LSE, or NULL, which counts as zeros: the gradient of LSE, read by backward; forward does not look at
     * it. Of a row without keys it is not read, unless there are sinks, whose logit is that row's LSE. */
    const float *dlse;

    /* Of a problem with intervals; otherwise NULL. [batch, seqlen_q], or [rows_q] where queries are ragged. */
    const int32_t *key_begin, *key_end;

    const float *alibi_slopes; /* [heads_q], read by both passes, of a problem with ALiBi; otherwise NULL */

    float *max_logit; /* [heads_q], written by forward, of a problem with max_logit; otherwise NULL */

    /* Of a problem with a bias; otherwise NULL. Of bias_dtype, shaped as above. */
    const void *bias; /* read by both passes */
    void *dbias;      /* written by backward where problem.dbias is 1; forward does not look at it */

    /* Of a problem with a tree; otherwise NULL. [batch, seqlen_q, words], or [rows_q, words] where queries are ragged,
     * with words = (seqlen_q + 31) / 32. */
    const uint32_t *tree_bits;
};
#define GLINT_NO_FAULT UINT32_MAX
#define GLINT_TENSORS_INIT                                                                                                         \
    {                                                                                                                              \
        sizeof(struct glint_tensors), 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                                                 \
    }

/* O and LSE from Q, K, V.
 *
 *   CPU   runs on the executor and returns when it is done; `stream` must be NULL
 *   GPU   enqueues on `stream` (a CUstream or cudaStream_t; NULL is the default stream), and never synchronises. A CUDA
 *         graph may capture the call. Tensors and workspace must stay valid until the stream has passed it
 *
 * `workspace` is aligned to GLINT_WORKSPACE_ALIGNMENT and private to the call. It needs no initialisation and holds
 * nothing afterwards. */
enum glint_status glint_forward(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                size_t workspace_bytes, void *stream);

/* dQ, dK, dV from Q, K, V, O, LSE, dO; deterministic: the same bits for the same inputs on the same variant. */
enum glint_status glint_backward(const struct glint_plan *plan, const struct glint_tensors *tensors, void *workspace,
                                 size_t workspace_bytes, void *stream);

/* ---- sequences, pages and 8-bit caches: the rules ---------------------------------------------------------------- */

/* Sequences of different lengths. The arrays are read in the call, once, so one plan and one workspace serve all
 * lengths up to the bounds.
 *
 *                     GLINT_LENGTHS_DEVICE           GLINT_LENGTHS_RAGGED               ragged queries, K in pages
 *   Q of sequence b   [b, 0 ... seqlens_q[b] - 1]    first_q[b] ... first_q[b + 1] - 1  as ragged
 *   K of sequence b   [b, 0 ... seqlens_k[b] - 1]    first_k[b] ... first_k[b + 1] - 1  seqlens_k[b] keys in pages
 *   seqlens_q         NULL: seqlen_q of each         NULL: all; else the first so many  as ragged
 *   seqlens_k         given                          NULL: all; else the first so many  given
 *   of a sequence,    seqlen_q, seqlen_k             seqlen_q, seqlen_k                 seqlen_q, seqlen_k
 *     at most
 *   of all of them    batch * those                  rows_q, rows_k                     rows_q; rows_k 0, first_k NULL
 *
 *   A length or first row                       counts as
 *   a length below 0                            0
 *   a length above its bound                    the bound
 *   a first row below 0                         0
 *   a first row above all rows                  all rows
 *   a first row below the one before it         the one before it
 *
 *  - glint_tensors.fault tells of a number that counts as another one.
 *  - All keys of a sequence count: those of a cache and the new ones.
 *  - A mask that is aligned to the bottom right is so for each sequence by itself.
 *  - Rows of Q, K, V, O and dO beyond a length are not multiplied in, and may hold anything. O, LSE, dQ, dK and dV
 *    beyond a length, and ragged rows of no sequence, are not written.
 *  - A sequence has the bits that the same variant gives a problem of its lengths.
 *  - On a CPU context every variant takes them. On a GPU a variant has further kernels for them where the spec asks:
 *    `lua5.4 gen/glint.lua list --takes` says which variants of a library take what, and glint_explain what to set
 *    in the spec. */

/* Intervals: a query sees a key only where both its mask and its interval do. Query i of sequence b has the interval
 * key_begin[b][i] <= j < key_end[b][i] (of ragged queries those of row first_q[b] + i), in keys of its sequence. The
 * arrays are read in the call. Any numbers are right: an interval is cut to the keys that there are, and an empty one
 * sees nothing.
 *
 *   a prefix that all see (prefix-LM)     key_end = max(i + 1, prefix), no mask
 *   blocks that see all of themselves     key_end = max(i + 1, the end of the block that i is in), no mask
 *   chunks of C keys, local and causal    key_begin = i - i % C, a causal mask
 *   documents in one sequence             key_begin = the first of the document, a causal mask
 *   left padding                          key_begin = the first key that is none, any mask
 *
 *  - All heads of a query share its interval.
 *  - A key that an interval hides is never multiplied in, as one that a mask hides.
 *  - Intervals that say what a mask says give the bits of that mask on the same instruction set, and on a GPU where
 *    both rows are of one family and their tiles have as many keys. Windows are an exception in rows for a server's
 *    step: there intervals give other bits than a window.
 *  - glint_plan_cost counts what the mask leaves.
 *  - Rows of the table with GLINT_FEATURE_INTERVALS take them, which the spec lists as the mask "interval": on the CPU,
 *    but for AMX and AVX-512 BF16, in the family sm80, and forward in sm90a. */

/* Trees, for speculative decoding: the new tokens of a sequence are a tree of guesses, as EAGLE, Medusa and others make
 * it, and a query sees its ancestors and itself. The new keys are the last seqlen_q of a sequence. Bit s of query i in
 * sequence b is bit s % 32 of word s / 32 of tree_bits[b][i] (of ragged queries of row first_q[b] + i): it is set where
 * the query sees new key s, which is key seqlen_k - seqlen_q + s. Words are counted by the problem's seqlen_q, bits by
 * the sequence's; the others may hold anything.
 *
 *   of the keys of a sequence                          query i sees
 *   the new ones, the last seqlen_q                    those whose bit is set
 *   those before, the first seqlen_k - seqlen_q        all
 *   of both                                            those that its mask and its interval leave
 *
 *  - A mask counts positions in the tree, not rows. With n bits set in its row a query stands where query n - 1 would:
 *    at the end of its path, at depth n - 1. For it a new key stands behind the keys before the tree and the new keys
 *    of its path that come before it. So a causal mask with the diagonal at the bottom right hides nothing of the path,
 *    and a window reaches back window_left tokens along it.
 *  - An interval counts keys, as it always does.
 *  - Parents need not come before children, but where windows count positions, paths follow the order of the keys.
 *  - All heads of a query share its bits. Any bits are right; a row without any sees keys before the tree alone.
 *  - A new key whose bit is not set is never multiplied in, as one that a mask hides. An index of a page in which no
 *    query sees a key is no fault.
 *  - A chain (bits 0 to i of query i) gives the bits of the causal mask or the window on the same instruction set, and
 *    bits that say what an interval says those of the interval.
 *  - glint_plan_cost counts what the mask leaves without a tree. ALiBi, which would count rows, is refused: a bias has
 *    any distances. Forward only.
 *  - Rows of the table with GLINT_FEATURE_TREE take it, with and without intervals, which the spec lists as the mask
 *    "tree": on the CPU, but for AMX and AVX-512 BF16, in the family sm80, and in sm90a's rows for a server's step. */

/* ALiBi (Press et al., arXiv:2108.12409): a score has m_h (j - position) added where key j is not after its query, and
 * m_h (position - j) where it is, so - m_h times their distance in either case. m_h is tensors.alibi_slopes[h] of query
 * head h: a slope above 0 prefers keys that are near.
 *
 *   the mask                          the position of query i among the keys of its sequence
 *   GLINT_MASK_*_TOP_LEFT             i + diagonal
 *   GLINT_MASK_*_BOTTOM_RIGHT         i + seqlen_k - seqlen_q + diagonal
 *   GLINT_MASK_NONE                   i + seqlen_k - seqlen_q
 *
 *  - Lengths are those of the sequence. i + offset - j, with the offset between -2^30 and 2^30, is rounded to float32.
 *  - It is added after the scale, after a softcap and before the mask, and LSE includes it. A sink has none.
 *  - On the CPU a weight below 2^-100, of the row's sum or of the largest weight so far, counts as 0 where a slope is
 *    not 0: beyond some distance all weights are so small, and products with them would be slow.
 *  - On the CPU slopes that are all 0 give the bits of no ALiBi where there is no softcap. NaN or inf in a slope
 *    reaches the rows of its head, and no other.
 *  - Rows of the table with GLINT_FEATURE_ALIBI take it, and no problem without it. The spec lists them as the bias
 *    "alibi": on the CPU, but for AMX and AVX-512 BF16, and in the families sm80 and sm90a. */

/* The largest logit: max_logit[h] is the largest score of query head h, over all sequences of the call and all pairs of
 * a query and a key that it sees. It is for clipping of weights (QK-clip) and for calibration of 8 bits.
 *
 *  - A score is what the softmax takes: scaled, capped, with its bias, of 8-bit K with its scale. It is the largest of
 *    the float32 numbers that the kernel computed, -0 counted as 0, and so has the same bits on any number of threads
 *    and in any order of a GPU's blocks.
 *  - A sink is no score. -inf where no query of the head sees a key. A score of NaN does not count.
 *  - Forward only: a training step's backward pass is planned with max_logit = 0.
 *  - Rows of the table take it where the spec sets max_logit = true in their family: those of the CPU and of sm80, with
 *    few queries too. O and LSE have the bits that they have without it. */
/* A bias (T5's relative positions, Swin's windows, the pairs of AlphaFold): B_bhij is added to the score of query i and
 * key j of head h in sequence b. It is element b * bias.batch + h * bias.head + i * bias.query + j * bias.key of
 * tensors.bias.
 *
 *   [batch, heads, seqlen_q, seqlen_k]    its strides
 *   [1, heads, seqlen_q, seqlen_k]        bias.batch = 0
 *   [batch, 1, 1, seqlen_k]               bias.head = bias.query = 0
 *   of distances, one number each         a host lays it out as one of these
 *
 *  - It is added after the scale, after a softcap and before the mask, as ALiBi is, and LSE includes it. A sink has
 *    none.
 *  - i and j are numbers within the sequence, 0 first, wherever its rows lie: in padded, in ragged and in paged
 *    tensors alike. So a bias has room for seqlen_q and seqlen_k, the bounds, of each sequence; what lies beyond a
 *    length is not read. Of queries against a cache, B's row 0 is that of the first of them.
 *  - Strides are not negative, and 0 broadcasts. A bias that is read alone may overlap itself. It is fastest where keys
 *    follow one another: bias.key = 1.
 *  - On the CPU a bias of zeros gives the bits of no bias where there is no softcap. NaN and infinities act as in a
 *    score: -inf hides a key's weight, though not NaN or inf in its V, and a row of nothing else gives NaN. A large
 *    negative number, such as -1e9, hides a key, too; a mask or an interval is faster. What the mask hides is not added
 *    in.
 *  - dBias has the strides and the dtype of the bias. Strides other than 0 then step over all that is inside them. Sums
 *    are float32, in an order that depends on the problem alone, and rounded once. Every element is written; one that
 *    belongs to no pair of a query and a key that it sees is 0. The plan's workspace has room for its sums.
 *  - Rows of the table with GLINT_FEATURE_BIAS take it, and no problem without it. The spec lists them as the bias
 *    "tensor": on the CPU, but for AMX and AVX-512 BF16, and in the family sm80. */

/* Pages: K and V of a sequence lie in pages of a pool, in any order, and a table of the call says where. Key j of
 * sequence b is row j % page_rows of page page_table[b][j / page_rows].
 *
 *   page_rows            16, 32, 64, 128 or 256; 0: K and V are linear, and `pages` and `pages_per_sequence` are 0
 *   k, v strides         batch steps from page to page; head and row are any (pages of [row][head] or of [head][row])
 *   lengths              GLINT_LENGTHS_DEVICE, or GLINT_LENGTHS_RAGGED for prompts and single tokens in one batch
 *   seqlen_k             at most pages_per_sequence * page_rows
 *   an entry is read     if its page has a key below the sequence's length, also one that a window hides
 *   an index out of      0 ... pages - 1 is clamped, and glint_tensors.fault says so if some query sees one of its keys
 *   equal entries        are right: sequences share a prefix so, and the pages of a ring come round again
 *
 *  - The rest of a sequence's last page, and pages that are in no table, are not multiplied in, and may hold anything.
 *  - The bits are those of linear K and V.
 *  - Pages are for the forward pass, with few queries too. What takes them is said as for sequences. */

/* 8-bit K and V: what is stored times its scale is what it stands for. The order of operations, in float32, where k and
 * v are what is stored:
 *
 *   S_ij = (sum_d (softmax_scale Q_id) k_jd) * k_scale_j
 *   O_i  = (sum_j (e^(S_ij - max_i) * v_scale_j) v_j) / sum_j e^(S_ij - max_i)
 *
 * so nothing is rounded on the way from 8 bits. A scale may be any number. NaN or inf in a scale acts as NaN or inf
 * in all the rows that the scale is of. A scale of rows that a mask hides or that lie beyond a length is not
 * multiplied in. */

/* ---- a cache of keys and values ---------------------------------------------------------------------------------- */

/* New rows of K and V, of the tokens whose queries a forward call takes next: [batch, heads_kv, seqlen_q, head_dim],
 * or [heads_kv, rows_q, head_dim] where queries are ragged; of V head_dim_v in the place of head_dim. */
struct glint_append {
    uint32_t struct_size;
    uint32_t dtype;                            /* enum glint_dtype of the new rows: GLINT_F32 or the problem's */
    const void *k, *v;                         /* on a GPU context device addresses; NULL when there is no element */
    struct glint_strides k_strides, v_strides; /* of elements; as of any input */
    uint64_t reserved[2];                      /* zero */
};
#define GLINT_APPEND_INIT                                                 \
    {                                                                     \
        sizeof(struct glint_append), 0, NULL, NULL, {0, 0, 0}, {0, 0, 0}, \
        {                                                                 \
            0, 0                                                          \
        }                                                                 \
    }

/* Puts new rows where the plan's forward call will read them: row i of sequence b becomes key seqlens_k[b] -
 * seqlens_q[b] + i, for i from 0 to seqlens_q[b] - 1. The lengths are those of that call, so they count the new rows
 * already: a host adds the new tokens to its lengths, then appends, then runs, with one plan and the same `tensors`.
 * With GLINT_LENGTHS_HOST the lengths are seqlen_q and seqlen_k. Of ragged queries the new rows are ragged as they are,
 * first_q[b] + i instead of (b, i), and the cache is in pages; ragged keys follow one another, so there is no room and
 * no appending to them.
 *
 *  - tensors.k and .v are written, linear or in pages, and so must be memory that may be; their rows, heads and batches
 *    (or pages) must not overlap. With GLINT_SCALES_ROW so are k_scale and v_scale; other scales are read. Of the other
 *    tensors the lengths, first_q, page_table and fault are read as in the forward call, and no others are looked at.
 *  - float32 is rounded to the cache's dtype, to nearest even; what is too large becomes inf, and NaN stays NaN.
 *    Nothing else is written.
 *  - 8 bits. A row x of K or V becomes the row c and, with GLINT_SCALES_ROW, its scale s. In float32, each operation
 *    rounded to nearest even:
 *
 *      int8, GLINT_SCALES_ROW   s = max(max_d |x_d| / 127, 2^-126)   c_d = x_d / s rounded to an integer, -127 ... 127
 *      e4m3, GLINT_SCALES_ROW   s = max(max_d |x_d| / 448, 2^-126)   c_d = x_d / s rounded to e4m3, -448 ... 448
 *      e4m3, TENSOR or HEAD     s is the host's                      c_d as in the line above; an infinite or NaN
 *                                                                    quotient becomes NaN, 0x7f
 *
 *    A row of zeros so has the scale 2^-126. With a scale of its own a row that holds an infinity or a NaN becomes
 *    zeros with the scale NaN: every query that sees it gets NaN. Int8 with a scale that is the host's is not appended,
 *    as it has no NaN to say so.
 *  - A row is left out, and the sequence noted in tensors.fault, where its key is not one of 0 ... seqlen_k - 1 (more
 *    new rows than keys, or a cache that is full: no row takes the place of another) or its page is not in the pool;
 *    then also where a length is out of its bounds.
 *  - K, V and scales share no range of addresses with the new rows; K and V may interleave with each other, as outputs
 *    of a call may.
 *  - Two rows that the table puts at one place (pages that sequences share) are written in no order.
 *
 * The bits of a row depend on the row alone. `plan` is of the forward pass; its mask plays no part. It allocates
 * nothing and needs no workspace. It runs where the forward call does, on the executor or in `stream`, and a CUDA
 * graph may capture it. On a GPU context addresses and strides of the new rows are multiples of 16 bytes, as the
 * cache's are; heads_kv * head_dim is below 2^31; and the bytes that are written, scales included, are those of a CPU
 * context, but for those of a NaN of 16 bits. Refusals write nothing: GLINT_BAD_APPEND, and those of a problem and of a
 * call that have the same cause. Thread-safe. */
enum glint_status glint_append(const struct glint_plan *plan, const struct glint_append *append,
                               const struct glint_tensors *tensors, void *stream);

/* Why glint_append would refuse (or accept) these arguments, as glint_explain_call says it. Runs nothing. */
enum glint_status glint_explain_append(const struct glint_plan *plan, const struct glint_append *append,
                                       const struct glint_tensors *tensors, const void *stream, char *buffer, size_t buffer_bytes,
                                       size_t *needed_bytes);

/* ---- merging partial results ------------------------------------------------------------------------------------- */

/* Attention of the same queries to several sets of keys, each computed apart, becomes attention to all of them:
 *
 *   LSE = log sum_i exp(LSE_i)        O = sum_i exp(LSE_i - LSE) O_i        over the parts i, in their order
 *
 * That serves a prefix which many sequences share, keys that lie in several tensors or on several machines, and keys
 * that come in turns. The parts of a causal problem: keys before the last seqlen_q under GLINT_MASK_NONE, and the rest
 * under GLINT_MASK_CAUSAL_BOTTOM_RIGHT. Any other cut of queries and keys, as a ring over several machines makes it,
 * has its mask by glint_problem.diagonal. A prefix that is shared: the queries of all sequences as one batch, against
 * the prefix; strides view its O and LSE as [batch, heads, seqlen].
 *
 *  - A part in which a query has no score above -inf (LSE_i = -inf) is not read: its O may hold anything, and the
 *    result has the bits that it has without the part. Where all parts are so, O = 0 and LSE = -inf. One part alone is
 *    copied, or rounded to another dtype. NaN and +inf in an LSE_i give NaN in that row.
 *  - `sinks`, if given: a logit for each head that takes part in the denominator, as one more part with LSE =
 *    sinks[head] and O = 0. The parts are computed without it; LSE includes it. -inf is none.
 *  - O may lie exactly where a part's O does, with the same dtype and strides, and LSE where a part's LSE does: results
 *    that come in turns need no second buffer. Otherwise outputs share no range of addresses with anything.
 *  - Sums are float32. The bits of a row depend on its numbers in the parts alone. */
#define GLINT_MAX_PARTS 32u
struct glint_part {
    const void *o;                    /* [batch, heads, seqlen, head_dim] */
    const float *lse;                 /* [batch, heads, seqlen] */
    struct glint_strides o_strides;   /* of elements; as of any input, 0 repeats */
    struct glint_strides lse_strides; /* of floats; contiguous are {heads * seqlen, seqlen, 1} */
    uint32_t dtype;                   /* enum glint_dtype of its O, which need not be the result's */
    uint32_t reserved;                /* zero */
};
struct glint_merge {
    uint32_t struct_size;
    uint32_t dtype;                /* enum glint_dtype of the result's O */
    uint32_t parts;                /* 1 ... GLINT_MAX_PARTS */
    uint32_t reserved;             /* zero */
    int64_t batch;                 /* 1 ... GLINT_MAX_EXTENT */
    int64_t heads;                 /* query heads: 1 ... GLINT_MAX_EXTENT */
    int64_t seqlen;                /* queries: 0 ... GLINT_MAX_EXTENT */
    int64_t head_dim;              /* of O, a problem's head_dim_v: a multiple of 8; the spec need not list it */
    const struct glint_part *part; /* [parts], in host memory also on a GPU context: read during the call */
    const float *sinks;            /* [heads], or NULL */
    void *o;
    float *lse;
    struct glint_strides o_strides, lse_strides;
};
#define GLINT_MERGE_INIT                                                                    \
    {                                                                                       \
        sizeof(struct glint_merge), 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, {0, 0, 0}, \
        {                                                                                   \
            0, 0, 0                                                                         \
        }                                                                                   \
    }

/* It needs no plan and no workspace. `stream` is as in glint_forward: on a CPU context it is NULL, and the call runs
 * on the executor and returns when it is done; on a GPU context the call is enqueued, and a CUDA graph may capture
 * it. There all addresses but `part` are of the device, and addresses and strides of each O are multiples of 16
 * bytes. The bits are the same on all devices, but for those of a NaN. Refusals write nothing: GLINT_BAD_MERGE, and
 * those of a problem and of a call that have the same cause. Thread-safe. */
enum glint_status glint_merge(const struct glint_context *context, const struct glint_merge *merge, void *stream);

/* Why glint_merge would refuse (or accept) these arguments, as glint_explain says it. Runs nothing. */
enum glint_status glint_explain_merge(const struct glint_context *context, const struct glint_merge *merge, const void *stream,
                                      char *buffer, size_t buffer_bytes, size_t *needed_bytes);

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* How two numbers are multiplied. Sums are float32 always.
 *
 *   NATIVE   as the storage, or better. GPU rows of 16 bits round P and dS to the storage too, and keep what is below
 *            2^-126
 *   TF32     GLINT_F32 on a GPU, whose tensor cores take factors of 11 significant bits (and denormals in steps of
 *            2^-136): each factor is rounded to that, so a product is off by up to 2^-10 of itself
 *   TF32X3   each factor is a sum of two such numbers, and three products of them are added: as good as float32
 *   BF16     GLINT_BF16 on a CPU with AMX or AVX-512 BF16 */
enum glint_math {
    GLINT_MATH_NATIVE = 0, /* of the storage's own precision, or better */
    GLINT_MATH_TF32 = 1,
    GLINT_MATH_TF32X3 = 2,
    GLINT_MATH_BF16 = 3 /* factors of bf16: P and dS are rounded to it; factors and products below 2^-126 count as 0 */
};

/* What a variant does beside plain attention: a set of bits. A problem is computed by variants with exactly the
 * features that it asks for. But a row of decode (queries_up_to) serves problems with fewer bounds too, and a row of
 * the CPU problems without a softcap. */
enum glint_feature {
    GLINT_FEATURE_RIGHT_BOUND = 1, /* hides keys after a query's last one: causal masks, and bands with a right side */
    GLINT_FEATURE_LEFT_BOUND = 2,  /* hides keys before its first one: bands with a left side, which have both bits */
    GLINT_FEATURE_SOFTCAP = 4,     /* caps the scores; such a row of the CPU computes problems without a softcap too */
    GLINT_FEATURE_INTERVALS = 8,   /* reads an interval of keys a query; such a row has both bits of bounds, too */
    GLINT_FEATURE_ALIBI = 16,      /* adds ALiBi to the scores */
    GLINT_FEATURE_BIAS = 32,       /* adds a tensor to the scores; of the backward pass, sums its gradient, too */
    GLINT_FEATURE_TREE = 64        /* reads a tree's bits; such a row has the three bits of bounds and intervals, too */
};

struct glint_variant_info {
    uint32_t struct_size;
    uint32_t pass;     /* enum glint_pass */
    uint32_t dtype;    /* enum glint_dtype */
    uint32_t features; /* set of enum glint_feature */
    uint32_t head_dim;
    uint32_t head_dim_v;      /* of V and O */
    uint32_t isa;             /* CPU family: enum glint_isa; else 0 */
    uint32_t sm;              /* GPU families: lowest compute capability, 10 * major + minor; else 0 */
    uint32_t tile_m;          /* queries a tile */
    uint32_t tile_n;          /* keys a tile */
    uint32_t alignment_bytes; /* of addresses and strides */
    uint32_t math;            /* enum glint_math */
    uint32_t queries_up_to;   /* above 0: decode. Split over the keys, taken for so many queries at most */
    uint32_t kv_dtype;        /* of K and V: 0, or GLINT_I8 or GLINT_E4M3 */
    const char *name;         /* such as "fwd_f32_d64_causal__cpu_x86_64_v3_m64n96"; static */
    const char *family;       /* such as "cpu"; static */
};
#define GLINT_VARIANT_INFO_INIT                                                              \
    {                                                                                        \
        sizeof(struct glint_variant_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL \
    }

/* Rows of the table that was compiled in, sorted by name. Pure, thread-safe. */
uint32_t glint_variant_count(void);
enum glint_status glint_variant_at(uint32_t index, struct glint_variant_info *info);

/* Whether this context's device can run row `index`: GLINT_OK, GLINT_NOT_ON_DEVICE or GLINT_BAD_INDEX. */
enum glint_status glint_variant_available(const struct glint_context *context, uint32_t index);

/* Like glint_plan, but with the given row of the table, which must fit the problem. It is the way to other
 * arithmetic than glint_plan's choice (glint_variant_info.math), and serves tests and benchmarks. */
enum glint_status glint_plan_variant(const struct glint_context *context, const struct glint_problem *problem, enum glint_pass pass,
                                     uint32_t index, struct glint_plan *plan);

/* ---- power-on self test ------------------------------------------------------------------------------------------ */

struct glint_selftest_result {
    uint32_t struct_size;
    uint32_t variants_run;
    uint32_t variants_failed;
    uint32_t first_failed; /* table index, or UINT32_MAX */
    float worst_error;     /* largest |difference| / tolerance over all variants; <= 1 passes */
};
#define GLINT_SELFTEST_RESULT_INIT                          \
    {                                                       \
        sizeof(struct glint_selftest_result), 0, 0, 0, 0.0f \
    }

/* Bytes of memory that glint_selftest needs: host memory for a CPU context, device memory for a GPU one. */
enum glint_status glint_selftest_size(const struct glint_context *context, size_t *bytes);

/* Runs a problem with a known answer through every variant that this device can run. `memory` is on the context's
 * device, aligned to GLINT_WORKSPACE_ALIGNMENT. On a GPU the call synchronises `stream`. All variants are run; the
 * answer is GLINT_SELFTEST_FAILED when one of them was wrong. */
enum glint_status glint_selftest(const struct glint_context *context, void *memory, size_t memory_bytes, void *stream,
                                 struct glint_selftest_result *result);

/* ---- a thread pool for hosts that have none ---------------------------------------------------------------------- */

/* Fixed-storage pthread pool. glint_pool_init starts threads - 1 workers (the calling thread is the last one) and
 * fills in *executor, which stays valid until glint_pool_close. Its parallel_for may be called from several threads:
 * calls are served one after another. threads: 1 ... GLINT_POOL_MAX_THREADS. GLINT_BAD_OPTION when out of range,
 * GLINT_BAD_EXECUTOR when the system refuses a thread. */
#define GLINT_POOL_MAX_THREADS 256u
struct glint_pool;
size_t glint_pool_size(uint32_t threads);
enum glint_status glint_pool_init(void *storage, size_t storage_bytes, uint32_t threads, struct glint_pool **pool,
                                  struct glint_executor *executor);
enum glint_status glint_pool_close(struct glint_pool *pool);

/* Asks the system for the permission to use AMX and sets options->amx: to 1 with GLINT_OK when the process has it,
 * also when it had it before; to 0 with GLINT_NO_AMX when the CPU or the system has no AMX, or refuses, as it does
 * where a thread's alternate signal stack is too small for the tiles. Either way the options are good for
 * glint_context_init. Two system calls, of which nothing is left but the permission; thread-safe. In
 * libglint_pool.a. GLINT_NULL_ARGUMENT, GLINT_STRUCT_SIZE. */
enum glint_status glint_permit_amx(struct glint_options *options);

#ifdef __cplusplus
}
#endif
#endif
