/* order.h: who used what until when, without waiting for anyone.
 *
 * A stamp says "these streams, up to this epoch". Whoever uses a buffer records an event on its stream, then reads the epoch,
 * then adds {stream, epoch} to the buffer's stamp. A poll advances the epoch, then asks the events: a stream whose events are
 * complete has done everything stamped before the advance. A stamp whose streams all have is settled and means nothing more.
 *
 * Streams share 62 client bits (two more are the movers'); more streams share bits, which only waits for more than needed.
 * Each stream has two events. A release records one of them: main, or, when a poll has found main pending, marker. While
 * marker isn't recorded again it becomes complete even on a stream that is never idle, so that stamps settle there too.
 *
 * Slots of streams are never freed while the pool's shell exists, so that a launch may walk a bit's slots without a lock.
 * Locks: the own mutex for attach, detach and poll; the rest takes none. Lock order: mover, pool, order. */
#ifndef SNUG__ORDER_H
#define SNUG__ORDER_H

#include "claim.h"
#include "device.h"
#include "hash.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct snug__stamp {
    uint64_t mask, epoch; /* one bit a stream; {0, 0} is settled */
} snug__stamp;

typedef struct snug__atomic_stamp {
    _Atomic uint64_t mask, epoch;
} snug__atomic_stamp;

#define SNUG__STAMP_NONE ((snug__stamp){0, 0})

static inline snug__stamp snug__stamp_unite(snug__stamp a, snug__stamp b) {
    return (snug__stamp){a.mask | b.mask, a.epoch > b.epoch ? a.epoch : b.epoch};
}

static inline void snug__atomic_raise(_Atomic uint64_t *value, uint64_t least) {
    uint64_t was = atomic_load_explicit(value, memory_order_relaxed);
    while (was < least && !atomic_compare_exchange_weak(value, &was, least))
        ;
}

/* Adds a stream's use. Left out when it would change nothing: the pin is still held, so nobody takes it away meanwhile. */
static inline void snug__atomic_stamp_add(snug__atomic_stamp *stamp, uint64_t mask, uint64_t epoch) {
    if ((atomic_load_explicit(&stamp->mask, memory_order_relaxed) & mask) != mask)
        atomic_fetch_or(&stamp->mask, mask);
    snug__atomic_raise(&stamp->epoch, epoch);
}

static inline snug__stamp snug__atomic_stamp_get(snug__atomic_stamp *stamp) {
    return (snug__stamp){atomic_load(&stamp->mask), atomic_load(&stamp->epoch)};
}

static inline void snug__atomic_stamp_set(snug__atomic_stamp *stamp, snug__stamp value) {
    atomic_store_explicit(&stamp->mask, value.mask, memory_order_relaxed);
    atomic_store_explicit(&stamp->epoch, value.epoch, memory_order_relaxed);
}

enum { SNUG__BITS = 64, SNUG__CLIENT_BITS = 62, SNUG__BIT_BACKGROUND = 62, SNUG__BIT_DEMAND = 63 };

enum {
    SNUG__SLOT_FREE,
    SNUG__SLOT_ATTACHED,
    SNUG__SLOT_LEAVING
}; /* leaving: detached, with work that hasn't settled */
enum { SNUG__MARKER_IDLE, SNUG__MARKER_RECORDING, SNUG__MARKER_RECORDED }; /* idle: never recorded, or seen complete */

struct snug_stream {
    snug_pool             *pool; /* for life: a shell that is never freed */
    _Atomic uint32_t       state;
    unsigned               bit;
    void                  *native;
    snug__event           *main, *marker;
    _Atomic uint32_t       marker_wanted, marker_state;
    _Atomic uint64_t       marker_epoch;
    _Atomic uint64_t       done;           /* all that is stamped with this epoch or an earlier one has run */
    _Atomic uint64_t       records, waits; /* device calls */
    _Atomic(snug_stream *) next;           /* slot of the same bit */
    snug_stream           *made_before;    /* slot of a client, whatever its bit */
    unsigned               attaches;
    uint64_t               identity;           /* of native */
    bool                   of_thread, guarded; /* to be used by `owner` only; to be looked at before each use */
    pthread_t              owner;
    UT_hash_handle         hh;                 /* by identity */
    _Atomic uint64_t       waited[SNUG__BITS]; /* by bit: epoch up to which this stream has been made to wait */
    snug__claims           claims;
};

typedef struct snug__order {
    const snug__device_row *row;
    snug__device           *device;
    snug_pool              *pool;
    _Atomic uint64_t        epoch;
    _Atomic uint64_t        floor; /* least of done */
    _Atomic uint64_t        done[SNUG__BITS];
    _Atomic(snug_stream *)  slots[SNUG__BITS];
    _Atomic(snug_stream *)  made_last; /* of all clients' slots */
    snug_stream            *mover[2];  /* background, demand */
    pthread_mutex_t         mutex;
    snug_stream            *by_identity;
    _Atomic uint64_t        attached;
    _Atomic uint64_t        queries;
} snug__order;

/* open takes over slots of an earlier life of the same order. Errors: NO_MEMORY, DEVICE. */
snug_status snug__order_open(snug__order *order, const snug__device_row *row, snug__device *device, snug_pool *pool);
/* All streams have been waited for. Slots stay, free. */
void snug__order_close(snug__order *order);

/* The errors of the device's stream_identify, NO_MEMORY. */
snug_status snug__order_attach(snug__order *order, void *native, snug_stream **stream);
snug_status snug__order_detach(snug__order *order, snug_stream *stream);

/* May this thread use it now? For streams that are `guarded`. INVALID (of another thread), CAPTURING. */
snug_status snug__order_guard(snug__order *order, const snug_stream *stream);

/* Records the stream's event on the calling thread, then reads the epoch for the stamp. */
snug_status snug__order_record(snug__order *order, snug_stream *stream, uint64_t *epoch);

/* Makes the stream wait, on the device, for what the stamp still holds. */
snug_status snug__order_wait(snug__order *order, snug_stream *stream, snug__stamp stamp);

/* Waits on the host for what the stamp holds. */
snug_status snug__order_host_wait(snug__order *order, snug__stamp stamp);

/* Waits on the host until everything recorded on the stream has run; part: or only what the marker says, if it says any. */
snug_status snug__order_stream_sync(snug__order *order, snug_stream *stream, bool part);

/* Advances the epoch and asks every stream. DEVICE, LOST: an event couldn't be asked; the others were. */
snug_status snug__order_poll(snug__order *order);

/* Waits on the host for everything that was ever recorded; unreleased: and for what attached streams do beyond that. Errors
 * are gone past; the first is returned. deadline_ns: 0 for none, else TIMEOUT once it has passed, with the streams that haven't
 * finished, and those that wait for them, in snug__device_error. */
snug_status snug__order_drain(snug__order *order, bool unreleased, uint64_t deadline_ns);

static inline bool snug__order_settled(snug__order *order, snug__stamp stamp) {
    if (stamp.epoch <= atomic_load_explicit(&order->floor, memory_order_acquire))
        return true;
    for (uint64_t mask = stamp.mask; mask; mask &= mask - 1)
        if (atomic_load(&order->done[__builtin_ctzll(mask)]) < stamp.epoch)
            return false;
    return true;
}

/* Unites, leaving out what has settled: uniting it would lend it the other's later epoch. */
static inline snug__stamp snug__order_unite(snug__order *order, snug__stamp a, snug__stamp b) {
    if (snug__order_settled(order, a))
        return b;
    return snug__order_settled(order, b) ? a : snug__stamp_unite(a, b);
}

static inline snug__stamp snug__stamp_of(const snug_stream *stream, uint64_t epoch) {
    return (snug__stamp){UINT64_C(1) << stream->bit, epoch};
}

/* Has any stream resolved it and not released it, pins apart? Takes no lock. */
static inline bool snug__order_claimed(snug__order *order, snug_handle handle) {
    for (snug_stream *slot = atomic_load(&order->made_last); slot; slot = slot->made_before)
        for (uint32_t i = 0, count = atomic_load(&slot->claims.count); i < count; i++)
            if (atomic_load(&slot->claims.handles[i]) == handle)
                return true;
    return false;
}

/* By how many resolves; with SNUG_HANDLE_NONE: is anything claimed at all? */
uint32_t snug__order_claims(snug__order *order, snug_handle handle);

/* Returns what is broken, or NULL. */
const char *snug__order_check(snug__order *order);

#endif
