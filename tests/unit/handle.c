/* handle.c - the table of handles: encoding, reuse, generations, pins, and the mover's part of the word. */
#include "tap.h"

#include "fixture.h"

static snug__handles h;
static snug__order   order; /* without streams: no claims */

static void table_of(uint32_t max, uint32_t generation_first) {
    if (snug__handles_open(&h, 9, max, generation_first) != SNUG_OK)
        bail_out("no table");
}

static snug__entry *entry_of(snug_handle handle) {
    return snug__handles_at(&h, snug__handle_index(handle));
}

static snug_handle birth(void) {
    snug__entry *entry;
    if (snug__handles_take(&h, &entry) != SNUG_OK)
        return 0;
    return snug__handles_live(&h, entry);
}

static snug_status death(snug_handle handle) {
    snug_status status = snug__entry_kill(&h, &order, handle);
    if (status == SNUG_OK) {
        h.live--;
        snug__handles_give_back(&h, entry_of(handle));
    }
    return status;
}

/* What the launch path does to name a handle's entry and pin it. */
static snug_status pin(snug_handle handle, bool write) {
    snug__entry *entry;
    uint64_t     word;
    snug_status  status = snug__handles_find(&h, handle, &entry);
    return status == SNUG_OK ? snug__entry_pin(entry, snug__handle_generation(handle), write, &word) : status;
}

static snug_status unpin(snug_handle handle, bool *last) {
    snug_status status = snug__entry_unpin(entry_of(handle), snug__handle_generation(handle), last);
    if (status == SNUG_OK && *last)
        snug__entry_end(&h, &order, handle);
    return status;
}

static uint64_t word_now(snug_handle handle) {
    return atomic_load(&entry_of(handle)->word);
}

/* ------------------------------------------------------------------------------------------------ names */

static void a_handle_is_tag_generation_index(void) {
    table_of(10, 5);
    snug_handle a = birth(), b = birth();
    is_hex(a, UINT64_C(9) << 56 | UINT64_C(5) << 24 | 0, "the first handle");
    is_hex(b, UINT64_C(9) << 56 | UINT64_C(5) << 24 | 1, "the second");
    is_u64(snug__handle_tag(b), 9, "its tag");
    is_u64(snug__handle_generation(b), 5, "its generation");
    is_u64(snug__handle_index(b), 1, "its index");
    is_hex(snug__handles_name(&h, entry_of(b)), b, "the entry tells its handle");
    is_u64(h.live, 2, "two are live");
    snug__handles_close(&h);
}

static void entries_are_reused_first_in_first_out(void) {
    table_of(10, 1);
    snug_handle a = birth(), b = birth(), c = birth();
    death(b);
    death(a);
    death(c);
    snug_handle d = birth(), e = birth(), f = birth(), g = birth();
    is_u64(snug__handle_index(d), snug__handle_index(b), "the first freed is the first used again");
    is_u64(snug__handle_index(e), snug__handle_index(a), "then the second");
    is_u64(snug__handle_index(f), snug__handle_index(c), "then the third");
    is_u64(snug__handle_index(g), 3, "then a new one");
    is_u64(snug__handle_generation(d), 2, "of the next generation");
    is_string(snug__handles_check(&h), NULL, "sound");
    snug__handles_close(&h);
}

static void every_wrong_handle_has_its_error(void) {
    table_of(10, 3);
    snug_handle a = birth(), old = birth();
    death(old);
    snug_handle again = birth();
    is_status(pin(0, true), SNUG_UNKNOWN, "no handle at all");
    is_status(pin(a + 5, true), SNUG_UNKNOWN, "an index never used");
    is_status(pin(a | 0xffffff, true), SNUG_UNKNOWN, "the highest index");
    is_status(pin(a ^ UINT64_C(1) << 56, true), SNUG_FOREIGN, "another tag");
    is_status(pin(old, true), SNUG_STALE, "a freed one");
    is_status(pin(again + (UINT64_C(1) << 24), true), SNUG_UNKNOWN, "a generation that isn't yet");
    is_status(pin((a & ~(UINT64_C(0xffffffff) << 24)), true), SNUG_UNKNOWN, "generation 0");
    is_status(pin(again, true), SNUG_OK, "the right one");
    is_status(death(old), SNUG_STALE, "freeing a freed one");
    is_u64(h.live, 2, "changes nothing");
    death(a);
    is_status(pin(a, true), SNUG_STALE, "freed and not reused: stale");
    snug__handles_close(&h);
}

static void a_full_table_says_so_until_something_is_freed(void) {
    table_of(3, 1);
    snug_handle  a = birth();
    snug__entry *entry;
    birth();
    birth();
    is_status(snug__handles_take(&h, &entry), SNUG_HANDLES, "the fourth of three");
    death(a);
    is_status(snug__handles_take(&h, &entry), SNUG_OK, "granted after a free");
    snug__handles_close(&h);
}

static void an_entry_given_back_unborn_keeps_its_generation(void) {
    table_of(3, 1);
    snug__entry *entry;
    snug__handles_take(&h, &entry);
    snug__handles_give_back(&h, entry);
    snug_handle a = birth();
    is_u64(snug__handle_index(a), 0, "the same entry");
    is_u64(snug__handle_generation(a), 1, "and generation: it was never issued");
    is_string(snug__handles_check(&h), NULL, "sound");
    snug__handles_close(&h);
}

/* ------------------------------------------------------------------------------------------------ the wrap: I7 */

static void a_generation_never_repeats(void) {
    enum { ENTRIES = 4, LIFETIMES = 5 };
    static snug_handle seen[ENTRIES * LIFETIMES * 2];
    size_t             n = 0, repeats = 0;
    table_of(ENTRIES, UINT32_MAX - (LIFETIMES - 1));
    for (snug_handle handle; (handle = birth()) != 0 && n < sizeof seen / sizeof seen[0]; n++) {
        for (size_t i = 0; i < n; i++)
            repeats += seen[i] == handle;
        seen[n] = handle;
        death(handle);
    }
    is_u64(n, ENTRIES * LIFETIMES, "each entry lives as often as it has generations left");
    is_u64(repeats, 0, "no handle comes twice");
    is_u64(h.retired, ENTRIES, "then all are retired");
    size_t alive = 0;
    for (size_t i = 0; i < n; i++)
        alive += pin(seen[i], true) != SNUG_STALE;
    is_u64(alive, 0, "all that were issued are stale");
    is_string(snug__handles_check(&h), NULL, "sound");
    snug__handles_close(&h);
}

static void a_pinned_last_generation_retires_too(void) {
    table_of(1, UINT32_MAX);
    snug_handle a    = birth();
    bool        last = false;
    pin(a, true);
    is_status(death(a), SNUG_BUSY, "freed while pinned");
    unpin(a, &last);
    ok(last, "the last unpin ends it");
    snug__handles_give_back(&h, entry_of(a));
    is_u64(h.retired, 1, "retired");
    is_status(pin(a, true), SNUG_STALE, "stale for good");
    is_u64(birth(), 0, "and never issued again");
    snug__handles_close(&h);
}

/* ------------------------------------------------------------------------------------------------ pins */

static void pins_are_counted(void) {
    table_of(3, 1);
    snug_handle a    = birth();
    bool        last = true;
    is_status(unpin(a, &last), SNUG_NOT_PINNED, "nothing to unpin");
    for (unsigned i = 0; i < 1000; i++)
        pin(a, i & 1);
    is_u64(word_now(a) & SNUG__PINS, 1000, "a thousand pins");
    for (unsigned i = 0; i < 1000; i++)
        unpin(a, &last);
    is_u64(word_now(a) & SNUG__PINS, 0, "and none");
    ok(!last, "the last unpin of a live one ends nothing");
    is_status(unpin(a, &last), SNUG_NOT_PINNED, "one too many");
    snug__handles_close(&h);
}

static void too_many_pins_are_refused(void) {
    table_of(3, 1);
    snug_handle a = birth();
    atomic_fetch_add(&entry_of(a)->word, SNUG__PINS - 1); /* all but one */
    is_status(pin(a, true), SNUG_OK, "the last one that can be counted");
    is_status(pin(a, true), SNUG_TOO_MANY_PINS, "one more");
    is_hex(word_now(a) & (SNUG__CURRENT | SNUG__PINS), SNUG__PINS, "hasn't overflowed");
    snug__handles_close(&h);
}

static void freed_while_pinned_it_dies_with_the_last_unpin(void) {
    table_of(3, 1);
    snug_handle a = birth();
    bool        last;
    pin(a, true);
    pin(a, false);
    is_status(death(a), SNUG_BUSY, "free: dying");
    is_status(pin(a, false), SNUG_STALE, "no new pins");
    is_status(death(a), SNUG_STALE, "no second free");
    is_status(unpin(a, &last), SNUG_OK, "one unpin");
    ok(!last, "isn't the last");
    is_status(unpin(a, &last), SNUG_OK, "the other");
    ok(last, "is");
    is_u64(snug__word_generation(word_now(a)), 2, "the generation has ended");
    is_status(unpin(a, &last), SNUG_STALE, "nothing more to unpin");
    snug__handles_close(&h);
}

typedef struct ending {
    snug_handle      handle;
    pthread_barrier_t *start;
    unsigned           unpins;
} ending;

static void *unpin_many_times(void *argument) {
    ending *e = argument;
    pthread_barrier_wait(e->start);
    for (unsigned i = 0; i < e->unpins; i++) {
        bool last = false;
        unpin(e->handle, &last);
    }
    return NULL;
}

static void a_generation_ends_exactly_once_whoever_races(void) {
    enum { THREADS = 4, PINS = 20 };
    table_of(100, 1);
    uint64_t rounds = tap_scaled(200), wrong = 0;
    for (uint64_t round = 0; round < rounds; round++) {
        snug_handle       a = birth();
        pthread_barrier_t start;
        pthread_t         threads[THREADS];
        ending            e = {a, &start, PINS};
        pthread_barrier_init(&start, NULL, THREADS + 1);
        for (unsigned i = 0; i < THREADS * PINS; i++)
            pin(a, i & 1);
        for (unsigned i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, unpin_many_times, &e);
        pthread_barrier_wait(&start);
        snug_status killed = death(a);
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&start);
        bool ended = snug__handles_pop_dead(&h) != SNUG__NONE;
        wrong += ended == (killed == SNUG_OK);
        if (ended)
            snug__handles_give_back(&h, entry_of(a));
    }
    is_u64(wrong, 0, "in %" PRIu64 " races of a free with the last unpins", rounds);
    snug__handles_close(&h);
}

/* ------------------------------------------------------------------------------------------------ moves */

static snug_status begin(snug_handle handle) {
    return snug__entry_begin_move(entry_of(handle), handle, &order);
}

static snug_handle moving(void) {
    snug_handle a = birth();
    snug__entry_begin_move(entry_of(a), a, &order);
    return a;
}

#define step(verb, handle) snug__entry_##verb(entry_of(handle), snug__handle_generation(handle))

static void publish_flips_the_location(void) {
    table_of(9, 1);
    snug_handle a = birth();
    is_status(begin(a), SNUG_OK, "begun");
    is_hex(word_now(a) & (SNUG__MOVING | SNUG__CURRENT), SNUG__MOVING, "moving, location 0");
    is_status(step(publish, a), SNUG_OK, "published");
    is_hex(word_now(a) & (SNUG__MOVING | SNUG__CURRENT), SNUG__CURRENT, "location 1");
    begin(a);
    is_status(step(publish, a), SNUG_OK, "and back");
    is_hex(word_now(a) & (SNUG__MOVING | SNUG__CURRENT), 0, "location 0");
    is_status(step(publish, a), SNUG_STALE, "nothing to publish");
    snug__handles_close(&h);
}

static void a_pinned_buffer_is_not_begun(void) {
    table_of(9, 1);
    snug_handle a = birth();
    bool        last;
    pin(a, false);
    is_status(begin(a), SNUG_BUSY, "pinned");
    unpin(a, &last);
    is_status(begin(a), SNUG_OK, "unpinned");
    snug_handle b = birth();
    death(b);
    is_status(begin(b), SNUG_STALE, "freed");
    snug__handles_close(&h);
}

static void a_writer_cancels_a_move(void) {
    table_of(9, 1);
    snug_handle a = moving();
    bool        last;
    pin(a, true);
    is_hex(word_now(a) & SNUG__MOVING, 0, "the pin clears MOVING");
    is_status(step(publish, a), SNUG_STALE, "so the publish fails while it is pinned");
    unpin(a, &last);
    is_status(step(publish, a), SNUG_STALE, "and also once it is released");
    is_hex(word_now(a) & SNUG__CURRENT, 0, "the location is what it was");
    is_status(begin(a), SNUG_OK, "another move may begin");
    snug__handles_close(&h);
}

static void a_reader_only_delays_a_publish(void) {
    table_of(9, 1);
    snug_handle a = moving();
    bool        last;
    pin(a, false);
    is_hex(word_now(a) & SNUG__MOVING, SNUG__MOVING, "a reading pin leaves MOVING");
    is_status(step(publish, a), SNUG_BUSY, "busy while it is pinned");
    is_hex(word_now(a) & (SNUG__MOVING | SNUG__CURRENT), SNUG__MOVING, "nothing has changed");
    unpin(a, &last);
    is_status(step(publish, a), SNUG_OK, "published after the release");
    snug__handles_close(&h);
}

static void a_free_cancels_a_move(void) {
    table_of(9, 1);
    snug_handle a = moving(), b = moving();
    is_status(death(a), SNUG_OK, "a moving buffer can be freed");
    is_status(step(publish, a), SNUG_STALE, "its publish fails");
    step(give_up, a);
    is_u64(snug__word_generation(word_now(a)), 2, "giving up leaves the next generation alone");
    pin(b, false);
    is_status(death(b), SNUG_BUSY, "one that a reader has pinned dies later");
    is_hex(word_now(b) & SNUG__MOVING, 0, "its move is cancelled all the same");
    is_status(step(publish, b), SNUG_STALE, "its publish fails too");
    is_string(snug__handles_check(&h), NULL, "sound");
    snug__handles_close(&h);
}

static void give_up_clears_the_mark(void) {
    table_of(9, 1);
    snug_handle a = moving(), b = moving();
    step(give_up, a);
    is_hex(word_now(a) & (SNUG__MOVING | SNUG__FROZEN), 0, "moving");
    step(freeze, b);
    step(give_up, b);
    is_hex(word_now(b) & (SNUG__MOVING | SNUG__FROZEN), 0, "frozen");
    snug_handle c = birth();
    pin(c, true);
    uint64_t before = word_now(c);
    step(give_up, c);
    is_hex(word_now(c), before, "neither");
    snug__handles_close(&h);
}

static void freeze_needs_a_move_without_pins(void) {
    table_of(9, 1);
    snug_handle a = moving(), b = birth(), c = moving(), d = moving();
    bool        last;
    is_status(step(freeze, b), SNUG_BUSY, "not moving");
    pin(a, false);
    is_status(step(freeze, a), SNUG_BUSY, "a reader is in it");
    unpin(a, &last);
    is_status(step(freeze, a), SNUG_OK, "free of pins");
    is_status(snug__entry_kill(&h, &order, a), SNUG_TIMEOUT, "a free has to wait for the thaw");
    is_status(snug__entry_kill(&h, &order, snug__handle_of(&h, entry_of(a), 0)), SNUG_UNKNOWN, "a wrong handle hasn't");
    is_status(step(publish, a), SNUG_OK, "publish");
    is_hex(word_now(a) & (SNUG__MOVING | SNUG__FROZEN | SNUG__CURRENT), SNUG__CURRENT, "thaws it");
    pin(c, true);
    is_status(step(freeze, c), SNUG_BUSY, "a cancelled move can't freeze");
    death(d);
    is_status(step(freeze, d), SNUG_STALE, "nor one of a freed buffer");
    snug__handles_close(&h);
}

static void *pin_once(void *argument) {
    snug_handle a = *(snug_handle *)argument;
    return (void *)(uintptr_t)pin(a, true);
}

static void a_pin_waits_for_the_thaw(void) {
    table_of(9, 1);
    snug_handle a = moving();
    pthread_t   thread;
    void       *status;
    step(freeze, a);
    pthread_create(&thread, NULL, pin_once, &a);
    nap_us(20000);
    is_u64(word_now(a) & SNUG__PINS, 0, "no pin while it is frozen");
    step(publish, a);
    pthread_join(thread, &status);
    is_status((snug_status)(uintptr_t)status, SNUG_OK, "pinned once it is thawed");
    is_hex(word_now(a) & (SNUG__PINS | SNUG__CURRENT), SNUG__CURRENT | 1, "at the new place");
    snug__handles_close(&h);
}

static void current_survives_free_and_reuse(void) {
    table_of(1, 1);
    snug_handle a = moving();
    step(publish, a);
    death(a);
    is_hex(word_now(a) & SNUG__CURRENT, SNUG__CURRENT, "freed, location 1 is still the current one");
    snug_handle b = birth();
    is_hex(word_now(b), UINT64_C(2) << 32 | SNUG__LIVE | SNUG__CURRENT, "reborn, too");
    bool last;
    pin(b, true);
    death(b);
    unpin(b, &last);
    is_hex(word_now(b), UINT64_C(3) << 32 | SNUG__CURRENT, "ended by an unpin, too");
    snug__handles_close(&h);
}

/* ------------------------------------------------------------------------------------------------ the dead list */

typedef struct pushes {
    uint32_t first, count;
} pushes;

static void *push_all(void *argument) {
    pushes *p = argument;
    for (uint32_t i = 0; i < p->count; i++)
        snug__handles_push_dead(&h, snug__handles_at(&h, p->first + i));
    return NULL;
}

static void the_dead_list_loses_and_doubles_nothing(void) {
    enum { THREADS = 4 };
    uint32_t each = (uint32_t)tap_scaled(20000), total = each * THREADS, wrong = 0;
    table_of(total, 1);
    for (uint32_t i = 0; i < total; i++)
        birth();
    unsigned char *seen = calloc(total, 1);
    pthread_t      threads[THREADS];
    pushes         p[THREADS];
    is_u64(snug__handles_pop_dead(&h), SNUG__NONE, "empty at first");
    for (uint32_t i = 0; i < THREADS; i++) {
        p[i] = (pushes){i * each, each};
        pthread_create(&threads[i], NULL, push_all, &p[i]);
    }
    for (uint32_t popped = 0, spins = 0; popped < total && spins < 100000000; spins++)
        for (uint32_t index = snug__handles_pop_dead(&h); index != SNUG__NONE; popped++) {
            seen[index]++;
            index = snug__handles_at(&h, index)->next;
        }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < total; i++)
        wrong += seen[i] != 1;
    is_u64(wrong, 0, "each of %u entries was popped once", total);
    is_u64(snug__handles_pop_dead(&h), SNUG__NONE, "empty in the end");
    free(seen);
    snug__handles_close(&h);
}

static void the_check_finds_planted_damage(void) {
    table_of(5, 1);
    snug_handle a = birth(), b = birth();
    is_string(snug__handles_check(&h), NULL, "sound before");
    death(b);
    atomic_fetch_or(&entry_of(b)->word, SNUG__MOVING);
    ok(snug__handles_check(&h) != NULL, "an entry that is free and moving");
    atomic_fetch_and(&entry_of(b)->word, ~SNUG__MOVING);
    atomic_fetch_or(&entry_of(a)->word, SNUG__MOVING | SNUG__DYING);
    ok(snug__handles_check(&h) != NULL, "an entry that is dying and moving");
    atomic_fetch_and(&entry_of(a)->word, ~(SNUG__MOVING | SNUG__DYING));
    atomic_fetch_or(&entry_of(b)->word, SNUG__LIVE);
    ok(snug__handles_check(&h) != NULL, "a live entry in the list of free ones");
    atomic_fetch_and(&entry_of(b)->word, ~SNUG__LIVE);
    entry_of(b)->next = snug__handle_index(b);
    ok(snug__handles_check(&h) != NULL, "a list of free entries that runs in a circle");
    snug__handles_close(&h);
}

int main(void) {
    a_handle_is_tag_generation_index();
    entries_are_reused_first_in_first_out();
    every_wrong_handle_has_its_error();
    a_full_table_says_so_until_something_is_freed();
    an_entry_given_back_unborn_keeps_its_generation();
    a_generation_never_repeats();
    a_pinned_last_generation_retires_too();
    pins_are_counted();
    too_many_pins_are_refused();
    freed_while_pinned_it_dies_with_the_last_unpin();
    a_generation_ends_exactly_once_whoever_races();
    publish_flips_the_location();
    a_pinned_buffer_is_not_begun();
    a_writer_cancels_a_move();
    a_reader_only_delays_a_publish();
    a_free_cancels_a_move();
    give_up_clears_the_mark();
    freeze_needs_a_move_without_pins();
    a_pin_waits_for_the_thaw();
    current_survives_free_and_reuse();
    the_dead_list_loses_and_doubles_nothing();
    the_check_finds_planted_damage();
    return done_testing();
}
