/* 05: a CUDA graph over buffers that move, in three ways. A graph has its kernels' arguments fixed when it is made, so an
 * address in it must hold for as long as the graph is launched:
 *   1. pinned: the buffers are pinned long while the graph lives. Nothing to do per launch; the buffers never move;
 *   2. patched: they are resolved before the launches, and the graph is brought up to date (cudaGraphExecUpdate) where
 *      snug_moves says that something has moved since;
 *   3. table: the kernels are given the handle, and read the address in the pool's address table. Never patched.
 * Between the rounds everything that isn't pinned is moved. doc/cuda.md says which way is for what. */
#include <snug_cuda.h>

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 16 << 10, ROUNDS = 8, REPLAYS = 200, FILLERS = 16 };
enum { STATE, FIRST, SECOND, BUFFERS }; /* what the graph works on: state = 3 state + first, state = 5 state + second */

static void check(snug_status status, const char *what) {
    if (status == SNUG_OK)
        return;
    const char *words = snug_device_error(); /* the runtime's own, if it was the runtime that refused */
    fprintf(stderr, "%s: %s%s%s\n", what, snug_status_string(status), *words ? ": " : "", words);
    exit(1);
}

static void check(cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

__global__ void graph_step(unsigned *state, const unsigned *term, unsigned factor, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        state[i] = factor * state[i] + term[i];
}

/* The same, of buffers that it finds by their handles. */
__global__ void graph_step_by_table(const void *table, snug_handle state, snug_handle term, unsigned factor,
                                    unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned *at = snug_cuda_at<unsigned>(table, state);
        at[i]        = factor * at[i] + snug_cuda_at<const unsigned>(table, term)[i];
    }
}

/* ------------------------------------------------------------------------------------------------ what the ways share */

static snug_pool   *pool;
static cudaStream_t native, capturing; /* no snug call on the second one: it only makes graphs */
static snug_stream *stream;
static snug_handle  buffers[BUFFERS], fillers[FILLERS];
static unsigned     start[BUFFERS][WORDS], seen[WORDS];

static const snug_access access_of[BUFFERS] = {SNUG_WRITE, SNUG_READ, SNUG_READ};

static void buffers_make(uint32_t flags) {
    snug_alloc_options options = snug_alloc_options_default();
    options.flags              = flags;
    for (int b = 0; b < BUFFERS; b++) {
        check(snug_alloc(pool, sizeof start[b], &options, &buffers[b]), "alloc");
        check(snug_write(stream, buffers[b], 0, start[b], sizeof start[b]), "write");
    }
}

static void buffers_free(void) {
    for (int b = 0; b < BUFFERS; b++)
        check(snug_free(pool, buffers[b]), "free");
}

/* Some of what else is in the pool is replaced, and everything moves that can: with the pool's option jumble, which is for
 * tests, a step moves all that is idle, wanted or not. */
static void commotion(void) {
    check(snug_stream_sync(stream), "sync");
    for (int f = 0; f < FILLERS; f += 2) {
        check(snug_free(pool, fillers[f]), "free");
        check(snug_alloc(pool, sizeof start[0], NULL, &fillers[f]), "alloc");
    }
    check(snug_compact(pool, NULL, NULL), "compact");
}

static cudaGraph_t capture(void *const at[BUFFERS]) {
    cudaGraph_t graph;
    check(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeThreadLocal), "begin capture");
    graph_step<<<WORDS / 256, 256, 0, capturing>>>((unsigned *)at[STATE], (unsigned *)at[FIRST], 3, WORDS);
    graph_step<<<WORDS / 256, 256, 0, capturing>>>((unsigned *)at[STATE], (unsigned *)at[SECOND], 5, WORDS);
    check(cudaGetLastError(), "launch");
    check(cudaStreamEndCapture(capturing, &graph), "end capture");
    return graph;
}

static cudaGraphExec_t instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec;
    check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
    check(cudaGraphDestroy(graph), "destroy graph");
    return exec;
}

static void replay(cudaGraphExec_t exec) {
    for (int r = 0; r < REPLAYS; r++)
        check(cudaGraphLaunch(exec, native), "launch graph");
}

/* Whether the state is what all replays together make of its start: a state + b first + c second. */
static bool right(void) {
    unsigned a = 1, b = 0, c = 0;
    for (int r = 0; r < ROUNDS * REPLAYS; r++) {
        a *= 15;
        b = 15 * b + 5;
        c = 15 * c + 1;
    }
    check(snug_read(stream, buffers[STATE], 0, seen, sizeof seen), "read");
    check(snug_stream_sync(stream), "sync");
    for (int i = 0; i < WORDS; i++)
        if (seen[i] != a * start[STATE][i] + b * start[FIRST][i] + c * start[SECOND][i]) {
            fprintf(stderr, "word %d is wrong\n", i);
            return false;
        }
    return true;
}

static void report(const char *way, int changes, int patches, bool is_right) {
    printf("%s: %d replays, addresses changed in %d of %d rounds, %d patches, %s\n", way, ROUNDS * REPLAYS, changes,
           ROUNDS, patches, is_right ? "all results are right" : "results are wrong");
}

/* ------------------------------------------------------------------------------------------------ the three ways */

static bool pinned(void) {
    void *at[BUFFERS];
    buffers_make(SNUG_ALLOC_LONG_PINNED);               /* at the low end, where they are in nobody's way */
    check(snug_pin(pool, buffers, BUFFERS, at), "pin"); /* waits until their contents are in place */
    cudaGraphExec_t exec = instantiate(capture(at));
    for (int round = 0; round < ROUNDS; round++) {
        replay(exec);
        commotion();
    }
    check(snug_unpin(pool, buffers, BUFFERS, &stream, 1), "unpin"); /* the graph was launched on this stream */
    bool is_right = right();
    check(cudaGraphExecDestroy(exec), "destroy exec");
    buffers_free();
    report("pinned", 0, 0, is_right);
    return is_right;
}

static bool patched(void) {
    void           *at[BUFFERS], *before[BUFFERS] = {};
    cudaGraphExec_t exec    = NULL;
    uint64_t        moves   = 0; /* as of the addresses in the graph */
    int             changes = 0, patches = 0;
    buffers_make(0);
    for (int round = 0; round < ROUNDS; round++) {
        /* One resolve and one release for all launches between them, and the patch is between them too. */
        check(snug_resolve(stream, buffers, BUFFERS, access_of, at), "resolve");
        if (!exec) {
            exec = instantiate(capture(at));
        } else if (snug_moves(pool) != moves) {
            cudaGraphExecUpdateResultInfo result;
            cudaGraph_t                   graph = capture(at);
            check(cudaGraphExecUpdate(exec, graph, &result), "update"); /* launches under way keep what they had */
            check(cudaGraphDestroy(graph), "destroy graph");
            patches++;
        }
        moves = snug_moves(pool);
        changes += round > 0 && memcmp(at, before, sizeof at) != 0;
        memcpy(before, at, sizeof at);
        replay(exec);
        check(snug_release(stream, buffers, BUFFERS, access_of), "release");
        if (round % 2 == 0) /* nothing moves in every other round, and nothing is patched then */
            commotion();
    }
    bool is_right = right();
    check(cudaGraphExecDestroy(exec), "destroy exec");
    buffers_free();
    report("patched", changes, patches, is_right);
    return is_right;
}

static bool by_table(void) {
    void       *table, *at[BUFFERS], *before[BUFFERS] = {};
    int         changes = 0;
    cudaGraph_t graph;
    buffers_make(0);
    check(snug_address_table(pool, &table), "address table");
    check(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeThreadLocal), "begin capture");
    graph_step_by_table<<<WORDS / 256, 256, 0, capturing>>>(table, buffers[STATE], buffers[FIRST], 3, WORDS);
    graph_step_by_table<<<WORDS / 256, 256, 0, capturing>>>(table, buffers[STATE], buffers[SECOND], 5, WORDS);
    check(cudaGetLastError(), "launch");
    check(cudaStreamEndCapture(capturing, &graph), "end capture");
    cudaGraphExec_t exec = instantiate(graph);
    for (int round = 0; round < ROUNDS; round++) {
        /* The table doesn't replace the resolve: it brings the entries up to date on this stream, and keeps the buffers
         * where they are until all is enqueued. */
        check(snug_resolve(stream, buffers, BUFFERS, access_of, at), "resolve");
        changes += round > 0 && memcmp(at, before, sizeof at) != 0;
        memcpy(before, at, sizeof at);
        replay(exec);
        check(snug_release(stream, buffers, BUFFERS, access_of), "release");
        commotion();
    }
    bool is_right = right();
    check(cudaGraphExecDestroy(exec), "destroy exec");
    buffers_free();
    report("table", changes, 0, is_right);
    return is_right;
}

int main(void) {
    snug_pool_options options = snug_pool_options_default();
    options.device            = "cuda";
    options.capacity          = 4 << 20;
    options.handles_max       = 1024; /* the address table has a place for each */
    options.address_table     = 1;
    options.jumble            = 1;
    check(snug_pool_create(&options, &pool), "pool");
    check(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), "stream");
    check(cudaStreamCreateWithFlags(&capturing, cudaStreamNonBlocking), "stream");
    check(snug_cuda_attach(pool, native, &stream), "attach");
    for (int b = 0; b < BUFFERS; b++)
        for (unsigned i = 0; i < WORDS; i++)
            start[b][i] = 1000000u * (unsigned)b + i;
    for (int f = 0; f < FILLERS; f++)
        check(snug_alloc(pool, sizeof start[0], NULL, &fillers[f]), "alloc");

    bool all_right = pinned() && patched() && by_table();

    for (int f = 0; f < FILLERS; f++)
        check(snug_free(pool, fillers[f]), "free");
    check(snug_stream_detach(stream), "detach");
    check(snug_pool_destroy(pool), "destroy");
    check(cudaStreamDestroy(native), "destroy stream");
    check(cudaStreamDestroy(capturing), "destroy stream");
    return all_right ? 0 : 1;
}
