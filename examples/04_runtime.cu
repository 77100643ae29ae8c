/* 04: a small runtime on a GPU. Two threads with two streams each serve requests: a request allocates its activations, sends
 * them through the layers of a model, and some of it stays for a while. Every launch resolves the handles that it uses and
 * releases them again, the weights for reading, the activations for writing; all the while the background compactor moves
 * what is idle. All values are integers that can be foretold, and a kernel compares every one of them before it is freed.
 *
 *     examples/04_runtime [SECONDS]        default 3 */
#include <snug_cuda.h>

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LAYERS = 8, THREADS = 2, STREAMS = 2, KEPT = 24, BURST = 16 };
enum { WORDS_MAX = 256 << 10, WORDS_MIN = 4 << 10 }; /* of an activation; a layer's weights have the most */

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

/* ------------------------------------------------------------------------------------------------ kernels */

static __device__ unsigned weight(unsigned layer, unsigned i) {
    return (layer + 1) * 2654435761u ^ i;
}

__global__ void runtime_weights(unsigned *w, unsigned n, unsigned layer) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] = weight(layer, i);
}

__global__ void runtime_input(unsigned *x, unsigned n, unsigned seed) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = seed + i;
}

__global__ void runtime_layer(unsigned *y, const unsigned *x, const unsigned *w, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 3 * x[i] + w[i];
}

/* Counts the words that aren't what all layers make of the input. */
__global__ void runtime_verify(const unsigned *x, unsigned n, unsigned seed, unsigned *wrong) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned expected = seed + i;
    for (unsigned layer = 0; layer < LAYERS; layer++)
        expected = 3 * expected + weight(layer, i);
    if (x[i] != expected)
        atomicAdd(wrong, 1u);
}

static unsigned blocks(unsigned n) {
    return (n + 255) / 256;
}

/* ------------------------------------------------------------------------------------------------ a thread */

struct activation {
    snug_handle handle; /* SNUG_HANDLE_NONE: there is none */
    unsigned    words, seed;
};

struct worker {
    pthread_t    thread;
    snug_pool   *pool;
    cudaStream_t native[STREAMS];
    snug_stream *stream[STREAMS];
    snug_handle *weights;
    unsigned    *wrong;      /* on the device */
    activation   kept[KEPT]; /* each belongs to one stream, whose work on it is thus in order */
    unsigned     random;
    unsigned     requests, launches;
    double       seconds;
};

static unsigned draw(worker *w, unsigned below) {
    w->random = w->random * 1664525u + 1013904223u;
    return (w->random >> 8) % below;
}

static double now(void) {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static snug_handle allocate(worker *w, unsigned words) {
    snug_handle handle;
    check(snug_alloc(w->pool, words * sizeof(unsigned), NULL, &handle), "alloc");
    return handle;
}

static void launch_input(worker *w, int s, activation a) {
    void *x;
    check(snug_resolve(w->stream[s], &a.handle, 1, NULL, &x), "resolve");
    runtime_input<<<blocks(a.words), 256, 0, w->native[s]>>>((unsigned *)x, a.words, a.seed);
    check(cudaGetLastError(), "launch");
    check(snug_release(w->stream[s], &a.handle, 1, NULL), "release");
    w->launches++;
}

static void launch_layer(worker *w, int s, snug_handle to, snug_handle from, unsigned layer, unsigned words) {
    const snug_handle handles[3] = {to, from, w->weights[layer]};
    const snug_access access[3]  = {SNUG_WRITE, SNUG_READ, SNUG_READ};
    void             *at[3];
    check(snug_resolve(w->stream[s], handles, 3, access, at), "resolve");
    runtime_layer<<<blocks(words), 256, 0, w->native[s]>>>((unsigned *)at[0], (unsigned *)at[1], (unsigned *)at[2],
                                                           words);
    check(cudaGetLastError(), "launch");
    check(snug_release(w->stream[s], handles, 3, access), "release");
    w->launches++;
}

static void launch_verify(worker *w, int s, activation a) {
    const snug_access read = SNUG_READ;
    void             *x;
    check(snug_resolve(w->stream[s], &a.handle, 1, &read, &x), "resolve");
    runtime_verify<<<blocks(a.words), 256, 0, w->native[s]>>>((unsigned *)x, a.words, a.seed, w->wrong);
    check(cudaGetLastError(), "launch");
    check(snug_release(w->stream[s], &a.handle, 1, &read), "release");
    w->launches++;
}

/* What the last request in this place left is verified and freed; a new one is run, and its result left there. Nothing here
 * waits for the device: what is freed with work queued is handed out again behind that work. */
static void request(worker *w, unsigned place) {
    int         s = (int)(place % STREAMS);
    activation *a = &w->kept[place];
    if (a->handle != SNUG_HANDLE_NONE) {
        launch_verify(w, s, *a);
        check(snug_free(w->pool, a->handle), "free");
    }
    a->words          = WORDS_MIN + draw(w, WORDS_MAX - WORDS_MIN);
    a->seed           = draw(w, 1u << 24);
    a->handle         = allocate(w, a->words);
    snug_handle other = allocate(w, a->words);
    launch_input(w, s, *a);
    for (unsigned layer = 0; layer < LAYERS; layer++) {
        launch_layer(w, s, other, a->handle, layer, a->words);
        snug_handle swap = a->handle;
        a->handle        = other;
        other            = swap;
    }
    check(snug_free(w->pool, other), "free");
    w->requests++;
}

static void *work(void *argument) {
    worker *w     = (worker *)argument;
    double  until = now() + w->seconds;
    while (now() < until) {
        unsigned s = w->requests % STREAMS;
        request(w, draw(w, KEPT / STREAMS) * STREAMS + s);
        check(cudaStreamSynchronize(w->native[(s + 1) % STREAMS]), "synchronize"); /* the request before is answered */
        if (w->requests % BURST == 0) { /* and then none comes for a moment */
            check(cudaStreamSynchronize(w->native[s]), "synchronize");
            usleep(10000);
        }
    }
    for (int place = 0; place < KEPT; place++)
        if (w->kept[place].handle != SNUG_HANDLE_NONE) {
            launch_verify(w, place % STREAMS, w->kept[place]);
            check(snug_free(w->pool, w->kept[place].handle), "free");
        }
    for (int s = 0; s < STREAMS; s++)
        check(snug_stream_sync(w->stream[s]), "sync");
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ the program */

/* The weights, on one stream, before anybody else may use them. */
static void load(snug_pool *pool, snug_stream *stream, cudaStream_t native, snug_handle *weights) {
    for (unsigned layer = 0; layer < LAYERS; layer++) {
        void *at;
        check(snug_alloc(pool, WORDS_MAX * sizeof(unsigned), NULL, &weights[layer]), "alloc");
        check(snug_resolve(stream, &weights[layer], 1, NULL, &at), "resolve");
        runtime_weights<<<blocks(WORDS_MAX), 256, 0, native>>>((unsigned *)at, WORDS_MAX, layer);
        check(cudaGetLastError(), "launch");
        check(snug_release(stream, &weights[layer], 1, NULL), "release");
    }
    check(snug_stream_sync(stream), "sync");
}

int main(int argc, char **argv) {
    char  *end     = NULL;
    double seconds = argc > 1 ? strtod(argv[1], &end) : 3;
    if (argc > 2 || (end && (*end || end == argv[1])) || !(seconds > 0 && seconds <= 3600)) {
        fprintf(stderr, "usage: 04_runtime [SECONDS], above 0 and at most 3600\n");
        return 1;
    }

    /* Room for all that is ever live at once; how much of it is live at a moment varies, and it is scattered. */
    snug_pool_options options = snug_pool_options_default();
    options.device            = "cuda";
    options.capacity          = (uint64_t)(LAYERS + THREADS * (KEPT + 2)) * WORDS_MAX * sizeof(unsigned);
    snug_pool *pool;
    check(snug_pool_create(&options, &pool), "pool");

    unsigned *wrong, wrong_words;
    check(cudaMalloc((void **)&wrong, sizeof *wrong), "cudaMalloc");
    check(cudaMemset(wrong, 0, sizeof *wrong), "cudaMemset");
    check(cudaDeviceSynchronize(), "synchronize"); /* the streams below don't wait for the default one */

    static worker workers[THREADS];
    snug_handle   weights[LAYERS];
    for (int t = 0; t < THREADS; t++) {
        worker *w  = &workers[t];
        w->pool    = pool;
        w->weights = weights;
        w->wrong   = wrong;
        w->random  = (unsigned)t;
        w->seconds = seconds;
        for (int s = 0; s < STREAMS; s++) {
            check(cudaStreamCreateWithFlags(&w->native[s], cudaStreamNonBlocking), "stream");
            check(snug_cuda_attach(pool, w->native[s], &w->stream[s]), "attach");
        }
    }
    load(pool, workers[0].stream[0], workers[0].native[0], weights);
    /* Moves what is idle, from here on; more eagerly than by default, so that there is something to see in a few seconds. */
    snug_compactor_options eager = snug_compactor_options_default();
    eager.start_fragmentation    = 0.10;
    eager.stop_fragmentation     = 0.05;
    eager.cooldown_ns            = 10000000;
    check(snug_compactor_start(pool, &eager), "compactor");

    unsigned requests = 0, launches = 0;
    for (int t = 0; t < THREADS; t++)
        if (pthread_create(&workers[t].thread, NULL, work, &workers[t]) != 0) {
            fprintf(stderr, "no thread to be had\n");
            return 1;
        }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(workers[t].thread, NULL);
        requests += workers[t].requests;
        launches += workers[t].launches;
    }

    snug_stats stats  = {};
    stats.struct_size = sizeof stats;
    check(snug_stats_get(pool, &stats), "stats");
    check(cudaMemcpy(&wrong_words, wrong, sizeof wrong_words, cudaMemcpyDeviceToHost), "cudaMemcpy");
    printf("%u requests in %u launches, each with a resolve and a release\n", requests, launches);
    printf("moved meanwhile: %llu buffers, %.1f MiB, in %llu background passes\n", (unsigned long long)stats.moves,
           (double)stats.moved_bytes / (1 << 20), (unsigned long long)stats.background_passes);

    for (int layer = 0; layer < LAYERS; layer++)
        check(snug_free(pool, weights[layer]), "free");
    for (int t = 0; t < THREADS; t++)
        for (int s = 0; s < STREAMS; s++)
            check(snug_stream_detach(workers[t].stream[s]), "detach");
    check(snug_pool_destroy(pool), "destroy");
    for (int t = 0; t < THREADS; t++)
        for (int s = 0; s < STREAMS; s++)
            check(cudaStreamDestroy(workers[t].native[s]), "destroy stream");
    check(cudaFree(wrong), "cudaFree");

    if (wrong_words) {
        fprintf(stderr, "%u words are wrong\n", wrong_words);
        return 1;
    }
    printf("all results are right\n");
    return 0;
}
