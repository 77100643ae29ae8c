/* pool.c - the contract of pools themselves: options, SNUG_OPTIONS, commit and trim, destroy, fork, exit, streams attached.
 * Buffers: pool_buffers.c; launches and pins: pool_launch.c; verdicts: pool_refuse.c.
 *
 * `pool leave VARIANT` is the child of the tests of an exit that leaves a pool behind. */
#include "tap.h"

#include "client.h"

#include <fcntl.h>
#include <sys/wait.h>

static const char *self; /* this program's path */

static snug_status create(snug_pool_options options, const char *environment, snug_pool **pool) {
    options.log_level = options.log_level ? options.log_level : SNUG_LOG_OFF;
    if (environment)
        setenv("SNUG_OPTIONS", environment, 1);
    snug_status status = snug_pool_create(&options, pool);
    unsetenv("SNUG_OPTIONS");
    return status;
}

static snug_pool_options of_capacity(uint64_t capacity) {
    snug_pool_options options = snug_pool_options_default();
    options.capacity          = capacity;
    return options;
}

static void test_statuses(void) {
    is_string(snug_status_name(SNUG_OK), "OK", "the name of a status");
    is_string(snug_status_name(SNUG_GONE), "GONE", "of the last");
    is_string(snug_status_name(SNUG_STATUS_COUNT), "?", "of none");
    is_string(snug_status_name((snug_status)-1), "?", "nor of a negative one");
    ok(snug_status_string((snug_status)9999) != NULL, "there is a sentence for anything");
    is_string(snug_version(), "0.1.0", "the version");
}

static void test_options(void) {
    snug_pool        *pool = (snug_pool *)&self, *untouched = pool;
    snug_pool_options o = of_capacity(1 * MiB);
    is_status(snug_pool_create(&o, NULL), SNUG_INVALID, "nowhere to put the pool");
    is_status(snug_pool_create(NULL, &pool), SNUG_INVALID, "no options: no capacity");
    is_status(create(of_capacity(0), NULL, &pool), SNUG_INVALID, "capacity 0");
    is_status(create(of_capacity(255), NULL, &pool), SNUG_INVALID, "less than a granule");
    is_status(create(of_capacity(SNUG_SIZE_MAX + 1), NULL, &pool), SNUG_TOO_LARGE, "more than SNUG_SIZE_MAX");
    is_status(create(of_capacity(UINT64_MAX), NULL, &pool), SNUG_TOO_LARGE, "2^64 - 1");
    o.struct_size = 0;
    is_status(create(o, NULL, &pool), SNUG_INVALID, "options without their size");
    o        = of_capacity(1 * MiB);
    o.device = "abacus";
    is_status(create(o, NULL, &pool), SNUG_NO_DEVICE, "an unknown device");
    o.device       = "host";
    o.device_index = 7;
    is_status(create(o, NULL, &pool), SNUG_NO_DEVICE, "an unknown index");
    o             = of_capacity(1 * MiB);
    o.handles_max = 1u << 24;
    is_status(create(o, NULL, &pool), SNUG_INVALID, "too many handles");
    ok(pool == untouched, "no pool is written");
    o        = of_capacity(1000);
    o.device = "auto";
    succeeds(create(o, NULL, &pool));
    is_u64(client_stats(pool).limit_bytes - client_stats(pool).bounce_bytes, 768,
           "capacity is rounded down to the granule");
    ok(client_stats(pool).bounce_bytes >= 64 * KiB && client_stats(pool).bounce_bytes <= 32 * MiB, "bounce buffer");
    succeeds(snug_pool_destroy(pool));
    o              = of_capacity(1 * MiB);
    o.commit_bytes = 1; /* less than a granule */
    succeeds(create(o, NULL, &pool));
    succeeds(snug_pool_destroy(pool));
}

static void test_environment(void) {
    static const char *const bad[] = {
        "capacity",     "capacity=", "capacity=12X",         "capacity=-1",          "colour=red",
        "jumble=maybe", "log=loud",  "compaction=off,,x",    "handles_max=16777216", "capacity=99999999999G",
        "=1",           "device=",   "capacity=1M jumble=on"};
    snug_pool *pool = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snug_status status = create(of_capacity(1 * MiB), bad[i], &pool);
        ok(status == SNUG_OPTIONS || (strcmp(bad[i], "device=") == 0 && status == SNUG_NO_DEVICE),
           "SNUG_OPTIONS \"%s\": %s", bad[i], snug_status_name(status));
        if (status == SNUG_OK)
            snug_pool_destroy(pool);
    }
    is_status(create(of_capacity(1 * MiB), "device=abacus", &pool), SNUG_NO_DEVICE, "the environment's device");
    is_status(create(of_capacity(1 * MiB), "capacity=1", &pool), SNUG_INVALID, "the environment's capacity");
    succeeds(create(of_capacity(1 * MiB), "", &pool));
    succeeds(snug_pool_destroy(pool));
    succeeds(create(of_capacity(256),
                    "capacity=3K,handles_max=2,compaction=off,log=off,pin_wait_us=5,jumble=off,device=host", &pool));
    is_u64(client_stats(pool).limit_bytes - client_stats(pool).bounce_bytes, 3072, "the environment overrides");
    snug_handle h[4];
    for (int i = 0; i < 2; i++)
        succeeds(snug_alloc(pool, 1024, NULL, &h[i]));
    is_status(snug_alloc(pool, 256, NULL, &h[2]), SNUG_HANDLES, "handles_max=2");
    succeeds(snug_free(pool, h[0]));
    is_status(snug_alloc(pool, 2048, NULL, &h[0]), SNUG_FRAGMENTED, "compaction=off");
    succeeds(snug_pool_destroy(pool));
    succeeds(create(snug_pool_options_default(), "capacity=2M,compactor=on,generation_first=4294967295", &pool));
    is_status(snug_compactor_start(pool, NULL), SNUG_INVALID, "compactor=on started one");
    succeeds(snug_compactor_stop(pool));
    succeeds(snug_pool_destroy(pool));
}

static void test_commit_and_trim(void) {
    snug_pool_options o = of_capacity(32 * MiB);
    o.commit_bytes      = 2 * MiB;
    client      c       = client_open_with(o);
    uint64_t    bounce = client_stats(c.pool).bounce_bytes, returned = 1;
    snug_handle h[8], big;
    is_u64(client_stats(c.pool).committed_bytes, 2 * MiB + bounce, "as much as was asked for is committed");
    is_u64(client_stats(c.pool).limit_bytes, 32 * MiB + bounce, "the limit is all of it");
    for (int i = 0; i < 8; i++) {
        succeeds(snug_alloc(c.pool, 1 * MiB, NULL, &h[i]));
        succeeds(client_fill(c.stream, c.native, h[i], 1 * MiB, (unsigned)i));
    }
    is_u64(client_stats(c.pool).committed_bytes, 8 * MiB + bounce, "it grew on demand, and no further");
    is_status(snug_alloc(c.pool, 25 * MiB, NULL, &big), SNUG_CAPACITY, "more than can be had");
    is_u64(client_stats(c.pool).committed_bytes, 8 * MiB + bounce, "a refused request commits nothing (I10)");
    is_status(snug_resize(c.pool, h[0], 26 * MiB), SNUG_CAPACITY, "nor in a resize");
    is_u64(client_stats(c.pool).committed_bytes, 8 * MiB + bounce, "a refused resize commits nothing (I10)");
    succeeds(snug_alloc(c.pool, 24 * MiB, NULL, &big));
    is_u64(client_stats(c.pool).free_bytes, 0, "all that there is");
    succeeds(snug_free(c.pool, big));
    succeeds(snug_trim(c.pool, 0, &returned));
    uint64_t now = client_stats(c.pool).committed_bytes - bounce;
    ok(now == 8 * MiB, "trimmed to what lives: %" PRIu64, now);
    for (int i = 0; i < 8; i += 2)
        succeeds(snug_free(c.pool, h[i]));
    succeeds(snug_trim(c.pool, 6 * MiB, &returned));
    is_u64(returned, 2 * MiB, "packed, then down to keep_bytes");
    succeeds(snug_trim(c.pool, 0, &returned));
    is_u64(returned, 2 * MiB, "then down to what lives");
    is_u64(client_stats(c.pool).committed_bytes, 4 * MiB + bounce, "four buffers of 1 MiB");
    for (int i = 1; i < 8; i += 2)
        succeeds(client_check(c.stream, c.native, h[i], 1 * MiB, (unsigned)i));
    succeeds(snug_trim(c.pool, 0, NULL));
    succeeds(snug_alloc(c.pool, 28 * MiB, NULL, &big));
    succeeds(client_fill(c.stream, c.native, big, 28 * MiB, 99));
    succeeds(client_check(c.stream, c.native, big, 28 * MiB, 99));
    succeeds(snug_free(c.pool, big));
    for (int i = 1; i < 8; i += 2)
        succeeds(snug_free(c.pool, h[i])); /* their checks are still queued: trim waits for them */
    succeeds(snug_trim(c.pool, 0, &returned));
    is_u64(returned, 32 * MiB, "an empty pool gives all of it back");
    succeeds(snug_alloc(c.pool, 1, NULL, &h[0]));
    succeeds(snug_stream_sync(c.stream));
    is_u64(atomic_load(&client_faults), 0, "commit and trim: contents");
    succeeds(client_close(&c));
}

static void test_pools_max(void) {
    snug_pool  *pools[256];
    unsigned    n      = 0;
    snug_status status = SNUG_OK;
    snug_pool_options o = of_capacity(SNUG_GRANULE);
    o.handles_max       = 16; /* their tables together may not fit valgrind's address space */
    while (n < 256 && (status = create(o, NULL, &pools[n])) == SNUG_OK)
        n++;
    is_u64(n, 255, "255 pools at once");
    is_status(status, SNUG_LIMIT, "then LIMIT");
    snug_handle h[255], more;
    bool        apart = true, each = true;
    for (unsigned i = 0; i < n; i++)
        each &= snug_alloc(pools[i], 1, NULL, &h[i]) == SNUG_OK;
    for (unsigned i = 1; i < n; i++)
        apart &= snug_free(pools[i - 1], h[i]) == SNUG_FOREIGN;
    ok(each && apart, "each grants its own, and knows the others' as foreign");
    succeeds(snug_pool_destroy(pools[7]));
    succeeds(create(of_capacity(SNUG_GRANULE), NULL, &pools[7]));
    is_status(snug_alloc(pools[8], 1, NULL, &more), SNUG_CAPACITY, "the others go on");
    for (unsigned i = 0; i < n; i++)
        snug_pool_destroy(pools[i]);
}

static void count_line(void *context, int level, const char *line) {
    (void)level;
    if (strstr(line, "live"))
        ++*(int *)context;
}

static void test_destroy(void) {
    int               lines = 0;
    snug_pool_options o     = of_capacity(1 * MiB);
    o.log                   = count_line;
    o.log_context           = &lines;
    snug_pool        *pool;
    snug_host_stream *native;
    snug_stream      *stream, *again = NULL;
    snug_handle       h, made        = 77;
    void             *address = &pool;
    char              byte    = 0;
    succeeds(snug_host_stream_create(&native));
    succeeds(snug_pool_create(&o, &pool));
    succeeds(snug_stream_attach(pool, native, &stream));
    succeeds(snug_alloc(pool, 5000, NULL, &h));
    succeeds(client_launch(stream, native, h, (client_job){.put = 5000, .dawdle_us = 20000}));
    succeeds(snug_pool_destroy(pool)); /* with a live handle, and work under way */
    is_i64(lines, 1, "the live handle is warned of, once");
    snug_stats          stats  = {.struct_size = sizeof stats};
    snug_quotation      quote  = {.struct_size = sizeof quote};
    snug_handle_info    info   = {.struct_size = sizeof info};
    snug_compact_result result = {.struct_size = sizeof result};
    size_t              count;
    is_status(snug_pool_destroy(pool), SNUG_GONE, "destroy twice");
    is_status(snug_alloc(pool, 1, NULL, &made), SNUG_GONE, "alloc");
    is_status(snug_free(pool, h), SNUG_GONE, "free");
    is_status(snug_resize(pool, h, 1), SNUG_GONE, "resize");
    is_status(snug_handle_info_get(pool, h, &info), SNUG_GONE, "handle_info_get");
    is_status(snug_resolve(stream, &h, 1, NULL, &address), SNUG_GONE, "resolve");
    is_status(snug_release(stream, &h, 1, NULL), SNUG_GONE, "release");
    is_status(snug_pin(pool, &h, 1, &address), SNUG_GONE, "pin");
    is_status(snug_unpin(pool, &h, 1, NULL, 0), SNUG_GONE, "unpin");
    is_status(snug_write(stream, h, 0, &byte, 1), SNUG_GONE, "write");
    is_status(snug_read(stream, h, 0, &byte, 1), SNUG_GONE, "read");
    is_status(snug_fill(stream, h, 0, 0, 1), SNUG_GONE, "fill");
    is_status(snug_copy(stream, h, 0, h, 2, 1), SNUG_GONE, "copy");
    is_status(snug_compact(pool, NULL, &result), SNUG_GONE, "compact");
    is_status(snug_compactor_start(pool, NULL), SNUG_GONE, "compactor_start");
    is_status(snug_compactor_stop(pool), SNUG_GONE, "compactor_stop");
    is_status(snug_compaction_set(pool, 0), SNUG_GONE, "compaction_set");
    is_status(snug_trim(pool, 0, NULL), SNUG_GONE, "trim");
    is_status(snug_quote(pool, 1, &quote), SNUG_GONE, "quote");
    is_status(snug_stats_get(pool, &stats), SNUG_GONE, "stats_get");
    is_status(snug_tags_get(pool, NULL, 0, &count), SNUG_GONE, "tags_get");
    is_status(snug_summary_write(pool, stderr), SNUG_GONE, "summary_write");
    is_status(snug_pool_check(pool), SNUG_GONE, "pool_check");
    is_status(snug_stream_attach(pool, native, &again), SNUG_GONE, "stream_attach");
    is_status(snug_stream_sync(stream), SNUG_GONE, "stream_sync");
    is_status(snug_stream_detach(stream), SNUG_GONE, "stream_detach");
    ok(made == 77 && address == &pool && again == NULL, "no output is written");
    ok(snug_moves(pool) == snug_moves(pool), "moves may be read");
    succeeds(snug_host_stream_destroy(native));
    is_status(snug_pool_destroy(NULL), SNUG_INVALID, "destroy of no pool");
}

static void test_streams(void) {
    client                   c = client_open(1 * MiB);
    snug_stream             *again, *gone = c.stream;
    static _Alignas(64) char no_stream[4096];
    is_status(snug_stream_attach(c.pool, no_stream, &again), SNUG_INVALID, "not a stream");
    is_status(snug_stream_attach(c.pool, NULL, &again), SNUG_INVALID, "no stream");
    succeeds(snug_stream_attach(c.pool, c.native, &again));
    is_pointer(again, c.stream, "attached twice: the same stream");
    is_u64(client_stats(c.pool).streams_attached, 1, "counted once");
    succeeds(snug_stream_detach(again));
    succeeds(snug_stream_sync(c.stream)); /* still there */
    succeeds(snug_stream_detach(c.stream));
    is_status(snug_stream_sync(gone), SNUG_GONE, "after as many detaches it is gone");
    is_status(snug_stream_detach(gone), SNUG_GONE, "one detach too many");
    succeeds(snug_stream_attach(c.pool, c.native, &c.stream));

    enum { MANY = 100 };
    static snug_host_stream *natives[MANY];
    static snug_stream      *streams[MANY];
    snug_handle              h[MANY];
    bool                     held = true;
    for (unsigned i = 0; i < MANY; i++) {
        held &= snug_host_stream_create(&natives[i]) == SNUG_OK &&
                snug_stream_attach(c.pool, natives[i], &streams[i]) == SNUG_OK;
        held &= snug_alloc(c.pool, 4000, NULL, &h[i]) == SNUG_OK &&
                client_fill(streams[i], natives[i], h[i], 4000, i) == SNUG_OK;
    }
    ok(held, "%d streams", MANY);
    is_u64(client_stats(c.pool).streams_attached, MANY + 1, "all attached");
    for (unsigned i = 0; i < MANY;
         i += 2) /* holes whose fences lie on half of the streams, then one request over them all */
        held &= snug_free(c.pool, h[i]) == SNUG_OK;
    snug_handle all;
    uint64_t    size = client_stats(c.pool).free_bytes;
    held &= snug_alloc(c.pool, size, NULL, &all) == SNUG_OK &&
            client_fill(streams[1], natives[1], all, size, 500) == SNUG_OK;
    for (unsigned i = 1; i < MANY; i += 2) {
        held &= client_check(streams[(i + 4) % MANY], natives[(i + 4) % MANY], h[i], 4000, i) == SNUG_OK;
        snug_host_stream_wait(natives[(i + 4) % MANY], natives[1]);
        held &= client_check(streams[(i + 4) % MANY], natives[(i + 4) % MANY], all, size, 500) == SNUG_OK;
    }
    for (unsigned i = 0; i < MANY; i++) /* work pending, each of them */
        held &= snug_stream_detach(streams[i]) == SNUG_OK && snug_host_stream_destroy(natives[i]) == SNUG_OK;
    ok(held, "used, moved, detached and destroyed");
    is_u64(atomic_load(&client_faults), 0, "many streams: contents");
    is_u64(client_stats(c.pool).streams_attached, 1, "one is left");
    succeeds(client_close(&c));
}

/* The detached stream's work still orders those that get its memory. */
static void test_detach_pending(void) {
    client            c = client_open(64 * KiB);
    snug_host_stream *native;
    snug_stream      *stream;
    snug_handle       h, next;
    client_gate       gate;
    succeeds(snug_host_stream_create(&native));
    succeeds(snug_stream_attach(c.pool, native, &stream));
    succeeds(snug_alloc(c.pool, 64 * KiB, NULL, &h));
    gate_shut(&gate, native);
    succeeds(client_fill(stream, native, h, 64 * KiB, 1));
    succeeds(snug_free(c.pool, h));
    succeeds(snug_stream_detach(stream));
    succeeds(snug_alloc(c.pool, 64 * KiB, NULL, &next));
    succeeds(client_fill(c.stream, c.native, next, 64 * KiB, 2));
    gate_open(&gate);
    succeeds(snug_host_stream_destroy(native));
    succeeds(client_check(c.stream, c.native, next, 64 * KiB, 2));
    succeeds(snug_stream_sync(c.stream));
    is_u64(atomic_load(&client_faults), 0, "detach with work pending: contents");
    succeeds(client_close(&c));
}

static void test_fork(void) {
    client      c = client_open(1 * MiB);
    snug_handle h, made;
    void       *address;
    succeeds(snug_alloc(c.pool, 1000, NULL, &h));
    succeeds(client_fill(c.stream, c.native, h, 1000, 1));
    succeeds(snug_stream_sync(c.stream));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        snug_stats stats = {.struct_size = sizeof stats};
        int        wrong = 0;
        wrong += snug_alloc(c.pool, 1, NULL, &made) != SNUG_FORKED;
        wrong += snug_free(c.pool, h) != SNUG_FORKED;
        wrong += snug_resize(c.pool, h, 1) != SNUG_FORKED;
        wrong += snug_resolve(c.stream, &h, 1, NULL, &address) != SNUG_FORKED;
        wrong += snug_release(c.stream, &h, 1, NULL) != SNUG_FORKED;
        wrong += snug_compact(c.pool, NULL, NULL) != SNUG_FORKED;
        wrong += snug_stream_sync(c.stream) != SNUG_FORKED;
        wrong += snug_stream_detach(c.stream) != SNUG_FORKED;
        wrong += snug_stats_get(c.pool, &stats) != SNUG_FORKED;
        wrong += snug_pool_destroy(c.pool) != SNUG_FORKED;
        _exit(wrong);
    }
    int status = -1;
    waitpid(child, &status, 0);
    is_i64(status, 0, "the child is told FORKED by every call");
    succeeds(client_check(c.stream, c.native, h, 1000, 1));
    succeeds(snug_stream_sync(c.stream));
    succeeds(snug_free(c.pool, h));
    is_u64(atomic_load(&client_faults), 0, "the parent goes on");
    succeeds(client_close(&c));
}

static client left; /* what a child leaves behind in a global */

static int leave(const char *variant) {
    snug_handle        h[16];
    snug_pool_options  o = of_capacity(4 * MiB);
    snug_host_stream  *native;
    snug_stream       *stream;
    static client_gate gate;
    if (snug_pool_create(&o, &left.pool) != SNUG_OK || snug_host_stream_create(&left.native) != SNUG_OK ||
        snug_host_stream_create(&native) != SNUG_OK ||
        snug_stream_attach(left.pool, left.native, &left.stream) != SNUG_OK ||
        snug_stream_attach(left.pool, native, &stream) != SNUG_OK || snug_compactor_start(left.pool, NULL) != SNUG_OK)
        return 2;
    if (strcmp(variant, "stalled") == 0)
        gate_shut(&gate, native);
    for (unsigned i = 0; i < 16; i++)
        if (snug_alloc(left.pool, 200000, NULL, &h[i]) != SNUG_OK ||
            client_fill(left.stream, left.native, h[i], 200000, i) != SNUG_OK ||
            client_launch(stream, native, h[i], (client_job){.dawdle_us = 100}) != SNUG_OK)
            return 3;
    for (unsigned i = 0; i < 16; i += 2)
        if (snug_free(left.pool, h[i]) != SNUG_OK)
            return 4;
    if (snug_compact(left.pool, NULL, NULL) != SNUG_OK)
        return 5;
    if (strcmp(variant, "atexit") == 0)
        return snug_pool_destroy(left.pool) == SNUG_OK && snug_pool_destroy(left.pool) == SNUG_GONE ? 0 : 6;
    return 0;
}

static void test_left_behind(const char *variant) {
    int ends[2];
    fflush(stdout);
    if (pipe(ends) != 0)
        bail_out("no pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        execl(self, self, "leave", variant, (char *)NULL);
        _exit(99);
    }
    close(ends[1]);
    char    said[400];
    ssize_t n, all = 0;
    while (all < (ssize_t)sizeof said - 1 && (n = read(ends[0], said + all, sizeof said - 1 - (size_t)all)) > 0)
        all += n;
    said[all] = 0;
    close(ends[0]);
    int status = -1;
    waitpid(child, &status, 0);
    is_i64(status, 0, "a pool left behind at exit, %s: exit status 0", variant);
    if (strcmp(variant, "atexit") != 0) /* there, live handles are warned of */
        is_string(said, "", "silently, %s", variant);
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 2 && strcmp(argv[1], "leave") == 0)
        return leave(argv[2]);
    test_statuses();
    test_options();
    test_environment();
    test_commit_and_trim();
    test_pools_max();
    test_destroy();
    test_streams();
    test_detach_pending();
    test_fork();
    test_left_behind("busy");
    test_left_behind("stalled");
    test_left_behind("atexit");
    return done_testing();
}
