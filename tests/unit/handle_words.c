/* handle_words.c - the word under contention: one thread does what the mover does, another pins and unpins between any two of
 * its instructions; each outcome is one that the contract allows, and in the end the word says what was done. */
#include "tap.h"

#include "fixture.h"

enum { ROUNDS = 100000, TRIES_MAX = 100000000 };

static snug__handles    handles;
static snug__order      order; /* without streams: no claims */
static snug__entry     *entry;
static uint32_t         generation;
static _Atomic uint32_t target;               /* the generation that the other thread pins; 0: it is to stop */
static _Atomic uint64_t pinned, refused, odd; /* by the other thread */
static _Atomic bool     writing;              /* its pins are for writing */

static void open_handles(void) {
    if (snug__handles_open(&handles, 5, 100, 1) != SNUG_OK || snug__handles_take(&handles, &entry) != SNUG_OK)
        bail_out("no memory for handles");
    generation = snug__handle_generation(snug__handles_live(&handles, entry));
}

static uint64_t word(void) {
    return atomic_load(&entry->word);
}

static snug_handle name(uint32_t of_generation) {
    return snug__handle_of(&handles, entry, of_generation);
}

/* A pin that is granted is taken back; one that isn't must be of a generation that has ended. */
static void *pin_and_unpin(void *argument) {
    uint32_t g;
    dice     d = {1};
    (void)argument;
    while ((g = atomic_load(&target)) != 0) {
        uint64_t    now    = 0;
        bool        last   = false;
        snug_status status = snug__entry_pin(entry, g, atomic_load(&writing), &now);
        if (status != SNUG_OK) {
            refused++;
            odd += status != SNUG_STALE;
            continue;
        }
        pinned++;
        odd += (now & (SNUG__FROZEN | SNUG__DYING)) != 0 || (atomic_load(&writing) && (now & SNUG__MOVING));
        odd += snug__entry_unpin(entry, g, &last) != SNUG_OK;
        if (last)
            snug__entry_end(&handles, &order, name(g));
        for (volatile unsigned rest = dice_below(&d, 40); rest > 0; rest--)
            ; /* else it is hardly ever seen without a pin */
    }
    return NULL;
}

static pthread_t start(bool write) {
    pthread_t thread;
    pinned = refused = odd = 0;
    atomic_store(&writing, write);
    atomic_store(&target, generation);
    if (pthread_create(&thread, NULL, pin_and_unpin, NULL) != 0)
        bail_out("no thread");
    while (atomic_load(&pinned) < 10)
        sched_yield();
    return thread;
}

static void stop(pthread_t thread) {
    atomic_store(&target, 0);
    pthread_join(thread, NULL);
    is_u64(odd, 0, "  the other thread pinned %" PRIu64 " times, always as the contract has it", (uint64_t)pinned);
    is_hex(word() & (SNUG__PINS | SNUG__MOVING | SNUG__FROZEN | SNUG__DYING), 0, "  nothing is left in the word");
    is_string(snug__handles_check(&handles), NULL, "  the table is sound");
}

static uint64_t rounds(void) {
    return tap_scaled(ROUNDS) + ROUNDS / 10;
}

/* Until a moment without a pin. False: there is none to be had. */
static bool begun(void) {
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        snug_status status = snug__entry_begin_move(entry, name(generation), &order);
        if (status != SNUG_BUSY)
            return status == SNUG_OK;
        if (tries % 256 == 255)
            sched_yield();
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------ moves */

/* Readers let a move be published or keep it from that; writers also cancel it. */
static void moves_among(bool writers) {
    uint64_t published = 0, wrong = 0, flips = 0;
    open_handles();
    pthread_t thread = start(writers);
    for (uint64_t i = 0; i < rounds() && begun(); i++) {
        unsigned    slot   = snug__word_current(word());
        snug_status status = snug__entry_publish(entry, generation);
        wrong += status != SNUG_OK && status != SNUG_BUSY && !(writers && status == SNUG_STALE);
        published += status == SNUG_OK;
        if (status != SNUG_OK)
            snug__entry_give_up(entry, generation);
        flips += snug__word_current(word()) != slot;
    }
    stop(thread);
    is_u64(wrong, 0, "moves among %s: every outcome is one of those", writers ? "writers" : "readers");
    is_u64(flips, published, "  the location changed with every publish, and with nothing else");
    ok(published > 0, "  %" PRIu64 " of %" PRIu64 " were published", published, rounds());
    snug__handles_close(&handles);
}

static void freezes_among(bool writers) {
    uint64_t frozen = 0, wrong = 0, cancelled = 0;
    open_handles();
    pthread_t thread = start(writers);
    for (uint64_t i = 0; i < rounds() && begun(); i++) {
        snug_status status = snug__entry_freeze(entry, generation);
        wrong += status != SNUG_OK && status != SNUG_BUSY;
        if (status == SNUG_OK) {
            frozen++;
            wrong += (word() & (SNUG__FROZEN | SNUG__MOVING | SNUG__PINS)) != (SNUG__FROZEN | SNUG__MOVING);
            if (i % 2)
                wrong += snug__entry_publish(entry, generation) != SNUG_OK; /* nobody can have come between */
        } else {
            cancelled++;
        }
        snug__entry_give_up(entry, generation);
    }
    stop(thread);
    is_u64(wrong, 0, "freezes among %s: what is frozen isn't pinned, and can be published",
           writers ? "writers" : "readers");
    ok(frozen > 0, "  %" PRIu64 " frozen, %" PRIu64 " not", frozen, cancelled);
    snug__handles_close(&handles);
}

static void begun_and_given_up_among_readers(void) {
    uint64_t wrong = 0, i = 0;
    open_handles();
    unsigned  slot   = snug__word_current(word());
    pthread_t thread = start(false);
    for (; i < rounds() && begun(); i++) {
        wrong += !(word() & SNUG__MOVING); /* no reader takes it away */
        snug__entry_give_up(entry, generation);
        wrong += (word() & SNUG__MOVING) != 0;
    }
    stop(thread);
    is_u64(wrong, 0, "begun and given up among readers: MOVING is there, and then it isn't");
    ok(i > 0 && snug__word_current(word()) == slot, "  in %" PRIu64 " rounds the location never changed", i);
    snug__handles_close(&handles);
}

/* ------------------------------------------------------------------------------------------------ frees */

/* Every generation ends once: by its free, or, while it is pinned, by its last unpin. */
static void frees_among_pins(void) {
    uint64_t at_once = 0, deferred = 0, wrong = 0;
    open_handles();
    pthread_t thread = start(true);
    for (uint64_t i = 0; i < rounds(); i++) {
        snug_status status = snug__entry_kill(&handles, &order, name(generation));
        wrong += status != SNUG_OK && status != SNUG_BUSY;
        at_once += status == SNUG_OK;
        deferred += status == SNUG_BUSY;
        if (status == SNUG_BUSY)
            while (snug__handles_pop_dead(&handles) == SNUG__NONE)
                sched_yield();
        wrong += snug__word_generation(word()) != generation + 1 || (word() & (SNUG__LIVE | SNUG__DYING | SNUG__PINS));
        wrong += snug__entry_kill(&handles, &order, name(generation)) != SNUG_STALE;
        handles.live--;
        snug__handles_give_back(&handles, entry);
        snug__entry *again;
        if (snug__handles_take(&handles, &again) != SNUG_OK || again != entry)
            bail_out("not taken again");
        generation = snug__handle_generation(snug__handles_live(&handles, entry));
        atomic_store(&target, generation);
    }
    stop(thread);
    is_u64(wrong, 0, "frees among pins: every generation ended once");
    ok(at_once > 0, "  %" PRIu64 " at once, %" PRIu64 " by the last unpin", at_once, deferred);
    snug__handles_close(&handles);
}

/* ------------------------------------------------------------------------------------------------ the check */

static void the_check_counts_entries(void) {
    open_handles();
    is_string(snug__handles_check(&handles), NULL, "a sound table");
    handles.retired++;
    is_string(snug__handles_check(&handles), "an entry is both free and live", "one that counts an entry twice");
    handles.retired--;
    is_string(snug__handles_check(&handles), NULL, "a sound one again");
    snug__handles_close(&handles);
}

int main(void) {
    moves_among(false);
    moves_among(true);
    freezes_among(false);
    freezes_among(true);
    begun_and_given_up_among_readers();
    frees_among_pins();
    the_check_counts_entries();
    return done_testing();
}
