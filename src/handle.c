/* handle.c: see handle.h. */
#include "handle.h"

#include <sched.h>

snug_status snug__handles_open(snug__handles *handles, uint32_t tag, uint32_t max, uint32_t generation_first) {
    memset(handles, 0, sizeof *handles);
    snug_status status = snug__table_reserve(&handles->table, (size_t)max * sizeof(snug__entry));
    if (status != SNUG_OK)
        return status;
    handles->tag              = tag;
    handles->max              = max;
    handles->free_first       = SNUG__NONE;
    handles->free_last        = SNUG__NONE;
    handles->generation_first = generation_first;
    atomic_store(&handles->dead, SNUG__NONE);
    return SNUG_OK;
}

void snug__handles_close(snug__handles *handles) {
    snug__table_release(&handles->table);
}

uint32_t snug__handles_unused_generation(snug__handles *handles, uint32_t floor) {
    uint64_t unused = floor;
    for (uint32_t i = 0; i < atomic_load(&handles->made); i++) {
        uint64_t word = atomic_load(&snug__handles_at(handles, i)->word);
        uint64_t next = (uint64_t)snug__word_generation(word) + ((word & SNUG__LIVE) != 0);
        if (next == 0)
            return 0; /* wrapped: it has been through them all */
        unused = next > unused ? next : unused;
    }
    return unused > UINT32_MAX ? 0 : (uint32_t)unused;
}

/* ------------------------------------------------------------------------------------------------ entries */

static snug_status make_entry(snug__handles *handles, snug__entry **entry) {
    uint32_t made = atomic_load(&handles->made);
    if (made == handles->max)
        return SNUG_HANDLES;
    snug_status status = snug__table_ensure(&handles->table, (size_t)(made + 1) * sizeof(snug__entry));
    if (status != SNUG_OK)
        return status;
    *entry = snug__handles_at(handles, made);
    atomic_store(&(*entry)->word, (uint64_t)handles->generation_first << SNUG__GENERATION);
    atomic_store_explicit(&handles->made, made + 1, memory_order_release);
    return SNUG_OK;
}

snug_status snug__handles_take(snug__handles *handles, snug__entry **entry) {
    if (handles->free_first == SNUG__NONE) {
        snug_status status = make_entry(handles, entry);
        if (status != SNUG_OK)
            return status;
    } else {
        *entry              = snug__handles_at(handles, handles->free_first);
        handles->free_first = (*entry)->next;
        if (handles->free_first == SNUG__NONE)
            handles->free_last = SNUG__NONE;
    }
    (*entry)->next         = SNUG__NONE;
    (*entry)->long_pins    = 0;
    (*entry)->pinned_at_ns = 0;
    (*entry)->moved_at_ns  = 0;
    return SNUG_OK;
}

bool snug__handles_pinned(const snug__handles *handles) {
    for (uint32_t i = 0; i < atomic_load(&handles->made); i++)
        if (atomic_load(&snug__handles_at(handles, i)->word) & SNUG__PINS)
            return true;
    return false;
}

void snug__handles_look(snug__handles *handles, snug__order *order) {
    uint32_t made = atomic_load(&handles->made);
    if (++handles->looks == SNUG__NONE)
        handles->looks = 1;
    for (snug_stream *slot = atomic_load(&order->made_last); slot; slot = slot->made_before)
        for (uint32_t i = 0, count = atomic_load(&slot->claims.count); i < count; i++) {
            snug_handle  handle = atomic_load(&slot->claims.handles[i]);
            snug__entry *entry  = snug__handles_at(handles, snug__handle_index(handle));
            /* dying, it may end, and use `next`, at any moment; else it takes the lock */
            if (snug__handle_index(handle) < made &&
                snug__word_status(atomic_load(&entry->word), snug__handle_generation(handle)) == SNUG_OK)
                entry->next = handles->looks;
        }
}

snug_handle snug__handles_name(const snug__handles *handles, const snug__entry *entry) {
    uint64_t word = atomic_load((_Atomic uint64_t *)&entry->word);
    return snug__handle_of(handles, entry, snug__word_generation(word));
}

snug_handle snug__handles_live(snug__handles *handles, snug__entry *entry) {
    snug__atomic_stamp_set(&entry->writers, SNUG__STAMP_NONE);
    snug__atomic_stamp_set(&entry->readers, SNUG__STAMP_NONE);
    uint64_t was = atomic_fetch_or(&entry->word, SNUG__LIVE);
    snug__assert_debug(!(was & ~((uint64_t)UINT32_MAX << SNUG__GENERATION | SNUG__CURRENT)));
    handles->live++;
    return snug__handles_name(handles, entry);
}

void snug__handles_give_back(snug__handles *handles, snug__entry *entry) {
    uint32_t index = snug__handles_index(handles, entry);
    if (snug__word_generation(atomic_load(&entry->word)) == 0) {
        handles->retired++;
        return;
    }
    entry->next = SNUG__NONE;
    if (handles->free_last == SNUG__NONE)
        handles->free_first = index;
    else
        snug__handles_at(handles, handles->free_last)->next = index;
    handles->free_last = index;
}

snug_status snug__word_status(uint64_t word, uint32_t generation) {
    uint32_t now = snug__word_generation(word);
    if (now == generation && (word & SNUG__LIVE))
        return word & SNUG__DYING ? SNUG_STALE : SNUG_OK;
    /* a word of generation 0 has been through them all */
    return generation != 0 && (now == 0 || generation < now) ? SNUG_STALE : SNUG_UNKNOWN;
}

/* ------------------------------------------------------------------------------------------------ words */

uint64_t snug__entry_thawed(snug__entry *entry) {
    uint64_t word;
    /* the mover enqueues a few dozen copies meanwhile; should it have lost its core, lend it this one */
    while ((word = atomic_load(&entry->word)) & SNUG__FROZEN)
        sched_yield();
    return word;
}

void snug__entry_hold(snug__entry *entry) {
    uint64_t was = atomic_load(&entry->word);
    while (!atomic_compare_exchange_weak(&entry->word, &was, (was + 1) & ~SNUG__MOVING))
        ;
}

/* Ends a dying generation that nobody holds; true: it was this call that did. */
static bool end(snug__order *order, snug__entry *entry, snug_handle handle) {
    uint32_t generation = snug__handle_generation(handle);
    uint64_t was        = atomic_load(&entry->word);
    while (snug__word_generation(was) == generation && (was & (SNUG__DYING | SNUG__PINS)) == SNUG__DYING) {
        if (snug__order_claimed(order, handle))
            return false;
        if (atomic_compare_exchange_weak(&entry->word, &was,
                                         (uint64_t)(generation + 1) << SNUG__GENERATION | (was & SNUG__CURRENT)))
            return true;
    }
    return false;
}

snug_status snug__entry_kill(snug__handles *handles, snug__order *order, snug_handle handle) {
    snug__entry *entry      = snug__handles_at(handles, snug__handle_index(handle));
    uint32_t     generation = snug__handle_generation(handle);
    uint64_t     was        = atomic_load(&entry->word);
    do {
        if ((was & SNUG__FROZEN) && snug__word_generation(was) == generation)
            return SNUG_TIMEOUT;
        snug_status status = snug__word_status(was, generation);
        if (status != SNUG_OK)
            return status;
    } while (!atomic_compare_exchange_weak(&entry->word, &was, (was | SNUG__DYING) & ~SNUG__MOVING));
    return end(order, entry, handle) ? SNUG_OK : SNUG_BUSY;
}

void snug__entry_end(snug__handles *handles, snug__order *order, snug_handle handle) {
    snug__entry *entry = snug__handles_at(handles, snug__handle_index(handle));
    if (end(order, entry, handle))
        snug__handles_push_dead(handles, entry);
}

static bool ours(uint64_t word, uint32_t generation) {
    return snug__word_generation(word) == generation && (word & (SNUG__LIVE | SNUG__DYING)) == SNUG__LIVE;
}

snug_status snug__entry_begin_move(snug__entry *entry, snug_handle handle, snug__order *order) {
    uint32_t generation = snug__handle_generation(handle);
    uint64_t was        = atomic_load(&entry->word);
    do {
        if (!ours(was, generation))
            return SNUG_STALE;
        if (was & SNUG__PINS)
            return SNUG_BUSY;
        snug__assert_debug(!(was & SNUG__MOVING)); /* one mover */
        if (snug__order_claimed(order, handle))    /* so as not to disturb its holders for nothing */
            return SNUG_BUSY;
    } while (!atomic_compare_exchange_weak(&entry->word, &was, was | SNUG__MOVING));
    if (!snug__order_claimed(order, handle))
        return SNUG_OK;
    snug__entry_give_up(entry, generation);
    return SNUG_BUSY;
}

snug_status snug__entry_freeze(snug__entry *entry, uint32_t generation) {
    uint64_t was = atomic_load(&entry->word);
    do {
        if (!ours(was, generation))
            return SNUG_STALE;
        if ((was & SNUG__PINS) || !(was & SNUG__MOVING))
            return SNUG_BUSY;
    } while (!atomic_compare_exchange_weak(&entry->word, &was, was | SNUG__FROZEN));
    return SNUG_OK;
}

snug_status snug__entry_publish(snug__entry *entry, uint32_t generation) {
    uint64_t was = atomic_load(&entry->word);
    do {
        if (!ours(was, generation) || !(was & SNUG__MOVING))
            return SNUG_STALE;
        if (was & SNUG__PINS)
            return SNUG_BUSY;
    } while (!atomic_compare_exchange_weak(&entry->word, &was, (was ^ SNUG__CURRENT) & ~(SNUG__MOVING | SNUG__FROZEN)));
    return SNUG_OK;
}

void snug__entry_give_up(snug__entry *entry, uint32_t generation) {
    uint64_t was = atomic_load(&entry->word);
    while (snug__word_generation(was) == generation && (was & (SNUG__MOVING | SNUG__FROZEN)))
        if (atomic_compare_exchange_weak(&entry->word, &was, was & ~(SNUG__MOVING | SNUG__FROZEN)))
            break;
}

/* ------------------------------------------------------------------------------------------------ dead list */

void snug__handles_push_dead(snug__handles *handles, snug__entry *entry) {
    uint32_t index = snug__handles_index(handles, entry);
    uint32_t first = atomic_load(&handles->dead);
    do
        entry->next = first;
    while (!atomic_compare_exchange_weak(&handles->dead, &first, index));
}

uint32_t snug__handles_pop_dead(snug__handles *handles) {
    if (atomic_load_explicit(&handles->dead, memory_order_relaxed) == SNUG__NONE)
        return SNUG__NONE;
    return atomic_exchange(&handles->dead, SNUG__NONE);
}

/* ------------------------------------------------------------------------------------------------ check */

const char *snug__handles_check(snug__handles *handles) {
    uint32_t made = atomic_load(&handles->made), live = 0, unused = 0;
    for (uint32_t i = 0; i < made; i++) {
        uint64_t word = atomic_load(&snug__handles_at(handles, i)->word);
        if (!(word & SNUG__LIVE) && (word & (SNUG__PINS | SNUG__LONG | SNUG__DYING | SNUG__MOVING | SNUG__FROZEN)))
            return "an entry that isn't live is pinned, dying or moving";
        if ((word & SNUG__DYING) && (word & SNUG__MOVING))
            return "a dying entry is moving";
        live += (word & SNUG__LIVE) != 0;
    }
    for (uint32_t i = handles->free_first; i != SNUG__NONE; i = snug__handles_at(handles, i)->next) {
        if (++unused > made || (atomic_load(&snug__handles_at(handles, i)->word) & SNUG__LIVE))
            return "the list of free entries is broken";
    }
    if (unused + live + handles->retired > made)
        return "an entry is both free and live";
    return NULL;
}
