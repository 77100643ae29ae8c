/* order.c - who used what until when: stamps, polls, device waits, attach and detach, on real host streams. */
#include "tap.h"

#include "fixture.h"

static snug__device *device;
static snug__order   order;

static void order_make(void) {
    if (!device && snug__device_host.open(0, &device) != SNUG_OK)
        bail_out("no device");
    memset(&order, 0, sizeof order);
    if (snug__order_open(&order, &snug__device_host, device, NULL) != SNUG_OK)
        bail_out("no order");
}

static void order_end(void) {
    is_string(snug__order_check(&order), NULL, "the order is sound");
    snug__order_close(&order);
    order_slots_free(&order);
}

static client attach(void) {
    client c;
    if (snug_host_stream_create(&c.native) != SNUG_OK || snug__order_attach(&order, c.native, &c.stream) != SNUG_OK)
        bail_out("no stream");
    return c;
}

static void detach(client c) {
    snug__order_detach(&order, c.stream);
    snug_host_stream_destroy(c.native);
}

static snug__stamp stamp_now(client c) {
    uint64_t epoch = 0;
    if (snug__order_record(&order, c.stream, &epoch) != SNUG_OK)
        bail_out("not recorded");
    return snug__stamp_of(c.stream, epoch);
}

static bool settled(snug__stamp stamp) {
    return snug__order_settled(&order, stamp);
}

static bool settles(snug__stamp stamp) { /* within a second of polling */
    for (unsigned i = 0; i < 10000 && !settled(stamp); i++) {
        snug__order_poll(&order);
        nap_us(100);
    }
    return settled(stamp);
}

static void polls(unsigned n) {
    for (unsigned i = 0; i < n; i++)
        snug__order_poll(&order);
}

static void nothing(void *arguments) {
    (void)arguments;
}

/* ------------------------------------------------------------------------------------------------ settling */

static void a_stamp_settles_when_its_stream_has_got_there(void) {
    order_make();
    client c = attach();
    gate   g = {0};
    ok(settled(SNUG__STAMP_NONE), "no stamp is settled");
    gate_put(&g, c.native);
    snug__stamp stamp = stamp_now(c);
    ok(!settled(stamp), "not settled before a poll");
    polls(10);
    ok(!settled(stamp), "nor after ten, the stream being held up");
    gate_open(&g);
    snug_host_stream_sync(c.native);
    ok(!settled(stamp), "nor by itself");
    polls(1);
    ok(settled(stamp), "the first poll after the stream has run settles it");
    detach(c);
    order_end();
}

static void a_held_up_stream_does_not_hold_up_the_others(void) {
    order_make();
    client a = attach(), b = attach();
    gate   g = {0};
    gate_put(&g, a.native);
    snug__stamp of_a = stamp_now(a), of_b = stamp_now(b);
    ok(settles(of_b), "the other stream's stamp settles");
    ok(!settled(of_a), "its own doesn't");
    ok(!settled(snug__stamp_unite(of_a, of_b)), "nor does one of both");
    snug__stamp united = snug__order_unite(&order, of_a, of_b);
    is_hex(united.mask, of_a.mask, "uniting leaves out what has settled");
    gate_open(&g);
    ok(settles(snug__stamp_unite(of_a, of_b)), "until it runs on");
    detach(a);
    detach(b);
    order_end();
}

static void old_stamps_settle_on_a_stream_that_is_never_idle(void) {
    order_make();
    client      c = attach();
    gate        gates[64] = {{0}};
    snug__stamp stamps[64], oldest = SNUG__STAMP_NONE;
    unsigned    settled_while_busy = 0;
    gate_put(&gates[0], c.native);
    stamps[0] = stamp_now(c);
    for (unsigned i = 1; i < 64; i++) { /* there is always a launch queued that can't finish */
        snug__order_poll(&order);
        gate_put(&gates[i], c.native);
        stamps[i] = stamp_now(c);
        gate_open(&gates[i - 1]);
        while (!atomic_load(&gates[i].reached))
            nap_us(10);
    }
    snug__order_poll(&order);
    for (unsigned i = 0; i < 64; i++)
        if (settled(stamps[i])) {
            settled_while_busy++;
            oldest = stamps[i];
        }
    ok(settled_while_busy >= 60, "%u of 63 passed stamps are settled though the stream was never idle", settled_while_busy);
    ok(oldest.epoch < stamps[63].epoch && !settled(stamps[63]), "the one that is still queued isn't");
    gate_open(&gates[63]);
    ok(settles(stamps[63]), "until it has run");
    detach(c);
    order_end();
}

static void nothing_settles_early(void) {
    order_make();
    client   clients[3];
    uint64_t early = 0, rounds = tap_scaled(300);
    for (unsigned i = 0; i < 3; i++)
        clients[i] = attach();
    for (uint64_t round = 0; round < rounds; round++) {
        gate        g = {0};
        snug__stamp stamp;
        client      c = clients[round % 3];
        for (unsigned i = 0; i < 3; i++)
            stamp_now(clients[i]);
        polls((unsigned)(round % 4));
        gate_put(&g, c.native);
        for (unsigned i = 0; i < 1 + round % 3; i++)
            stamp = stamp_now(c);
        polls((unsigned)(round % 5));
        early += settled(stamp);
        gate_open(&g);
        snug_host_stream_sync(c.native);
    }
    is_u64(early, 0, "in %" PRIu64 " rounds no stamp settled before its work had run", rounds);
    for (unsigned i = 0; i < 3; i++)
        detach(clients[i]);
    order_end();
}

static void one_release_is_one_record(void) {
    order_make();
    client c = attach();
    for (unsigned i = 0; i < 100; i++) {
        stamp_now(c);
        snug__order_poll(&order);
    }
    is_u64(c.stream->records, 100, "a hundred records, markers included");
    detach(c);
    order_end();
}

/* ------------------------------------------------------------------------------------------------ device waits */

typedef struct cell {
    int *to, value;
} cell;

static void cell_set(void *arguments) {
    cell *c = arguments;
    *c->to  = c->value;
}

typedef struct look {
    int *from, *to;
} look;

static void cell_look(void *arguments) {
    look *l = arguments;
    *l->to  = *l->from;
}

static void a_wait_orders_two_streams(void) {
    order_make();
    client a = attach(), b = attach();
    gate   g = {0};
    int    value = 0, seen = -1;
    gate_put(&g, a.native);
    snug_host_launch(a.native, cell_set, &(cell){&value, 7}, sizeof(cell));
    succeeds(snug__order_wait(&order, b.stream, stamp_now(a)));
    snug_host_launch(b.native, cell_look, &(look){&value, &seen}, sizeof(look));
    nap_us(5000);
    gate_open(&g);
    snug_host_stream_sync(b.native);
    is_i64(seen, 7, "the second stream sees what the first wrote");
    is_u64(b.stream->waits, 1, "by one wait");
    detach(a);
    detach(b);
    order_end();
}

static void a_wait_is_not_repeated_but_never_left_out(void) {
    order_make();
    client a = attach(), b = attach();
    gate   g1 = {0}, g2 = {0};
    int    value = 0, seen = -1;
    gate_put(&g1, a.native);
    snug__stamp first = stamp_now(a);
    snug__order_wait(&order, b.stream, first);
    snug__order_wait(&order, b.stream, first);
    is_u64(b.stream->waits, 1, "the second wait for one stamp is saved");
    /* no poll since: the next stamp could have the epoch that has just been waited for */
    gate_put(&g2, a.native);
    snug_host_launch(a.native, cell_set, &(cell){&value, 8}, sizeof(cell));
    snug__stamp second = stamp_now(a);
    snug__order_wait(&order, b.stream, second);
    snug_host_launch(b.native, cell_look, &(look){&value, &seen}, sizeof(look));
    gate_open(&g1);
    nap_us(5000);
    gate_open(&g2);
    snug_host_stream_sync(b.native);
    is_i64(seen, 8, "a later stamp is waited for");
    detach(a);
    detach(b);
    order_end();
}

static void a_settled_stamp_is_not_waited_for(void) {
    order_make();
    client a = attach(), b = attach();
    snug__stamp stamp = stamp_now(a);
    settles(stamp);
    snug__order_wait(&order, b.stream, stamp);
    is_u64(b.stream->waits, 0, "no wait for what has settled");
    snug__order_wait(&order, a.stream, stamp_now(a));
    is_u64(a.stream->waits, 0, "nor for oneself");
    detach(a);
    detach(b);
    order_end();
}

static void a_wait_covers_what_the_marker_records(void) {
    order_make();
    client a = attach(), b = attach();
    gate   g1 = {0}, g2 = {0};
    int    value = 0, seen = -1;
    gate_put(&g1, a.native);
    stamp_now(a);
    polls(1); /* found pending: the next record goes to the marker */
    gate_put(&g2, a.native);
    snug_host_launch(a.native, cell_set, &(cell){&value, 9}, sizeof(cell));
    snug__stamp stamp = stamp_now(a);
    is_u64(a.stream->marker_state, SNUG__MARKER_RECORDED, "this one is the marker's");
    snug__order_wait(&order, b.stream, stamp);
    snug_host_launch(b.native, cell_look, &(look){&value, &seen}, sizeof(look));
    gate_open(&g1);
    nap_us(5000);
    gate_open(&g2);
    snug_host_stream_sync(b.native);
    is_i64(seen, 9, "the wait covers it");
    detach(a);
    detach(b);
    order_end();
}

static void a_host_wait_waits(void) {
    order_make();
    client a = attach();
    int    value = 0;
    gate   g = {1, 0};
    gate_put(&g, a.native);
    for (int i = 0; i < 500; i++)
        snug_host_launch(a.native, cell_set, &(cell){&value, i}, sizeof(cell));
    succeeds(snug__order_host_wait(&order, stamp_now(a)));
    is_i64(value, 499, "all of it has run");
    snug_host_launch(a.native, cell_set, &(cell){&value, 1000}, sizeof(cell));
    stamp_now(a);
    succeeds(snug__order_drain(&order, false, 0));
    is_i64(value, 1000, "a drain waits for everything recorded");
    detach(a);
    order_end();
}

static void a_sync_waits_for_what_a_stream_has_recorded(void) {
    order_make();
    client a = attach();
    int    value = 0;
    for (int i = 0; i < 200; i++)
        snug_host_launch(a.native, cell_set, &(cell){&value, i}, sizeof(cell));
    stamp_now(a);
    succeeds(snug__order_stream_sync(&order, a.stream, false));
    is_i64(value, 199, "all of it has run");
    detach(a);
    order_end();
}

/* ------------------------------------------------------------------------------------------------ attach, detach */

static void a_stream_attached_twice_is_one(void) {
    order_make();
    client       c = attach();
    snug_stream *again;
    succeeds(snug__order_attach(&order, c.native, &again));
    is_pointer(again, c.stream, "the same stream");
    is_u64(order.attached, 1, "counted once");
    succeeds(snug__order_detach(&order, again));
    is_u64(c.stream->state, SNUG__SLOT_ATTACHED, "detached once it is still there");
    succeeds(snug__order_detach(&order, again));
    is_u64(order.attached, 0, "detached twice it isn't");
    is_status(snug__order_detach(&order, again), SNUG_GONE, "a third detach");
    snug_host_stream_destroy(c.native);
    order_end();
}

static void a_stream_may_leave_with_work_pending(void) {
    order_make();
    client c = attach();
    gate   g = {0};
    gate_put(&g, c.native);
    snug__stamp stamp = stamp_now(c);
    succeeds(snug__order_detach(&order, c.stream));
    polls(3);
    is_u64(c.stream->state, SNUG__SLOT_LEAVING, "it is remembered");
    ok(!settled(stamp), "its stamp isn't settled");
    client d = attach();
    ok(d.stream != c.stream, "its slot isn't given to another");
    int value = 0, seen = -1;
    snug_host_launch(c.native, cell_set, &(cell){&value, 5}, sizeof(cell));
    gate_open(&g);
    ok(settles(stamp), "until its work has run");
    is_u64(c.stream->state, SNUG__SLOT_FREE, "then the slot is free");
    snug_host_stream_sync(c.native);
    snug_host_launch(d.native, cell_look, &(look){&value, &seen}, sizeof(look));
    snug_host_stream_sync(d.native);
    snug_host_stream_destroy(c.native);
    client e = attach();
    is_pointer(e.stream, c.stream, "and used again");
    detach(d);
    detach(e);
    order_end();
}

static void a_wait_covers_streams_that_have_left(void) {
    order_make();
    client a = attach(), b = attach();
    gate   g = {0};
    int    value = 0, seen = -1;
    gate_put(&g, a.native);
    snug_host_launch(a.native, cell_set, &(cell){&value, 6}, sizeof(cell));
    snug__stamp stamp = stamp_now(a);
    snug__order_detach(&order, a.stream);
    snug__order_wait(&order, b.stream, stamp);
    snug_host_launch(b.native, cell_look, &(look){&value, &seen}, sizeof(look));
    nap_us(5000);
    gate_open(&g);
    snug_host_stream_sync(b.native);
    is_i64(seen, 6, "the work of a detached stream is waited for");
    snug_host_stream_destroy(a.native);
    detach(b);
    order_end();
}

static void the_same_native_stream_comes_back(void) {
    order_make();
    client c = attach();
    gate   g = {0};
    gate_put(&g, c.native);
    snug__stamp  old = stamp_now(c);
    snug_stream *again;
    snug__order_detach(&order, c.stream);
    succeeds(snug__order_attach(&order, c.native, &again));
    ok(again != c.stream, "while its past is pending it gets another slot");
    client      d     = {c.native, again};
    snug__stamp stamp = stamp_now(d);
    gate_open(&g);
    ok(settles(old) && settles(stamp), "both settle");
    detach(d);
    order_end();
}

static void more_streams_than_bits_share_them(void) {
    enum { STREAMS = 130 };
    static client clients[STREAMS];
    static int    values[STREAMS], seen[STREAMS];
    uint64_t      mask = 0, wrong = 0;
    unsigned      per_bit[SNUG__BITS] = {0};
    order_make();
    for (unsigned i = 0; i < STREAMS; i++) {
        clients[i] = attach();
        mask |= UINT64_C(1) << clients[i].stream->bit;
        per_bit[clients[i].stream->bit]++;
    }
    is_hex(mask, UINT64_MAX >> 2, "130 streams use all 62 client bits");
    unsigned most = 0;
    for (unsigned bit = 0; bit < SNUG__CLIENT_BITS; bit++)
        most = per_bit[bit] > most ? per_bit[bit] : most;
    is_u64(most, 3, "shared evenly");
    gate        g = {0};
    snug__stamp stamps[STREAMS];
    for (unsigned i = 0; i < STREAMS; i++) {
        gate_put(&g, clients[i].native);
        snug_host_launch(clients[i].native, cell_set, &(cell){&values[i], (int)i + 1}, sizeof(cell));
        stamps[i] = stamp_now(clients[i]);
    }
    for (unsigned i = 0; i < STREAMS; i++) { /* each looks at one behind it, so that none waits in a circle */
        client watcher = clients[(i + 62) % STREAMS];
        if (i + 62 >= STREAMS)
            break;
        snug__order_wait(&order, watcher.stream, stamps[i]);
        snug_host_launch(watcher.native, cell_look, &(look){&values[i], &seen[i]}, sizeof(look));
    }
    polls(3);
    nap_us(5000);
    gate_open(&g);
    for (unsigned i = 0; i < STREAMS; i++)
        snug_host_stream_sync(clients[i].native);
    for (unsigned i = 0; i + 62 < STREAMS; i++)
        wrong += seen[i] != (int)i + 1;
    is_u64(wrong, 0, "each waits for the one whose bit it shares");
    for (unsigned i = 0; i < STREAMS; i++)
        wrong += !settles(stamps[i]);
    is_u64(wrong, 0, "all stamps settle");
    for (unsigned i = 0; i + 62 < STREAMS; i++) {
        for (int n = 0; n <= 100; n++)
            snug_host_launch(clients[i + 62].native, cell_set, &(cell){&values[i], n}, sizeof(cell));
        wrong += snug__order_host_wait(&order, stamp_now(clients[i + 62])) != SNUG_OK || values[i] != 100;
    }
    is_u64(wrong, 0, "a host wait is for every stream of the bit");
    for (unsigned i = 0; i < STREAMS; i++)
        detach(clients[i]);
    order_end();
}

/* ------------------------------------------------------------------------------------------------ threads */

typedef struct sharer {
    client           c;
    _Atomic uint64_t early;
    uint64_t         rounds;
} sharer;

static void count_up(void *arguments) {
    atomic_fetch_add(*(_Atomic uint64_t **)arguments, 1);
}

static void *share(void *argument) {
    sharer          *s = argument;
    _Atomic uint64_t ran = 0, *p = &ran;
    for (uint64_t i = 1; i <= s->rounds; i++) {
        snug_host_launch(s->c.native, count_up, &p, sizeof p);
        snug__stamp stamp = stamp_now(s->c);
        if (settled(stamp) && atomic_load(&ran) < i)
            atomic_fetch_add(&s->early, 1);
        if (i % 64 == 0) {
            while (!settled(stamp))
                snug__order_poll(&order);
            if (atomic_load(&ran) < i)
                atomic_fetch_add(&s->early, 1);
        }
    }
    snug_host_stream_sync(s->c.native);
    return NULL;
}

static void two_threads_may_share_a_stream(void) {
    order_make();
    sharer    s = {attach(), 0, tap_scaled(20000)};
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, share, &s);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    is_u64(s.early, 0, "of two threads' stamps on one stream none settles before its work has run");
    is_u64(s.c.stream->records, 2 * s.rounds, "one record each");
    snug_host_launch(s.c.native, nothing, NULL, 0);
    detach(s.c);
    order_end();
}

static void the_check_finds_planted_damage(void) {
    order_make();
    client c = attach();
    order.attached++;
    ok(snug__order_check(&order) != NULL, "a wrong count of streams");
    order.attached--;
    c.stream->bit++;
    ok(snug__order_check(&order) != NULL, "a stream under another's bit");
    c.stream->bit--;
    uint64_t done = order.done[5];
    order.done[5] = order.epoch;
    ok(snug__order_check(&order) != NULL, "a bit settled beyond the epoch");
    order.done[5] = done;
    order.floor   = order.epoch - 1;
    polls(1);
    order.done[5] = 0;
    ok(snug__order_check(&order) != NULL, "a floor above a bit");
    polls(1);
    detach(c);
    order_end();
}

int main(void) {
    a_stamp_settles_when_its_stream_has_got_there();
    a_held_up_stream_does_not_hold_up_the_others();
    old_stamps_settle_on_a_stream_that_is_never_idle();
    nothing_settles_early();
    one_release_is_one_record();
    a_wait_orders_two_streams();
    a_wait_is_not_repeated_but_never_left_out();
    a_settled_stamp_is_not_waited_for();
    a_wait_covers_what_the_marker_records();
    a_host_wait_waits();
    a_sync_waits_for_what_a_stream_has_recorded();
    a_stream_attached_twice_is_one();
    a_stream_may_leave_with_work_pending();
    a_wait_covers_streams_that_have_left();
    the_same_native_stream_comes_back();
    more_streams_than_bits_share_them();
    two_threads_may_share_a_stream();
    the_check_finds_planted_damage();
    snug__device_host.close(device);
    return done_testing();
}
