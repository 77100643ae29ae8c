/* snug.h - a compacting allocator for device memory.
 *
 * A client allocates by size and gets an opaque handle. Just before a launch it resolves the handles that the launch
 * uses to addresses; just after, it releases them. Between launches snug may move the buffers, so an address means
 * nothing outside its resolve/release pair (or pin/unpin pair).
 *
 * Conventions, for every function unless it says otherwise:
 *   - Returns a snug_status; outputs come last and are written only on SNUG_OK. A failed call changes nothing.
 *   - Sizes, offsets and budgets are in bytes, times in nanoseconds of a monotonic clock.
 *   - Thread-safe: any thread, any moment. Not async-signal-safe. The exceptions: no call may run at the same time as
 *     snug_pool_destroy on its pool, nor as snug_stream_detach on its stream.
 *   - Arrays passed in are read during the call only. NULL option structs mean all defaults; a zero field means its default.
 *   - SNUG_LOST: the device reported an error that sticks. Every call says so; free, unpin, detach and destroy still work.
 *   - SNUG_FORKED: the process has forked since the pool was made; a device doesn't survive that. Only the parent goes on.
 *   - SNUG_GONE: the pool has been destroyed, or the stream detached.
 */
#ifndef SNUG_H
#define SNUG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SNUG_API __attribute__((visibility("default")))
#else
#define SNUG_API
#endif

#define SNUG_VERSION_MAJOR 0
#define SNUG_VERSION_MINOR 1
#define SNUG_VERSION_PATCH 0

#define SNUG_GRANULE       256u              /* every range starts and ends on a multiple of this, in bytes */
#define SNUG_ALIGNMENT_MAX (2u << 20)        /* largest alignment of an allocation: 2 MiB */
#define SNUG_SIZE_MAX      (UINT64_C(1) << 39) /* largest capacity and size that can be expressed: 512 GiB */
#define SNUG_TAG_MAX       31                /* characters of a tag, without the final 0 */

/* Every status: name, sentence. The six verdicts of a refused allocation or resize are the ones marked V. */
#define SNUG_STATUS_MAP(X)                                                                                             \
    X(OK, "success")                                                                                                   \
    X(LIMIT, "the request is larger than the pool may ever be")                                             /* V */    \
    X(CAPACITY, "too many bytes are live: the request doesn't fit even with every free byte in one piece")  /* V */    \
    X(FRAGMENTED, "enough bytes are free but scattered, and compaction is off or out of budget")            /* V */    \
    X(PENDING, "enough bytes would be free, but some still wait for a release or a fence")                  /* V */    \
    X(PINNED, "enough bytes are free, but pinned buffers lie between them")                                 /* V */    \
    X(DEVICE, "the device refused an operation")                                                            /* V */    \
    X(INVALID, "an argument is invalid")                                                                               \
    X(TOO_LARGE, "the size can't be expressed (it is above SNUG_SIZE_MAX)")                                            \
    X(ALIGNMENT, "the alignment is not a power of two from 1 to SNUG_ALIGNMENT_MAX")                                   \
    X(UNKNOWN, "not a handle of any live pool")                                                                        \
    X(STALE, "the handle has been freed")                                                                              \
    X(FOREIGN, "the handle belongs to another pool")                                                                   \
    X(NOT_PINNED, "release or unpin without a matching resolve or pin")                                                \
    X(TOO_MANY_PINS, "the handle is resolved too many times at once")                                                  \
    X(BUSY, "the buffer stayed in use by other threads for as long as the call may wait")                              \
    X(RANGE, "the bytes named lie outside the buffer")                                                                 \
    X(HANDLES, "the pool's table of handles is full")                                                                  \
    X(NO_MEMORY, "the host is out of memory")                                                                          \
    X(TIMEOUT, "the time allowed has passed")                                                                          \
    X(UNSUPPORTED, "this device can't do that")                                                                        \
    X(NO_DEVICE, "there is no such device in this build or on this machine")                                           \
    X(OPTIONS, "SNUG_OPTIONS holds something unknown or malformed")                                                    \
    X(CORRUPT, "an invariant of the pool is broken")                                                                   \
    X(LOST, "the device failed for good")                                                                              \
    X(FORKED, "the process has forked since the pool was made")                                                        \
    X(GONE, "the pool or stream is no longer there")                                                                   \
    X(CAPTURING, "the stream is being captured into a graph: resolve before that, or pin")

typedef enum snug_status {
#define SNUG_STATUS_ENUM(name, text) SNUG_##name,
    SNUG_STATUS_MAP(SNUG_STATUS_ENUM)
#undef SNUG_STATUS_ENUM
    SNUG_STATUS_COUNT
} snug_status;

SNUG_API const char *snug_status_name(snug_status status);   /* "CAPACITY"; "?" for no status. Static text. */
SNUG_API const char *snug_status_string(snug_status status); /* one sentence, lower case, no full stop. Static text. */
SNUG_API const char *snug_version(void);                     /* "0.1.0", of the library that runs */

/* tag | generation | index. Two live buffers never share one, and one never comes back. Opaque: compare and print only. */
typedef uint64_t snug_handle;
#define SNUG_HANDLE_NONE ((snug_handle)0)

typedef struct snug_pool   snug_pool;
typedef struct snug_stream snug_stream;

/* ---------------------------------------------------------------------------------------------------- pools */

enum { SNUG_LOG_WARNINGS = 0, SNUG_LOG_OFF, SNUG_LOG_ERRORS, SNUG_LOG_INFO };

typedef struct snug_pool_options {
    size_t      struct_size;        /* sizeof(snug_pool_options); snug_pool_options_default sets it */
    const char *device;             /* "host", "cuda" (snug_cuda.h), "sim" (snug_sim.h), or "auto": cuda where this build and
                                     * this machine have it, else host; default "host" */
    int         device_index;
    uint64_t    capacity;           /* bytes for clients, 1 granule to SNUG_SIZE_MAX, rounded down to the granule; required */
    uint64_t    commit_bytes;       /* committed at creation; default all of capacity. The rest is committed when needed */
    uint64_t    bounce_bytes;       /* bounce buffer, beside capacity; default capacity / 64 within 64 KiB .. 32 MiB */
    uint32_t    handles_max;        /* live handles at most; default and most 2^24 - 1 */
    int         compaction_off;     /* nonzero: nothing ever moves. snug_compaction_set changes it live */
    int         jumble;             /* nonzero: every compaction step moves every idle buffer that it can. For tests */
    uint64_t    demand_bytes_max;   /* bytes one allocation may have moved for it; default no bound */
    uint64_t    pin_wait_ns;        /* how long a plan blocked by other threads' short pins is retried; default 1 ms */
    uint32_t    generation_first;   /* of every handle; default 1. For tests of the wrap */
    int         log_level;          /* SNUG_LOG_*; default warnings */
    void      (*log)(void *context, int level, const char *line); /* default: a line on stderr. Must not call snug */
    void       *log_context;
    uint64_t    destroy_wait_ns;    /* how long destroying the pool waits for streams; default without end */
    int         address_table;      /* nonzero: keep the buffers' addresses in device memory too (snug_address_table),
                                     * 8 bytes for each of handles_max, beside capacity; so better set that as well */
} snug_pool_options;

static inline snug_pool_options snug_pool_options_default(void) {
    snug_pool_options o;
    memset(&o, 0, sizeof o);
    o.struct_size = sizeof o;
    return o;
}

/* Makes a pool: reserves its arena, commits the first part, opens two mover streams. No compactor runs yet.
 * The environment variable SNUG_OPTIONS overrides the options, comma separated:
 *   device=host|cuda|sim|auto, compaction=on|off, jumble=on|off, log=off|errors|warnings|info, pin_wait_us=N, capacity=BYTES,
 *   demand_bytes_max=BYTES, address_table=on|off, handles_max=N, generation_first=N, compactor=on|off (start one with default options).
 *   BYTES takes K, M, G (powers of 1024).
 * At most 255 pools live at once in a process (LIMIT).
 * Errors: INVALID, TOO_LARGE, OPTIONS, NO_DEVICE, DEVICE, NO_MEMORY, LIMIT, UNSUPPORTED (an address table on a device that
 * can't write it in the order of a stream). */
SNUG_API snug_status snug_pool_create(const snug_pool_options *options, snug_pool **pool);

/* Stops the compactor, waits for all that streams still do with the arena, gives everything back. Handles still live die
 * with it; their number is logged as a warning. After that every call on the pool or its streams returns SNUG_GONE.
 * While something is resolved or pinned it also waits for all that attached streams have been given so far.
 * Never required at process exit: a pool left behind does no harm. Not from a launched function.
 * Errors: GONE (destroyed before), LOST (torn down as far as the device let it): both leave no pool. TIMEOUT (streams haven't
 * done their work within destroy_wait_ns; snug_device_error and the log say which): the pool is as it was but for its
 * compactor, which no longer runs; it can be used on, or destroyed again. */
SNUG_API snug_status snug_pool_destroy(snug_pool *pool);

/* The name of the device that the pool is on: "host", "cuda" or "sim", whatever "auto" came to. "" for no live pool. */
SNUG_API const char *snug_pool_device(snug_pool *pool);

/* What the device said when a call last failed in this thread with DEVICE, LOST or TIMEOUT; "" before the first. The text stays
 * until the thread's next failure. */
SNUG_API const char *snug_device_error(void);

/* Attaches a client's native stream (host device: a snug_host_stream *; CUDA: snug_cuda_attach of snug_cuda.h). A native
 * stream attached twice gives the same snug_stream, and needs as many detaches. Attach before first use, detach before the native stream is destroyed: a native
 * handle can be reused and can't be asked whether it is dead.
 * Errors: INVALID (not a stream of this pool's device), NO_MEMORY, DEVICE. */
SNUG_API snug_status snug_stream_attach(snug_pool *pool, void *native, snug_stream **stream);

/* Legal with work pending: the library records one more event on the stream, and remembers what is before it until it has
 * run. Errors: GONE. */
SNUG_API snug_status snug_stream_detach(snug_stream *stream);

/* Waits on the host until everything enqueued on the stream so far has run. Errors: DEVICE. */
SNUG_API snug_status snug_stream_sync(snug_stream *stream);

/* ---------------------------------------------------------------------------------------------- allocations */

enum {
    SNUG_ALLOC_LONG_PINNED = 1, /* will be pinned for long: placed at the low end, so that it strands little */
    SNUG_ALLOC_IMMOVABLE   = 2, /* its address holds for life; placed at the low end */
    SNUG_ALLOC_SETTLED     = 4  /* only memory that nobody's queued work still uses; else PENDING. Moves nothing */
};

typedef struct snug_alloc_options {
    size_t      struct_size;
    uint64_t    alignment; /* a power of two up to SNUG_ALIGNMENT_MAX; default and least SNUG_GRANULE */
    uint32_t    flags;     /* SNUG_ALLOC_* */
    uint64_t    grows_to;  /* a hint: place it where it can later grow to this size without moving */
    uint64_t    wait_ns;   /* a refusal that is only PENDING or PINNED is put off by up to this; default 0 */
    const char *tag;       /* a short name under which statistics count it, cut at SNUG_TAG_MAX; copied; default none */
} snug_alloc_options;

static inline snug_alloc_options snug_alloc_options_default(void) {
    snug_alloc_options o;
    memset(&o, 0, sizeof o);
    o.struct_size = sizeof o;
    return o;
}

/* Allocates size bytes, contents undefined. Waits on no stream: memory that queued work still uses is handed out with its
 * fence, and the first resolve on each stream waits for it on the device. Size 0 is legal: a live handle that resolves to
 * NULL. Compacts when that is what it takes; the copies are enqueued, not waited for.
 * Errors: the six verdicts (snug_refusal_get has the figures), TOO_LARGE, ALIGNMENT, INVALID, HANDLES, NO_MEMORY. */
SNUG_API snug_status snug_alloc(snug_pool *pool, uint64_t size, const snug_alloc_options *options, snug_handle *handle);

/* Legal at any moment, from any thread, with work queued on any stream and with moves going on. The handle is dead when
 * this returns; the bytes are free at once, behind a fence of what still uses them, or, while somebody has the buffer
 * resolved or pinned, from its last release on. Errors: UNKNOWN, STALE (freed before), FOREIGN. SNUG_HANDLE_NONE: UNKNOWN. */
SNUG_API snug_status snug_free(snug_pool *pool, snug_handle handle);

/* Changes the size, keeps min(old, new) bytes of content; the handle stays, the address may change (snug_moves says so).
 * In place where it can, else it slides itself or its neighbours, else it moves. Bytes beyond the old size are undefined.
 * Resolve again before using the new size. While the buffer is resolved or pinned elsewhere the call retries for pin_wait_ns;
 * a change within its last granule needs no such wait.
 * Errors: the verdicts, TOO_LARGE, UNKNOWN, STALE, FOREIGN, BUSY (still resolved or pinned). */
SNUG_API snug_status snug_resize(snug_pool *pool, snug_handle handle, uint64_t new_size);

/* Size as requested, current offset of the buffer in the arena (for display; stale at once), alignment, pins.
 * Errors: UNKNOWN, STALE, FOREIGN. */
typedef struct snug_handle_info {
    size_t   struct_size;
    uint64_t size, offset, alignment;
    uint32_t pins, long_pins, flags;
    char     tag[SNUG_TAG_MAX + 1];
} snug_handle_info;
SNUG_API snug_status snug_handle_info_get(snug_pool *pool, snug_handle handle, snug_handle_info *info);

/* ------------------------------------------------------------------------------------------------ launches */

typedef enum snug_access { SNUG_WRITE = 0, SNUG_READ = 1 } snug_access; /* SNUG_WRITE: reads, writes or both */

/* Turns n handles into addresses for work that will be enqueued on stream. access: one per handle, NULL = all SNUG_WRITE.
 * A buffer doesn't move between resolve and release. All or nothing. Makes the stream wait, on the device, for what the
 * buffers' memory still has to wait for (a move, an earlier owner). Takes no lock, allocates nothing and never waits for
 * the compactor, but for this: a buffer that is just being slid over itself is waited for until its copies are enqueued.
 * A write access cancels a move that isn't published; a read access doesn't. The same handle may occur more than once.
 * What two streams do with one buffer is for the client to order, as with raw pointers.
 * After a failure every addresses[i] is NULL: the one output of this interface that a failed call writes.
 * Errors: UNKNOWN, STALE, FOREIGN, TOO_MANY_PINS, DEVICE, INVALID, CAPTURING (the stream is being captured into a CUDA graph,
 * which neither a resolve nor a release must get into: resolve before the capture begins, or pin). */
SNUG_API snug_status snug_resolve(snug_stream *stream, const snug_handle *handles, size_t n, const snug_access *access,
                                  void **addresses);

/* The place of a buffer's address in the pool's address table. */
#define SNUG_HANDLE_INDEX(handle) ((uint32_t)((handle) & 0xffffff))

/* The device address of an array of 64-bit addresses, by SNUG_HANDLE_INDEX: for work that reads a buffer's address when it
 * runs, as a CUDA graph that is launched again after a move. The entry of a buffer is right for work that is enqueued on a
 * stream between a resolve and a release of its handle there; the first resolve on each stream after a move writes it, in the
 * order of the stream. Such a pool takes every access for a write: a read, too, cancels a move of what it reads.
 * Errors: UNSUPPORTED (a pool without address_table), INVALID. */
SNUG_API snug_status snug_address_table(snug_pool *pool, void **table);

/* Says that everything that uses these buffers since their resolve has been enqueued on stream. Same stream, handles and
 * access as the resolve. One resolve and one release may cover any number of launches: one event record in all.
 * The whole list is gone through even if a handle of it is refused; the first error is returned.
 * Errors: UNKNOWN, STALE, FOREIGN, NOT_PINNED; DEVICE, CAPTURING (the event couldn't be recorded: all stay pinned). */
SNUG_API snug_status snug_release(snug_stream *stream, const snug_handle *handles, size_t n, const snug_access *access);

/* Pins for long: for graph capture, NCCL, RDMA, host access. All or nothing. Waits on the host until the buffers' contents
 * are in place and no move is pending. Moves a buffer to the low end of the arena first where that is cheap.
 * Pins of one buffer nest. Errors: UNKNOWN, STALE, FOREIGN, TOO_MANY_PINS, DEVICE, INVALID. */
SNUG_API snug_status snug_pin(snug_pool *pool, const snug_handle *handles, size_t n, void **addresses);

/* Ends a long pin. streams: every stream on which work that uses the buffers has been enqueued since the pin outside a
 * resolve/release pair; an event is recorded on each, by the calling thread. n_streams may be 0.
 * Errors: UNKNOWN, STALE, FOREIGN, NOT_PINNED, DEVICE (nothing unpinned). */
SNUG_API snug_status snug_unpin(snug_pool *pool, const snug_handle *handles, size_t n, snug_stream *const *streams,
                                size_t n_streams);

/* Asynchronous transfers, ordered on the stream; each resolves and releases inside. The host memory must stay valid until
 * the stream has passed them (snug_stream_sync). source and destination of a copy may be one buffer, not overlapping bytes.
 * Errors: those of resolve, RANGE, INVALID (the bytes of a copy overlap). */
SNUG_API snug_status snug_write(snug_stream *stream, snug_handle handle, uint64_t offset, const void *host, uint64_t bytes);
SNUG_API snug_status snug_read(snug_stream *stream, snug_handle handle, uint64_t offset, void *host, uint64_t bytes);
SNUG_API snug_status snug_fill(snug_stream *stream, snug_handle handle, uint64_t offset, int byte, uint64_t bytes);
SNUG_API snug_status snug_copy(snug_stream *stream, snug_handle to, uint64_t to_offset, snug_handle from,
                               uint64_t from_offset, uint64_t bytes);

/* Changes whenever the address of any buffer of the pool may have changed. Read it after a resolve: if it is what it was
 * at an earlier resolve of the same handles, their addresses are the same too, so a graph needn't be patched again. */
SNUG_API uint64_t snug_moves(snug_pool *pool);

/* ---------------------------------------------------------------------------------------------- compaction */

typedef struct snug_budget { /* what one step may do; zero = no bound */
    uint64_t bytes_max;
    uint32_t moves_max;
    uint64_t time_max_ns; /* host time from the end of planning on; looked at between moves, after the first */
} snug_budget;

typedef enum snug_compact_state {
    SNUG_COMPACT_DONE = 0, /* no move would enlarge the largest hole by enough */
    SNUG_COMPACT_MORE,     /* the budget is used up; another step has work */
    SNUG_COMPACT_BLOCKED   /* what is left waits for pins, for unfinished work, or for a larger budget */
} snug_compact_state;

typedef struct snug_compact_result {
    size_t             struct_size; /* set by the caller */
    snug_compact_state state;
    uint32_t           moves;       /* published */
    uint32_t           cancelled;   /* by a client's write or free */
    uint64_t           moved_bytes; /* copied for published moves */
    uint64_t           largest_hole_bytes, free_bytes;
    uint64_t           needs_bytes; /* BLOCKED: the smallest bytes_max with which a step could go on; 0 if that isn't it */
} snug_compact_result;

/* One step of tidying, on the calling thread: enqueues moves up to the budget and returns without waiting for the copies.
 * A buffer larger than bytes_max is copied over several steps. NULL budget: no bound. result may be NULL.
 * A step takes what nobody's unfinished work uses; only if there is nothing of the kind it takes other buffers, and a stream
 * that resolves such a one then waits, on the device, for that work as well. The background compactor never does.
 * With compaction off it does nothing and says DONE. Errors: DEVICE, INVALID. */
SNUG_API snug_status snug_compact(snug_pool *pool, const snug_budget *budget, snug_compact_result *result);

typedef enum snug_receipt_kind {
    SNUG_RECEIPT_DEMAND,     /* room for an allocation, or for a buffer that grows */
    SNUG_RECEIPT_RESIZE,     /* a buffer that grows: holes are brought beside it, or it goes where there is room */
    SNUG_RECEIPT_LOW,        /* a place at the low end for what is pinned long, and its way there */
    SNUG_RECEIPT_STEP,       /* snug_compact */
    SNUG_RECEIPT_BACKGROUND, /* a step of the background compactor */
    SNUG_RECEIPT_PACK        /* snug_trim */
} snug_receipt_kind;

typedef struct snug_receipt {
    size_t            struct_size; /* set by the caller */
    snug_receipt_kind kind;
    snug_status       outcome; /* OK: there was room, or the step did what it could; else what the request was told */
    uint64_t          number;  /* from 1 on, without gaps */
    uint64_t          began_ns, spent_ns; /* by the device's clock; the caller was kept for so long, not for the copies */
    uint64_t          waited_ns;          /* of spent_ns: for pins, and for earlier copies where too many were queued */
    uint64_t          waited_streams;     /* a bit each: streams whose queued work its copies wait for, on the device */
    uint64_t          asked_bytes;        /* the gap wanted; of steps: tried last */
    uint64_t          bound_bytes;        /* live bytes in the cheapest stretch of that length: hardly a plan moves less */
    uint64_t          moved_bytes;
    uint64_t          largest_before_bytes, largest_after_bytes; /* hole */
    uint32_t          plans, moves;
    uint32_t          cancelled; /* by a client's write or free */
    uint32_t          busy;      /* not made because of others: pinned, or freed just then */
} snug_receipt;

/* The receipt of that number: each run of compaction that moved or tried to move something leaves one, and the last 256 are
 * kept. One that has been overwritten gives the oldest there is; 0 thus the oldest. To follow them, ask for receipt.number + 1.
 * Errors: UNKNOWN (none of that number or a later one yet), INVALID, GONE. */
SNUG_API snug_status snug_receipt_get(snug_pool *pool, uint64_t number, snug_receipt *receipt);

typedef struct snug_compactor_options {
    size_t   struct_size;
    double   start_fragmentation; /* a pass starts when 1 - largest hole / recoverable free bytes is above; default 0.30 */
    double   stop_fragmentation;  /* and ends below; default 0.10 */
    uint64_t floor_bytes;         /* recoverable free bytes below which nothing is done; default capacity / 256 */
    snug_budget step;             /* default 16 MiB, 64 moves, 200 us */
    uint64_t interval_ns;         /* between two steps of a pass; default 1 ms. Idle, it looks 16 times more seldom */
    double   duty_max;            /* share of one thread's time at most; default 0.25 */
    uint64_t cooldown_ns;         /* a moved buffer rests for this long; default 100 ms */
} snug_compactor_options;

static inline snug_compactor_options snug_compactor_options_default(void) {
    snug_compactor_options o;
    memset(&o, 0, sizeof o);
    o.struct_size = sizeof o;
    return o;
}

/* Starts, or stops and joins, the background thread. Errors: INVALID (runs already; stop without start is no error),
 * NO_MEMORY. */
SNUG_API snug_status snug_compactor_start(snug_pool *pool, const snug_compactor_options *options);
SNUG_API snug_status snug_compactor_stop(snug_pool *pool);

/* Turns all compaction, on demand and in the background, on or off, live. Turning it off waits for the step that runs. */
SNUG_API snug_status snug_compaction_set(snug_pool *pool, int enabled);

/* Packs toward low addresses and gives the committed tail above keep_bytes back to the device, as far as whole commit
 * granules are empty. Waits on the host for the work that still uses the tail. returned may be NULL. Errors: DEVICE. */
SNUG_API snug_status snug_trim(snug_pool *pool, uint64_t keep_bytes, uint64_t *returned);

typedef struct snug_quotation {
    size_t      struct_size;   /* set by the caller */
    snug_status verdict;       /* what snug_alloc would say now */
    uint64_t    move_bytes;    /* of the plan that it would begin with, 0 if a hole fits; where that takes several steps, */
    uint32_t    moves;         /* each of which plans anew, it can come to less, and now and then to more */
    uint64_t    time_ns;       /* copy time at the device's measured rate */
    uint32_t    blocking_pins; /* PINNED: how many pinned buffers lie between the free bytes */
    snug_handle blocking[8];   /* the first of them */
} snug_quotation;

/* What it would take to make size contiguous bytes. Changes nothing. The first call on a pool measures the device's copy
 * rate and takes some milliseconds; if that fails time_ns is 0. Errors: TOO_LARGE, INVALID, LOST. */
SNUG_API snug_status snug_quote(snug_pool *pool, uint64_t size, snug_quotation *quote);

/* ---------------------------------------------------------------------------------------------- what is going on */

/* The figures of the calling thread's last refusal (LIMIT .. DEVICE) by any pool. Made without allocating. */
typedef struct snug_refusal {
    size_t      struct_size; /* set by the caller */
    snug_status verdict;     /* SNUG_OK: nothing has been refused to this thread */
    uint64_t    request_bytes, alignment;
    uint64_t    live_bytes, padding_bytes, free_bytes, pending_bytes, in_flight_bytes, committed_bytes, limit_bytes;
    uint64_t    pinned_bytes;              /* of live: pinned long or immovable */
    uint64_t    largest_hole_bytes, holes;
    uint64_t    largest_request_bytes;     /* so far */
    uint64_t    device_free_bytes, device_total_bytes;
    uint32_t    blocking_pins;             /* PINNED: see snug_quotation */
    snug_handle blocking[8];
    uint64_t    oldest_pin_ns;             /* age of the oldest long pin */
    char        device_error[128];         /* DEVICE: the device's own words */
} snug_refusal;
SNUG_API snug_status snug_refusal_get(snug_refusal *refusal);

typedef struct snug_counts { /* of one thing: now, highest, ever, and over the life of the pool */
    uint64_t current, peak, allocated, freed;
} snug_counts;

typedef struct snug_stats {
    size_t      struct_size; /* set by the caller */
    /* The ledger: live + padding + free + pending + in flight + bounce = committed <= limit, in every reading. */
    uint64_t    live_bytes;       /* as requested */
    uint64_t    padding_bytes;    /* rounding to the granule */
    uint64_t    free_bytes;       /* fences included: see unsettled_bytes */
    uint64_t    pending_bytes;    /* freed while resolved or pinned */
    uint64_t    in_flight_bytes;  /* targets and gaps of moves that aren't finished */
    uint64_t    bounce_bytes;     /* the bounce buffer, and the address table where there is one */
    uint64_t    committed_bytes;
    uint64_t    limit_bytes;      /* capacity + bounce */
    uint64_t    pinned_bytes;     /* of live + padding: pinned long or immovable */
    uint64_t    unsettled_bytes;  /* of free: behind a fence that hasn't settled */
    uint64_t    largest_hole_bytes, holes;
    double      fragmentation;    /* 1 - largest hole / free; 0 when nothing is free */
    uint64_t    handles_live, streams_attached;
    snug_counts bytes, buffers;
    uint64_t    largest_request_bytes;
    uint64_t    requests, granted;         /* alloc, and resize that grows */
    uint64_t    refused[SNUG_STATUS_COUNT];/* by verdict */
    uint64_t    moves, moved_bytes, cancelled_moves;
    uint64_t    slides;                    /* of moves: over themselves */
    uint64_t    steps, demand_plans, background_passes, back_offs;
    uint64_t    device_records, device_waits, device_queries, device_copies;
} snug_stats;

/* A consistent cut. Errors: INVALID. */
SNUG_API snug_status snug_stats_get(snug_pool *pool, snug_stats *stats);

typedef struct snug_tag_stats {
    char     tag[SNUG_TAG_MAX + 1]; /* "" for buffers without one */
    uint64_t live_bytes, peak_bytes, buffers;
} snug_tag_stats;

/* Up to capacity tags, largest live first; count: how many tags there are. tags may be NULL with capacity 0. */
SNUG_API snug_status snug_tags_get(snug_pool *pool, snug_tag_stats *tags, size_t capacity, size_t *count);

/* The statistics as a table for people, to a stream of the C library. */
SNUG_API snug_status snug_summary_write(snug_pool *pool, FILE *out);

/* Walks everything and verifies every invariant of doc/design.md. CORRUPT: the first fault is logged as an error. Slow. */
SNUG_API snug_status snug_pool_check(snug_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
