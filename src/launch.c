/* launch.c: what surrounds a launch: resolve and release, long pins, and the transfers that stand on them.
 * resolve and release take no lock and allocate nothing; one event record a release. */
#include "compactor.h"
#include "order.h"
#include "pool.h"
#include "receipt.h"

static inline snug_status stream_open(snug_stream *stream) {
    if (snug__unlikely(!stream))
        return SNUG_INVALID;
    snug_status status = snug__pool_open(stream->pool);
    if (snug__unlikely(status != SNUG_OK))
        return status;
    uint32_t state = atomic_load_explicit(&stream->state, memory_order_relaxed);
    return snug__likely(state == SNUG__SLOT_ATTACHED) ? SNUG_OK : SNUG_GONE;
}

static inline bool writes(const snug_access *access, size_t i) {
    return !access || access[i] != SNUG_READ;
}

static inline void *address_of(const snug_pool *pool, uint32_t offset) {
    return offset == SNUG__NONE ? NULL : pool->base + (uint64_t)offset * SNUG_GRANULE;
}

/* Pins one handle. *word: its word after. */
static inline snug_status pin_one(snug_pool *pool, snug_handle handle, bool write, snug__entry **entry,
                                  uint64_t *word) {
    snug_status status = snug__handles_find(&pool->handles, handle, entry);
    if (snug__unlikely(status != SNUG_OK))
        return status;
    return snug__entry_pin(*entry, snug__handle_generation(handle), write, word);
}

static inline snug_status unpin_one(snug_pool *pool, snug__entry *entry, uint32_t generation) {
    bool        last   = false;
    snug_status status = snug__entry_unpin(entry, generation, &last);
    if (snug__unlikely(last))
        snug__handles_push_dead(&pool->handles, entry);
    return status;
}

static void unpin_many(snug_pool *pool, const snug_handle *handles, size_t n) {
    for (size_t i = 0; i < n; i++)
        unpin_one(pool, snug__handles_at(&pool->handles, snug__handle_index(handles[i])),
                  snug__handle_generation(handles[i]));
}

/* No address of a failed resolve survives it, so that nobody can launch with one by mistake. */
static snug_status resolve_undo(snug_pool *pool, const snug_handle *handles, size_t pinned, size_t n, void **addresses,
                                snug_status status) {
    unpin_many(pool, handles, pinned);
    for (size_t i = 0; i < n; i++)
        addresses[i] = NULL;
    return snug__pool_notice(pool, status);
}

snug_status snug_resolve(snug_stream *stream, const snug_handle *handles, size_t n, const snug_access *access,
                         void **addresses) {
    snug_status status = stream_open(stream);
    if (snug__unlikely(status != SNUG_OK))
        return status;
    if (snug__unlikely(n > 0 && (!handles || !addresses)))
        return SNUG_INVALID;
    snug_pool *pool  = stream->pool;
    uint64_t   floor = atomic_load_explicit(&pool->order.floor, memory_order_acquire);
    for (size_t i = 0; i < n; i++) {
        snug__entry *entry;
        uint64_t     word = 0;
        status            = pin_one(pool, handles[i], writes(access, i), &entry, &word);
        if (snug__unlikely(status != SNUG_OK))
            return resolve_undo(pool, handles, i, n, addresses, status);
        /* after the pin, so that this is the place it keeps until the release */
        unsigned slot  = snug__word_current(word);
        addresses[i]   = address_of(pool, atomic_load_explicit(&entry->offset[slot], memory_order_relaxed));
        uint64_t epoch = atomic_load_explicit(&entry->ready_epoch[slot], memory_order_relaxed);
        if (snug__unlikely(epoch > floor)) {
            status = snug__order_wait(&pool->order, stream, snug__entry_ready(entry, slot));
            if (snug__unlikely(status != SNUG_OK))
                return resolve_undo(pool, handles, i + 1, n, addresses, status);
        }
    }
    return SNUG_OK;
}

/* Marks the use, then drops the pin: whoever sees no pin any more sees the mark. */
static inline snug_status release_one(snug_pool *pool, snug_handle handle, bool write, uint64_t mask, uint64_t epoch) {
    snug__entry *entry;
    snug_status  status = snug__handles_find(&pool->handles, handle, &entry);
    if (snug__unlikely(status != SNUG_OK))
        return status;
    uint32_t generation = snug__handle_generation(handle);
    uint64_t word       = atomic_load_explicit(&entry->word, memory_order_relaxed);
    if (snug__likely(snug__word_generation(word) == generation && (word & SNUG__PINS)))
        snug__atomic_stamp_add(write ? &entry->writers : &entry->readers, mask, epoch);
    return unpin_one(pool, entry, generation);
}

snug_status snug_release(snug_stream *stream, const snug_handle *handles, size_t n, const snug_access *access) {
    snug_status status = stream_open(stream);
    if (snug__unlikely(status != SNUG_OK))
        return status;
    if (n == 0)
        return SNUG_OK;
    if (snug__unlikely(!handles))
        return SNUG_INVALID;
    snug_pool *pool = stream->pool;
    uint64_t   epoch;
    status = snug__order_record(&pool->order, stream, &epoch);
    if (snug__unlikely(status != SNUG_OK))
        return snug__pool_notice(pool, status);
    uint64_t mask = UINT64_C(1) << stream->bit;
    for (size_t i = 0; i < n; i++) {
        snug_status released = release_one(pool, handles[i], writes(access, i), mask, epoch);
        if (snug__unlikely(released != SNUG_OK) && status == SNUG_OK)
            status = released;
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------ long pins */

/* Brings a buffer that isn't pinned to the low end, if that is cheap and there is a place. Best effort. */
static void bring_low(snug_pool *pool, snug_handle handle) {
    snug__entry *entry;
    uint32_t     offset, limit = 0;
    if (!atomic_load(&pool->compaction_on) || snug__handles_find(&pool->handles, handle, &entry) != SNUG_OK)
        return;
    pthread_mutex_lock(&pool->mover);
    pthread_mutex_lock(&pool->lock);
    bool      live  = snug__word_status(atomic_load(&entry->word), snug__handle_generation(handle)) == SNUG_OK;
    uint32_t  range = live ? entry->range : SNUG__NONE;
    snug__fit fit   = {0, 1, false};
    if (range != SNUG__NONE && !snug__range_at(&pool->map, range)->fixed) {
        fit   = (snug__fit){snug__range_at(&pool->map, range)->size, UINT32_C(1) << (entry->alignment_log2 - 8), false};
        limit = snug__range_at(&pool->map, range)->offset;
    }
    pthread_mutex_unlock(&pool->lock);
    uint64_t cost = SNUG__LOW_COST_MAX / SNUG_GRANULE;
    if (fit.size && fit.size <= cost) {
        uint32_t hole = snug__compactor_room_low(pool, fit, limit, cost - fit.size, &offset);
        live          = snug__word_status(atomic_load(&entry->word), snug__handle_generation(handle)) == SNUG_OK;
        if (hole != SNUG__NONE && live) { /* then it is where it was: nobody else moves, and the place is below limit */
            snug__run  run  = {.pool = pool, .which = SNUG__DEMAND, .may_wait = true};
            snug__item item = {.source = range, .size = fit.size, .generation = snug__handle_generation(handle)};
            item.target     = snug__range_take(&pool->map, hole, offset, fit.size, SNUG__RANGE_TARGET,
                                               snug__range_at(&pool->map, range)->entry);
            snug__range_at(&pool->map, range)->copying = item.target != SNUG__NONE;
            snug_receipt receipt                       = snug__receipt_begin(pool, SNUG_RECEIPT_LOW, fit.size);
            pthread_mutex_unlock(&pool->lock);
            if (item.target != SNUG__NONE)
                snug__move_items(&run, &item, 1, false);
            pthread_mutex_lock(&pool->lock);
            snug__receipt_run(&receipt, &run);
            snug__receipt_end(pool, &receipt, run.error);
        }
        pthread_mutex_unlock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->mover);
}

/* Under lock, pinned by the caller: the first long pin keeps that pin for all of them, the others give it back. */
static void pin_long(snug_pool *pool, snug__entry *entry, uint32_t generation) {
    if (entry->long_pins++ > 0) {
        unpin_one(pool, entry, generation);
        return;
    }
    snug__entry_set_long(entry, true);
    entry->pinned_at_ns = snug__pool_now(pool);
    if (entry->range == SNUG__NONE || snug__range_at(&pool->map, entry->range)->kind != SNUG__RANGE_LIVE)
        return;
    snug__range *range = snug__range_at(&pool->map, entry->range);
    if (!range->fixed)
        pool->pinned_granules += range->size;
    range->fixed = 1;
}

static snug_status unpin_long(snug_pool *pool, snug__entry *entry, uint32_t generation) {
    if (--entry->long_pins > 0)
        return SNUG_OK;
    entry->pinned_at_ns = 0;
    if (entry->range != SNUG__NONE && !(entry->flags & SNUG_ALLOC_IMMOVABLE)) {
        snug__range *range = snug__range_at(&pool->map, entry->range);
        if (range->fixed)
            pool->pinned_granules -= range->size;
        range->fixed = 0;
    }
    snug__entry_set_long(entry, false);
    return unpin_one(pool, entry, generation);
}

snug_status snug_pin(snug_pool *pool, const snug_handle *handles, size_t n, void **addresses) {
    snug_status status = snug__pool_open(pool);
    if (status == SNUG_OK && n > 0 && (!handles || !addresses))
        status = SNUG_INVALID;
    if (status != SNUG_OK)
        return status;
    for (size_t i = 0; i < n; i++)
        bring_low(pool, handles[i]);
    size_t       pinned = 0;
    snug__entry *entry;
    uint64_t     word = 0;
    for (; pinned < n && status == SNUG_OK;
         pinned += status == SNUG_OK) /* without the lock: it may have to wait for a thaw */
        status = pin_one(pool, handles[pinned], true, &entry, &word);
    pthread_mutex_lock(&pool->lock);
    if (status == SNUG_OK)
        for (size_t i = 0; i < n; i++)
            pin_long(pool, snug__handles_at(&pool->handles, snug__handle_index(handles[i])),
                     snug__handle_generation(handles[i]));
    else
        unpin_many(pool, handles, pinned);
    snug__pool_bury_dead(pool);
    pthread_mutex_unlock(&pool->lock);
    if (status != SNUG_OK)
        return status;
    for (size_t i = 0; i < n && status == SNUG_OK; i++) {
        entry         = snug__handles_at(&pool->handles, snug__handle_index(handles[i]));
        unsigned slot = snug__word_current(atomic_load(&entry->word));
        status        = snug__order_host_wait(&pool->order, snug__entry_ready(entry, slot));
    }
    for (size_t i = 0; i < n && status == SNUG_OK; i++) {
        entry        = snug__handles_at(&pool->handles, snug__handle_index(handles[i]));
        addresses[i] = address_of(pool, atomic_load(&entry->offset[snug__word_current(atomic_load(&entry->word))]));
    }
    if (status != SNUG_OK) {
        pthread_mutex_lock(&pool->lock);
        for (size_t i = 0; i < n; i++)
            unpin_long(pool, snug__handles_at(&pool->handles, snug__handle_index(handles[i])),
                       snug__handle_generation(handles[i]));
        snug__pool_bury_dead(pool);
        pthread_mutex_unlock(&pool->lock);
    }
    return snug__pool_notice(pool, status);
}

/* Under lock. */
static snug_status unpin_one_long(snug_pool *pool, snug_handle handle, snug__stamp used) {
    snug__entry *entry;
    snug_status  status = snug__handles_find(&pool->handles, handle, &entry);
    if (status != SNUG_OK)
        return status;
    uint32_t generation = snug__handle_generation(handle);
    uint64_t word       = atomic_load(&entry->word);
    if (snug__word_generation(word) != generation || !(word & SNUG__LIVE))
        return snug__word_status(word, generation);
    if (!entry->long_pins)
        return SNUG_NOT_PINNED;
    if (used.mask)
        snug__atomic_stamp_add(&entry->writers, used.mask, used.epoch);
    return unpin_long(pool, entry, generation);
}

snug_status snug_unpin(snug_pool *pool, const snug_handle *handles, size_t n, snug_stream *const *streams,
                       size_t n_streams) {
    snug_status status = snug__pool_open(pool);
    if (status == SNUG_OK && ((n > 0 && !handles) || (n_streams > 0 && !streams)))
        status = SNUG_INVALID;
    if (status != SNUG_OK && status != SNUG_LOST)
        return status;
    snug__stamp used = SNUG__STAMP_NONE;
    for (size_t i = 0; i < n_streams && status == SNUG_OK; i++) {
        uint64_t epoch;
        status = stream_open(streams[i]);
        if (status == SNUG_OK && streams[i]->pool != pool)
            status = SNUG_INVALID;
        if (status == SNUG_OK)
            status = snug__order_record(&pool->order, streams[i], &epoch);
        if (status == SNUG_OK)
            used = snug__stamp_unite(used, snug__stamp_of(streams[i], epoch));
    }
    if (status != SNUG_OK && status != SNUG_LOST)
        return snug__pool_notice(pool, status);
    status = SNUG_OK;
    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < n; i++) {
        snug_status unpinned = unpin_one_long(pool, handles[i], used);
        if (status == SNUG_OK)
            status = unpinned;
    }
    snug__pool_bury_dead(pool);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* ------------------------------------------------------------------------------------------------ transfers */

typedef struct span {
    snug_handle handle;
    snug_access access;
    uint64_t    offset, bytes;
} span;

static snug_status spans_check(snug_pool *pool, const span *spans, size_t n) {
    for (size_t i = 0; i < n; i++) {
        snug__entry *entry = snug__handles_at(&pool->handles, snug__handle_index(spans[i].handle));
        uint64_t     size  = atomic_load_explicit(&entry->size, memory_order_relaxed);
        if (spans[i].bytes > size || spans[i].offset > size - spans[i].bytes)
            return SNUG_RANGE;
    }
    return SNUG_OK;
}

/* Resolves one or two spans and tells their offsets in the arena. OK: to be released. */
static snug_status spans_resolve(snug_stream *stream, const span *spans, size_t n, uint64_t at[2]) {
    snug_handle handles[2]   = {0};
    snug_access access[2]    = {SNUG_WRITE};
    void       *addresses[2] = {0};
    for (size_t i = 0; i < n; i++) {
        handles[i] = spans[i].handle;
        access[i]  = spans[i].access;
    }
    snug_status status = snug_resolve(stream, handles, n, access, addresses);
    if (status != SNUG_OK)
        return status;
    status = spans_check(stream->pool, spans, n);
    if (status != SNUG_OK) {
        unpin_many(stream->pool, handles, n);
        return status;
    }
    for (size_t i = 0; i < n; i++)
        at[i] = (addresses[i] ? (uint64_t)((char *)addresses[i] - stream->pool->base) : 0) + spans[i].offset;
    return SNUG_OK;
}

/* After the transfer was enqueued, or not: then nothing used the buffers, but an event more does no harm. Where none can be
 * recorded the stream is waited for, since nobody but this call can release what it has pinned. */
static snug_status spans_release(snug_stream *stream, const span *spans, size_t n, snug_status enqueued) {
    snug_pool  *pool = stream->pool;
    uint64_t    epoch;
    snug_status status = snug__order_record(&pool->order, stream, &epoch);
    bool        marked = status == SNUG_OK;
    if (!marked && pool->row->stream_sync(pool->device, stream->native) != SNUG_OK)
        status = SNUG_LOST;
    for (size_t i = 0; i < n; i++) {
        snug__entry *entry = snug__handles_at(&pool->handles, snug__handle_index(spans[i].handle));
        if (marked)
            snug__atomic_stamp_add(spans[i].access == SNUG_READ ? &entry->readers : &entry->writers,
                                   UINT64_C(1) << stream->bit, epoch);
        unpin_one(pool, entry, snug__handle_generation(spans[i].handle));
    }
    if (enqueued == SNUG_OK)
        enqueued = status;
    if (enqueued == SNUG_OK)
        atomic_fetch_add_explicit(&pool->client_copies, 1, memory_order_relaxed);
    return snug__pool_notice(pool, enqueued);
}

snug_status snug_write(snug_stream *stream, snug_handle handle, uint64_t offset, const void *host, uint64_t bytes) {
    span        to = {handle, SNUG_WRITE, offset, bytes};
    uint64_t    at[2];
    snug_status status = bytes > 0 && !host ? SNUG_INVALID : spans_resolve(stream, &to, 1, at);
    if (status != SNUG_OK)
        return status;
    snug_pool *pool = stream->pool;
    if (bytes)
        status = pool->row->write(pool->device, stream->native, at[0], host, bytes);
    return spans_release(stream, &to, 1, status);
}

snug_status snug_read(snug_stream *stream, snug_handle handle, uint64_t offset, void *host, uint64_t bytes) {
    span        from = {handle, SNUG_READ, offset, bytes};
    uint64_t    at[2];
    snug_status status = bytes > 0 && !host ? SNUG_INVALID : spans_resolve(stream, &from, 1, at);
    if (status != SNUG_OK)
        return status;
    snug_pool *pool = stream->pool;
    if (bytes)
        status = pool->row->read(pool->device, stream->native, host, at[0], bytes);
    return spans_release(stream, &from, 1, status);
}

snug_status snug_fill(snug_stream *stream, snug_handle handle, uint64_t offset, int byte, uint64_t bytes) {
    span        to = {handle, SNUG_WRITE, offset, bytes};
    uint64_t    at[2];
    snug_status status = spans_resolve(stream, &to, 1, at);
    if (status != SNUG_OK)
        return status;
    snug_pool *pool = stream->pool;
    if (bytes)
        status = pool->row->fill(pool->device, stream->native, at[0], byte, bytes);
    return spans_release(stream, &to, 1, status);
}

snug_status snug_copy(snug_stream *stream, snug_handle to, uint64_t to_offset, snug_handle from, uint64_t from_offset,
                      uint64_t bytes) {
    span        spans[2] = {{to, SNUG_WRITE, to_offset, bytes}, {from, SNUG_READ, from_offset, bytes}};
    uint64_t    at[2];
    snug_status status = spans_resolve(stream, spans, 2, at);
    if (status != SNUG_OK)
        return status;
    snug_pool *pool = stream->pool;
    if (bytes && at[0] < at[1] + bytes && at[1] < at[0] + bytes)
        status = SNUG_INVALID; /* the bytes overlap */
    else if (bytes)
        status = pool->row->copy(pool->device, stream->native, at[0], at[1], bytes);
    return spans_release(stream, spans, 2, status);
}
