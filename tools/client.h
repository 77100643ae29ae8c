/* client.h - one client of a pool: a thread with its streams and buffers, and the operations of a workload.
 *
 * A client's *requests* are a function of (seed, thread) alone. Workloads draw from the client's own generator and look
 * only at nominal state: what would be there had everything been granted. A refused buffer is simply absent; operations
 * that name it are counted and skipped. So runs with compaction off and on see the same requests.
 *
 * A client belongs to one thread, but for `operations` and the streams' tallies, which are atomic. The run is shared.
 * All memory is taken at open; nothing is allocated per operation.
 */
#ifndef SNUG_TOOLS_CLIENT_H
#define SNUG_TOOLS_CLIENT_H

#include "device.h"
#include "histogram.h"
#include "report.h"
#include <snug.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_THREADS_MAX 64
#define CLIENT_STREAMS_MAX 16
#define CLIENT_LAUNCH_MAX  DEVICE_LAUNCH_MAX

/* What the client knows of a buffer. Nominal fields hold whether or not it was granted. */
typedef struct buffer {
    snug_handle handle;  /* NONE: absent */
    uint64_t    nominal; /* size asked for last; nominal */
    uint64_t    size;    /* size granted */
    uint64_t    valid;   /* bytes from the start that hold `version` */
    uint64_t    id;      /* nominal */
    void       *pinned;  /* address of a long pin, or NULL */
    uint32_t    version;
    uint32_t    expires; /* the workload's; nominal */
    uint16_t    readers; /* streams that have read it since its last write, which they are ordered behind */
    uint16_t    raw;     /* streams that have used it by its pinned address, without a resolve */
    int8_t      writer;  /* stream of its last write, -1 none */
    uint8_t     home;    /* nominal: the one stream that uses it, unless it roams */
    uint8_t     flags;   /* nominal: BUFFER_* */
} buffer;

enum {
    BUFFER_PINNED = 1, /* pinned long from birth */
    BUFFER_RAW = 2,    /* pinned, and used by its address alone */
    BUFFER_ROAMS = 4,  /* used on any stream; the client orders them */
    BUFFER_SHARED = 8  /* written once before the clients start; read by all */
};

typedef struct client_stream {
    device_stream native;
    snug_stream  *stream;
} client_stream;

/* What the clients of one run share. Set before they start; atomics change. */
typedef struct client_run {
    const char          *command; /* for error lines */
    snug_pool           *pool;
    const device        *device;
    const struct models *models; /* swap's tensors */
    uint64_t             capacity, max_size, seed;
    uint64_t             share; /* of capacity for one client */
    double               pins;  /* share of buffers pinned long */
    bool                 verify;
    uint32_t             n_streams; /* of one client */
    buffer              *shared;    /* read-only buffers */
    uint32_t             n_shared;
    report_live          live;
    _Atomic int          stop;
} client_run;

typedef struct client {
    client_run      *run;
    client_stream   *streams;
    buffer          *buffers;                      /* slots */
    uint32_t        *free_slots, *live, *position; /* stack of slots; dense list of taken ones; where each is in it */
    uint32_t         n_slots, n_free, n_live;
    uint32_t         thread;
    uint64_t         random, next_id;
    uint64_t         nominal; /* live bytes, had all been granted; rounded to the granule */
    uint64_t         target;  /* level that the workload keeps nominal near */
    void            *state;   /* the workload's; freed with the client */
    bool             done;    /* the budget of operations is used up, or the run stops */
    uint64_t         operations_max, digest;
    _Atomic uint64_t operations; /* written by the client alone */
    uint64_t         launches, requests, granted, request_bytes, first_refusal_ns;
    report           refusals; /* only its refusal fields are used */
    histogram        alloc, resolve_release;
} client;

uint64_t client_now_ns(void);

/* ---- making and ending. Both are called by the main thread while the client's thread doesn't run. */

/* Makes the streams; the workload's open then calls client_reserve. A failure has been printed; close what there is. */
bool client_open(client *c, client_run *run, uint32_t thread, uint64_t operations_max);
bool client_reserve(client *c, uint32_t n_slots, size_t state_bytes);

void client_sync(client *c);       /* waits for the streams */
void client_verify_all(client *c); /* reads through every live buffer; then sync */
void client_free_all(client *c);
void client_close(client *c);

/* ---- random numbers: splitmix64, the same on every machine */

static inline uint64_t client_random(client *c) {
    uint64_t x = c->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* 0 .. n - 1, n below 2^32. */
static inline uint32_t client_below(client *c, uint32_t n) { return (uint32_t)(((client_random(c) >> 32) * n) >> 32); }

static inline bool client_chance(client *c, uint32_t one_in) { return client_below(c, one_in) == 0; }

/* Uniform in [least, most]. */
static inline uint64_t client_between(client *c, uint64_t least, uint64_t most) {
    return least + client_random(c) % (most - least + 1);
}

/* About log-uniform in [least, most]: an octave, then evenly inside it. Without floating point. */
uint64_t client_log_uniform(client *c, uint64_t least, uint64_t most);

/* ---- slots: nominal */

static inline uint32_t client_slot_take(client *c) { /* pre: n_free > 0 */
    uint32_t slot = c->free_slots[--c->n_free];
    c->position[slot] = c->n_live;
    c->live[c->n_live++] = slot;
    return slot;
}

static inline void client_slot_give(client *c, uint32_t slot) {
    uint32_t last = c->live[--c->n_live];
    c->live[c->position[slot]] = last;
    c->position[last] = c->position[slot];
    c->free_slots[c->n_free++] = slot;
}

static inline uint32_t client_slot_pick(client *c) { return c->live[client_below(c, c->n_live)]; } /* pre: n_live > 0 */

/* ---- operations: each is one; after the budget is used up they only keep the nominal books. */

/* Draws home, roaming and pinning. grows_to: snug_alloc_options.grows_to. */
void client_alloc(client *c, uint32_t slot, uint64_t size, uint64_t grows_to);
void client_free(client *c, uint32_t slot);
void client_resize(client *c, uint32_t slot, uint64_t size); /* pre: not BUFFER_PINNED */

/* One launch on a stream of the client: verifies every buffer and writes those with write access; a buffer never
 * written is written whatever its access. buffers: distinct, up to CLIENT_LAUNCH_MAX; shared ones with read access
 * only. */
void client_launch(client *c, uint32_t stream, buffer *const *buffers, const snug_access *access, size_t n);

/* May the stream use the buffer? Nominal. */
static inline bool client_usable(const buffer *b, uint32_t stream) {
    return b->home == stream || (b->flags & (BUFFER_ROAMS | BUFFER_SHARED));
}

/* A list of distinct buffers for one launch, while it is put together. */
typedef struct client_list {
    buffer     *buffers[CLIENT_LAUNCH_MAX];
    snug_access access[CLIENT_LAUNCH_MAX];
    uint32_t    n;
} client_list;

/* Leaves out what is in the list already, what the stream can't use, and what is too many. */
bool client_list_add(client_list *list, uint32_t stream, buffer *b, snug_access access);

#endif
