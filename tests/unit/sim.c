/* sim.c - the sim device, by its row: profiles and times, styles, tags, the order checker with a bad program for each kind of
 * violation, moves that race, faults, stalls. With pools: sim_pool.c. */
#include "tap.h"

#include "sim_world.h"

/* ------------------------------------------------------------------------------------------------ profiles, times */

static void move(world *w, snug_sim_stream *s, uint64_t to, uint64_t from, uint64_t bytes) {
    row->move(w->device, s, &(snug__copy){to, from, bytes}, 1);
}

static uint64_t timed(world *w, bool copy, uint64_t bytes) {
    uint64_t before = snug_sim_now();
    if (copy)
        row->copy(w->device, w->s[0], 512 * MiB, 0, bytes);
    else
        row->fill(w->device, w->s[0], 0, 7, bytes);
    snug_sim_sync(w->s[0]);
    return snug_sim_now() - before - 500; /* the call */
}

static void profiles_give_times(void) {
    for (int i = 0; i < SNUG_SIM_PROFILES; i++) {
        const snug_sim_profile *p     = snug_sim_profile_get(i);
        world                   w     = world_open(SNUG_SIM_TIMED, 1, i);
        uint64_t                bytes = 512 * MiB,
                 expected = p->copy_overhead_ns + (uint64_t)((double)bytes * 1e9 / (double)p->copy_bytes_per_second);
        is_u64(timed(&w, true, bytes), expected, "%s: a copy of 512 MiB takes %" PRIu64 " ns", p->name, expected);
        is_u64(timed(&w, true, 256), p->copy_overhead_ns + (uint64_t)(256e9 / (double)p->copy_bytes_per_second),
               "a small one little");
        ok(timed(&w, false, bytes) < expected, "a fill less than a copy");
        ok(p->copy_bytes_per_second * 3 <= p->memory_bytes_per_second + 3,
           "copying uses two thirds of the bandwidth at most");
        uint64_t free_bytes, total;
        row->memory(w.device, &free_bytes, &total);
        is_u64(total, p->memory_bytes, "its memory");
        is_u64(free_bytes, total - GiB, "what is committed isn't free");
        ok(row->copy_overhead_bytes(w.device) > 100 * KiB, "what a copy costs in bytes: %" PRIu64,
           row->copy_overhead_bytes(w.device));
        world_close(&w);
    }
    is_pointer(snug_sim_profile_get(SNUG_SIM_PROFILES), NULL, "no more profiles");
    is_pointer(snug_sim_profile_get(-1), NULL, "nor fewer");
}

static void streams_run_side_by_side_in_time(void) {
    world    w     = world_open(SNUG_SIM_TIMED, 1, SNUG_SIM_H200);
    uint64_t began = snug_sim_now();
    snug_sim_launch(w.s[0], NULL, 0, 1000000);
    snug_sim_launch(w.s[1], NULL, 0, 1000000);
    snug_sim_sync(NULL);
    is_u64(snug_sim_now() - began, 1001000, "two streams take no longer than one, but for the call");
    began = snug_sim_now();
    snug_sim_launch(w.s[0], NULL, 0, 1000000);
    snug_sim_stream_wait(w.s[1], w.s[0]);
    snug_sim_launch(w.s[1], NULL, 0, 1000000);
    snug_sim_sync(w.s[1]);
    is_u64(snug_sim_now() - began, 2000500, "one behind the other takes both times");
    began = row->now_ns(w.device);
    ok(row->now_ns(w.device) > began, "looking at the clock takes time");
    snug_sim_advance(12345);
    ok(snug_sim_now() >= began + 12345, "and it can be advanced");
    world_close(&w);
}

/* ------------------------------------------------------------------------------------------------ styles */

static bool complete(world *w, int e) {
    bool done = false;
    row->event_query(w->device, w->e[e], &done);
    return done;
}

static void styles_decide_what_has_run(void) {
    world w = world_open(SNUG_SIM_LAZY, 1, SNUG_SIM_H200);
    ok(complete(&w, 0), "an event never recorded is complete");
    touch(&w, 0, SNUG_WRITE, 0, 256, 1, 1);
    row->event_record(w.device, w.e[0], w.s[0]);
    snug_sim_advance(1000000000);
    unsigned asked = 0;
    while (!complete(&w, 0))
        asked++;
    is_u64(asked, 1000, "lazy: nothing runs until patience is at an end");
    touch(&w, 0, SNUG_WRITE, 0, 256, 1, 2);
    row->event_record(w.device, w.e[0], w.s[0]);
    ok(!complete(&w, 0), "recorded again it is pending");
    succeeds(row->event_sync(w.device, w.e[0]));
    ok(complete(&w, 0), "waited for, it isn't");
    world_close(&w);
    w = world_open(SNUG_SIM_EAGER, 1, SNUG_SIM_H200);
    touch(&w, 0, SNUG_WRITE, 0, 256, 1, 1);
    row->event_record(w.device, w.e[0], w.s[0]);
    ok(complete(&w, 0), "eager: everything has run at once");
    world_close(&w);
    w = world_open(SNUG_SIM_TIMED, 1, SNUG_SIM_H200);
    snug_sim_launch(w.s[0], NULL, 0, 1000000);
    row->event_record(w.device, w.e[0], w.s[0]);
    ok(!complete(&w, 0), "timed: pending before its time");
    snug_sim_advance(1000000);
    ok(complete(&w, 0), "and done after it");
    world_close(&w);
}

static uint64_t pattern_of(uint64_t seed) {
    world    w    = world_open(SNUG_SIM_RANDOM, seed, SNUG_SIM_H200);
    uint64_t bits = 0;
    for (int i = 0; i < 64; i++) {
        touch(&w, i % 3, SNUG_WRITE, (uint64_t)(i % 3) * 256, 256, 1, 1);
        if (i % 8 == 0)
            row->event_record(w.device, w.e[0], w.s[0]);
        bits = bits << 1 | complete(&w, 0);
    }
    world_close(&w);
    return bits;
}

static void seeds_decide(void) {
    unsigned different = 0, pending = 0, done = 0;
    for (uint64_t seed = 1; seed <= 32; seed++) {
        uint64_t bits = pattern_of(seed);
        different += bits != pattern_of(seed + 1);
        pending += bits == 0;
        done += bits == UINT64_MAX;
        if (bits != pattern_of(seed))
            ok(false, "seed %" PRIu64 " doesn't repeat", seed);
    }
    ok(different > 24, "seeds answer differently (%u of 32), and each the same when run again", different);
    ok(pending < 16 && done < 16, "some of the time it is pending, some it is done");
}

static void a_full_stream_waits_for_its_oldest(void) {
    world w = world_open(SNUG_SIM_LAZY, 1, SNUG_SIM_H200);
    for (int i = 0; i < SNUG_SIM_QUEUE_MAX; i++)
        snug_sim_launch(w.s[0], NULL, 0, 1000);
    is_u64(report().executed, 0, "as many operations as a stream holds, and none has run");
    snug_sim_launch(w.s[0], NULL, 0, 1000);
    is_u64(report().executed, 1, "one more, and one has");
    snug_sim_stall(snug_sim_stream_number(w.s[0]), 1);
    is_status(snug_sim_launch(w.s[0], NULL, 0, 1000), SNUG_TIMEOUT, "if it never runs, there is no room");
    snug_sim_stall(snug_sim_stream_number(w.s[0]), 0);
    world_close(&w);
}

static void long_chains_of_waits_run(void) {
    for (int style = 0; style < STYLES; style++) {
        world w = world_open((snug_sim_style)style, 3, SNUG_SIM_H200);
        for (uint32_t i = 0; i < 3000; i++) {
            snug_sim_access a[2] = {{w.base, 4096, SNUG_READ, i, i ? 5 : 0, 0},
                                    {w.base, 4096, SNUG_WRITE, i + 1, 5, 0}};
            snug_sim_launch(w.s[i % 3], a, 2, 100);
            then(&w, (int)(i % 3), (int)((i + 1) % 3));
        }
        is_u64(world_close(&w).violations, 0, "%s: 3000 kernels, each on another stream behind the one before",
               style_names[style]);
    }
}

/* ------------------------------------------------------------------------------------------------ tags */

static void tags_tell_who_wrote(void) {
    unsigned char bytes[1000];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 31);
    for (int style = 0; style < STYLES; style++) {
        world w = world_open((snug_sim_style)style, 5, SNUG_SIM_A100);
        touch(&w, 0, SNUG_WRITE, 0, MiB, 7, 1);
        row->copy(w.device, w.s[0], 2 * MiB, 0, MiB);
        row->copy(w.device, w.s[0], 4 * MiB, 2 * MiB + 1000, 5000);
        touch(&w, 0, SNUG_READ, 2 * MiB, MiB, 7, 1);
        snug_sim_access part = {w.base + 4 * MiB, 5000, SNUG_READ, 1, 7, 1000};
        snug_sim_launch(w.s[0], &part, 1, 1000);
        row->write(w.device, w.s[0], 8 * MiB, bytes, sizeof bytes);
        touch(&w, 0, SNUG_READ, 8 * MiB, sizeof bytes, snug_sim_hash(bytes, sizeof bytes), 0);
        row->fill(w.device, w.s[0], 9 * MiB, 0xab, 5000);
        row->copy(w.device, w.s[0], 10 * MiB, 9 * MiB + 77, 500);
        touch(&w, 0, SNUG_READ, 10 * MiB, 500, SNUG_SIM_FILL(0xab), 0);
        memset(bytes, 1, sizeof bytes);
        row->read(w.device, w.s[0], bytes, 8 * MiB, 100);
        ok(bytes[0] == 0 && bytes[99] == 0 && bytes[100] == 1, "%s: a read gives zeros", style_names[style]);
        snug_sim_sync(NULL);
        is_u64(report().violations, 0, "everything reads what was written, copied, filled");
        touch(&w, 0, SNUG_WRITE, 2 * MiB + 4096, 256, 9, 1);
        touch(&w, 0, SNUG_READ, 2 * MiB, MiB, 7, 1);
        snug_sim_sync(NULL);
        is_u64(report().by_kind[SNUG_SIM_TAG], 1, "another's bytes in the middle are seen");
        touch(&w, 0, SNUG_READ, 0, MiB, 7, 2);
        touch(&w, 0, SNUG_READ, 256, 256, 7, 1);
        touch(&w, 0, SNUG_READ, 20 * MiB, 1, 7, 1);
        snug_sim_report r = world_close(&w);
        is_u64(r.by_kind[SNUG_SIM_TAG], 4, "and another version, another offset, no contents");
        ok(strstr(r.text[0], "0x9") && strstr(r.text[0], "stream 2"), "the report says: %s", r.text[0]);
    }
}

/* ------------------------------------------------------------------------------------------------ order */

typedef enum order_by { BY_NOTHING, BY_EVENT, BY_SYNC, BY_QUERY, BY_OTHERS } order_by;

static void put_in_order(world *w, order_by by) {
    switch (by) {
    case BY_EVENT: then(w, 0, 1); return;
    case BY_SYNC: snug_sim_sync(w->s[0]); return;
    case BY_QUERY:
        row->event_record(w->device, w->e[0], w->s[0]);
        while (!complete(w, 0))
            snug_sim_advance(100);
        return;
    case BY_OTHERS: /* by way of a third stream */
        then(w, 0, 2);
        then(w, 2, 1);
        return;
    default: return;
    }
}

static void conflicts_are_found(void) {
    static const struct {
        snug_access first, second;
        bool        conflict;
    } pairs[] = {{SNUG_WRITE, SNUG_WRITE, true},
                 {SNUG_WRITE, SNUG_READ, true},
                 {SNUG_READ, SNUG_WRITE, true},
                 {SNUG_READ, SNUG_READ, false}};
    for (int style = 0; style < STYLES; style++)
        for (order_by by = BY_NOTHING; by <= BY_OTHERS; by++) {
            unsigned wrong = 0;
            for (unsigned i = 0; i < 4; i++) {
                world w = world_open((snug_sim_style)style, i, SNUG_SIM_RTX_4090);
                touch(&w, 0, pairs[i].first, 4096, 4096, 0, 1);
                put_in_order(&w, by);
                touch(&w, 1, pairs[i].second, 8191, 1, 0, 1); /* one byte in common */
                touch(&w, 1, pairs[i].second, 8192, 4096, 0, 1);
                wrong += world_close(&w).violations != (by == BY_NOTHING && pairs[i].conflict);
            }
            is_u64(wrong, 0, "%s: write and write, write and read, read and write, read and read, ordered in way %d",
                   style_names[style], by);
        }
}

static void events_cover_what_came_before(void) {
    world w = world_open(SNUG_SIM_LAZY, 1, SNUG_SIM_H200);
    row->event_record(w.device, w.e[0], w.s[0]);
    touch(&w, 0, SNUG_WRITE, 0, 256, 1, 1);
    row->stream_wait(w.device, w.s[1], w.e[0]);
    touch(&w, 1, SNUG_READ, 0, 256, 0, 0);
    is_u64(report().by_kind[SNUG_SIM_UNORDERED], 1,
           "a record before the write doesn't help: reading before the write's event");
    ok(strstr(report().text[0], "stream 3 reads") && strstr(report().text[0], "stream 2's write"), "it says: %s",
       report().text[0]);
    world_close(&w);
    w = world_open(SNUG_SIM_LAZY, 1, SNUG_SIM_H200);
    for (int i = 0; i < 3; i++)
        touch(&w, i, SNUG_READ, 0, 256, 0, 0);
    then(&w, 0, 2);
    touch(&w, 2, SNUG_WRITE, 0, 256, 1, 1);
    is_u64(report().violations, 1, "of three readers, the one not waited for is found");
    ok(strstr(report().text[0], "stream 3's read") != NULL, "it says: %s", report().text[0]);
    world_close(&w);
    w = world_open(SNUG_SIM_EAGER, 1, SNUG_SIM_H200);
    touch(&w, 0, SNUG_WRITE, 0, 256, 1, 1);
    then(&w, 0, 1); /* has run already: the wait takes nothing */
    row->event_record(w.device, w.e[1], w.s[1]);
    ok(complete(&w, 1), "a stream behind another");
    touch(&w, 2, SNUG_READ, 0, 256, 1, 1);
    is_u64(world_close(&w).violations, 0, "whose event is complete tells the host of the other too");
}

static void bad_programs_are_reported(void) {
    world w = world_open(SNUG_SIM_LAZY, 1, SNUG_SIM_H200);
    touch(&w, 0, SNUG_WRITE, GiB - 128, 256, 1, 1);
    is_u64(report().by_kind[SNUG_SIM_UNCOMMITTED], 1, "half of it isn't committed");
    touch(&w, 0, SNUG_WRITE, 17 * GiB, 256, 1, 1);
    is_u64(report().by_kind[SNUG_SIM_UNCOMMITTED], 2, "beyond the arena");
    snug_sim_access a = {"no device memory", 16, SNUG_READ, 0, 0, 0};
    succeeds(snug_sim_launch(w.s[0], &a, 1, 0));
    is_u64(report().by_kind[SNUG_SIM_UNCOMMITTED], 3, "an address of the host");
    row->copy(w.device, w.s[0], 4096, 5000, 4096);
    is_u64(report().by_kind[SNUG_SIM_OVERLAP], 1, "a copy over itself");
    move(&w, w.s[0], 4096, 4097, 4096);
    is_u64(report().by_kind[SNUG_SIM_OVERLAP], 2, "and a move");
    row->copy(w.device, w.s[0], 4096, 0, 4096);
    is_u64(report().by_kind[SNUG_SIM_OVERLAP], 2, "side by side is none");
    snug__copy apart[2] = {{0, 16384, 4096}, {4096, 20480, 4096}}, chain[2] = {{0, 16384, 4096}, {16384, 20480, 4096}};
    row->move(w.device, w.s[0], apart, 2);
    is_u64(report().by_kind[SNUG_SIM_OVERLAP], 2, "nor are two copies of one move");
    row->move(w.device, w.s[0], chain, 2);
    is_u64(report().by_kind[SNUG_SIM_OVERLAP], 3, "one of which writes what the other reads");
    touch(&w, 1, SNUG_READ, 512 * MiB, 256, 0, 0);
    succeeds(row->arena_decommit(w.device, 512 * MiB, 2 * MiB));
    is_u64(report().by_kind[SNUG_SIM_DECOMMIT], 1, "decommitted under a queued read");
    touch(&w, 2, SNUG_READ, 512 * MiB, 256, 0, 0);
    is_u64(report().by_kind[SNUG_SIM_UNCOMMITTED], 4, "and touched after");
    move(&w, w.mover, 600 * MiB, 602 * MiB, 256);
    succeeds(row->arena_decommit(w.device, 602 * MiB, 2 * MiB));
    is_u64(report().by_kind[SNUG_SIM_DECOMMIT], 2, "under a move that may be thrown away too");
    touch(&w, 1, SNUG_WRITE, 604 * MiB, 256, 1, 1);
    snug_sim_sync(w.s[1]);
    succeeds(row->arena_decommit(w.device, 604 * MiB, 2 * MiB));
    succeeds(row->arena_commit(w.device, 604 * MiB, 2 * MiB));
    touch(&w, 1, SNUG_READ, 604 * MiB, 256, 1, 1);
    snug_sim_sync(w.s[1]);
    is_u64(report().by_kind[SNUG_SIM_DECOMMIT], 2, "not after a wait");
    is_u64(report().by_kind[SNUG_SIM_TAG], 1, "but contents are gone");
    snug_sim_report r = report();
    is_u64(r.texts, SNUG_SIM_TEXTS, "the first %d are told in words", SNUG_SIM_TEXTS);
    ok(strncmp(r.text[0], "at ", 3) == 0 && strstr(r.text[0], "UNCOMMITTED: stream 2 uses"), "%s", r.text[0]);
    uint64_t sum = 0;
    for (int kind = 0; kind < SNUG_SIM_VIOLATIONS; kind++)
        sum += r.by_kind[kind];
    is_u64(sum, r.violations, "all kinds together are all");
    world_close(&w);
}

/* ------------------------------------------------------------------------------------------------ moves */

enum { SOURCE = 0, TARGET = 1 << 20, SECOND = 2 << 20, SIZE = 4096 };

static world moving(int style, bool write_first) {
    world w = world_open((snug_sim_style)style, 11, SNUG_SIM_H200);
    touch(&w, 0, SNUG_WRITE, SOURCE, SIZE, 1, 1);
    row->event_record(w.device, w.e[0], w.s[0]);
    row->stream_wait(w.device, w.mover, w.e[0]);
    if (write_first)
        touch(&w, 0, SNUG_WRITE, SOURCE + 256, 256, 1, 2);
    move(&w, w.mover, TARGET, SOURCE, SIZE);
    row->event_record(w.device, w.e[1], w.mover);
    return w;
}

static void moves_may_race_if_thrown_away(void) {
    for (int style = 0; style < STYLES; style++) {
        world w = moving(style, false);
        touch(&w, 0, SNUG_WRITE, SOURCE, SIZE, 1, 2);
        touch(&w, 0, SNUG_READ, SOURCE, SIZE, 1, 2);
        row->stream_wait(w.device, w.s[1], w.e[1]);
        touch(&w, 1, SNUG_WRITE, TARGET, SIZE, 2, 1); /* another's by now */
        touch(&w, 1, SNUG_READ, TARGET, SIZE, 2, 1);
        snug_sim_report r = world_close(&w);
        is_u64(r.violations, 0, "%s: a write races with a move whose copy nobody uses", style_names[style]);
        is_u64(r.torn_moves, 1, "it is torn");
        w = moving(style, false);
        row->stream_wait(w.device, w.s[0], w.e[1]);
        touch(&w, 0, SNUG_WRITE, SOURCE, SIZE, 2, 1);
        touch(&w, 0, SNUG_READ, TARGET, SIZE, 1, 1);
        is_u64(world_close(&w).violations, 0, "ordered, the copy may be used");
        w = moving(style, false);
        touch(&w, 1, SNUG_WRITE, TARGET, SIZE, 2, 1);
        is_u64(world_close(&w).by_kind[SNUG_SIM_UNORDERED], 1, "a move's write races with nobody");
    }
}

static void torn_copies_are_found(void) {
    for (int style = 0; style < STYLES; style++) {
        world w = moving(style, true);
        row->stream_wait(w.device, w.s[1], w.e[1]);
        touch(&w, 1, SNUG_READ, TARGET, SIZE, 0, 0); /* expects nothing: a buffer just allocated there, say */
        is_u64(report().by_kind[SNUG_SIM_TORN], 0, "%s: a torn copy, read by somebody who expects nothing",
               style_names[style]);
        touch(&w, 1, SNUG_READ, TARGET, SIZE, 1, 1);
        is_u64(world_close(&w).by_kind[SNUG_SIM_TORN], 1, "%s: written before the move, then the copy is used",
               style_names[style]);
        w = moving(style, false);
        row->stream_wait(w.device, w.s[1], w.e[1]);
        touch(&w, 0, SNUG_WRITE, SOURCE, SIZE, 2, 1);
        row->copy(w.device, w.s[1], SECOND, TARGET, SIZE);
        touch(&w, 1, SNUG_READ, SECOND, SIZE, 1, 1);
        is_u64(world_close(&w).by_kind[SNUG_SIM_TORN], 1, "written after it, and the copy copied");
        w = moving(style, false);
        row->stream_wait(w.device, w.s[1], w.e[1]);
        row->copy(w.device, w.s[1], SECOND, TARGET, SIZE);
        snug_sim_sync(w.s[2]);
        touch(&w, 0, SNUG_WRITE, SOURCE, SIZE, 2, 1);
        snug_sim_sync(NULL);
        move(&w, w.mover, TARGET, SOURCE, SIZE); /* retires what it can */
        touch(&w, 1, SNUG_READ, SECOND, SIZE, 1, 1);
        is_u64(world_close(&w).by_kind[SNUG_SIM_TORN], 1, "and copied before that");
        w = moving(style, false);
        row->stream_wait(w.device, w.s[1], w.e[1]);
        touch(&w, 1, SNUG_READ, TARGET, SIZE, 1, 1);
        touch(&w, 0, SNUG_WRITE, SOURCE, SIZE, 2, 1);
        snug_sim_sync(NULL);
        touch(&w, 1, SNUG_READ, TARGET, SIZE, 1, 1);
        ok(world_close(&w).by_kind[SNUG_SIM_TORN] > 0, "written after the copy was used");
        w = moving(style, false);
        touch(&w, 0, SNUG_WRITE, SOURCE, SIZE, 2, 1);
        snug_sim_sync(NULL);
        move(&w, w.mover, SECOND, TARGET, SIZE); /* retires the first one's record */
        snug_sim_sync(NULL);
        touch(&w, 1, SNUG_READ, SECOND, SIZE, 1, 1);
        is_u64(world_close(&w).by_kind[SNUG_SIM_TORN], 1, "long after, when it has been moved on");
        w = moving(style, false);
        move(&w, w.mover, SECOND, TARGET, SIZE);
        row->event_record(w.device, w.e[1], w.mover);
        row->stream_wait(w.device, w.s[1], w.e[1]);
        touch(&w, 0, SNUG_WRITE, SOURCE, SIZE, 2, 1);
        touch(&w, 1, SNUG_READ, SECOND, SIZE, 1, 1);
        ok(world_close(&w).by_kind[SNUG_SIM_TORN] > 0, "the first of two moves one behind the other");
    }
}

static void background_moves_chain_no_clients(void) {
    world w = world_open(SNUG_SIM_TIMED, 1, SNUG_SIM_H200);
    snug_sim_launch(w.s[0], NULL, 0, 5000000);
    row->event_record(w.device, w.e[0], w.s[0]);
    row->stream_wait(w.device, w.mover, w.e[0]);
    move(&w, w.mover, TARGET, SOURCE, SIZE);
    row->event_record(w.device, w.e[1], w.mover);
    row->stream_wait(w.device, w.s[0], w.e[1]);
    is_u64(report().cross_waits, 0, "a stream may wait for the mover that waits for itself");
    row->stream_wait(w.device, w.s[1], w.e[1]);
    is_u64(report().cross_waits, 1, "another may not");
    ok(strstr(report().cross_wait_text, "stream 3 waits for stream 1") != NULL, "it says: %s",
       report().cross_wait_text);
    snug_sim_report r = report();
    ok(r.mover_wait_max_ns[SNUG_SIM_BACKGROUND] > 4900000, "and how long: %" PRIu64 " ns",
       r.mover_wait_max_ns[SNUG_SIM_BACKGROUND]);
    is_u64(r.mover_wait_max_ns[SNUG_SIM_DEMAND], 0, "none of it on demand");
    is_u64(r.violations, 0, "it is no violation of order");
    world_close(&w);
}

static void wait_for_mover(world *w) {
    for (int i = 0; i < 16; i++) /* the calls' own time is short beside it */
        move(w, w->mover, i & 1 ? SOURCE : TARGET, i & 1 ? TARGET : SOURCE, SIZE);
    row->event_record(w->device, w->e[0], w->mover);
    row->stream_wait(w->device, w->s[0], w->e[0]);
}

static void holds_of_a_stream_are_told_apart(void) {
    world w = world_open(SNUG_SIM_TIMED, 1, SNUG_SIM_H200);
    wait_for_mover(&w);
    snug_sim_report r   = report();
    uint64_t        one = r.mover_wait_max_ns[SNUG_SIM_BACKGROUND];
    ok(one > 0 && one == r.mover_wait_ns[SNUG_SIM_BACKGROUND], "a wait holds the stream for %" PRIu64 " ns", one);
    wait_for_mover(&w);
    r = report();
    is_u64(r.mover_wait_max_ns[SNUG_SIM_BACKGROUND], r.mover_wait_ns[SNUG_SIM_BACKGROUND],
           "a second wait within the first is one hold with it");
    uint64_t both = r.mover_wait_max_ns[SNUG_SIM_BACKGROUND];
    ok(both > one, "of %" PRIu64 " ns", both);
    snug_sim_advance(10 * both);
    wait_for_mover(&w);
    r = report();
    is_u64(r.mover_wait_max_ns[SNUG_SIM_BACKGROUND], both, "one long after isn't");
    ok(r.mover_wait_ns[SNUG_SIM_BACKGROUND] > both, "though it adds to the sum");
    world_close(&w);
}

/* ------------------------------------------------------------------------------------------------ faults, stalls */

static void calls_fail_when_told(void) {
    world w = world_open(SNUG_SIM_TIMED, 1, SNUG_SIM_H200);
    succeeds(snug_sim_fail_nth(SNUG_SIM_CALL_RECORD, 3, SNUG_DEVICE));
    is_status(row->event_record(w.device, w.e[0], w.s[0]), SNUG_OK, "the first record");
    is_status(row->event_record(w.device, w.e[0], w.s[0]), SNUG_OK, "the second");
    is_status(row->event_record(w.device, w.e[0], w.s[0]), SNUG_DEVICE, "the third fails");
    ok(strstr(snug__device_error(), "call 3 of RECORD") != NULL, "it says: %s", snug__device_error());
    is_status(row->event_record(w.device, w.e[0], w.s[0]), SNUG_OK, "once");
    is_u64(snug_sim_calls(SNUG_SIM_CALL_RECORD), 4, "they are counted");
    succeeds(snug_sim_fail_nth(SNUG_SIM_CALL_ANY, 2, SNUG_LOST));
    bool done;
    is_status(row->event_query(w.device, w.e[0], &done), SNUG_OK, "one of any kind, the first");
    is_status(row->fill(w.device, w.s[0], 0, 0, 256), SNUG_LOST, "the second");
    is_status(row->event_record(w.device, w.e[0], w.s[0]), SNUG_LOST, "and everything after");
    is_status(snug_sim_sync(NULL), SNUG_LOST, "waiting too");
    is_status(snug_sim_fail_nth(SNUG_SIM_CALLS, 1, SNUG_LOST), SNUG_INVALID, "no such call");
    is_status(snug_sim_fail_nth(SNUG_SIM_CALL_COPY, 1, SNUG_BUSY), SNUG_INVALID, "no such failure");
    world_close(&w);
    machine(SNUG_SIM_TIMED, 1);
    is_u64(snug_sim_calls(SNUG_SIM_CALL_ANY), 0, "a new machine knows nothing of it");
}

static void a_stalled_stream_is_named(void) {
    world    w     = world_open(SNUG_SIM_EAGER, 1, SNUG_SIM_H200);
    uint64_t began = snug_sim_now();
    snug_sim_stall(snug_sim_stream_number(w.s[1]), 1);
    touch(&w, 1, SNUG_WRITE, 0, 256, 1, 1);
    then(&w, 1, 0);
    row->event_record(w.device, w.e[0], w.s[0]);
    ok(!complete(&w, 0), "what is behind a stalled stream is pending");
    is_status(row->event_sync(w.device, w.e[0]), SNUG_TIMEOUT, "waiting for it ends");
    ok(snug_sim_now() - began >= UINT64_C(10000000000), "after ten seconds of virtual time");
    ok(strstr(snug__device_error(), "stream 3 is stalled") != NULL, "it says: %s", snug__device_error());
    snug_sim_stall(1, 1);
    move(&w, w.mover, TARGET, SOURCE, SIZE);
    is_status(row->stream_sync(w.device, w.mover), SNUG_TIMEOUT, "the mover, by its number");
    ok(strstr(snug__device_error(), "background mover") != NULL, "it says: %s", snug__device_error());
    snug_sim_stall(snug_sim_stream_number(w.s[1]), 0);
    snug_sim_stall(1, 0);
    succeeds(row->event_sync(w.device, w.e[0]));
    is_status(snug_sim_stall(0, 1), SNUG_INVALID, "there is no stream 0");
    world_close(&w);
}

static void arguments_are_checked(void) {
    int              not_a_stream[64] = {0};
    snug_sim_stream *s;
    snug__device    *device;
    is_status(row->open(SNUG_SIM_PROFILES, &device), SNUG_NO_DEVICE, "no such profile");
    snug_sim_setup(NULL);
    succeeds(snug_sim_stream_create(&s));
    is_status(snug_sim_setup(NULL), SNUG_BUSY, "no new machine while a stream is there");
    is_status(snug_sim_stream_create(NULL), SNUG_INVALID, "create without a place for it");
    is_status(snug_sim_launch((snug_sim_stream *)(void *)not_a_stream, NULL, 0, 1), SNUG_INVALID, "no stream");
    is_status(snug_sim_launch(s, NULL, 1, 1), SNUG_INVALID, "no accesses");
    is_status(snug_sim_stream_wait(s, NULL), SNUG_INVALID, "wait for nothing");
    is_status(snug_sim_stream_wait(s, s), SNUG_OK, "for itself");
    is_status(snug_sim_report_get(NULL), SNUG_INVALID, "a report to nowhere");
    succeeds(snug_sim_stream_destroy(s));
    is_status(snug_sim_stream_destroy(s), SNUG_INVALID, "a second destroy");
    is_u64(snug_sim_stream_number(s), 0, "it has no number any more");
    is_string(snug_sim_violation_name(SNUG_SIM_TORN), "TORN", "kinds have names");
    is_string(snug_sim_violation_name(SNUG_SIM_VIOLATIONS), "?", "others none");
    is_string(snug_sim_call_name(SNUG_SIM_CALL_FILL), "FILL", "calls too");
    is_string(snug_sim_call_name(SNUG_SIM_CALLS), "?", "others none");
    snug_sim_options o = snug_sim_options_default();
    o.style            = (snug_sim_style)17;
    is_status(snug_sim_setup(&o), SNUG_INVALID, "no such style");
}

int main(void) {
    profiles_give_times();
    streams_run_side_by_side_in_time();
    styles_decide_what_has_run();
    seeds_decide();
    a_full_stream_waits_for_its_oldest();
    long_chains_of_waits_run();
    tags_tell_who_wrote();
    conflicts_are_found();
    events_cover_what_came_before();
    bad_programs_are_reported();
    moves_may_race_if_thrown_away();
    torn_copies_are_found();
    background_moves_chain_no_clients();
    holds_of_a_stream_are_told_apart();
    calls_fail_when_told();
    a_stalled_stream_is_named();
    arguments_are_checked();
    return done_testing();
}
