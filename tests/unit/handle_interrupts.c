/* handle_interrupts.c - the word when somebody comes between any two instructions: a signal does, on the very thread, so that it
 * needs neither luck nor a second core. Its handler pins the buffer, the next one unpins it; what it interrupts must try again
 * and come to an outcome that the contract allows. */
#include "tap.h"

#include "fixture.h"

#include <signal.h>
#include <sys/time.h>

static snug__handles         handles;
static snug__order           order; /* without streams: no claims */
static snug__entry          *entry, *other;
static volatile uint32_t     generation;
static volatile sig_atomic_t interrupts, pushes; /* so often it came; it is to push the other entry on the dead list */
static volatile bool         held, writing;      /* the handler has a pin; its pins are for writing */
static volatile uint32_t     held_generation;
static volatile unsigned     odd; /* what the contract doesn't allow */

static uint64_t word(void) {
    return atomic_load(&entry->word);
}

static snug_handle name(uint32_t of_generation) {
    return snug__handle_of(&handles, entry, of_generation);
}

static void toggle_pin(void) {
    bool     last = false;
    uint64_t now;
    if (held) {
        held = false;
        odd += snug__entry_unpin(entry, held_generation, &last) != SNUG_OK;
        if (last)
            snug__entry_end(&handles, &order, name(held_generation));
    } else if (!(word() & SNUG__FROZEN)) { /* it would wait for what it has interrupted */
        held            = snug__entry_pin(entry, generation, writing, &now) == SNUG_OK;
        held_generation = generation;
    }
}

static void interrupt(int number) {
    (void)number;
    interrupts++;
    if (!pushes) {
        toggle_pin();
    } else if (pushes == 1) {
        snug__handles_push_dead(&handles, other);
        pushes = 2;
    }
}

/* ------------------------------------------------------------------------------------------------ what is interrupted */

static uint64_t rounds, done; /* steps; those that came to what they were for */

static void step_publish(void) {
    unsigned slot = snug__word_current(word());
    if (snug__entry_begin_move(entry, name(generation), &order) != SNUG_OK)
        return;
    snug_status status = snug__entry_publish(entry, generation);
    odd += status != SNUG_OK && status != SNUG_BUSY && !(writing && status == SNUG_STALE);
    done += status == SNUG_OK;
    if (status != SNUG_OK)
        snug__entry_give_up(entry, generation);
    odd += (snug__word_current(word()) != slot) != (status == SNUG_OK);
    odd += (word() & SNUG__MOVING) != 0;
}

static void step_freeze(void) {
    if (snug__entry_begin_move(entry, name(generation), &order) != SNUG_OK)
        return;
    snug_status status = snug__entry_freeze(entry, generation);
    odd += status != SNUG_OK && status != SNUG_BUSY;
    odd += status == SNUG_OK && (word() & (SNUG__FROZEN | SNUG__MOVING | SNUG__PINS)) != (SNUG__FROZEN | SNUG__MOVING);
    done += status == SNUG_OK;
    snug__entry_give_up(entry, generation);
    odd += (word() & (SNUG__FROZEN | SNUG__MOVING)) != 0;
}

static void step_give_up(void) {
    unsigned slot = snug__word_current(word());
    if (snug__entry_begin_move(entry, name(generation), &order) != SNUG_OK)
        return;
    snug__entry_give_up(entry, generation);
    odd += (word() & SNUG__MOVING) != 0 || snug__word_current(word()) != slot;
    done++;
}

static void step_pin(void) {
    uint64_t now;
    bool     last = false;
    odd += snug__entry_pin(entry, generation, writing, &now) != SNUG_OK;
    uint64_t pins = word() & SNUG__PINS;
    odd += pins < 1 || pins > 2;
    odd += snug__entry_unpin(entry, generation, &last) != SNUG_OK || last;
    done++;
}

/* Every generation ends once: at once, or, while the handler has it pinned, with that pin. */
static void step_kill(void) {
    snug_status status = snug__entry_kill(&handles, &order, name(generation));
    odd += status != SNUG_OK && status != SNUG_BUSY;
    done += status == SNUG_OK;
    if (status == SNUG_BUSY)
        while (snug__handles_pop_dead(&handles) == SNUG__NONE)
            nap_us(1);
    odd += snug__word_generation(word()) != generation + 1 || (word() & (SNUG__LIVE | SNUG__DYING | SNUG__PINS));
    handles.live--;
    snug__entry *again;
    snug__handles_give_back(&handles, entry);
    if (snug__handles_take(&handles, &again) != SNUG_OK || again != entry)
        bail_out("not taken again");
    generation = snug__handle_generation(snug__handles_live(&handles, entry));
}

/* Both end up on the list, whoever was first. */
static void step_push(void) {
    unsigned found = 0, index;
    pushes         = 1;
    snug__handles_push_dead(&handles, entry);
    bool both = pushes == 2;
    pushes    = 3;
    for (index = snug__handles_pop_dead(&handles); index != SNUG__NONE && found < 3; found++) {
        odd += index != snug__handles_index(&handles, entry) && index != snug__handles_index(&handles, other);
        index = snug__handles_at(&handles, index)->next;
    }
    odd += found != 2 && (both || found != 1); /* the other may have come just after it was looked for */
    done += both;
}

/* ------------------------------------------------------------------------------------------------ the storm */

static void interrupts_begin(void) {
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    struct itimerval often  = {{0, 20}, {0, 20}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

static void interrupts_end(void) {
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN); /* one may be on its way */
}

static void storm(void (*step)(void), bool write, const char *name) {
    if (snug__handles_open(&handles, 5, 100, 1) != SNUG_OK || snug__handles_take(&handles, &entry) != SNUG_OK ||
        snug__handles_take(&handles, &other) != SNUG_OK)
        bail_out("no memory for handles");
    generation = snug__handle_generation(snug__handles_live(&handles, entry));
    rounds = done = 0;
    interrupts = pushes = 0;
    odd                 = 0;
    held                = false;
    writing             = write;
    uint64_t     until  = clock_ns() + 1000000000;
    sig_atomic_t wanted = (sig_atomic_t)tap_scaled(4000) + 1000;
    interrupts_begin();
    while (interrupts < wanted && (++rounds % 256 || clock_ns() < until))
        step();
    interrupts_end();
    pushes = 0;
    if (held)
        toggle_pin();
    is_u64(odd, 0, "%s, interrupted %d times: every outcome is one of the contract's", name, (int)interrupts);
    ok(interrupts > 0 && done > 0, "  %" PRIu64 " of %" PRIu64 " came to their end", done, rounds);
    is_hex(word() & (SNUG__PINS | SNUG__MOVING | SNUG__FROZEN | SNUG__DYING), 0, "  nothing is left in the word");
    is_string(snug__handles_check(&handles), NULL, "  the table is sound");
    snug__handles_close(&handles);
}

int main(void) {
    storm(step_publish, false, "publishing among readers");
    storm(step_publish, true, "publishing among writers");
    storm(step_freeze, false, "freezing among readers");
    storm(step_freeze, true, "freezing among writers");
    storm(step_give_up, true, "giving up among writers");
    storm(step_pin, false, "pinning");
    storm(step_kill, true, "freeing");
    storm(step_push, false, "pushing on the dead list");
    return done_testing();
}
