/* row.c - the CUDA row of the device table over the test double: what there is when there is no driver, captures, default
 * streams, several devices, the arena in virtual memory and without, the thread's own state, and each call failing. */
#include "tap.h"

#include "client.h"
#include "double/double.h"
#include <cuda.h>
#include <snug_cuda.h>

#define GiB (UINT64_C(1) << 30)

/* ------------------------------------------------------------------------------------------------ what tests share */

static char     logged[256];
static unsigned lines;

static void keep_line(void *context, int level, const char *line) {
    (void)context, (void)level;
    lines++;
    snprintf(logged, sizeof logged, "%s", line);
}

static snug_status pool_try(const char *device, int index, uint64_t capacity, snug_pool **pool) {
    snug_pool_options options = snug_pool_options_default();
    options.device            = device;
    options.device_index      = index;
    options.capacity          = capacity;
    options.log               = keep_line;
    return snug_pool_create(&options, pool);
}

static snug_pool *pool_of(uint64_t capacity) {
    snug_pool  *pool;
    snug_status status = pool_try("cuda", 0, capacity, &pool);
    if (status != SNUG_OK)
        bail_out("no pool: %s, %s", snug_status_name(status), snug_device_error());
    return pool;
}

static cudaStream_t stream_make(void) {
    cudaStream_t stream;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        bail_out("no stream");
    return stream;
}

static snug_handle buffer_of(snug_pool *pool, uint64_t bytes) {
    snug_handle handle;
    snug_status status = snug_alloc(pool, bytes, NULL, &handle);
    if (status != SNUG_OK)
        bail_out("no buffer of %" PRIu64 " bytes: %s", bytes, snug_status_name(status));
    return handle;
}

static void nothing_left(const char *of) {
    double_counts left = double_live();
    unsigned      sum  = left.streams + left.events + left.allocations + left.reservations + left.mappings + left.handles;
    is_u64(sum, 0, "%s: nothing is left on the device", of);
}

static uint64_t device_free(void) {
    size_t unused, all;
    return cudaMemGetInfo(&unused, &all) == cudaSuccess ? unused : 0;
}

#define mentions(text, word, ...) ok(strstr((text), (word)) != NULL, __VA_ARGS__)

/* ------------------------------------------------------------------------------------------------ no driver */

static void without_a_driver(cudaError_t error, const char *name) {
    snug_pool *pool = NULL;
    double_absent(error);
    is_status(pool_try("cuda", 0, MiB, &pool), SNUG_NO_DEVICE, "%s: no pool on cuda", name);
    mentions(snug_device_error(), name, "the words name it: %s", snug_device_error());
    is_status(pool_try("auto", 0, MiB, &pool), SNUG_OK, "auto falls back");
    is_string(snug_pool_device(pool), "host", "to host");
    succeeds(snug_pool_destroy(pool));
    double_absent(cudaSuccess);
}

static void auto_says_so_once(void) {
    lines = 0;
    without_a_driver(cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver");
    is_u64(lines, 1, "auto says that it fell back");
    mentions(logged, "cudaErrorInsufficientDriver", "and why: %s", logged);
    without_a_driver(cudaErrorStubLibrary, "cudaErrorStubLibrary");
    is_u64(lines, 1, "once in a process");
    snug_pool *pool;
    is_status(pool_try("auto", 0, MiB, &pool), SNUG_OK, "with a driver");
    is_string(snug_pool_device(pool), "cuda", "auto is cuda");
    succeeds(snug_pool_destroy(pool));
    is_string(snug_pool_device(pool), "", "a pool that is gone is on no device");
    is_status(pool_try("cuda", 1, MiB, &pool), SNUG_NO_DEVICE, "there is one device");
    mentions(snug_device_error(), "index 1", "the words: %s", snug_device_error());
    is_status(pool_try("cuda", -1, MiB, &pool), SNUG_NO_DEVICE, "no negative one");
    nothing_left("auto");
}

/* ------------------------------------------------------------------------------------------------ captures */

static void a_capture_is_left_alone(enum cudaStreamCaptureMode mode, const char *name) {
    snug_pool   *pool   = pool_of(64 * MiB);
    cudaStream_t native = stream_make();
    snug_stream *stream, *again;
    snug_handle  a = buffer_of(pool, MiB), b = buffer_of(pool, MiB);
    void        *address, *other = NULL;
    char         byte = 1;
    cudaGraph_t  graph;
    succeeds(snug_cuda_attach(pool, native, &stream));
    succeeds(snug_fill(stream, a, 0, 3, MiB)); /* so that a poll has something to ask for */
    succeeds(snug_pin(pool, &b, 1, &other));
    cudaStreamBeginCapture(native, mode);
    is_status(snug_resolve(stream, &a, 1, NULL, &address), SNUG_CAPTURING, "%s capture: resolve", name);
    mentions(snug_device_error(), "captured", "the words: %s", snug_device_error());
    is_status(snug_release(stream, &a, 1, NULL), SNUG_CAPTURING, "release");
    is_status(snug_write(stream, a, 0, &byte, 1), SNUG_CAPTURING, "write");
    is_status(snug_unpin(pool, &b, 1, &stream, 1), SNUG_CAPTURING, "unpin with it");
    is_status(snug_stream_sync(stream), SNUG_CAPTURING, "sync");
    is_status(snug_stream_detach(stream), SNUG_CAPTURING, "detach");
    /* what captures work on: a long pin; and the pool goes on for everybody else, this thread included */
    cudaMemsetAsync(other, 5, MiB, native);
    snug_handle c;
    succeeds(snug_alloc(pool, 40 * MiB, NULL, &c));
    succeeds(snug_free(pool, c));
    succeeds(snug_compact(pool, NULL, NULL));
    succeeds(snug_trim(pool, 0, NULL));
    cudaStream_t elsewhere = stream_make();
    succeeds(snug_cuda_attach(pool, elsewhere, &again));
    succeeds(snug_fill(again, a, 0, 4, MiB));
    is_i64(cudaStreamEndCapture(native, &graph), cudaSuccess, "the capture ends well");
    cudaGraphExec_t exec;
    is_i64(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess, "and gives a graph");
    is_i64(cudaGraphLaunch(exec, native), cudaSuccess, "that runs");
    succeeds(snug_read(stream, b, MiB - 1, &byte, 1));
    succeeds(snug_stream_sync(stream));
    is_i64(byte, 5, "and does what was captured");
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    succeeds(snug_unpin(pool, &b, 1, &stream, 1));
    succeeds(snug_stream_detach(stream));
    succeeds(snug_stream_detach(again));
    succeeds(snug_pool_check(pool));
    succeeds(snug_pool_destroy(pool));
    cudaStreamDestroy(native);
    cudaStreamDestroy(elsewhere);
    nothing_left(name);
}

static void the_legacy_stream_while_others_capture(void) {
    snug_pool   *pool = pool_of(64 * MiB);
    snug_handle  a    = buffer_of(pool, MiB);
    snug_stream *legacy;
    void        *address;
    cudaStream_t blocking;
    cudaGraph_t  graph;
    succeeds(snug_cuda_attach(pool, 0, &legacy));
    cudaStreamCreate(&blocking);
    cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed);
    is_status(snug_resolve(legacy, &a, 1, NULL, &address), SNUG_CAPTURING,
              "the legacy stream while a blocking stream captures");
    is_i64(cudaStreamEndCapture(blocking, &graph), cudaSuccess, "the capture ends well");
    is_status(snug_resolve(legacy, &a, 1, NULL, &address), SNUG_OK, "afterwards it can be used");
    succeeds(snug_release(legacy, &a, 1, NULL));
    succeeds(snug_stream_detach(legacy));
    succeeds(snug_pool_destroy(pool));
    cudaGraphDestroy(graph);
    cudaStreamDestroy(blocking);
}

/* ------------------------------------------------------------------------------------------------ streams */

typedef struct visit {
    snug_pool   *pool;
    snug_stream *mine, *theirs;
    snug_handle  handle;
    snug_status  attached, foreign, used, detached;
} visit;

static void *another_thread(void *argument) {
    visit *v = argument;
    void  *address;
    v->attached = snug_cuda_attach(v->pool, cudaStreamPerThread, &v->mine);
    v->foreign  = snug_resolve(v->theirs, &v->handle, 1, NULL, &address);
    v->used     = snug_fill(v->mine, v->handle, 0, 9, MiB);
    v->detached = snug_stream_detach(v->theirs);
    return NULL;
}

static void default_streams(void) {
    snug_pool   *pool = pool_of(64 * MiB);
    snug_stream *zero, *legacy, *own, *native;
    visit        v = {.pool = pool, .handle = buffer_of(pool, MiB)};
    pthread_t    thread;
    char         byte = 0;
    succeeds(snug_cuda_attach(pool, 0, &zero));
    succeeds(snug_cuda_attach(pool, cudaStreamLegacy, &legacy));
    succeeds(snug_stream_attach(pool, NULL, &native));
    is_pointer(legacy, zero, "0 is the legacy stream in a file compiled like this one");
    is_pointer(native, zero, "and a native NULL too");
    succeeds(snug_cuda_attach(pool, cudaStreamPerThread, &own));
    ok(own != zero, "the per-thread stream is another");
    v.theirs = own;
    pthread_create(&thread, NULL, another_thread, &v);
    pthread_join(thread, NULL);
    is_status(v.attached, SNUG_OK, "another thread attaches its own");
    ok(v.mine != own, "which isn't this thread's");
    is_status(v.foreign, SNUG_INVALID, "it can't use this thread's");
    is_status(v.used, SNUG_OK, "it can its own");
    is_status(v.detached, SNUG_INVALID, "nor detach this thread's");
    void *address;
    is_status(snug_resolve(v.mine, &v.handle, 1, NULL, &address), SNUG_INVALID, "nor this thread the other's");
    succeeds(snug_read(own, v.handle, 0, &byte, 1)); /* the other thread has ended; nothing orders the two */
    succeeds(snug_stream_sync(own));
    succeeds(snug_stream_detach(own));
    succeeds(snug_resolve(zero, &v.handle, 1, NULL, &address));
    cudaMemsetAsync(address, 7, MiB, 0);
    is_status(snug_pool_destroy(pool), SNUG_OK, "destroyed with streams attached, one of an ended thread, and a buffer resolved");
    nothing_left("default streams");
}

static void streams_of_other_devices(void) {
    double_devices(2);
    snug_pool   *pools[2];
    cudaStream_t native[2];
    snug_stream *stream[2], *none = NULL;
    for (int i = 0; i < 2; i++) {
        is_status(pool_try("cuda", i, 64 * MiB, &pools[i]), SNUG_OK, "a pool on device %d", i);
        cudaSetDevice(i);
        native[i] = stream_make();
    }
    cudaSetDevice(0);
    for (int i = 0; i < 2; i++) {
        is_status(snug_cuda_attach(pools[i], native[!i], &none), SNUG_INVALID, "a stream of the other device");
        succeeds(snug_cuda_attach(pools[i], native[i], &stream[i]));
    }
    int  device = -1;
    char byte[2] = {0};
    for (int i = 0; i < 2; i++) {
        snug_handle      a = buffer_of(pools[i], MiB);
        snug_stream     *zero;
        succeeds(snug_fill(stream[i], a, 0, 10 + i, MiB));
        succeeds(snug_read(stream[i], a, 77, &byte[i], 1));
        succeeds(snug_stream_sync(stream[i]));
        is_i64(byte[i], 10 + i, "work on device %d with device 0 current", i);
        succeeds(snug_cuda_attach(pools[i], 0, &zero)); /* of the pool's device, not of the current one */
        succeeds(snug_fill(zero, a, 0, 20 + i, MiB));
        succeeds(snug_read(zero, a, 77, &byte[i], 1));
        succeeds(snug_stream_sync(zero));
        is_i64(byte[i], 20 + i, "and on its legacy stream");
    }
    cudaGetDevice(&device);
    is_i64(device, 0, "the current device is what it was");
    for (int i = 0; i < 2; i++) {
        succeeds(snug_pool_destroy(pools[i]));
        cudaStreamDestroy(native[i]);
    }
    nothing_left("two devices");
    double_devices(1);
}

/* ------------------------------------------------------------------------------------------------ the arena */

static void the_arena_grows_and_shrinks(void) {
    uint64_t          before  = device_free(), returned = 0;
    snug_pool_options options = snug_pool_options_default();
    snug_pool        *pool;
    options.device       = "cuda";
    options.capacity     = 512 * MiB;
    options.commit_bytes = 64 * MiB;
    options.bounce_bytes = 8 * MiB;
    succeeds(snug_pool_create(&options, &pool));
    is_u64(before - device_free(), 72 * MiB, "what is committed is taken from the device");
    snug_handle a = buffer_of(pool, 300 * MiB), b = buffer_of(pool, 100 * MiB);
    is_u64(before - device_free(), 408 * MiB, "it grows for what is asked");
    succeeds(snug_free(pool, a));
    succeeds(snug_trim(pool, 0, &returned));
    is_u64(returned, 300 * MiB, "trim packs and gives back what is free");
    is_u64(before - device_free(), 108 * MiB, "really");
    snug_refusal r = {.struct_size = sizeof r};
    snug_handle  c;
    is_status(snug_alloc(pool, 500 * MiB, NULL, &c), SNUG_CAPACITY, "more than the pool may have");
    snug_refusal_get(&r);
    is_u64(r.device_free_bytes, device_free(), "the refusal knows the device's free bytes");
    is_u64(r.device_total_bytes, 8 * GiB, "and all of them");
    succeeds(snug_free(pool, b));
    succeeds(snug_pool_destroy(pool));
    is_u64(device_free(), before, "everything has gone back");
    nothing_left("growing and shrinking");
}

static void another_takes_the_memory(void) {
    void             *taken;
    snug_pool_options options = snug_pool_options_default();
    snug_pool        *pool;
    snug_handle       a;
    options.device       = "cuda";
    options.capacity     = 4 * GiB;
    options.commit_bytes = 2 * MiB;
    succeeds(snug_pool_create(&options, &pool));
    if (cudaMalloc(&taken, 6 * GiB) != cudaSuccess)
        bail_out("no 6 GiB");
    is_status(snug_alloc(pool, 3 * GiB, NULL, &a), SNUG_DEVICE, "the driver has no 3 GiB");
    mentions(snug_device_error(), "cuMemCreate", "the words: %s", snug_device_error());
    mentions(snug_device_error(), "cudaErrorMemoryAllocation", "and what it said");
    is_i64(cudaPeekAtLastError(), cudaSuccess, "the thread's last error is none of ours");
    ok(device_free() > 1900 * MiB, "what was mapped of it went back: %" PRIu64 " MiB free", device_free() / MiB);
    is_status(snug_alloc(pool, GiB, NULL, &a), SNUG_OK, "1 GiB it has");
    cudaFree(taken);
    succeeds(snug_free(pool, a));
    is_status(snug_alloc(pool, 3 * GiB, NULL, &a), SNUG_OK, "and 3 when the other is gone");
    succeeds(snug_pool_check(pool));
    succeeds(snug_pool_destroy(pool));
    nothing_left("out of memory");
}

static void large_pools_have_large_pieces(void) {
    double_memory(200 * GiB);
    uint64_t   calls = double_calls("cuMemCreate");
    snug_pool *pool  = pool_of(141 * GiB);
    calls            = double_calls("cuMemCreate") - calls;
    ok(calls > 500 && calls <= 2048 + 2, "141 GiB in %" PRIu64 " pieces", calls);
    uint64_t returned;
    succeeds(snug_trim(pool, 3 * GiB + 1, &returned));
    ok(returned <= 138 * GiB - 1 && returned > 137 * GiB, "all but 3 GiB goes back, by whole pieces: %" PRIu64 " MiB",
       returned / MiB);
    succeeds(snug_pool_destroy(pool));
    nothing_left("a large pool");
    double_memory(8 * GiB);
}

static void without_virtual_memory(void) {
    double_virtual_memory(false);
    uint64_t     before = device_free(), returned = 77;
    snug_pool   *pool   = pool_of(256 * MiB);
    cudaStream_t native = stream_make();
    snug_stream *stream;
    char         byte = 0;
    ok(before - device_free() >= 256 * MiB, "all of it is taken at once");
    succeeds(snug_cuda_attach(pool, native, &stream));
    snug_handle a = buffer_of(pool, 100 * MiB), b = buffer_of(pool, 100 * MiB);
    succeeds(snug_fill(stream, b, 0, 6, 100 * MiB));
    succeeds(snug_free(pool, a));
    snug_handle large = buffer_of(pool, 150 * MiB);
    succeeds(snug_read(stream, b, 100 * MiB - 1, &byte, 1));
    succeeds(snug_stream_sync(stream));
    is_i64(byte, 6, "what was moved for another is what it was");
    succeeds(snug_free(pool, large));
    is_status(snug_trim(pool, 0, &returned), SNUG_UNSUPPORTED, "it can't shrink");
    is_u64(returned, 77, "and says nothing else");
    large = buffer_of(pool, 150 * MiB);
    succeeds(snug_pool_check(pool));
    succeeds(snug_pool_destroy(pool));
    cudaStreamDestroy(native);
    is_u64(device_free(), before, "everything has gone back");
    nothing_left("no virtual memory");
    double_virtual_memory(true);
}

/* ------------------------------------------------------------------------------------------------ copies */

static void every_other(snug_pool *pool, snug_handle *kept, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        kept[i] = buffer_of(pool, MiB);
    for (unsigned i = 0; i < n; i += 2)
        succeeds(snug_free(pool, kept[i]));
}

static void many_moves_are_batched(void) {
    enum { N = 32 };
    snug_pool  *pool = pool_of(N * MiB);
    snug_handle kept[N];
    every_other(pool, kept, N);
    uint64_t batches = double_calls("cudaMemcpyBatchAsync"), singles = double_calls("cudaMemcpyAsync");
    succeeds(snug_compact(pool, NULL, NULL));
    snug_stats s = client_stats(pool);
    is_u64(s.moves, N / 4, "a quarter moves");
#if CUDART_VERSION >= 12080
    is_u64(double_calls("cudaMemcpyBatchAsync") - batches, 1, "in one call");
    is_u64(double_calls("cudaMemcpyAsync") - singles, 0, "and none singly");
    succeeds(snug_pool_destroy(pool));
    pool = pool_of(N * MiB);
    every_other(pool, kept, N);
    double_fail_nth("cudaMemcpyBatchAsync", 1, cudaErrorNotSupported, false);
    succeeds(snug_compact(pool, NULL, NULL));
    is_u64(client_stats(pool).moves, N / 4, "where there are no batches they move too");
    is_u64(double_calls("cudaMemcpyAsync") - singles, N / 4, "one by one");
    is_i64(cudaPeekAtLastError(), cudaSuccess, "and no error is left behind");
#else
    is_u64(double_calls("cudaMemcpyAsync") - singles, N / 4, "by as many copies");
    (void)batches;
#endif
    succeeds(snug_pool_destroy(pool));
    nothing_left("batches");
}

/* ------------------------------------------------------------------------------------------------ the thread's state */

static void the_last_error_is_the_clients(void) {
    snug_pool   *pool   = pool_of(16 * MiB);
    cudaStream_t native = stream_make();
    snug_stream *stream;
    snug_handle  a = buffer_of(pool, MiB), b;
    succeeds(snug_cuda_attach(pool, native, &stream));
    double_stall(native, true);
    succeeds(snug_fill(stream, a, 0, 1, MiB));
    succeeds(snug_free(pool, a));
    is_status(snug_alloc(pool, 16 * MiB, &(snug_alloc_options){.struct_size = sizeof(snug_alloc_options), .flags = SNUG_ALLOC_SETTLED}, &b),
              SNUG_PENDING, "events that aren't ready were asked");
    is_i64(cudaPeekAtLastError(), cudaSuccess, "and are no error of this thread's");
    ok(cudaMalloc(NULL, 1) != cudaSuccess, "a client makes a mistake");
    double_stall(native, false);
    succeeds(snug_stream_sync(stream));
    succeeds(snug_alloc(pool, 16 * MiB, NULL, &b));
    ok(cudaPeekAtLastError() != cudaSuccess, "which it still finds after calls that went well");
    cudaGetLastError();
    double_fail_nth("cudaEventRecord", 1, cudaErrorInvalidValue, false);
    void *address;
    succeeds(snug_resolve(stream, &b, 1, NULL, &address));
    is_status(snug_release(stream, &b, 1, NULL), SNUG_DEVICE, "a record fails");
    mentions(snug_device_error(), "cudaEventRecord: cudaErrorInvalidValue", "the words: %s", snug_device_error());
    is_i64(cudaPeekAtLastError(), cudaSuccess, "what failed of ours isn't left behind");
    succeeds(snug_release(stream, &b, 1, NULL));
    succeeds(snug_pool_destroy(pool));
    cudaStreamDestroy(native);
    nothing_left("last errors");
}

/* ------------------------------------------------------------------------------------------------ each call fails */

typedef struct outcome {
    snug_status created, destroyed, worst; /* worst: of what was between, the last that wasn't OK */
    unsigned    wrong;                     /* bytes */
} outcome;

static void note(outcome *o, snug_status status) {
    if (status != SNUG_OK)
        o->worst = status;
}

static bool holds(snug_stream *stream, snug_handle handle, char value, outcome *o) {
    static char bytes[2]; /* reads that nobody could wait for may still come */
    snug_status status = snug_read(stream, handle, 0, &bytes[0], 1);
    if (status == SNUG_OK)
        status = snug_read(stream, handle, MiB - 1, &bytes[1], 1);
    if (status == SNUG_OK)
        status = snug_stream_sync(stream);
    note(o, status);
    if (status == SNUG_OK)
        o->wrong += bytes[0] != value || bytes[1] != value;
    return status == SNUG_OK;
}

/* A short life of a pool with everything in it; goes on whatever fails, as long as there is a pool. */
static outcome short_life(cudaStream_t native) {
    enum { N = 12 };
    outcome           o       = {0};
    snug_pool_options options = snug_pool_options_default();
    snug_pool        *pool;
    snug_stream      *stream;
    snug_handle       handles[N];
    bool              filled[N] = {0};
    options.device       = "cuda";
    options.capacity     = N * MiB;
    options.commit_bytes = 4 * MiB;
    options.log_level    = SNUG_LOG_OFF;
    if ((o.created = snug_pool_create(&options, &pool)) != SNUG_OK)
        return o;
    snug_status status = snug_cuda_attach(pool, native, &stream);
    note(&o, status);
    if (status != SNUG_OK && (status = snug_cuda_attach(pool, native, &stream)) != SNUG_OK)
        goto out;
    for (unsigned i = 0; i < N; i++) {
        status = snug_alloc(pool, MiB, NULL, &handles[i]);
        note(&o, status);
        if (status != SNUG_OK) {
            handles[i] = SNUG_HANDLE_NONE;
            continue;
        }
        status = snug_fill(stream, handles[i], 0, (int)i + 1, MiB);
        note(&o, status);
        filled[i] = status == SNUG_OK;
    }
    for (unsigned i = 0; i < N; i += 3)
        if (handles[i]) {
            note(&o, snug_free(pool, handles[i]));
            handles[i] = SNUG_HANDLE_NONE;
        }
    snug_handle large = SNUG_HANDLE_NONE;
    note(&o, snug_alloc(pool, 3 * MiB, NULL, &large));
    if (large)
        note(&o, snug_free(pool, large));
    note(&o, snug_compact(pool, NULL, NULL));
    note(&o, snug_trim(pool, 0, NULL));
    for (unsigned i = 0; i < N; i++) /* once more where a read was what failed */
        if (handles[i] && filled[i] && !holds(stream, handles[i], (char)(i + 1), &o))
            holds(stream, handles[i], (char)(i + 1), &o);
    if (snug_pool_check(pool) == SNUG_CORRUPT)
        o.wrong += 1000;
out:
    o.destroyed = snug_pool_destroy(pool);
    return o;
}

static bool is_expected(snug_status status) {
    return status == SNUG_OK || status == SNUG_DEVICE || status == SNUG_NO_MEMORY || status == SNUG_INVALID ||
           status == SNUG_NO_DEVICE || status == SNUG_LOST;
}

/* Function by function, from its first call to the last that the life makes. */
static void each_call_fails(const char *function, int error, bool sticky) {
    cudaStream_t native = stream_make();
    uint64_t     calls  = double_calls(function);
    outcome      plain  = short_life(native);
    calls               = double_calls(function) - calls;
    if (plain.created != SNUG_OK || plain.worst != SNUG_OK || plain.wrong || plain.destroyed != SNUG_OK)
        bail_out("the life itself fails: %s, %s, %s", snug_status_name(plain.created), snug_status_name(plain.worst),
                 snug_status_name(plain.destroyed));
    unsigned unexpected = 0, wrong = 0, left = 0, silent = 0;
    uint64_t step = calls > 60 ? calls / 60 : 1;
    for (uint64_t n = 1; n <= calls; n += step) {
        double_fail_nth(function, n, error, sticky);
        outcome o = short_life(native);
        unexpected += !is_expected(o.created) || !is_expected(o.worst) || !is_expected(o.destroyed);
        wrong += o.wrong;
        silent += sticky && o.created == SNUG_OK && o.worst != SNUG_LOST && o.destroyed != SNUG_LOST;
        cudaGetLastError();
        if (sticky) {
            double_reset(); /* nothing else ends it */
            native = stream_make();
            continue;
        }
        cudaStreamSynchronize(native);
        double_counts l = double_live();
        left += l.streams - 1 + l.events + l.allocations + l.reservations + l.mappings + l.handles;
        if (l.streams - 1 + l.events + l.allocations + l.reservations + l.mappings + l.handles)
            diag("%s, call %" PRIu64 ": %u streams, %u events, %u reservations, %u mappings, %u handles are left", function,
                 n, l.streams - 1, l.events, l.reservations, l.mappings, l.handles);
    }
    ok(calls > 0 && unexpected == 0, "%s%s: each of %" PRIu64 " calls fails, with a status that tells", function,
       sticky ? ", for good" : "", calls);
    is_u64(wrong, 0, "  nothing is lost");
    if (sticky)
        is_u64(silent, 0, "  the pool is lost, and says so");
    else
        is_u64(left, 0, "  nothing leaks");
    cudaStreamDestroy(native);
    double_reset();
}

static void every_call_fails(void) {
    static const char *const runtime[] = {"cudaGetDevice",         "cudaGetDeviceCount",
                                          "cudaStreamGetId",      "cudaStreamIsCapturing", "cudaStreamCreateWithPriority",
                                          "cudaEventRecord",      "cudaEventQuery",        "cudaEventCreateWithFlags",
                                          "cudaStreamWaitEvent",  "cudaMemcpyAsync",       "cudaMemsetAsync",
                                          "cudaEventSynchronize", "cudaStreamSynchronize", "cudaThreadExchangeStreamCaptureMode"};
    static const char *const driver[] = {"cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess"};
    for (size_t i = 0; i < sizeof runtime / sizeof runtime[0]; i++)
        each_call_fails(runtime[i], cudaErrorInvalidValue, false);
    for (size_t i = 0; i < sizeof driver / sizeof driver[0]; i++)
        each_call_fails(driver[i], CUDA_ERROR_OUT_OF_MEMORY, false);
    each_call_fails("cudaMemcpyAsync", cudaErrorIllegalAddress, true);
    each_call_fails("cudaEventRecord", cudaErrorLaunchFailure, true);
    each_call_fails("cuMemCreate", cudaErrorECCUncorrectable, true);
}

int main(void) {
    unsetenv("SNUG_OPTIONS");
    auto_says_so_once();
    a_capture_is_left_alone(cudaStreamCaptureModeGlobal, "global");
    a_capture_is_left_alone(cudaStreamCaptureModeThreadLocal, "thread-local");
    a_capture_is_left_alone(cudaStreamCaptureModeRelaxed, "relaxed");
    the_legacy_stream_while_others_capture();
    default_streams();
    streams_of_other_devices();
    the_arena_grows_and_shrinks();
    another_takes_the_memory();
    large_pools_have_large_pieces();
    without_virtual_memory();
    many_moves_are_batched();
    the_last_error_is_the_clients();
    every_call_fails();
    return done_testing();
}
