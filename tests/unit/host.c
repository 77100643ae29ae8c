/* host.c - the host device: streams that run in order, launches, full queues, waits across streams, events. */
#include "tap.h"

#include "fixture.h"
#include "host/stream.h"

static snug_host_stream *make(void) {
    snug_host_stream *stream;
    if (snug_host_stream_create(&stream) != SNUG_OK)
        bail_out("no stream");
    return stream;
}

/* ------------------------------------------------------------------------------------------------ order */

static struct {
    uint32_t next;
    uint32_t out_of_order;
} sequence;

static void expect(void *arguments) {
    sequence.out_of_order += *(uint32_t *)arguments != sequence.next++;
}

static void a_stream_runs_in_order(void) {
    snug_host_stream *s = make();
    sequence.next = sequence.out_of_order = 0;
    uint32_t n = (uint32_t)tap_scaled(50000);
    for (uint32_t i = 0; i < n; i++)
        snug_host_launch(s, expect, &i, sizeof i);
    succeeds(snug_host_stream_sync(s));
    is_u64(sequence.next, n, "%u launches have run after a sync", n);
    is_u64(sequence.out_of_order, 0, "in the order in which they were enqueued");
    succeeds(snug_host_stream_destroy(s));
}

typedef struct arguments {
    unsigned char bytes[SNUG_HOST_ARGUMENTS_MAX];
} arguments;

static arguments seen;

static void copy_arguments(void *pointer) {
    memcpy(&seen, pointer, sizeof seen);
}

static void arguments_are_copied(void) {
    snug_host_stream *s = make();
    gate              g = {0};
    arguments         a, expected;
    for (unsigned i = 0; i < sizeof a.bytes; i++)
        expected.bytes[i] = a.bytes[i] = (unsigned char)(i * 7 + 1);
    gate_put(&g, s);
    succeeds(snug_host_launch(s, copy_arguments, &a, sizeof a));
    memset(&a, 0, sizeof a);
    gate_open(&g);
    snug_host_stream_sync(s);
    is_bytes(&seen, &expected, sizeof seen, "the launch sees the bytes as they were when it was enqueued");
    snug_host_stream_destroy(s);
}

static _Atomic unsigned count;

static void count_one(void *pointer) {
    (void)pointer;
    atomic_fetch_add(&count, 1);
}

typedef struct filler {
    snug_host_stream *s;
    _Atomic unsigned  enqueued;
} filler;

static void *fill_up(void *pointer) {
    filler *f = pointer;
    for (unsigned i = 0; i < SNUG_HOST_QUEUE_MAX + 500; i++) {
        snug_host_launch(f->s, count_one, NULL, 0);
        atomic_fetch_add(&f->enqueued, 1);
    }
    return NULL;
}

static void a_full_queue_blocks_its_caller(void) {
    filler    f = {make(), 0};
    gate      g = {0};
    pthread_t thread;
    atomic_store(&count, 0);
    gate_put(&g, f.s);
    pthread_create(&thread, NULL, fill_up, &f);
    for (unsigned i = 0; i < 1000 && f.enqueued < SNUG_HOST_QUEUE_MAX - 1; i++)
        nap_us(1000);
    nap_us(20000);
    is_u64(f.enqueued, SNUG_HOST_QUEUE_MAX - 1, "with the one that runs it holds as many as it should");
    is_u64(count, 0, "none has run");
    gate_open(&g);
    pthread_join(thread, NULL);
    snug_host_stream_sync(f.s);
    is_u64(count, SNUG_HOST_QUEUE_MAX + 500, "then all run");
    snug_host_stream_destroy(f.s);
}

static void destroy_runs_the_rest(void) {
    snug_host_stream *s = make();
    gate              g = {0};
    atomic_store(&count, 0);
    gate_put(&g, s);
    for (unsigned i = 0; i < 700; i++)
        snug_host_launch(s, count_one, NULL, 0);
    gate_open(&g);
    succeeds(snug_host_stream_destroy(s));
    is_u64(count, 700, "everything that was queued has run");
}

static void *launch_many(void *pointer) {
    filler *f = pointer;
    for (unsigned i = 0; i < 20000; i++)
        snug_host_launch(f->s, count_one, NULL, 0);
    return NULL;
}

static void several_threads_may_enqueue(void) {
    filler    f = {make(), 0};
    pthread_t threads[4];
    atomic_store(&count, 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, launch_many, &f);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    snug_host_stream_sync(f.s);
    is_u64(count, 80000, "none of four threads' launches is lost");
    snug_host_stream_destroy(f.s);
}

/* ------------------------------------------------------------------------------------------------ across streams */

static void a_wait_orders_across_streams(void) {
    snug_host_stream *a = make(), *b = make();
    gate              g = {0};
    atomic_store(&count, 0);
    gate_put(&g, a);
    succeeds(snug_host_stream_wait(b, a));
    snug_host_launch(b, count_one, NULL, 0);
    nap_us(10000);
    is_u64(count, 0, "what comes after the wait doesn't run before the other stream has got there");
    snug_host_launch(a, count_one, NULL, 0);
    gate_open(&g);
    snug_host_stream_sync(b);
    ok(count >= 1, "then it does");
    succeeds(snug_host_stream_wait(a, a));
    succeeds(snug_host_stream_sync(a));
    snug_host_stream_destroy(a);
    snug_host_stream_destroy(b);
}

static void ping_pong_keeps_order(void) {
    snug_host_stream *s[2] = {make(), make()};
    uint32_t          n    = (uint32_t)tap_scaled(5000);
    sequence.next = sequence.out_of_order = 0;
    for (uint32_t i = 0; i < n; i++) {
        snug_host_launch(s[i % 2], expect, &i, sizeof i);
        snug_host_stream_wait(s[(i + 1) % 2], s[i % 2]);
    }
    snug_host_stream_sync(s[0]);
    snug_host_stream_sync(s[1]);
    is_u64(sequence.next, n, "%u launches alternating on two streams", n);
    is_u64(sequence.out_of_order, 0, "each behind the one before");
    snug_host_stream_destroy(s[0]);
    snug_host_stream_destroy(s[1]);
}

/* ------------------------------------------------------------------------------------------------ arguments */

static void invalid_arguments_are_refused(void) {
    snug_host_stream *s = make();
    char              bytes[SNUG_HOST_ARGUMENTS_MAX + 1] = {0};
    is_status(snug_host_stream_create(NULL), SNUG_INVALID, "create without a place for it");
    is_status(snug_host_stream_destroy(NULL), SNUG_INVALID, "destroy of nothing");
    is_status(snug_host_launch(NULL, count_one, NULL, 0), SNUG_INVALID, "launch on nothing");
    is_status(snug_host_launch(s, NULL, NULL, 0), SNUG_INVALID, "launch of nothing");
    is_status(snug_host_launch(s, count_one, bytes, sizeof bytes), SNUG_INVALID, "too many bytes of arguments");
    is_status(snug_host_launch(s, count_one, NULL, 1), SNUG_INVALID, "bytes without a pointer");
    is_status(snug_host_stream_sync(NULL), SNUG_INVALID, "sync of nothing");
    is_status(snug_host_stream_wait(s, NULL), SNUG_INVALID, "wait for nothing");
    is_status(snug_host_stream_wait(NULL, s), SNUG_INVALID, "wait by nothing");
    snug_host_stream_destroy(s);
}

static void the_device_knows_its_streams(void) {
    snug__device *device;
    uint64_t      identity;
    bool          of_thread = true;
    _Alignas(64) uint64_t not_a_stream[64] = {0};
    is_status(snug__device_host.open(1, &device), SNUG_NO_DEVICE, "there is no device 1");
    ok(strstr(snug__device_error(), "index 1") != NULL, "it says so: %s", snug__device_error());
    succeeds(snug__device_host.open(0, &device));
    is_status(snug__device_host.stream_identify(device, NULL, &identity, &of_thread), SNUG_INVALID, "NULL is no stream");
    is_status(snug__device_host.stream_identify(device, not_a_stream, &identity, &of_thread), SNUG_INVALID, "nor is anything else");
    snug_host_stream *s = make();
    is_status(snug__device_host.stream_identify(device, s, &identity, &of_thread), SNUG_OK, "a stream is");
    is_u64(identity, (uintptr_t)s, "it is its own identity");
    ok(!of_thread, "and the same on every thread");
    is_status(snug__device_host.stream_ready(device, s), SNUG_OK, "it is never captured");
    is_status(snug__device_host.sync(device), SNUG_UNSUPPORTED, "there is no waiting for all streams at once");
    is_i64(snug__device_host.count(), 1, "one device");
    snug_host_stream_destroy(s);
    snug__device_host.close(device);
    is_pointer(snug__device_find("host"), &snug__device_host, "found by its name");
    is_pointer(snug__device_find("auto"), &snug__device_host, "and as the best there is");
    is_pointer(snug__device_find("HOST"), NULL, "names are exact");
    is_pointer(snug__device_find(""), NULL, "and not empty");
}

/* ------------------------------------------------------------------------------------------------ events */

static void events_say_whether_a_stream_has_got_there(void) {
    snug__device     *device;
    snug__event      *event;
    snug_host_stream *s = make();
    gate              g = {0};
    bool              complete;
    snug__device_host.open(0, &device);
    snug__device_host.event_create(device, &event);
    snug__device_host.event_query(device, event, &complete);
    ok(complete, "an event never recorded is complete");
    succeeds(snug__device_host.event_sync(device, event));
    gate_put(&g, s);
    snug__device_host.event_record(device, event, s);
    snug__device_host.event_query(device, event, &complete);
    ok(!complete, "not while its stream is held up");
    gate_open(&g);
    snug__device_host.event_sync(device, event);
    snug__device_host.event_query(device, event, &complete);
    ok(complete, "after a sync it is");
    snug_host_stream_destroy(s);
    snug__device_host.event_query(device, event, &complete);
    ok(complete, "also when its stream is gone");
    snug_host_stream *again = make();
    gate              g2    = {0};
    gate_put(&g2, again);
    snug__device_host.event_query(device, event, &complete);
    ok(complete, "and when another stream has taken over its timeline");
    snug__device_host.event_record(device, event, again);
    snug__device_host.event_query(device, event, &complete);
    ok(!complete, "recorded there it is pending again");
    gate_open(&g2);
    snug_host_stream_destroy(again);
    snug__device_host.event_destroy(device, event);
    snug__device_host.close(device);
}

static void timelines_are_reused(void) {
    uint64_t     n = tap_scaled(3000), ids = 0, last = 0, back = 0, wrong = 0;
    static unsigned char seen_id[65536];
    atomic_store(&count, 0);
    for (uint64_t i = 0; i < n; i++) {
        snug_host_stream *s  = make();
        uint64_t          id = snug__host_stream_point(s) >> 48;
        ids += !seen_id[id];
        seen_id[id] = 1;
        snug_host_launch(s, count_one, NULL, 0);
        snug_host_launch(s, count_one, NULL, 0);
        snug__point point = snug__host_stream_point(s);
        back += point <= last;
        last = point;
        snug_host_stream_destroy(s);
        wrong += !snug__point_reached(point);
    }
    ok(ids <= 8, "%" PRIu64 " streams one after the other took %" PRIu64 " timelines", n, ids);
    ok(back <= ids, "whose count never goes back");
    is_u64(wrong, 0, "a destroyed stream's points are reached");
    is_u64(count, 2 * n, "all launches have run");
}

/* ------------------------------------------------------------------------------------------------ the arena */

static void the_arena_is_committed_in_pieces(void) {
    const uint64_t MiB = 1 << 20;
    snug__device  *device;
    snug__device_host.open(0, &device);
    succeeds(snug__device_host.arena_reserve(device, 16 * MiB));
    char *base = snug__device_host.arena_base(device);
    is_u64((uintptr_t)base % SNUG_ALIGNMENT_MAX, 0, "its base is aligned");
    succeeds(snug__device_host.arena_commit(device, 2 * MiB, 4 * MiB));
    memset(base + 2 * MiB, 0xab, 4 * MiB);
    succeeds(snug__device_host.arena_decommit(device, 4 * MiB, 2 * MiB));
    is_u64((unsigned char)base[3 * MiB], 0xab, "what stays committed keeps its bytes");
    succeeds(snug__device_host.arena_commit(device, 4 * MiB, 2 * MiB));
    is_u64((unsigned char)base[5 * MiB], 0, "what comes back is fresh");
    uint64_t free_bytes, total_bytes;
    snug__device_host.memory(device, &free_bytes, &total_bytes);
    ok(free_bytes > 0 && free_bytes <= total_bytes, "free and total memory are plausible");
    uint64_t t = snug__device_host.now_ns(device);
    nap_us(1000);
    ok(snug__device_host.now_ns(device) >= t + 1000000, "its clock goes");
    snug__device_host.arena_release(device);
    snug__device_host.close(device);
}

int main(void) {
    a_stream_runs_in_order();
    arguments_are_copied();
    a_full_queue_blocks_its_caller();
    destroy_runs_the_rest();
    several_threads_may_enqueue();
    a_wait_orders_across_streams();
    ping_pong_keeps_order();
    invalid_arguments_are_refused();
    the_device_knows_its_streams();
    events_say_whether_a_stream_has_got_there();
    timelines_are_reused();
    the_arena_is_committed_in_pieces();
    return done_testing();
}
