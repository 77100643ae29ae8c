/* pool.h: a pool's state, for pool.c and the rooms below it (compactor, move, stats, refusal).
 *
 * Locks, in the order in which they nest:
 *   mover  whoever plans and moves: one at a time. Also resize, trim, quote. Never taken on the launch path
 *   lock   map, table of handles, counters, tags. Held for short: no device call that may block, no wait
 *   order  see order.h
 * The launch path takes none of them.
 * Pools are shells that are never freed, so that a call on a destroyed one can say GONE. */
#ifndef SNUG__POOL_H
#define SNUG__POOL_H

#include "device.h"
#include "log.h"
#include "plan.h"
#include "structs.h"

#include <pthread.h>

enum { SNUG__POOL_NONE, SNUG__POOL_OPEN, SNUG__POOL_LOST };

enum { SNUG__BACKGROUND = 0, SNUG__DEMAND = 1 }; /* the two mover streams */

enum { SNUG__TAGS_MAX = 4096, SNUG__RECEIPTS_MAX = 256 };

/* What is spent at most on bringing a buffer that will be pinned long to the low end. */
#define SNUG__LOW_COST_MAX (UINT64_C(16) << 20)

/* A buffer larger than the step's budget on its way: copied piece by piece over several steps. */
typedef struct snug__late {
    bool       active;
    snug__item item;
    uint32_t   copied; /* granules */
} snug__late;

/* What is enqueued on a mover's stream and hasn't been seen to be done: operations by the stamp behind them, oldest first. */
enum { SNUG__OPS_MAX = 256 };
typedef struct snug__backlog {
    uint32_t ops, unstamped; /* of ops: not yet behind a stamp */
    uint32_t first, count;
    struct {
        uint64_t epoch;
        uint32_t ops;
    } stamped[SNUG__OPS_MAX];
} snug__backlog;

typedef struct snug__tag {
    char           name[SNUG_TAG_MAX + 1];
    uint16_t       id;
    uint64_t       live_bytes, peak_bytes, buffers;
    UT_hash_handle hh;
} snug__tag;

typedef struct snug__compactor {
    snug_compactor_options options;
    pthread_t              thread;
    pthread_mutex_t        mutex;
    pthread_cond_t         wake;
    bool                   running, stop;
    bool                   in_pass;
    uint64_t               fruitless_changes;  /* the map's changes when a step last found nothing to do */
    uint64_t               fruitless_epoch;    /* what hadn't settled then; 0: all had */
    uint64_t               fruitless_until_ns; /* when the buffers that rested then have rested enough; 0: none did */
    uint32_t               back_off;           /* doublings of the interval since */
} snug__compactor;

struct snug_pool {
    _Atomic uint32_t        state;
    uint32_t                tag;              /* of its handles; also its place in the list of pools */
    uint32_t                forks;            /* of the process when the pool was made */
    uint32_t                generation_floor; /* of a shell: no handle of its earlier lives had so high a generation */
    bool                    retired;          /* of a shell: there is no generation left */
    const snug__device_row *row;
    snug__device           *device;
    char                   *base;

    _Atomic uint32_t compaction_on; /* changed under mover */
    bool             jumble;
    uint64_t         demand_granules_max;
    uint64_t         pin_wait_ns, destroy_wait_ns;
    snug__log        log;

    snug__order     order;
    pthread_mutex_t lock;
    snug__handles   handles;
    snug__map       map;
    snug__tag      *tags;                     /* by name */
    snug__tag      *tag_list[SNUG__TAGS_MAX]; /* by id; 0 is "", which also takes what finds no more room */
    uint16_t        tags_made;

    pthread_mutex_t mover;
    snug__plan      plan;
    snug__late      late;
    uint32_t        jumble_cursor;
    bool            step_waits; /* the last step stopped because its own copies haven't run, or for lack of time */
    snug__backlog   backlog[2]; /* of the mover streams */
    uint64_t        bounce_offset, bounce_bytes;
    uint64_t        table_offset, table_bytes; /* of the address table; 0: there is none */
    snug__stamp     bounce_fence;
    uint64_t        copy_bytes_per_second; /* 0: not measured yet */

    uint64_t         capacity;
    uint64_t         live_bytes, pinned_granules; /* under lock, with what follows */
    snug_counts      bytes, buffers;
    uint64_t         largest_request;
    uint64_t         requests, granted, refused[SNUG_STATUS_COUNT];
    uint64_t         moved_bytes, moves_published, moves_cancelled, slides;
    uint64_t         moved_at_ns; /* the last move */
    uint64_t         steps, demand_plans, background_passes, back_offs;
    snug_receipt     receipts[SNUG__RECEIPTS_MAX]; /* by number, modulo */
    uint64_t         receipts_made;
    _Atomic uint64_t mover_copies, client_copies;

    snug__compactor compactor;
    _Alignas(64) _Atomic uint64_t moves; /* snug_moves */
};

static inline snug__planner snug__pool_planner(snug_pool *pool) {
    return (snug__planner){&pool->map, &pool->handles, &pool->lock};
}

static inline uint64_t snug__pool_now(snug_pool *pool) {
    return pool->row->now_ns(pool->device);
}

static inline uint64_t snug__bytes(uint64_t granules) {
    return granules * SNUG_GRANULE;
}

/* Below 2^31 for every size up to SNUG_SIZE_MAX. */
static inline uint64_t snug__granules(uint64_t bytes) {
    return bytes / SNUG_GRANULE + (bytes % SNUG_GRANULE != 0);
}

/* Makes the pool LOST if the status says so; returns the status. */
snug_status snug__pool_notice(snug_pool *pool, snug_status status);

/* Can this pool be called at all? OK, LOST, FORKED, GONE. */
snug_status snug__pool_open(snug_pool *pool);

/* Under lock: the number of a tag; 0, that of buffers without one, if there is no room or memory for it. */
uint16_t snug__tag_find(snug_pool *pool, const char *name);

/* Under lock: the account of a buffer's size, with its tag. */
void snug__pool_count(snug_pool *pool, snug__entry *entry, uint64_t size_before, uint64_t size_now);
/* Under lock: the entry's buffer has size bytes from now on. */
void snug__pool_resized(snug_pool *pool, snug__entry *entry, uint64_t size);

/* Under lock: how many more granules must be committed for it, given that the hole at the end can be part of it. */
uint64_t snug__pool_growth_needed(snug_pool *pool, snug__fit fit);

/* Under mover, not lock: commits up to so many more granules of the arena. CAPACITY: all is committed. */
snug_status snug__pool_grow(snug_pool *pool, uint64_t granules);

/* Under mover and lock, dropped between: the arena is again as large as it was, as far as what it grew by is still free. */
void snug__pool_shrink_back(snug_pool *pool, uint32_t committed);

/* Under lock: gives back the range of an entry whose generation has ended, and the entry. */
void snug__pool_bury(snug_pool *pool, snug__entry *entry);
/* Under lock: buries what last unpins have ended. */
void snug__pool_bury_dead(snug_pool *pool);

/* Before a stream is detached: what it still holds it holds by pins from now on. */
void snug__launch_claims_to_pins(snug_stream *stream);

/* The pool on a given row; what snug_pool_create calls. For tests, which bring rows that fail. */
snug_status snug__pool_create_on(const snug__device_row *row, const snug_pool_options *options, snug_pool **pool);

#endif
