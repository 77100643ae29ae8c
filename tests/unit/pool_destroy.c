/* pool_destroy.c - the end of a pool whose streams are still at work: on what has been released, on what is still resolved, on
 * streams that are detached, on a device whose calls fail; and the deadline. */
#include "tap.h"

#include "fixture.h"

#include <pthread.h>

static snug_pool  *pool;
static client      c;
static gate        held;
static snug_handle handle;
static _Atomic int touched; /* the last of the work on the arena has run */

static void scene(uint64_t destroy_wait_ns) {
    pool = pool_make((snug_pool_options){.capacity = 1 << 20, .destroy_wait_ns = destroy_wait_ns});
    c    = client_make(pool);
    held = (gate){0};
    atomic_store(&touched, 0);
    handle = must_alloc(pool, 4);
}

static void touch(void *arguments) {
    memset(*(void **)arguments, 1, SNUG_GRANULE);
    atomic_store(&touched, 1);
}

/* Behind the gate, on what is resolved: work that writes the arena. */
static void work_begin(void) {
    void *address;
    succeeds(snug_resolve(c.stream, &handle, 1, NULL, &address));
    gate_put(&held, c.native);
    succeeds(snug_host_launch(c.native, touch, &address, sizeof address));
}

static void *opener(void *unused) {
    (void)unused;
    nap_us(30000);
    gate_open(&held);
    return NULL;
}

/* Destroys the pool while another thread opens the gate a while later. */
static snug_status destroy_meanwhile(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, opener, NULL) != 0)
        bail_out("no thread");
    snug_status status = snug_pool_destroy(pool);
    ok(atomic_load(&touched), "all that writes the arena had run by then");
    pthread_join(thread, NULL);
    return status;
}

static void what_is_still_resolved_is_waited_for(void) {
    scene(0);
    work_begin();
    succeeds(destroy_meanwhile());
    snug_host_stream_destroy(c.native);

    scene(0);
    work_begin();
    succeeds(snug_stream_detach(c.stream));
    succeeds(destroy_meanwhile());
    snug_host_stream_destroy(c.native);
}

static void a_failing_event_hides_no_work(void) {
    static const struct {
        const char  *name;
        _Atomic int *countdown;
    } faults[] = {{"record", &hooks.fail_record}, {"sync", &hooks.fail_sync}};
    for (size_t i = 0; i < 2; i++)
        for (int detached = 0; detached < 2; detached++)
            for (int nth = 1; nth <= 12; nth++) {
                scene(0);
                work_begin();
                if (detached)
                    succeeds(snug_stream_detach(c.stream));
                atomic_store(faults[i].countdown, nth);
                is_status(destroy_meanwhile(), SNUG_OK, "call %d of event_%s failing", nth, faults[i].name);
                bool met = atomic_load(faults[i].countdown) == 0;
                hooks_clear();
                snug_host_stream_destroy(c.native);
                if (!met)
                    break;
            }
}

static void a_deadline_names_the_stream_and_keeps_the_pool(void) {
    char     line[256] = "", named[32];
    uint64_t wait      = 20000000;
    scene(wait);
    pool->log.context = line;
    work_begin();
    succeeds(snug_release(c.stream, &handle, 1, NULL));
    snprintf(named, sizeof named, "stream %p", (void *)c.native);
    uint64_t began = clock_ns();
    is_status(snug_pool_destroy(pool), SNUG_TIMEOUT, "destroyed with a stream that doesn't end");
    ok(clock_ns() - began >= wait, "the time allowed was waited");
    ok(strstr(snug_device_error(), named) != NULL, "told which: %s", snug_device_error());
    ok(strstr(line, named) != NULL, "and the log: %s", line);
    ok(snug_pool_check(pool) == SNUG_OK, "the pool is sound");
    snug_handle another = must_alloc(pool, 4);
    succeeds(snug_free(pool, another));
    gate_open(&held);
    succeeds(snug_pool_destroy(pool));
    ok(atomic_load(&touched), "all that writes the arena had run by then");
    is_status(snug_pool_destroy(pool), SNUG_GONE, "and now it is gone");
    snug_host_stream_destroy(c.native);

    scene(wait); /* a call that fails isn't a stream that doesn't end */
    work_begin();
    gate_open(&held);
    atomic_store(&hooks.fail_query, 2);
    succeeds(snug_pool_destroy(pool));
    ok(atomic_load(&touched), "the stream itself was waited for instead");
    snug_host_stream_destroy(c.native);
}

int main(void) {
    what_is_still_resolved_is_waited_for();
    a_failing_event_hides_no_work();
    a_deadline_names_the_stream_and_keeps_the_pool();
    return done_testing();
}
