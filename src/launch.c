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
    if (snug__unlikely(atomic_load_explicit(&stream->state, memory_order_relaxed) != SNUG__SLOT_ATTACHED))
        return SNUG_GONE;
    if (snug__unlikely(stream->guarded))
        return snug__pool_notice(stream->pool, snug__order_guard(&stream->pool->order, stream));
    return SNUG_OK;
}

/* With an address table everybody writes: a read on a stream whose write of the entry is still to come must not be overtaken
 * by a move, nor by what another stream then writes there. */
static inline bool writes(const snug_pool *pool, const snug_access *access, size_t i) {
    return !access || access[i] != SNUG_READ || pool->table_bytes;
}

static inline void *address_of(const snug_pool *pool, uint32_t offset) {
    return offset == SNUG__NONE ? NULL : pool->base + (uint64_t)offset * SNUG_GRANULE;
}

static inline snug__entry *entry_of(snug_pool *pool, snug_handle handle) {
    return snug__handles_at(&pool->handles, snug__handle_index(handle));
}

/* Pins one handle. *word: its word after. */
static inline snug_status pin_one(snug_pool *pool, snug_handle handle, bool write, snug__entry **entry,
                                  uint64_t *word) {
    snug_status status = snug__handles_find(&pool->handles, handle, entry);
    if (snug__unlikely(status != SNUG_OK))
        return status;
    return snug__entry_pin(*entry, snug__handle_generation(handle), write, word);
}

static inline snug_status unpin_one(snug_pool *pool, snug_handle handle) {
    snug__entry *entry  = entry_of(pool, handle);
    bool         last   = false;
    snug_status  status = snug__entry_unpin(entry, snug__handle_generation(handle), &last);
    if (snug__unlikely(last))
        snug__entry_end(&pool->handles, &pool->order, handle);
    return status;
}

static void unpin_many(snug_pool *pool, const snug_handle *handles, size_t n) {
    for (size_t i = 0; i < n; i++)
        unpin_one(pool, handles[i]);
}

/* A claim has gone: was it what kept a dying buffer? */
static inline void look_for_dying(snug_pool *pool, snug_handle handle) {
    snug__entry *entry;
    if (snug__likely(snug__handles_find(&pool->handles, handle, &entry) == SNUG_OK) &&
        snug__unlikely(atomic_load(&entry->word) & SNUG__DYING))
        snug__entry_end(&pool->handles, &pool->order, handle);
}

/* Lets go of what the stream holds, by claim or by pin; nothing of it has used the stream. */
static void let_go(snug_stream *stream, const snug_handle *handles, size_t n) {
    for (size_t i = 0; i < n; i++) {
        snug__claims_wait(&stream->claims);
        uint32_t position = snug__claims_find(&stream->claims, handles[i]);
        if (position < SNUG__CLAIMS_MAX)
            snug__claims_drop(&stream->claims, position);
        snug__claims_done(&stream->claims);
        if (position < SNUG__CLAIMS_MAX)
            look_for_dying(stream->pool, handles[i]);
        else
            unpin_one(stream->pool, handles[i]);
    }
}

/* What a use leaves behind: the stamp of its stream, and whether a whole resolve was before it, so that the entry of the
 * address table is written. */
typedef struct mark {
    uint64_t mask, epoch;
    bool     resolved;
} mark;

static inline void use_mark(snug_pool *pool, snug_handle handle, bool write, mark mark) {
    snug__entry *entry = entry_of(pool, handle);
    uint64_t     never = SNUG__NEVER;
    if (snug__unlikely(pool->table_bytes && mark.resolved && atomic_load(&entry->table_epoch) == SNUG__NEVER))
        atomic_compare_exchange_strong(&entry->table_epoch, &never, mark.epoch);
    snug__atomic_stamp_add(write ? &entry->writers : &entry->readers, mark.mask, mark.epoch);
}

/* Marks the use, then drops the pin: whoever sees no pin any more sees the mark. */
static snug_status release_pinned(snug_pool *pool, snug_handle handle, bool write, mark mark) {
    snug__entry *entry;
    snug_status  status = snug__handles_find(&pool->handles, handle, &entry);
    if (status != SNUG_OK)
        return status;
    uint64_t word = atomic_load_explicit(&entry->word, memory_order_relaxed);
    if (snug__word_generation(word) == snug__handle_generation(handle) && (word & SNUG__PINS))
        use_mark(pool, handle, write, mark);
    return unpin_one(pool, handle);
}

/* What isn't what was resolved last, in that order, or was pinned. */
static snug_status release_singly(snug_stream *stream, const snug_handle *handles, size_t n, const snug_access *access,
                                  mark mark) {
    snug_pool  *pool  = stream->pool;
    snug_status first = SNUG_OK;
    for (size_t i = 0; i < n; i++) {
        snug__claims_wait(&stream->claims);
        uint32_t position = snug__claims_find(&stream->claims, handles[i]);
        bool     claimed  = position < SNUG__CLAIMS_MAX;
        if (claimed) { /* the mark first: whoever sees no claim any more sees the mark */
            use_mark(pool, handles[i], writes(pool, access, i), mark);
            snug__claims_drop(&stream->claims, position);
        }
        snug__claims_done(&stream->claims);
        snug_status status = SNUG_OK;
        if (claimed)
            look_for_dying(pool, handles[i]);
        else
            status = release_pinned(pool, handles[i], writes(pool, access, i), mark);
        if (first == SNUG_OK)
            first = status;
    }
    return first;
}

/* The uses are behind an event and get its stamp; then the stream lets go. */
static inline snug_status release_marked(snug_stream *stream, const snug_handle *handles, size_t n,
                                         const snug_access *access, uint64_t epoch, bool resolved) {
    snug_pool *pool = stream->pool;
    mark       mark = {UINT64_C(1) << stream->bit, epoch, resolved};
    size_t     at;
    snug__claims_wait(&stream->claims);
    const _Atomic uint64_t *last = snug__claims_last(&stream->claims, n);
    for (at = 0; last && at < n && handles[at] == atomic_load_explicit(&last[at], memory_order_relaxed); at++)
        use_mark(pool, handles[at], writes(pool, access, at), mark);
    if (snug__likely(at == n))
        snug__claims_pop(&stream->claims, n);
    snug__claims_done(&stream->claims);
    if (snug__unlikely(at != n))
        return release_singly(stream, handles, n, access, mark);
    for (size_t i = 0; i < n; i++)
        if (snug__unlikely(atomic_load(&entry_of(pool, handles[i])->word) & SNUG__DYING))
            snug__entry_end(&pool->handles, &pool->order, handles[i]);
    return SNUG_OK;
}

/* The stream leaves what it has resolved, whatever it did with it: behind an event; where none can be recorded the stream is
 * waited for, since nobody but this call can let go. */
static snug_status leave(snug_stream *stream, const snug_handle *handles, size_t n, const snug_access *access,
                         bool resolved) {
    snug_pool  *pool = stream->pool;
    uint64_t    epoch;
    snug_status status = snug__order_record(&pool->order, stream, &epoch);
    if (status == SNUG_OK) {
        release_marked(stream, handles, n, access, epoch, resolved);
        return SNUG_OK;
    }
    if (pool->row->stream_sync(pool->device, stream->native) != SNUG_OK)
        status = SNUG_LOST;
    let_go(stream, handles, n);
    return status;
}

/* Before anything has used what was resolved; but entries of the address table may be on their way there. */
static void back_out(snug_stream *stream, const snug_handle *handles, size_t n) {
    if (!stream->pool->table_bytes)
        let_go(stream, handles, n);
    else if (n > 0)
        snug__pool_notice(stream->pool, leave(stream, handles, n, NULL, false));
}

/* No address of a failed resolve survives it, so that nobody can launch with one by mistake. */
static snug_status resolve_failed(snug_stream *stream, size_t n, void **addresses, snug_status status) {
    for (size_t i = 0; i < n; i++)
        addresses[i] = NULL;
    return snug__pool_notice(stream->pool, status);
}

/* What has to come before the launch on this stream, for one that is held: the wait for the contents to be in place, and the
 * entry of the address table, unless all streams are past the work that wrote it. */
static snug_status make_ready(snug_stream *stream, snug__entry *entry, unsigned slot) {
    snug_pool  *pool   = stream->pool;
    snug_status status = snug__order_wait(&pool->order, stream, snug__entry_ready(entry, slot));
    if (status != SNUG_OK || !pool->table_bytes ||
        atomic_load(&entry->table_epoch) <= atomic_load_explicit(&pool->order.floor, memory_order_acquire))
        return status;
    void *address = address_of(pool, atomic_load_explicit(&entry->offset[slot], memory_order_relaxed));
    return pool->row->put(pool->device, stream->native,
                          pool->table_offset + (uint64_t)snug__handles_index(&pool->handles, entry) * 8,
                          (uint64_t)(uintptr_t)address);
}

/* By pins, one after the other. */
static snug_status resolve_pinning(snug_stream *stream, const snug_handle *handles, size_t n, const snug_access *access,
                                   void **addresses) {
    snug_pool *pool = stream->pool;
    for (size_t i = 0; i < n; i++) {
        snug__entry *entry;
        uint64_t     word   = 0;
        snug_status  status = pin_one(pool, handles[i], writes(pool, access, i), &entry, &word);
        if (snug__unlikely(status != SNUG_OK)) {
            back_out(stream, handles, i);
            return resolve_failed(stream, n, addresses, status);
        }
        /* after the pin, so that this is the place it keeps until the release */
        unsigned slot = snug__word_current(word);
        addresses[i]  = address_of(pool, atomic_load_explicit(&entry->offset[slot], memory_order_relaxed));
        status        = make_ready(stream, entry, slot);
        if (snug__unlikely(status != SNUG_OK)) {
            back_out(stream, handles, i + 1);
            return resolve_failed(stream, n, addresses, status);
        }
    }
    return SNUG_OK;
}

/* After the claims: do all of them hold? *unsettled: some of the buffers may have to be waited for. */
static inline bool claims_hold(snug_pool *pool, const snug_handle *handles, size_t n, void **addresses,
                               bool *unsettled) {
    uint64_t floor = atomic_load_explicit(&pool->order.floor, memory_order_acquire), latest = 0;
    uint32_t tag = pool->handles.tag, made = atomic_load_explicit(&pool->handles.made, memory_order_acquire);
    for (size_t i = 0; i < n; i++) {
        snug_handle handle = handles[i];
        uint32_t    index  = snug__handle_index(handle);
        if (snug__unlikely(snug__handle_tag(handle) != tag || index >= made))
            return false;
        snug__entry *entry = snug__handles_at(&pool->handles, index);
        uint64_t     word  = atomic_load(&entry->word);
        if (snug__unlikely(snug__word_generation(word) != snug__handle_generation(handle) ||
                           (word & (SNUG__LIVE | SNUG__DYING | SNUG__MOVING | SNUG__FROZEN)) != SNUG__LIVE))
            return false;
        unsigned slot  = snug__word_current(word);
        addresses[i]   = address_of(pool, atomic_load_explicit(&entry->offset[slot], memory_order_relaxed));
        uint64_t epoch = atomic_load_explicit(&entry->ready_epoch[slot], memory_order_relaxed);
        latest         = epoch > latest ? epoch : latest;
    }
    *unsettled = latest > floor || pool->table_bytes;
    return true;
}

static snug_status resolve_make_ready(snug_stream *stream, const snug_handle *handles, size_t n, void **addresses) {
    snug_pool *pool = stream->pool;
    for (size_t i = 0; i < n; i++) {
        snug__entry *entry  = entry_of(pool, handles[i]);
        unsigned     slot   = snug__word_current(atomic_load_explicit(&entry->word, memory_order_relaxed));
        snug_status  status = make_ready(stream, entry, slot);
        if (snug__unlikely(status != SNUG_OK)) {
            back_out(stream, handles, n);
            return resolve_failed(stream, n, addresses, status);
        }
    }
    return SNUG_OK;
}

snug_status snug_resolve(snug_stream *stream, const snug_handle *handles, size_t n, const snug_access *access,
                         void **addresses) {
    snug_status status = stream_open(stream);
    if (snug__unlikely(status != SNUG_OK))
        return status;
    if (n == 0)
        return SNUG_OK;
    if (snug__unlikely(!handles || !addresses))
        return SNUG_INVALID;
    snug_pool *pool = stream->pool;
    if (snug__unlikely(!snug__claims_try(&stream->claims, n)))
        return resolve_pinning(stream, handles, n, access, addresses);
    bool unsettled = false;
    snug__claims_add(&stream->claims, handles, n);
    bool hold = claims_hold(pool, handles, n, addresses, &unsettled);
    if (snug__unlikely(!hold))
        snug__claims_pop(&stream->claims, n);
    snug__claims_done(&stream->claims);
    if (snug__likely(hold && !unsettled))
        return SNUG_OK;
    if (hold)
        return resolve_make_ready(stream, handles, n, addresses);
    for (size_t i = 0; i < n; i++)
        look_for_dying(pool, handles[i]);
    return resolve_pinning(stream, handles, n, access, addresses);
}

snug_status snug_release(snug_stream *stream, const snug_handle *handles, size_t n, const snug_access *access) {
    snug_status status = stream_open(stream);
    if (snug__unlikely(status != SNUG_OK))
        return status;
    if (n == 0)
        return SNUG_OK;
    if (snug__unlikely(!handles))
        return SNUG_INVALID;
    uint64_t epoch;
    status = snug__order_record(&stream->pool->order, stream, &epoch);
    if (snug__unlikely(status != SNUG_OK))
        return snug__pool_notice(stream->pool, status);
    return release_marked(stream, handles, n, access, epoch, true);
}

void snug__launch_claims_to_pins(snug_stream *stream) {
    snug__claims_wait(&stream->claims);
    uint32_t count = atomic_load(&stream->claims.count);
    for (uint32_t i = 0; i < count; i++) {
        snug_handle handle = atomic_load(&stream->claims.handles[i]);
        if (handle != SNUG_HANDLE_NONE)
            snug__entry_hold(snug__handles_at(&stream->pool->handles, snug__handle_index(handle)));
    }
    snug__claims_pop(&stream->claims, count);
    snug__claims_done(&stream->claims);
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
static void pin_long(snug_pool *pool, snug_handle handle) {
    snug__entry *entry = entry_of(pool, handle);
    if (entry->long_pins++ > 0) {
        unpin_one(pool, handle);
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

static snug_status unpin_long(snug_pool *pool, snug_handle handle) {
    snug__entry *entry = entry_of(pool, handle);
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
    return unpin_one(pool, handle);
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
            pin_long(pool, handles[i]);
    else
        unpin_many(pool, handles, pinned);
    snug__pool_bury_dead(pool);
    pthread_mutex_unlock(&pool->lock);
    if (status != SNUG_OK)
        return status;
    for (size_t i = 0; i < n && status == SNUG_OK; i++) {
        entry         = entry_of(pool, handles[i]);
        unsigned slot = snug__word_current(atomic_load(&entry->word));
        status        = snug__order_host_wait(&pool->order, snug__entry_ready(entry, slot));
    }
    for (size_t i = 0; i < n && status == SNUG_OK; i++) {
        entry        = entry_of(pool, handles[i]);
        addresses[i] = address_of(pool, atomic_load(&entry->offset[snug__word_current(atomic_load(&entry->word))]));
    }
    if (status != SNUG_OK) {
        pthread_mutex_lock(&pool->lock);
        for (size_t i = 0; i < n; i++)
            unpin_long(pool, handles[i]);
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
    return unpin_long(pool, handle);
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
        snug__entry *entry = entry_of(pool, spans[i].handle);
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
        back_out(stream, handles, n);
        return status;
    }
    for (size_t i = 0; i < n; i++)
        at[i] = (addresses[i] ? (uint64_t)((char *)addresses[i] - stream->pool->base) : 0) + spans[i].offset;
    return SNUG_OK;
}

/* After the transfer was enqueued, or not: then nothing used the buffers, but an event more does no harm. */
static snug_status spans_release(snug_stream *stream, const span *spans, size_t n, snug_status enqueued) {
    snug_handle handles[2] = {0};
    snug_access access[2]  = {SNUG_WRITE};
    for (size_t i = 0; i < n; i++) {
        handles[i] = spans[i].handle;
        access[i]  = spans[i].access;
    }
    snug_status status = leave(stream, handles, n, access, true);
    if (enqueued == SNUG_OK)
        enqueued = status;
    if (enqueued == SNUG_OK)
        atomic_fetch_add_explicit(&stream->pool->client_copies, 1, memory_order_relaxed);
    return snug__pool_notice(stream->pool, enqueued);
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
