/* sim_span.c - the sim device's map of spans, against an array that holds the words of every offset. */
#include "tap.h"

#include "sim/span.h"

enum { LIMIT = 20000 };

static uint64_t seed_state;

static uint64_t roll(void) { /* splitmix64 */
    uint64_t z = seed_state += UINT64_C(0x9e3779b97f4a7c15);
    z          = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static snug__spans spans;
static uint8_t     model[LIMIT + 1]; /* words.a; beyond the last all is 0 */

static uint64_t model_spans(void) {
    uint64_t n = 1;
    for (unsigned i = 1; i <= LIMIT; i++)
        n += model[i] != model[i - 1];
    return n;
}

static bool same_as_model(void) {
    snug__place place = snug__spans_find(&spans, 0);
    for (unsigned at = 0; at <= LIMIT; at++) {
        while (snug__spans_end(&spans, place) <= at)
            snug__spans_next(&spans, &place);
        if (snug__spans_at(&spans, place)->words.a != model[at])
            return false;
    }
    return true;
}

static void put(unsigned from, unsigned to, uint8_t value) {
    if (!snug__spans_set(&spans, from, to, (snug__words){value, value, 0}))
        bail_out("no memory");
    memset(model + from, value, to - from);
}

static void random_sets(uint64_t seed, unsigned length_max, uint64_t values) {
    unsigned faults = 0, steps = (unsigned)tap_scaled(20000);
    seed_state = seed;
    memset(model, 0, sizeof model);
    if (!snug__spans_open(&spans))
        bail_out("no memory");
    for (unsigned step = 0; step < steps; step++) {
        unsigned from = (unsigned)(roll() % LIMIT),
                 n    = 1 + (unsigned)(roll() % (step % 1000 == 999 ? LIMIT : length_max));
        put(from, from + n < LIMIT ? from + n : LIMIT, (uint8_t)(roll() % values));
        unsigned    at    = (unsigned)(roll() % LIMIT);
        snug__place place = snug__spans_find(&spans, at);
        faults += snug__spans_at(&spans, place)->start > at || snug__spans_end(&spans, place) <= at;
        faults += snug__spans_at(&spans, place)->words.a != model[at];
        if (step % 500 == 0)
            faults += !same_as_model() || snug__spans_check(&spans) || spans.count != model_spans();
    }
    is_u64(faults, 0, "%u sets of up to %u offsets to %" PRIu64 " values", steps, length_max, values);
    snug__spans_close(&spans);
}

static void in_order_of_address(void) {
    memset(model, 0, sizeof model);
    snug__spans_open(&spans);
    for (unsigned at = 0; at < LIMIT; at++)
        put(at, at + 1, (uint8_t)(1 + at % 200));
    is_u64(spans.count, LIMIT + 1, "as many spans as were made");
    ok(spans.chunks_count <= LIMIT / SNUG__CHUNK_MAX + 2, "in chunks that are full: %u", spans.chunks_count);
    is_string(snug__spans_check(&spans), NULL, "sound");
    put(0, LIMIT, 0);
    is_u64(spans.count, 1, "wiped out");
    is_u64(spans.chunks_count, 1, "with their chunks");
    snug__spans_close(&spans);
}

static void cuts_stay_until_joined(void) {
    bool made;
    snug__spans_open(&spans);
    ok(snug__spans_cut(&spans, 100, &made) && made && spans.count == 2, "a cut");
    ok(snug__spans_cut(&spans, 100, &made) && !made, "is made once");
    ok(snug__spans_cut(&spans, 0, &made) && !made, "and none at the beginning");
    snug__spans_join(&spans, 50, 99);
    is_u64(spans.count, 2, "it is not between 50 and 99");
    snug__spans_join(&spans, 50, 100);
    is_u64(spans.count, 1, "joined");
    snug__spans_close(&spans);
}

int main(void) {
    uint64_t seed = tap_seed(20260101);
    random_sets(seed, 20, 5);
    random_sets(seed + 1, 300, 3);
    random_sets(seed + 2, 5000, 200);
    in_order_of_address();
    cuts_stay_until_joined();
    return done_testing();
}
