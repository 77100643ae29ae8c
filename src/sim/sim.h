/* sim.h: the simulated machine, for the files of this room.
 *
 * Layers, calls going down only: api.c and device.c (what is public, and the row) -> stream.c (queues, styles, times) ->
 * check.c (order: at enqueuing) and contents.c (tags: at execution) -> span.c.
 *
 * Order: a point is the nth operation of a stream. Each stream has a clock, by stream: up to which operation of that stream
 * everything it enqueues from now on comes after. What the host has seen to be complete is a clock too, and part of all.
 *
 * One lock, api.c's, for everything here; functions that say nothing else need it. */
#ifndef SNUG__SIM_H
#define SNUG__SIM_H

#include "../assert.h"
#include "../device.h"
#include "span.h"

#include <snug_sim.h>

#include <pthread.h>

enum { SNUG__SIM_STREAMS_MAX = 4096, SNUG__SIM_DEVICES_MAX = 256 };
enum { SNUG__SIM_CLIENT, SNUG__SIM_LOW, SNUG__SIM_HIGH }; /* whose stream: priorities are the movers' */

/* slot << 48 | operation, both from 1; 0: none */
typedef uint64_t snug__point;

static inline snug__point snug__point_of(uint32_t slot, uint64_t operation) {
    return (uint64_t)slot << 48 | operation;
}
static inline uint32_t snug__point_slot(snug__point point) {
    return (uint32_t)(point >> 48);
}
static inline uint64_t snug__point_operation(snug__point point) {
    return point & ((UINT64_C(1) << 48) - 1);
}

typedef struct snug__clock {
    uint64_t *operations; /* by slot; those beyond width are 0 */
    uint32_t  width;
} snug__clock;

/* ------------------------------------------------------------------------------------------------ devices */

struct snug__device {
    uint16_t                index; /* in snug__sim.devices; also which addresses are its arena's */
    uint32_t                life;  /* tells it from others that had the index before */
    const snug_sim_profile *profile;
    uint64_t                reserved, committed_bytes;
    snug__spans             committed;      /* a: is it? */
    snug__spans             tags;           /* id, origin, packed: see contents.c */
    snug__spans             entries;        /* of an address table; a: its value */
    snug__spans             accesses;       /* last write, reads since, move: see check.c */
    uint64_t                accesses_sweep; /* so many spans of accesses: time to drop the settled ones */
};

/* ------------------------------------------------------------------------------------------------ streams, events */

enum { SNUG__SIM_WAIT, SNUG__SIM_KERNEL, SNUG__SIM_COPY, SNUG__SIM_MOVE, SNUG__SIM_PUT };

/* An access of a queued kernel. */
typedef struct snug__sim_touch {
    uint64_t offset, bytes, id, at;
    uint32_t version, life;
    uint16_t device;
    bool     write;
} snug__sim_touch;

typedef struct snug__sim_op {
    uint8_t  kind;
    uint16_t device;
    uint32_t life;
    uint32_t touches;         /* KERNEL: so many of the stream's queued ones are its own */
    uint32_t move;            /* MOVE: number of its record */
    uint64_t to, from, bytes; /* WAIT: from is a point; PUT: a value */
    uint64_t end_ns;
} snug__sim_op;

struct snug_sim_stream {
    bool             open; /* else it may still have a rest of work */
    uint32_t         number;
    uint32_t         slot;
    int              role;
    uint64_t         born, tail, done; /* operations: at its making, enqueued, run */
    uint64_t         end_ns;           /* of all that is enqueued */
    uint64_t         held_ns[2];       /* by movers, at one stretch, since the last launch or transfer */
    uint32_t         haste;            /* RANDOM: chance of 256 to run when its turn comes */
    snug__clock      clock;
    snug__sim_op    *ops; /* ring */
    uint32_t         ops_max;
    snug__sim_touch *touches; /* ring */
    uint32_t         touches_max;
    uint64_t         touches_tail, touches_done;
};

struct snug__event {
    snug__point point; /* 0: never recorded */
    int         role;
    uint64_t    end_ns;
    uint32_t    answers; /* "pending" since the record */
    bool        known;   /* to the host: complete, with all that it waits for */
    snug__clock clock;
};

/* ------------------------------------------------------------------------------------------------ machine */

/* A move whose result may yet turn out torn: numbered in order, kept until the host knows it to be complete. A copy of a
 * copy has a record of its own, which names the two moves on which it stands. */
typedef struct snug__sim_move {
    snug__point point;
    uint16_t    device;
    uint32_t    life;
    uint64_t    to, bytes;
    uint32_t    parents[2];
    bool        torn, used;
} snug__sim_move;

typedef struct snug__sim_fault {
    uint64_t    left; /* calls until it strikes; 0: none */
    snug_status status;
} snug__sim_fault;

typedef struct snug__sim_machine {
    snug_sim_options options; /* filled in */
    bool             ready;   /* the options are */
    uint64_t         random;
    uint64_t         now_ns;
    snug_sim_stream *streams[SNUG__SIM_STREAMS_MAX]; /* by slot, from 1 */
    uint32_t         slots;                          /* in use so far, 0 included */
    uint32_t         streams_made;                   /* numbers */
    uint64_t         host[SNUG__SIM_STREAMS_MAX];    /* by slot: what the host knows to be complete */
    uint32_t        *stalled;                        /* numbers */
    uint32_t         stalled_count, stalled_max;
    snug__device    *devices[SNUG__SIM_DEVICES_MAX]; /* by index, from 1 */
    uint32_t         lives;
    uint64_t         committed_bytes;
    snug__sim_move  *moves; /* ring of [moves_first, moves_end) */
    uint32_t         moves_max, moves_first, moves_end, moves_derived;
    snug__sim_fault  faults[SNUG_SIM_CALLS];
    uint64_t         calls[SNUG_SIM_CALLS];
    bool             lost;
    snug_sim_report  report;
} snug__sim_machine;

extern snug__sim_machine snug__sim;

/* Locks, setting the machine up if nobody has. */
void snug__sim_lock(void);
void snug__sim_unlock(void);

/* Locks, lets the call cost its time, and asks the faults; not OK: unlocked again. */
snug_status snug__sim_enter(snug_sim_call call);
/* Unlocks; returns the status. */
snug_status snug__sim_leave(snug_status status);

void snug__sim_violate(snug_sim_violation kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline uint64_t snug__sim_random(void) { /* splitmix64 */
    uint64_t z = snug__sim.random += UINT64_C(0x9e3779b97f4a7c15);
    z          = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The device of that index and life; NULL: gone. */
static inline snug__device *snug__sim_device(uint16_t index, uint32_t life) {
    snug__device *device = snug__sim.devices[index];
    return device && device->life == life ? device : NULL;
}

/* Arenas lie at made-up addresses, 2 TiB apart. */
#define SNUG__SIM_ARENA_LOG2 41
static inline uint64_t snug__sim_base(uint32_t index) {
    return (UINT64_C(1) << 46) + ((uint64_t)index << SNUG__SIM_ARENA_LOG2);
}
/* The device in whose arena the address lies, and where; NULL: none's. */
snug__device *snug__sim_find(uint64_t address, uint64_t *offset);

/* ------------------------------------------------------------------------------------------------ stream.c */

static inline uint64_t snug__clock_at(const snug__clock *clock, uint32_t slot) {
    return slot < clock->width ? clock->operations[slot] : 0;
}

snug_status snug__sim_stream_open(int role, snug_sim_stream **stream);
void        snug__sim_stream_close(snug_sim_stream *stream);
bool        snug__sim_stream_valid(const snug_sim_stream *stream);
void        snug__sim_streams_free(void);

void        snug__sim_event_free(snug__event *event);
snug_status snug__sim_record(snug__event *event, snug_sim_stream *stream);
snug_status snug__sim_wait(snug_sim_stream *stream, const snug__event *event);
bool        snug__sim_query(snug__event *event);
snug_status snug__sim_event_sync(snug__event *event);
snug_status snug__sim_stream_sync(snug_sim_stream *stream);

/* Enqueue, checked: transfers to and from the host are kernels with one touch. bytes > 0. */
snug_status snug__sim_kernel(snug_sim_stream *stream, const snug__sim_touch *touches, size_t n, uint64_t duration_ns);
snug_status snug__sim_copy(snug__device *device, snug_sim_stream *stream, bool move, uint64_t to, uint64_t from,
                           uint64_t bytes);

snug_status snug__sim_put(snug__device *device, snug_sim_stream *stream, uint64_t to, uint64_t value);

/* ------------------------------------------------------------------------------------------------ check.c */

/* Before the operation is enqueued as the stream's next: are its bytes committed, and what touched them ordered before? */
void snug__check_touch(snug__device *device, const snug_sim_stream *stream, uint64_t offset, uint64_t bytes,
                       bool write);
/* A new record for a move about to be enqueued as the stream's next, its source checked. 0: no memory. */
uint32_t snug__check_move(snug__device *device, const snug_sim_stream *stream, uint64_t to, uint64_t from,
                          uint64_t bytes);
/* Queued work that uses the range is a violation; then nothing is known of it any more. */
void snug__check_decommit(snug__device *device, uint64_t offset, uint64_t bytes);
void snug__check_close(snug__device *device);

/* Does the record say more than "not torn"? Numbers before the oldest record are of moves long done and sound. */
static inline snug__sim_move *snug__move_record(uint32_t number) {
    if (number < snug__sim.moves_first || number >= snug__sim.moves_end)
        return NULL;
    return &snug__sim.moves[number % snug__sim.moves_max];
}
/* A record of a copy of a copy: by which moves it came, twice the same if by one and a client's copy. 0: no memory. */
uint32_t snug__move_derive(uint32_t first, uint32_t second, uint64_t to, uint64_t bytes);
/* A client expects what the move copied. True: it is torn. */
bool snug__move_use(uint32_t number);

/* ------------------------------------------------------------------------------------------------ contents.c */

/* At execution. */
void snug__contents_read(snug__device *device, const snug_sim_stream *stream, const snug__sim_touch *touch);
void snug__contents_write(snug__device *device, const snug__sim_touch *touch);
void snug__contents_copy(snug__device *device, const snug__sim_op *op);
/* Of entries of an address table. */
void snug__contents_put(snug__device *device, uint64_t offset, uint64_t value);
void snug__contents_entry(snug__device *device, const snug_sim_stream *stream, const snug__sim_touch *touch);
/* What the move left is torn for good: its record goes. */
void snug__contents_tear(snug__device *device, uint64_t to, uint64_t bytes, uint32_t move);
void snug__contents_forget(snug__device *device, uint64_t offset, uint64_t bytes);

#endif
