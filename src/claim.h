/* claim.h: what a stream has resolved and not yet released: a list of handles, one a stream.
 *
 * A claim holds a buffer as a pin in its word does (handle.h), but writes to the stream's own list instead of to the entry: so
 * launches that read the same buffers don't fight for the entries' lines, and n handles cost one fence, not n. Holders and
 * those that may find no holder look at each other as in Dekker's algorithm:
 *   a resolve adds its claims, then looks at every word: it must be live and neither DYING, MOVING nor FROZEN; else it takes
 *   the claims back and pins, by changing the word;
 *   a move sets MOVING, a free sets DYING, and then looks through all lists.
 * At least one of the two sees the other (tests/model/claims.pml). So while MOVING is set there are pins only, and a dying
 * buffer's last holder, whether pin or claim, finds DYING when it has let go.
 *
 * A list is changed by one thread at a time, which has its busy flag, for some instructions; streams are seldom shared by
 * threads. A resolve that finds it set pins instead; only a release waits. Looking through a list takes nothing. */
#ifndef SNUG__CLAIM_H
#define SNUG__CLAIM_H

#include <snug.h>

#include <stdatomic.h>
#include <stdbool.h>

enum { SNUG__CLAIMS_MAX = 256 };

typedef struct snug__claims {
    _Alignas(64) _Atomic uint32_t busy, count;
    _Atomic uint64_t handles[SNUG__CLAIMS_MAX]; /* those below count; 0: released before a later one */
} snug__claims;

/* False: somebody else has it, or, so far, there is no room for n more. */
static inline bool snug__claims_try(snug__claims *claims, size_t n) {
    uint32_t idle = 0;
    if (n > SNUG__CLAIMS_MAX - atomic_load_explicit(&claims->count, memory_order_relaxed) ||
        !atomic_compare_exchange_strong_explicit(&claims->busy, &idle, 1, memory_order_acquire, memory_order_relaxed))
        return false;
    if (n <= SNUG__CLAIMS_MAX - atomic_load_explicit(&claims->count, memory_order_relaxed))
        return true;
    atomic_store_explicit(&claims->busy, 0, memory_order_release);
    return false;
}

void snug__claims_wait(snug__claims *claims);

static inline void snug__claims_done(snug__claims *claims) {
    atomic_store_explicit(&claims->busy, 0, memory_order_release);
}

/* The fence between the claims and the words that are looked at next: setting the count is it. */
static inline void snug__claims_add(snug__claims *claims, const snug_handle *handles, size_t n) {
    uint32_t count = atomic_load_explicit(&claims->count, memory_order_relaxed);
    for (size_t i = 0; i < n; i++)
        atomic_store_explicit(&claims->handles[count + i], handles[i], memory_order_relaxed);
    atomic_exchange(&claims->count, count + (uint32_t)n);
}

/* The last n claims; NULL: there aren't so many. */
static inline const _Atomic uint64_t *snug__claims_last(const snug__claims *claims, size_t n) {
    uint32_t count = atomic_load_explicit(&claims->count, memory_order_relaxed);
    return n <= count ? &claims->handles[count - n] : NULL;
}

/* The last n go. Again a fence: whoever lets go looks for DYING next. */
static inline void snug__claims_pop(snug__claims *claims, size_t n) {
    atomic_exchange(&claims->count, atomic_load_explicit(&claims->count, memory_order_relaxed) - (uint32_t)n);
}

/* The position of a claim of the handle, the latest; SNUG__CLAIMS_MAX: there is none. */
uint32_t snug__claims_find(const snug__claims *claims, snug_handle handle);

/* The claim at that position goes; a fence too. */
void snug__claims_drop(snug__claims *claims, uint32_t position);

/* How many claims of the handle there are. Any thread, nothing taken. */
uint32_t snug__claims_count(snug__claims *claims, snug_handle handle);

#endif
