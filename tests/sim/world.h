/* world.h - the simulation runs: a world of pools, streams and buffers on the sim device, made by a seed, and the naive model
 * of it. Files: model.c (what follows for figures and verdicts), contents.c (who wrote what, which stream comes after which),
 * calls.c and pools.c (operations, each compared with the model), between.c (others during them), world.c (a whole run), run.c and planted.c (programs).
 *
 * An operation is 16 bytes: its kind, a slot, a stream and a random number for everything else; what it does follows from
 * these and from the state that it meets, so that a sequence still means something with some of its operations left out.
 * One thread. The world owns all that it makes; a run that has failed leaves it lying, since each run is a process. */
#ifndef SNUG_TESTS_SIM_WORLD_H
#define SNUG_TESTS_SIM_WORLD_H

#include "pool.h"
#include "sim/sim.h"

#include <inttypes.h>
#include <snug_sim.h>

#define GRANULES(n) ((uint64_t)(n)*SNUG_GRANULE)
#define MiB         (UINT64_C(1) << 20)
#define GiB         (UINT64_C(1) << 30)

enum {
    ARENAS       = 2,
    STREAMS_MAX  = 80,
    SEGMENTS_MAX = 6,
    DEAD_MAX     = 64,
    HELD_MAX     = 6,
    TRANSFER_MAX = 4096,
    LAUNCH_MAX   = 4
};
enum { SMALL_MAP = 256 }; /* ranges up to which everything is checked at every step */

typedef enum mode { PLAIN, BACKGROUND, JUMBLE, ABORT, WRAP, TINY, LARGE, FAULTS, STALL, BETWEEN, MODES } mode;
extern const char *const mode_names[MODES];

#define KIND_MAP(X)                                                                                                    \
    X(ALLOC)                                                                                                           \
    X(FREE) X(RESIZE) X(LAUNCH) X(HOLD) X(RELEASE) X(PIN) X(RAW) X(UNPIN) X(TRANSFER) X(STALE) X(COMPACT) X(TRIM)      \
        X(QUOTE) X(COMPACTION) X(ATTACH) X(RESTREAM) X(REPOOL) X(SYNC) X(FAULT) X(CANCEL) X(STALL_STEP)
typedef enum kind {
#define KIND_ENUM(name) OP_##name,
    KIND_MAP(KIND_ENUM)
#undef KIND_ENUM
        KINDS
} kind;

typedef struct op {
    uint8_t  kind, arena;
    uint16_t stream;
    uint32_t slot;
    uint64_t r;
} op;

typedef struct dice {
    uint64_t state;
} dice;

static inline uint64_t roll(dice *d) { /* splitmix64 */
    uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);
    z          = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
static inline uint64_t below(dice *d, uint64_t n) {
    return n ? roll(d) % n : 0;
}
static inline bool chance(dice *d, unsigned percent) {
    return roll(d) % 100 < percent;
}
static inline uint64_t granules_of(uint64_t bytes) {
    return bytes / SNUG_GRANULE + (bytes % SNUG_GRANULE != 0);
}

__extension__ typedef unsigned __int128 streams; /* a set of them */
static inline streams                   set_of(unsigned s) {
                      return (streams)1 << s;
}

typedef struct segment { /* bytes [start, end) of a buffer: this content, from its offset at on */
    uint64_t start, end, id, at;
    uint32_t version;
} segment;

enum { NOBODY, LIVE, DYING }; /* DYING: freed while held */

typedef struct buffer {
    int         state;
    snug_handle handle;
    uint64_t    number, size, alignment, offset; /* offset: in the arena, of a dying one */
    uint32_t    flags, versions, live_at;        /* live_at: its place in the list */
    uint32_t    segments;
    segment     segment[SEGMENTS_MAX]; /* in order; between them nothing is known */
    int         writer;                /* the stream that wrote it last, -1: none */
    streams     readers;               /* that are ordered behind the writer, and have read since */
    unsigned    home;
    uint32_t    holds, hold_stream, long_pins;
    snug_access hold_access;
    streams     raw;     /* that used it outside a resolve since it is pinned */
    char       *address; /* as last told, with snug_moves then */
    uint64_t    moves;
} buffer;

typedef struct sums { /* granules but for the first */
    uint64_t live_bytes, live, pending, pinned;
    uint64_t slack;       /* what larger alignments may waste */
    uint32_t held, fixed; /* live buffers pinned short; pinned long or immovable */
} sums;

typedef struct arena {
    snug_pool        *pool;
    snug_pool_options options;
    uint64_t          capacity, bounce;    /* granules, bytes */
    snug_stream      *stream[STREAMS_MAX]; /* NULL: not attached */
    buffer           *buffers;
    uint32_t         *live, *held; /* slots */
    uint32_t          slots, live_count, held_count, dying_count;
    sums              sum;
    bool              compaction;
    uint64_t          requests, granted, refused[SNUG_STATUS_COUNT], largest_request, retired;
    snug_handle       dead[DEAD_MAX], foreign[DEAD_MAX];
    uint64_t          dead_count, foreign_count;
    uint64_t          mover_end_ns; /* when the background mover is done with all it has, at the latest */
} arena;

typedef struct other { /* who comes while a call is under way */
    bool        inside;
    arena      *a;
    buffer     *b; /* pinned by it; NULL: none */
    unsigned    stream;
    snug_access access;
    char       *address;
    dice        draw;
} other;

typedef struct world {
    uint64_t                seed;
    mode                    mode;
    dice                    draw; /* the run's; operations have their own */
    const snug__device_row *row;  /* to make pools on; NULL: by name */
    snug_sim_options        machine;
    arena                   arena[ARENAS];
    unsigned                arenas, streams;
    snug_sim_stream        *native[STREAMS_MAX];
    bool                    short_pins, long_pins, alignments, settled_steps, walks, trace;
    uint32_t                many; /* slots */
    uint64_t                step, calls, numbers, wait_bound_ns;
    bool                    armed, lost;
    snug_sim_call           armed_call;
    int                     stalled; /* stream, -1: none */
    op                      doing;
    other                   other;
    uint32_t                intruded; /* so often in this operation */
    bool                    failed;
    int                     failed_line;
    char                    failure[640];
    unsigned char           host[TRANSFER_MAX];
} world;

/* ------------------------------------------------------------------------------------------------ expectations */

bool fault(world *w, const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void note(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return fault(w, __FILE__, __LINE__, #condition, __VA_ARGS__);                                              \
    } while (0)
/* A call that must succeed, unless a planned failure struck: then the operation is over, and has changed nothing. */
#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        snug_status expect_status = (call);                                                                            \
        w->calls++;                                                                                                    \
        if (expect_status != SNUG_OK && struck(w, expect_status))                                                      \
            return true;                                                                                               \
        EXPECT(expect_status == SNUG_OK, "%s: %s", #call, snug_status_name(expect_status));                            \
    } while (0)

/* Is the status the work of a planned failure? */
bool struck(world *w, snug_status status);

/* ------------------------------------------------------------------------------------------------ contents.c */

/* Room for one more change in the middle? */
bool segments_room(const buffer *b);
void segments_clear(buffer *b, uint64_t start, uint64_t end);
void segments_put(buffer *b, segment s);
/* Reads that demand what is known of the bytes; so many. */
size_t segments_read(const buffer *b, char *address, uint64_t start, uint64_t end, snug_sim_access *accesses);
void   segments_copy(buffer *to, uint64_t to_start, const buffer *from, uint64_t start, uint64_t bytes);

/* Makes the stream's next work come after what it has to, as a careful client would. */
bool order_use(world *w, buffer *b, unsigned s, bool write);
/* Whoever would wait for stream s waits for t instead. */
void order_replace(world *w, unsigned s, unsigned t);

/* A kernel on the bytes of up to LAUNCH_MAX buffers whose addresses stand. */
bool launch(world *w, dice *d, unsigned s, buffer *const *buffers, char *const *addresses, const snug_access *access,
            size_t n, bool resolved);

/* ------------------------------------------------------------------------------------------------ model.c */

/* Counts a buffer that has come to the state in which it is, or (born = false) is about to leave it. */
void     model_count(arena *a, const buffer *b, bool born);
uint64_t model_free(const arena *a); /* granules, what isn't committed included */

bool check_alloc(world *w, arena *a, snug_status status, uint64_t size, const snug_alloc_options *o);
bool check_resize(world *w, arena *a, const buffer *b, snug_status status, uint64_t size);
bool check_refusal(world *w, arena *a, snug_status verdict, uint64_t size, uint64_t alignment);
bool check_address(world *w, arena *a, buffer *b, const void *address);
bool check_stats(world *w, arena *a);
bool check_walk(world *w, arena *a);
bool check_step(world *w);

/* ------------------------------------------------------------------------------------------------ operations */

bool op_apply(world *w, op o);
op   op_draw(world *w);
void op_describe(const op *o, char *text, size_t size);

snug_handle_info info_of(world *w, arena *a, snug_handle handle);
bool             buffer_release(world *w, arena *a, buffer *b);
bool             buffer_unpin(world *w, arena *a, buffer *b, bool all);
void             buffer_gone(arena *a, buffer *b);
void             held_update(arena *a, buffer *b);
bool             do_free(world *w, arena *a, op o, dice *d);
bool             do_resize(world *w, arena *a, op o, dice *d);
bool             do_stale(world *w, arena *a, op o, dice *d);
bool             do_compact(world *w, arena *a, op o, dice *d);
bool             do_trim(world *w, arena *a, op o, dice *d);
bool             do_compaction(world *w, arena *a, op o, dice *d);
bool             do_attach(world *w, arena *a, op o, dice *d);
bool             do_restream(world *w, arena *a, op o, dice *d);
bool             do_repool(world *w, arena *a, op o, dice *d);
bool             do_sync(world *w, arena *a, op o, dice *d);
bool             do_fault(world *w, arena *a, op o, dice *d);
bool             do_cancel(world *w, arena *a, op o, dice *d);
bool             do_stall_step(world *w, arena *a, op o, dice *d);
uint64_t         size_draw(arena *a, dice *d);
bool alloc_into(world *w, arena *a, buffer *b, uint64_t size, const snug_alloc_options *o, snug_status *status);

bool arena_open(world *w, arena *a, dice *d);
bool arena_lost_end(world *w); /* LOST: every call says so, free, unpin, detach and destroy work */
bool stall_begin(world *w);
bool stall_end(world *w);

/* ------------------------------------------------------------------------------------------------ between.c */

const snug__device_row *between_row(world *w);
void                    between_begin(world *w, op o);
bool                    between_end(world *w); /* false: it has met with a failure */

/* ------------------------------------------------------------------------------------------------ world.c */

world *world_new(uint64_t seed, mode mode, const snug__device_row *row);
bool   world_open(world *w);
bool   world_step(world *w, op o); /* the operation, and the checks after it */
bool   world_close(world *w);

#endif
