/* order.c: see order.h. */
#include "order.h"

#include "assert.h"

#include <stdlib.h>
#include <time.h>

static snug_stream *next_slot(snug_stream *slot) {
    return atomic_load(&slot->next);
}

static snug_stream *first_slot(snug__order *order, unsigned bit) {
    return atomic_load(&order->slots[bit]);
}

/* ------------------------------------------------------------------------------------------------ slots */

static snug_status slot_events_create(snug__order *order, snug_stream *slot) {
    snug_status status = order->row->event_create(order->device, &slot->main);
    if (status != SNUG_OK)
        return status;
    status = order->row->event_create(order->device, &slot->marker);
    if (status != SNUG_OK) {
        order->row->event_destroy(order->device, slot->main);
        slot->main = NULL;
    }
    return status;
}

static snug_stream *slot_create(snug__order *order, unsigned bit) {
    snug_stream *slot = aligned_alloc(_Alignof(snug_stream), sizeof *slot);
    if (!slot)
        return NULL;
    memset(slot, 0, sizeof *slot);
    slot->pool                   = order->pool;
    slot->bit                    = bit;
    _Atomic(snug_stream *) *link = &order->slots[bit];
    while (atomic_load(link))
        link = &atomic_load(link)->next;
    atomic_store(link, slot);
    if (bit < SNUG__CLIENT_BITS) {
        slot->made_before = atomic_load(&order->made_last);
        atomic_store(&order->made_last, slot);
    }
    return slot;
}

static snug_stream *bit_free_slot(snug__order *order, unsigned bit, unsigned *used) {
    snug_stream *found = NULL;
    *used              = 0;
    for (snug_stream *slot = first_slot(order, bit); slot; slot = next_slot(slot))
        if (atomic_load(&slot->state) != SNUG__SLOT_FREE)
            ++*used;
        else if (!found)
            found = slot;
    return found;
}

/* A slot of the client bit with the fewest streams, the least recently made first among equals. */
static snug_stream *slot_find(snug__order *order) {
    snug_stream *best      = NULL;
    unsigned     best_bit  = 0;
    unsigned     best_used = ~0u;
    for (unsigned bit = 0; bit < SNUG__CLIENT_BITS && best_used > 0; bit++) {
        unsigned     used;
        snug_stream *slot = bit_free_slot(order, bit, &used);
        if (used < best_used) {
            best      = slot;
            best_bit  = bit;
            best_used = used;
        }
    }
    return best ? best : slot_create(order, best_bit);
}

static void slot_begin(snug_stream *slot, void *native) {
    slot->native = native;
    for (unsigned bit = 0; bit < SNUG__BITS; bit++)
        atomic_store(&slot->waited[bit], 0);
    atomic_store(&slot->marker_wanted, 0);
    atomic_store(&slot->marker_state, SNUG__MARKER_IDLE);
    atomic_store(&slot->claims.count, 0);
    slot->attaches = 1;
    atomic_store(&slot->state, SNUG__SLOT_ATTACHED);
}

/* ------------------------------------------------------------------------------------------------ open, close */

static snug_status mover_open(snug__order *order, unsigned which) {
    unsigned     bit  = which == 0 ? SNUG__BIT_BACKGROUND : SNUG__BIT_DEMAND;
    snug_stream *slot = first_slot(order, bit);
    if (!slot && !(slot = slot_create(order, bit)))
        return SNUG_NO_MEMORY;
    void       *native;
    int         priority = which == 0 ? SNUG__PRIORITY_LOW : SNUG__PRIORITY_HIGH;
    snug_status status   = order->row->stream_open(order->device, priority, &native);
    if (status != SNUG_OK)
        return status;
    status = slot_events_create(order, slot);
    if (status != SNUG_OK) {
        order->row->stream_close(order->device, native);
        return status;
    }
    slot_begin(slot, native);
    order->mover[which] = slot;
    return SNUG_OK;
}

snug_status snug__order_open(snug__order *order, const snug__device_row *row, snug__device *device, snug_pool *pool) {
    order->row    = row;
    order->device = device;
    order->pool   = pool;
    if (atomic_load(&order->epoch) == 0)
        atomic_store(&order->epoch, 1);
    pthread_mutex_init(&order->mutex, NULL);
    snug_status status = mover_open(order, 0);
    if (status == SNUG_OK)
        status = mover_open(order, 1);
    if (status != SNUG_OK)
        snug__order_close(order);
    return status;
}

static void slot_end(snug__order *order, snug_stream *slot) {
    if (slot->main)
        order->row->event_destroy(order->device, slot->main);
    if (slot->marker)
        order->row->event_destroy(order->device, slot->marker);
    slot->main = slot->marker = NULL;
    slot->attaches            = 0;
    atomic_store(&slot->claims.count, 0);
    atomic_store(&slot->state, SNUG__SLOT_FREE);
}

void snug__order_close(snug__order *order) {
    HASH_CLEAR(hh, order->by_identity);
    for (unsigned which = 0; which < 2; which++) {
        if (order->mover[which])
            order->row->stream_close(order->device, order->mover[which]->native);
        order->mover[which] = NULL;
    }
    for (unsigned bit = 0; bit < SNUG__BITS; bit++)
        for (snug_stream *slot = first_slot(order, bit); slot; slot = next_slot(slot))
            slot_end(order, slot);
    order->attached = 0;
    pthread_mutex_destroy(&order->mutex);
}

/* ------------------------------------------------------------------------------------------------ attach, detach */

static snug_status attach_new(snug__order *order, void *native, uint64_t identity, snug_stream **stream) {
    snug_stream *slot = slot_find(order);
    if (!slot)
        return SNUG_NO_MEMORY;
    if (!slot->main) {
        snug_status status = slot_events_create(order, slot);
        if (status != SNUG_OK)
            return status;
    }
    slot->identity = identity;
    slot->hh.tbl   = NULL;
    HASH_ADD(hh, order->by_identity, identity, sizeof slot->identity, slot);
    if (!slot->hh.tbl)
        return SNUG_NO_MEMORY;
    slot_begin(slot, native);
    order->attached++;
    *stream = slot;
    return SNUG_OK;
}

snug_status snug__order_attach(snug__order *order, void *native, snug_stream **stream) {
    uint64_t     identity;
    bool         of_thread;
    snug_stream *slot;
    snug_status  status = order->row->stream_identify(order->device, native, &identity, &of_thread);
    if (status != SNUG_OK)
        return status;
    pthread_mutex_lock(&order->mutex);
    HASH_FIND(hh, order->by_identity, &identity, sizeof identity, slot);
    if (slot) {
        slot->attaches++;
        *stream = slot;
    } else {
        status = attach_new(order, native, identity, stream);
        if (status == SNUG_OK) {
            (*stream)->of_thread = of_thread;
            (*stream)->guarded   = of_thread || order->row->captures;
            (*stream)->owner     = pthread_self();
        }
    }
    pthread_mutex_unlock(&order->mutex);
    return status;
}

/* What the stream does that no release has told of is behind one more event: its native handle won't be there later. */
snug_status snug__order_detach(snug__order *order, snug_stream *stream) {
    uint64_t    epoch;
    snug_status status = SNUG_GONE;
    if (atomic_load(&stream->state) == SNUG__SLOT_ATTACHED && snug__order_record(order, stream, &epoch) != SNUG_OK)
        order->row->stream_sync(order->device, stream->native);
    pthread_mutex_lock(&order->mutex);
    if (atomic_load(&stream->state) == SNUG__SLOT_ATTACHED) {
        status = SNUG_OK;
        if (--stream->attaches == 0) {
            HASH_DEL(order->by_identity, stream);
            order->attached--;
            atomic_store(&stream->state, SNUG__SLOT_LEAVING);
        }
    }
    pthread_mutex_unlock(&order->mutex);
    return status;
}

/* ------------------------------------------------------------------------------------------------ launch path */

static bool marker_take(snug_stream *stream) {
    if (!atomic_load_explicit(&stream->marker_wanted, memory_order_relaxed))
        return false;
    uint32_t idle = SNUG__MARKER_IDLE;
    return atomic_compare_exchange_strong(&stream->marker_state, &idle, SNUG__MARKER_RECORDING);
}

snug_status snug__order_record(snug__order *order, snug_stream *stream, uint64_t *epoch) {
    snug_status status;
    if (snug__unlikely(marker_take(stream))) {
        /* before the record: everything stamped with an earlier epoch was recorded before this one */
        uint64_t before = atomic_load(&order->epoch) - 1;
        status          = order->row->event_record(order->device, stream->marker, stream->native);
        if (status == SNUG_OK) {
            atomic_store(&stream->marker_epoch, before);
            atomic_store(&stream->marker_wanted, 0);
        }
        atomic_store(&stream->marker_state, status == SNUG_OK ? SNUG__MARKER_RECORDED : SNUG__MARKER_IDLE);
    } else {
        status = order->row->event_record(order->device, stream->main, stream->native);
    }
    if (snug__unlikely(status != SNUG_OK))
        return status;
    atomic_fetch_add_explicit(&stream->records, 1, memory_order_relaxed);
    *epoch = atomic_load(&order->epoch); /* after the record: an epoch read before it could be settled too early */
    return SNUG_OK;
}

static snug_status wait_for_slot(snug__order *order, snug_stream *stream, snug_stream *slot) {
    snug_status status = order->row->stream_wait(order->device, stream->native, slot->main);
    atomic_fetch_add_explicit(&stream->waits, 1, memory_order_relaxed);
    if (status == SNUG_OK && atomic_load(&slot->marker_state) != SNUG__MARKER_IDLE) {
        status = order->row->stream_wait(order->device, stream->native, slot->marker);
        atomic_fetch_add_explicit(&stream->waits, 1, memory_order_relaxed);
    }
    return status;
}

static snug_status wait_for_bit(snug__order *order, snug_stream *stream, unsigned bit, uint64_t epoch) {
    if (atomic_load(&order->done[bit]) >= epoch || atomic_load(&stream->waited[bit]) >= epoch)
        return SNUG_OK;
    /* the wait covers what is recorded by now: all earlier epochs, and this one only if it is over */
    uint64_t covered = atomic_load(&order->epoch) - 1;
    if (covered < epoch)
        covered = atomic_fetch_add(&order->epoch, 1);
    for (snug_stream *slot = first_slot(order, bit); slot; slot = next_slot(slot)) {
        if (slot == stream || atomic_load(&slot->state) == SNUG__SLOT_FREE)
            continue;
        snug_status status = wait_for_slot(order, stream, slot);
        if (status != SNUG_OK)
            return status;
    }
    snug__atomic_raise(&stream->waited[bit], covered); /* after the wait: two threads may share the stream */
    return SNUG_OK;
}

snug_status snug__order_wait(snug__order *order, snug_stream *stream, snug__stamp stamp) {
    if (stamp.epoch <= atomic_load_explicit(&order->floor, memory_order_acquire))
        return SNUG_OK;
    for (uint64_t mask = stamp.mask; mask; mask &= mask - 1) {
        snug_status status = wait_for_bit(order, stream, (unsigned)__builtin_ctzll(mask), stamp.epoch);
        if (status != SNUG_OK)
            return status;
    }
    return SNUG_OK;
}

/* ------------------------------------------------------------------------------------------------ polls, host waits */

static snug_status ask(snug__order *order, snug__event *event, bool *complete) {
    *complete = false;
    atomic_fetch_add_explicit(&order->queries, 1, memory_order_relaxed);
    return order->row->event_query(order->device, event, complete);
}

static snug_status poll_slot(snug__order *order, snug_stream *slot, uint64_t epoch) {
    bool        marker_complete = true, main_complete;
    snug_status status          = SNUG_OK;
    if (atomic_load(&slot->marker_state) == SNUG__MARKER_RECORDED) {
        status = ask(order, slot->marker, &marker_complete);
        if (marker_complete) {
            snug__atomic_raise(&slot->done, atomic_load(&slot->marker_epoch));
            atomic_store(&slot->marker_state, SNUG__MARKER_IDLE);
        }
    }
    snug_status main_status = ask(order, slot->main, &main_complete);
    if (main_complete && marker_complete) {
        snug__atomic_raise(&slot->done, epoch);
        if (atomic_load(&slot->state) == SNUG__SLOT_LEAVING)
            atomic_store(&slot->state, SNUG__SLOT_FREE);
    } else {
        atomic_store(&slot->marker_wanted, 1);
    }
    return status != SNUG_OK ? status : main_status;
}

snug_status snug__order_poll(snug__order *order) {
    snug_status status = SNUG_OK;
    pthread_mutex_lock(&order->mutex);
    uint64_t epoch = atomic_fetch_add(&order->epoch, 1);
    uint64_t floor = epoch;
    for (unsigned bit = 0; bit < SNUG__BITS; bit++) {
        uint64_t done = epoch;
        for (snug_stream *slot = first_slot(order, bit); slot; slot = next_slot(slot)) {
            if (atomic_load(&slot->state) == SNUG__SLOT_FREE)
                continue;
            snug_status asked = poll_slot(order, slot, epoch);
            if (status == SNUG_OK)
                status = asked;
            if (atomic_load(&slot->done) < done)
                done = atomic_load(&slot->done);
        }
        snug__atomic_raise(&order->done[bit], done);
        if (done < floor)
            floor = done;
    }
    snug__atomic_raise(&order->floor, floor);
    pthread_mutex_unlock(&order->mutex);
    return status;
}

snug_status snug__order_stream_sync(snug__order *order, snug_stream *stream, bool part) {
    bool        marked = atomic_load(&stream->marker_state) != SNUG__MARKER_IDLE;
    snug_status status = order->row->event_sync(order->device, stream->marker);
    if (status != SNUG_OK || (part && marked))
        return status;
    return order->row->event_sync(order->device, stream->main);
}

static snug_status sync_bits(snug__order *order, uint64_t mask, uint64_t epoch) {
    snug_status first = SNUG_OK;
    for (; mask; mask &= mask - 1) {
        unsigned bit = (unsigned)__builtin_ctzll(mask);
        if (atomic_load(&order->done[bit]) >= epoch)
            continue;
        for (snug_stream *slot = first_slot(order, bit); slot; slot = next_slot(slot)) {
            if (atomic_load(&slot->state) == SNUG__SLOT_FREE)
                continue;
            snug_status status = snug__order_stream_sync(order, slot, false);
            if (first == SNUG_OK)
                first = status;
        }
    }
    return first;
}

snug_status snug__order_host_wait(snug__order *order, snug__stamp stamp) {
    return snug__order_settled(order, stamp) ? SNUG_OK : sync_bits(order, stamp.mask, stamp.epoch);
}

/* The same by asking, until the deadline. */
static snug_status slot_await(snug__order *order, snug_stream *slot, uint64_t deadline_ns) {
    for (;;) {
        bool        late   = order->row->now_ns(order->device) >= deadline_ns, marker_complete, main_complete;
        snug_status status = ask(order, slot->marker, &marker_complete);
        if (status == SNUG_OK)
            status = ask(order, slot->main, &main_complete);
        if (status != SNUG_OK || (marker_complete && main_complete))
            return status;
        if (late)
            return SNUG_TIMEOUT;
        nanosleep(&(struct timespec){0, 20000}, NULL);
    }
}

static bool of_other_thread(const snug_stream *stream) {
    return stream->of_thread && !pthread_equal(stream->owner, pthread_self());
}

snug_status snug__order_guard(snug__order *order, const snug_stream *stream) {
    if (of_other_thread(stream)) {
        snug__device_error_set("stream %p is another one on this thread", stream->native);
        return SNUG_INVALID;
    }
    return order->row->captures ? order->row->stream_ready(order->device, stream->native) : SNUG_OK;
}

/* Without the call that has failed: a stream that is leaving may be gone by now, so that a mover waits for its events. */
static snug_status slot_sync_otherwise(snug__order *order, snug_stream *slot) {
    snug_stream *by     = slot;
    snug_status  status = SNUG_OK;
    if (of_other_thread(slot))
        return order->row->sync(order->device);
    if (atomic_load(&slot->state) == SNUG__SLOT_LEAVING) {
        by     = order->mover[1];
        status = wait_for_slot(order, by, slot);
    }
    return status == SNUG_OK ? order->row->stream_sync(order->device, by->native) : status;
}

static snug_status slot_drain(snug__order *order, snug_stream *slot, bool unreleased, uint64_t deadline_ns) {
    bool        attached = atomic_load(&slot->state) == SNUG__SLOT_ATTACHED;
    uint64_t    epoch;
    snug_status status = SNUG_OK;
    if (unreleased && attached)
        status = of_other_thread(slot) ? SNUG_DEVICE : snug__order_record(order, slot, &epoch);
    if (status == SNUG_OK)
        status = deadline_ns ? slot_await(order, slot, deadline_ns) : snug__order_stream_sync(order, slot, false);
    return status == SNUG_OK || status == SNUG_TIMEOUT ? status : slot_sync_otherwise(order, slot);
}

snug_status snug__order_drain(snug__order *order, bool unreleased, uint64_t deadline_ns) {
    snug_status first    = SNUG_OK;
    char        late[96] = "";
    for (unsigned bit = 0; bit < SNUG__BITS; bit++)
        for (snug_stream *slot = first_slot(order, bit); slot; slot = next_slot(slot)) {
            if (atomic_load(&slot->state) == SNUG__SLOT_FREE)
                continue;
            snug_status status = slot_drain(order, slot, unreleased, deadline_ns);
            size_t      used   = strlen(late);
            if (deadline_ns && status == SNUG_TIMEOUT)
                snprintf(late + used, sizeof late - used, " %p%s", slot->native,
                         bit < SNUG__CLIENT_BITS ? "" : " (the pool's own)");
            else if (first == SNUG_OK)
                first = status;
        }
    if (!*late)
        return first;
    snug__device_error_set("not finished in time: stream%s", late);
    return SNUG_TIMEOUT;
}

uint32_t snug__order_claims(snug__order *order, snug_handle handle) {
    uint32_t found = 0;
    for (snug_stream *slot = atomic_load(&order->made_last); slot; slot = slot->made_before)
        found +=
            handle == SNUG_HANDLE_NONE ? atomic_load(&slot->claims.count) : snug__claims_count(&slot->claims, handle);
    return found;
}

const char *snug__order_check(snug__order *order) {
    const char *fault = NULL;
    uint64_t    floor = atomic_load(&order->floor);
    pthread_mutex_lock(&order->mutex);
    uint64_t attached = 0, epoch = atomic_load(&order->epoch);
    for (unsigned bit = 0; bit < SNUG__BITS && !fault; bit++) {
        if (atomic_load(&order->done[bit]) >= epoch)
            fault = "a bit is settled beyond the epoch";
        if (atomic_load(&order->done[bit]) < floor)
            fault = "the floor is above a bit's settled epoch";
        for (snug_stream *slot = first_slot(order, bit); slot && !fault; slot = next_slot(slot)) {
            if (slot->bit != bit)
                fault = "a stream is listed under another's bit";
            if (atomic_load(&slot->state) != SNUG__SLOT_FREE && (!slot->main || !slot->marker))
                fault = "a stream in use has no events"; /* I11 */
            if (atomic_load(&slot->state) == SNUG__SLOT_ATTACHED && bit < SNUG__CLIENT_BITS)
                attached++;
        }
    }
    if (!fault && attached != order->attached)
        fault = "the count of attached streams is wrong";
    pthread_mutex_unlock(&order->mutex);
    return fault;
}
