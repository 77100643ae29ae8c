/* snug_sim.h - the sim device: no bytes, no threads, a virtual clock. For tests, and for replaying a large card's trace on a
 * small machine. A pool is put on it with device = "sim" and device_index = a profile (SNUG_SIM_H200, ...).
 *
 * One simulated machine exists in a process; all sim pools and sim streams are part of it. It holds no contents but tags:
 * each byte of an arena remembers who wrote it - an id, a version, and where in that content it lies. Copies carry tags
 * along; launches say which tags they expect and which they leave.
 *
 * Time: every operation's begin and end follow from a profile's bandwidth and latency and from what it has to wait for; the
 * clock itself goes on by a little with each call on the device, and to the end of what the host waits for. Copies don't
 * slow each other down. Which operations have run at a given moment is another matter: the style and the seed decide that,
 * limited only by the order in a stream and by events. So one program can be run under many devices; SNUG_SIM_TIMED is the
 * one whose times mean something.
 *
 * The order checker works when operations are enqueued, whatever is run when: two accesses to one byte, one of them a write,
 * must be ordered by streams, by events, or by a wait or a query of the host between them. What the host learned counts for
 * all its threads alike. A mover's read is let off as long as nobody expects what it copied.
 * Violations are counted and described in the report; nothing aborts.
 *
 * Any thread may call anything here; one lock covers the machine. A run on one thread repeats exactly with the same seed.
 * Outputs are written only on SNUG_OK. Sizes are in bytes, times in nanoseconds of the virtual clock. */
#ifndef SNUG_SIM_H
#define SNUG_SIM_H

#include <snug.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SNUG_SIM_QUEUE_MAX 1024 /* operations that a stream holds; enqueuing on a full one waits for its oldest */

typedef struct snug_sim_stream snug_sim_stream; /* the native stream of a sim pool's snug_stream_attach */

/* ---------------------------------------------------------------------------------------------------- profiles */

enum { SNUG_SIM_H200 = 0, SNUG_SIM_A100, SNUG_SIM_RTX_4090, SNUG_SIM_RTX_3060, SNUG_SIM_PROFILES };

typedef struct snug_sim_profile {
    const char *name; /* "H200" */
    uint64_t    memory_bytes;
    uint64_t    memory_bytes_per_second; /* peak, by the vendor */
    uint64_t    copy_bytes_per_second;   /* payload of copies within the card: each byte is read and written */
    uint64_t    host_bytes_per_second;   /* to and from the host, one way */
    uint64_t    copy_overhead_ns;        /* of each copy */
} snug_sim_profile;

/* NULL: no such profile. Static. */
SNUG_API const snug_sim_profile *snug_sim_profile_get(int index);

/* ---------------------------------------------------------------------------------------------------- the machine */

typedef enum snug_sim_style {
    SNUG_SIM_TIMED = 0, /* work has run once the clock is past its end */
    SNUG_SIM_EAGER,     /* at once, as far as events allow */
    SNUG_SIM_LAZY,      /* when somebody waits for it, a stream is full, or patience has run out */
    SNUG_SIM_RANDOM     /* as the seed decides, anew at every call */
} snug_sim_style;

typedef struct snug_sim_options {
    size_t         struct_size;
    uint64_t       seed;
    snug_sim_style style;
    uint64_t       call_ns; /* what each call on the device, of the clock too, costs the host; default 500 */
    uint32_t patience;      /* so many queries of one record are answered "pending", then its work runs; default 1000 */
    uint64_t timeout_ns;    /* how long a wait for a stalled stream lasts; default 10 s */
    uint64_t memory_bytes;  /* commits beyond are refused; default: no bound */
} snug_sim_options;

static inline snug_sim_options snug_sim_options_default(void) {
    snug_sim_options o;
    memset(&o, 0, sizeof o);
    o.struct_size = sizeof o;
    return o;
}

/* A new machine: clock, report, faults, stalls and seed as at the start. NULL: all defaults, which is also what is found
 * before the first setup. Errors: BUSY (a sim pool or stream is still there; a destroyed stream's work isn't), INVALID. */
SNUG_API snug_status snug_sim_setup(const snug_sim_options *options);

SNUG_API uint64_t snug_sim_now(void); /* costs no time */
SNUG_API void     snug_sim_advance(uint64_t ns);

/* ---------------------------------------------------------------------------------------------------- streams */

/* Errors: NO_MEMORY, INVALID. */
SNUG_API snug_status snug_sim_stream_create(snug_sim_stream **stream);
/* What is queued still runs some time. Detach it from every pool first. Errors: INVALID. */
SNUG_API snug_status snug_sim_stream_destroy(snug_sim_stream *stream);

/* Streams are numbered from 1 in the order of their making since setup; a pool makes two, for background moves and for
 * demanded ones. 0: no stream. Reports and snug_sim_stall speak of numbers. */
SNUG_API uint32_t snug_sim_stream_number(const snug_sim_stream *stream);

/* Waits on the host until everything enqueued on the stream (NULL: on any) has run; the clock goes on to its end.
 * Errors: INVALID, TIMEOUT (it waits for a stalled stream), LOST. */
SNUG_API snug_status snug_sim_sync(snug_sim_stream *stream);

/* Makes later operations of stream wait for everything enqueued so far on other. Errors: INVALID, NO_MEMORY, TIMEOUT. */
SNUG_API snug_status snug_sim_stream_wait(snug_sim_stream *stream, snug_sim_stream *other);

/* ---------------------------------------------------------------------------------------------------- launches */

#define SNUG_SIM_ANY        UINT64_C(0) /* as expected id: whatever is there, torn too */
#define SNUG_SIM_FILL(byte) (UINT64_C(0xf111f111f111f100) | (uint8_t)(byte)) /* id that snug_fill leaves, version 0 */

/* As version of a read of 8 bytes: an entry of an address table, which must hold id, an address. The checker of order leaves
 * entries alone: whoever writes one while others may read it writes what is there already. */
#define SNUG_SIM_ENTRY UINT32_MAX

/* Some bytes that a kernel reads or writes. A kernel does all its reads, then all its writes; one that updates bytes in
 * place names them twice. */
typedef struct snug_sim_access {
    const void *address; /* as resolved */
    uint64_t    bytes;
    snug_access access;
    uint32_t    version;
    uint64_t    id;     /* a read: expected, or SNUG_SIM_ANY; a write: stored, or 0 for undefined contents */
    uint64_t    offset; /* where in the content of that id and version the first byte lies */
} snug_sim_access;

/* Enqueues a kernel that takes duration_ns. accesses are read during the call only. An access of 0 bytes is none.
 * Errors: INVALID, NO_MEMORY, TIMEOUT (the stream is full and waits for a stalled one). */
SNUG_API snug_status snug_sim_launch(snug_sim_stream *stream, const snug_sim_access *accesses, size_t n,
                                     uint64_t duration_ns);

/* The id under which snug_write leaves these bytes, as version 0, offset 0 at their first. snug_read finds no bytes to read:
 * it is checked for order, and gives zeros, at the time of the call. */
SNUG_API uint64_t snug_sim_hash(const void *host, uint64_t bytes);

/* ---------------------------------------------------------------------------------------------------- report */

#define SNUG_SIM_VIOLATION_MAP(X)                                                                                      \
    X(UNORDERED, "two conflicting accesses without an order between them")                                             \
    X(TAG, "a read that doesn't see what was to be there")                                                             \
    X(TORN, "a read that expects what a move copied while its source was being written")                               \
    X(UNCOMMITTED, "an access to memory that isn't committed")                                                         \
    X(DECOMMIT, "memory given back that queued work still uses")                                                       \
    X(OVERLAP, "a copy that overlaps itself")

typedef enum snug_sim_violation {
#define SNUG_SIM_VIOLATION_ENUM(name, text) SNUG_SIM_##name,
    SNUG_SIM_VIOLATION_MAP(SNUG_SIM_VIOLATION_ENUM)
#undef SNUG_SIM_VIOLATION_ENUM
        SNUG_SIM_VIOLATIONS
} snug_sim_violation;

enum { SNUG_SIM_BACKGROUND = 0, SNUG_SIM_DEMAND = 1, SNUG_SIM_TEXTS = 8, SNUG_SIM_TEXT_MAX = 240 };

typedef struct snug_sim_report {
    size_t   struct_size;                  /* set by the caller */
    uint64_t violations;                   /* all together, */
    uint64_t by_kind[SNUG_SIM_VIOLATIONS]; /* and each kind; at most one of a kind for each access */
    uint32_t texts;                        /* the first of them in words: time, streams, bytes */
    char     text[SNUG_SIM_TEXTS][SNUG_SIM_TEXT_MAX];
    uint64_t cross_waits; /* not among violations: a stream waits for the background mover, which */
    char     cross_wait_text[SNUG_SIM_TEXT_MAX]; /* waits for what another stream hasn't done. The first in words */
    uint64_t mover_wait_ns[2];     /* time that streams are held by SNUG_SIM_BACKGROUND, SNUG_SIM_DEMAND moves */
    uint64_t mover_wait_max_ns[2]; /* the longest of one stream, at one stretch and with no launch or transfer in it */
    uint64_t now_ns;
    uint64_t kernels, copies, moves, copied_bytes; /* enqueued; copies and copied_bytes: moves too */
    uint64_t torn_moves; /* of moves: raced with a write; harmless where nobody uses the copy */
    uint64_t executed;   /* operations that have run, waits too */
    uint64_t spans;      /* ranges kept apart, of tags and of accesses */
    uint64_t shortages;  /* times that host memory ran out: tags or checks are incomplete since */
} snug_sim_report;

/* Errors: INVALID. */
SNUG_API snug_status snug_sim_report_get(snug_sim_report *report);
SNUG_API const char *snug_sim_violation_name(snug_sim_violation violation); /* "UNORDERED"; "?" for none */

/* ---------------------------------------------------------------------------------------------------- faults */

#define SNUG_SIM_CALL_MAP(X)                                                                                           \
    X(OPEN)                                                                                                            \
    X(RESERVE)                                                                                                         \
    X(COMMIT)                                                                                                          \
    X(DECOMMIT)                                                                                                        \
    X(STREAM_OPEN)                                                                                                     \
    X(STREAM_SYNC)                                                                                                     \
    X(EVENT_CREATE)                                                                                                    \
    X(RECORD)                                                                                                          \
    X(QUERY)                                                                                                           \
    X(EVENT_SYNC)                                                                                                      \
    X(WAIT)                                                                                                            \
    X(MOVE)                                                                                                            \
    X(COPY)                                                                                                            \
    X(WRITE)                                                                                                           \
    X(READ)                                                                                                            \
    X(FILL)

typedef enum snug_sim_call { /* what pools ask of the device */
#define SNUG_SIM_CALL_ENUM(name) SNUG_SIM_CALL_##name,
                             SNUG_SIM_CALL_MAP(SNUG_SIM_CALL_ENUM)
#undef SNUG_SIM_CALL_ENUM
                                 SNUG_SIM_CALL_ANY, /* any of them */
                             SNUG_SIM_CALLS
} snug_sim_call;

/* The nth call of that kind from now on fails, 1 being the next, with DEVICE or NO_MEMORY (once), or LOST (and everything
 * after it too, until setup). One fault of each kind at a time; n = 0 takes it back. Errors: INVALID. */
SNUG_API snug_status snug_sim_fail_nth(snug_sim_call call, uint64_t n, snug_status status);
SNUG_API uint64_t    snug_sim_calls(snug_sim_call call);     /* since setup; failed ones too */
SNUG_API const char *snug_sim_call_name(snug_sim_call call); /* "RECORD"; "?" for none */

/* From now on the stream of that number, which needn't exist yet, runs nothing; or, with stalled = 0, does again. A stall
 * doesn't show in the times of what is behind it. Waiting for it on the host takes timeout_ns, then says TIMEOUT and names
 * the stream. Errors: INVALID (number 0), NO_MEMORY. */
SNUG_API snug_status snug_sim_stall(uint32_t number, int stalled);

#ifdef __cplusplus
}
#endif
#endif
