/* handle.h: the table of handles: words, generations, pins, the move bit.
 *
 * handle = tag (8) | generation (32) | index (24). An entry's word is the one truth about it:
 *   generation (32) | LIVE | DYING | FROZEN | MOVING | CURRENT | LONG | pins (26)
 * It is changed by sequentially consistent read-modify-write only, and never rebuilt: CURRENT, which of the two locations is
 * valid, survives even a free, since a mover that has lost its race may still be filling the other one.
 *   LIVE     the generation in the word is allocated
 *   DYING    freed while held: no new holders, the last to let go ends the generation
 *   MOVING   a mover is copying it; cleared by a pin for writing and by a free, which cancels the move
 *   LONG     one of the pins stands for all long ones: only unpin takes it away, no release without a resolve
 *   FROZEN   a mover is enqueuing copies over the buffer itself; a pin or free waits, for the enqueuing only
 *
 * A launch holds a buffer by a claim in its stream's list (claim.h), or, where a mover or a free is at it, by a pin here.
 *
 * Entries never move; a launch touches the first of an entry's two cache lines. The stamps of users belong to the entry, not
 * to a location, and no move resets them: what used the old place then also counts against the new one until it settles.
 * Everything but pin and unpin is called under the pool's lock, or by the one mover of the pool where it says so.
 * Invariants here: I7, and the pins of I4. */
#ifndef SNUG__HANDLE_H
#define SNUG__HANDLE_H

#include "assert.h"
#include "order.h"
#include "table.h"

#define SNUG__NONE  UINT32_MAX /* no index, no node, no offset */
#define SNUG__NEVER UINT64_MAX /* no epoch */

#define SNUG__INDEX_BITS  24
#define SNUG__HANDLES_MAX ((UINT32_C(1) << SNUG__INDEX_BITS) - 1)

#define SNUG__PINS       UINT64_C(0x03ffffff)
#define SNUG__LONG       (UINT64_C(1) << 26)
#define SNUG__CURRENT    (UINT64_C(1) << 27)
#define SNUG__MOVING     (UINT64_C(1) << 28)
#define SNUG__FROZEN     (UINT64_C(1) << 29)
#define SNUG__DYING      (UINT64_C(1) << 30)
#define SNUG__LIVE       (UINT64_C(1) << 31)
#define SNUG__GENERATION 32 /* shift */

typedef struct snug__entry {
    _Alignas(64) _Atomic uint64_t word;
    _Atomic uint32_t   offset[2];      /* in granules; SNUG__NONE: no bytes */
    _Atomic uint64_t   ready_epoch[2]; /* with ready_mask: what must have run before the contents are in place */
    snug__atomic_stamp writers, readers;
    /* second line: not touched by a launch, but for ready_mask while it isn't settled */
    _Atomic uint64_t ready_mask[2];
    _Atomic uint64_t size;         /* as requested */
    uint64_t         pinned_at_ns; /* the oldest long pin */
    uint64_t         moved_at_ns;
    uint32_t         range; /* node in the map; SNUG__NONE for size 0 */
    uint32_t         next; /* in the list of free entries, or of dead ones; live: the last look that found it claimed */
    uint32_t         long_pins;
    uint16_t         tag;
    uint8_t          alignment_log2;
    uint8_t          flags; /* SNUG_ALLOC_LONG_PINNED, SNUG_ALLOC_IMMOVABLE */
    _Atomic uint64_t
        table_epoch; /* from which on the address table is right for all; SNUG__NEVER: not written since it moved */
} snug__entry;

_Static_assert(sizeof(snug__entry) == 128, "an entry is two cache lines");

typedef struct snug__handles {
    snug__table      table;
    uint32_t         tag;
    uint32_t         max;                   /* entries at most */
    _Atomic uint32_t made;                  /* entries ever used */
    uint32_t         free_first, free_last; /* first in, first out, so that generations advance evenly */
    _Atomic uint32_t dead;                  /* entries whose last unpin ended them, to be given back */
    uint32_t         live, retired;
    uint32_t         generation_first;
    uint32_t         looks; /* for claims, see snug__handles_look */
} snug__handles;

snug_status snug__handles_open(snug__handles *handles, uint32_t tag, uint32_t max, uint32_t generation_first);
void        snug__handles_close(snug__handles *handles);
/* A generation, at least floor, from which on no handle has been issued; 0: there is none. */
uint32_t snug__handles_unused_generation(snug__handles *handles, uint32_t floor);

static inline snug__entry *snug__handles_at(const snug__handles *handles, uint32_t index) {
    return (snug__entry *)(void *)handles->table.base + index;
}
static inline uint32_t snug__handles_index(const snug__handles *handles, const snug__entry *entry) {
    return (uint32_t)(entry - (const snug__entry *)(const void *)handles->table.base);
}
static inline uint32_t snug__handle_index(snug_handle handle) {
    return (uint32_t)handle & SNUG__HANDLES_MAX;
}
static inline uint32_t snug__handle_generation(snug_handle handle) {
    return (uint32_t)(handle >> SNUG__INDEX_BITS);
}
static inline uint32_t snug__handle_tag(snug_handle handle) {
    return (uint32_t)(handle >> 56);
}
static inline uint32_t snug__word_generation(uint64_t word) {
    return (uint32_t)(word >> SNUG__GENERATION);
}
static inline unsigned snug__word_current(uint64_t word) {
    return (word & SNUG__CURRENT) != 0;
}

static inline snug_handle snug__handle_of(const snug__handles *handles, const snug__entry *entry, uint32_t generation) {
    return (uint64_t)handles->tag << 56 | (uint64_t)generation << SNUG__INDEX_BITS |
           snug__handles_index(handles, entry);
}

/* A fresh entry that is not live yet: location CURRENT to be filled, then live. Until then its stamps, and the
 * location's, tell what used the entry's last buffer. HANDLES: the table is full. NO_MEMORY. */
snug_status snug__handles_take(snug__handles *handles, snug__entry **entry);
/* Makes it live, used by nobody yet, and tells its handle. */
snug_handle snug__handles_live(snug__handles *handles, snug__entry *entry);
/* Gives an entry back that is no longer live, or never was. Retires it if its generations are used up (I7). */
void snug__handles_give_back(snug__handles *handles, snug__entry *entry);

/* Is anything pinned? */
bool snug__handles_pinned(const snug__handles *handles);

/* Under lock: notes which live entries are claimed, for snug__entry_held. */
void snug__handles_look(snug__handles *handles, snug__order *order);

/* Is it pinned, or was it claimed at the last look? Its word is given. */
static inline bool snug__entry_held(const snug__handles *handles, const snug__entry *entry, uint64_t word) {
    return (word & SNUG__PINS) || entry->next == handles->looks;
}

/* The handle of a live entry. */
snug_handle snug__handles_name(const snug__handles *handles, const snug__entry *entry);

/* The entry that a handle points at, whatever its state. UNKNOWN: no such index; FOREIGN: another pool's tag. */
static inline snug_status snug__handles_find(const snug__handles *handles, snug_handle handle, snug__entry **entry) {
    uint32_t index = snug__handle_index(handle);
    if (snug__unlikely(snug__handle_tag(handle) != handles->tag))
        return snug__handle_tag(handle) == 0 ? SNUG_UNKNOWN : SNUG_FOREIGN;
    if (snug__unlikely(index >= atomic_load_explicit(&handles->made, memory_order_acquire)))
        return SNUG_UNKNOWN;
    *entry = snug__handles_at(handles, index);
    return SNUG_OK;
}

/* What a word says of a handle of this generation: OK (live and not dying), STALE, UNKNOWN (never issued). */
snug_status snug__word_status(uint64_t word, uint32_t generation);

/* The word once it isn't FROZEN. */
uint64_t snug__entry_thawed(snug__entry *entry);

/* Pins: generation must match and live. write cancels a move. Waits while FROZEN. *word: as it has become. */
static inline snug_status snug__entry_pin(snug__entry *entry, uint32_t generation, bool write, uint64_t *word) {
    uint64_t was = atomic_load_explicit(&entry->word, memory_order_relaxed);
    for (;;) {
        if (snug__unlikely(snug__word_generation(was) != generation ||
                           (was & (SNUG__LIVE | SNUG__DYING)) != SNUG__LIVE))
            return snug__word_status(was, generation);
        if (snug__unlikely(was & SNUG__FROZEN)) {
            was = snug__entry_thawed(entry);
            continue;
        }
        if (snug__unlikely((was & SNUG__PINS) == SNUG__PINS))
            return SNUG_TOO_MANY_PINS;
        *word = (was + 1) & ~(write ? SNUG__MOVING : 0);
        if (snug__likely(atomic_compare_exchange_weak(&entry->word, &was, *word)))
            return SNUG_OK;
    }
}

/* Unpins. *last: it was the last pin of a dying buffer, which snug__entry_end is for. NOT_PINNED, STALE, UNKNOWN. */
static inline snug_status snug__entry_unpin(snug__entry *entry, uint32_t generation, bool *last) {
    uint64_t was = atomic_load_explicit(&entry->word, memory_order_relaxed);
    do {
        if (snug__unlikely(snug__word_generation(was) != generation || !(was & SNUG__LIVE)))
            return snug__word_status(was, generation);
        if (snug__unlikely((was & SNUG__PINS) == ((was & SNUG__LONG) != 0)))
            return SNUG_NOT_PINNED;
        *last = (was & (SNUG__PINS | SNUG__DYING)) == (1 | SNUG__DYING);
    } while (snug__unlikely(!atomic_compare_exchange_weak(&entry->word, &was, was - 1)));
    return SNUG_OK;
}

/* One of the caller's pins becomes the long one, or stops being it; under the pool's lock. */
static inline void snug__entry_set_long(snug__entry *entry, bool on) {
    if (on)
        atomic_fetch_or(&entry->word, SNUG__LONG);
    else
        atomic_fetch_and(&entry->word, ~SNUG__LONG);
}

/* A claim becomes a pin, dying or not. Cancels a move: the mover that set MOVING may look at the list when the claim has gone. */
void snug__entry_hold(snug__entry *entry);

/* Frees: OK (dead at once; its range is the caller's to give back), BUSY (held: dying, the last to let go ends it), STALE,
 * UNKNOWN. TIMEOUT: FROZEN; to be tried again once thawed, and not with the pool's lock held meanwhile: the mover needs it. */
snug_status snug__entry_kill(snug__handles *handles, snug__order *order, snug_handle handle);

/* For whoever has let go of a dying buffer: ends its generation, if nobody holds it any more, and puts the entry on the list
 * of dead ones. Any thread, no lock. */
void snug__entry_end(snug__handles *handles, snug__order *order, snug_handle handle);

/* The mover's steps. begin: held by nobody -> MOVING, or BUSY, STALE. freeze: {pins 0, MOVING} -> FROZEN too, or BUSY.
 * publish: {pins 0, MOVING} -> CURRENT flipped, MOVING and FROZEN gone; BUSY while only readers pin it; STALE once cancelled
 * or freed. give_up: MOVING gone if it was there. */
snug_status snug__entry_begin_move(snug__entry *entry, snug_handle handle, snug__order *order);
snug_status snug__entry_freeze(snug__entry *entry, uint32_t generation);
snug_status snug__entry_publish(snug__entry *entry, uint32_t generation);
void        snug__entry_give_up(snug__entry *entry, uint32_t generation);

void snug__handles_push_dead(snug__handles *handles, snug__entry *entry); /* any thread, no lock */
/* Takes the whole list: the first entry's index, linked by next; SNUG__NONE: empty. */
uint32_t snug__handles_pop_dead(snug__handles *handles);

/* The stamps of the valid location; for one that is not pinned and under the lock, or one's own. */
static inline snug__stamp snug__entry_ready(snug__entry *entry, unsigned slot) {
    return (snug__stamp){atomic_load_explicit(&entry->ready_mask[slot], memory_order_relaxed),
                         atomic_load_explicit(&entry->ready_epoch[slot], memory_order_relaxed)};
}

static inline void snug__entry_fill(snug__entry *entry, unsigned slot, uint32_t offset, snug__stamp ready) {
    atomic_store_explicit(&entry->offset[slot], offset, memory_order_relaxed);
    atomic_store_explicit(&entry->ready_mask[slot], ready.mask, memory_order_relaxed);
    atomic_store_explicit(&entry->ready_epoch[slot], ready.epoch, memory_order_relaxed);
    atomic_store_explicit(&entry->table_epoch, SNUG__NEVER, memory_order_relaxed);
}

static inline snug__stamp snug__entry_users(snug__order *order, snug__entry *entry) {
    return snug__order_unite(order, snug__atomic_stamp_get(&entry->writers), snug__atomic_stamp_get(&entry->readers));
}

/* Everything that may still touch the entry's present range: the fence with which the range is freed. */
static inline snug__stamp snug__entry_fence(snug__order *order, snug__entry *entry, unsigned slot) {
    return snug__order_unite(order, snug__entry_ready(entry, slot), snug__entry_users(order, entry));
}

/* Returns what is broken, or NULL. */
const char *snug__handles_check(snug__handles *handles);

#endif
