/* 06: memory given back. A pool takes three quarters of what is free on the card and fills it with buffers; three of four are
 * freed again, so that what is left is scattered over all of it. snug_trim packs it together and returns the rest to the
 * driver: what another process couldn't have before, it can have now. The other process is this program once more, started
 * with the number of bytes as its argument; it allocates them by cudaMalloc. */
#include <snug_cuda.h>

#include <cuda_runtime.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

enum { BUFFERS = 64 };

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

__global__ void shrink_fill(unsigned *at, size_t n, unsigned seed) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        at[i] = seed + (unsigned)i;
}

__global__ void shrink_verify(const unsigned *at, size_t n, unsigned seed, unsigned *wrong) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        if (at[i] != seed + (unsigned)i)
            atomicAdd(wrong, 1u);
}

static double mib(uint64_t bytes) {
    return (double)bytes / (1 << 20);
}

static uint64_t free_now(void) {
    size_t unused, all;
    check(cudaMemGetInfo(&unused, &all), "cudaMemGetInfo");
    return unused;
}

/* ------------------------------------------------------------------------------------------------ the other process */

enum { GOT = 0, FAILED = 1, REFUSED = 2 };

static int other(const char *argument) {
    char              *end;
    unsigned long long bytes = strtoull(argument, &end, 10);
    void              *at;
    if (bytes == 0 || *end) {
        fprintf(stderr, "usage: 06_shrink, or 06_shrink BYTES to allocate so many\n");
        return FAILED;
    }
    cudaError_t error = cudaMalloc(&at, bytes);
    if (error == cudaErrorMemoryAllocation)
        return REFUSED;
    check(error, "cudaMalloc");
    check(cudaMemset(at, 1, bytes), "cudaMemset");
    check(cudaDeviceSynchronize(), "synchronize");
    check(cudaFree(at), "cudaFree");
    return GOT;
}

/* A fork and an exec: CUDA doesn't survive a fork, so nothing of it is touched between the two. */
static int other_process(uint64_t bytes) {
    char  program[] = "06_shrink", argument[32];
    char *argv[]    = {program, argument, NULL};
    pid_t pid;
    int   status;
    snprintf(argument, sizeof argument, "%llu", (unsigned long long)bytes);
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) != 0 || waitpid(pid, &status, 0) != pid ||
        !WIFEXITED(status) || WEXITSTATUS(status) == FAILED) {
        fprintf(stderr, "the other process failed\n");
        exit(1);
    }
    return WEXITSTATUS(status);
}

/* ------------------------------------------------------------------------------------------------ the program */

int main(int argc, char **argv) {
    if (argc > 1)
        return other(argv[1]);

    uint64_t          unused  = free_now();
    snug_pool_options options = snug_pool_options_default();
    options.device            = "cuda";
    options.capacity          = unused / 4 * 3 < SNUG_SIZE_MAX ? unused / 4 * 3 : SNUG_SIZE_MAX;
    snug_pool   *pool;
    cudaStream_t native;
    snug_stream *stream;
    check(snug_pool_create(&options, &pool), "pool");
    check(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), "stream");
    check(snug_cuda_attach(pool, native, &stream), "attach");
    unsigned *wrong, wrong_words;
    check(cudaMalloc((void **)&wrong, sizeof *wrong), "cudaMalloc");
    check(cudaMemsetAsync(wrong, 0, sizeof *wrong, native), "cudaMemset");

    const size_t bytes = options.capacity / BUFFERS / SNUG_GRANULE * SNUG_GRANULE;
    snug_handle  handles[BUFFERS];
    for (unsigned b = 0; b < BUFFERS; b++) {
        void *at;
        check(snug_alloc(pool, bytes, NULL, &handles[b]), "alloc");
        check(snug_resolve(stream, &handles[b], 1, NULL, &at), "resolve");
        shrink_fill<<<1024, 256, 0, native>>>((unsigned *)at, bytes / sizeof(unsigned), b);
        check(cudaGetLastError(), "launch");
        check(snug_release(stream, &handles[b], 1, NULL), "release");
    }
    check(snug_stream_sync(stream), "sync");
    printf("the pool has %.0f MiB of %.0f MiB that were free, in %d buffers\n", mib(options.capacity), mib(unused),
           BUFFERS);
    for (unsigned b = 0; b < BUFFERS; b++)
        if (b % 4 != 3)
            check(snug_free(pool, handles[b]), "free");

    /* More than is left beside the pool, less than there is if the pool keeps only what is live. */
    const uint64_t wanted = unused / 2;
    printf("another process asks for %.0f MiB: %s\n", mib(wanted),
           other_process(wanted) == GOT ? "it gets them, so the pool wasn't in its way" : "refused");

    const uint64_t before   = free_now();
    uint64_t       returned = 0;
    check(snug_trim(pool, 0, &returned), "trim"); /* packs, then returns what lies above */
    const uint64_t after = free_now();
    printf("snug_trim returned %.0f MiB; free on the device: %.0f MiB before, %.0f MiB after\n", mib(returned),
           mib(before), mib(after));
    const bool got = other_process(wanted) == GOT;
    printf("another process asks for %.0f MiB: %s\n", mib(wanted), got ? "it gets them" : "refused");

    const snug_access read = SNUG_READ;
    for (unsigned b = 3; b < BUFFERS; b += 4) {
        void *at;
        check(snug_resolve(stream, &handles[b], 1, &read, &at), "resolve");
        shrink_verify<<<1024, 256, 0, native>>>((unsigned *)at, bytes / sizeof(unsigned), b, wrong);
        check(cudaGetLastError(), "launch");
        check(snug_release(stream, &handles[b], 1, &read), "release");
    }
    check(snug_stream_sync(stream), "sync");
    check(cudaMemcpy(&wrong_words, wrong, sizeof wrong_words, cudaMemcpyDeviceToHost), "cudaMemcpy");

    for (unsigned b = 3; b < BUFFERS; b += 4)
        check(snug_free(pool, handles[b]), "free");
    check(snug_stream_detach(stream), "detach");
    check(snug_pool_destroy(pool), "destroy");
    check(cudaStreamDestroy(native), "destroy stream");
    check(cudaFree(wrong), "cudaFree");

    if (wrong_words || !got || returned < options.capacity / 2 || after - before < returned / 2) {
        fprintf(stderr, "%u words are wrong, or the memory didn't come back\n", wrong_words);
        return 1;
    }
    printf("what stayed live is as it was written\n");
    return 0;
}
