/* as_cuda.h - makes of a test of the public API that is written for the host device one of the CUDA row over the test double:
 * included before all else (-include), it gives the names of snug_host.h to CUDA streams. What is launched are host functions,
 * since the double's device memory is host memory. For the double only: on a GPU they couldn't touch the buffers. */
#ifndef SNUG_TESTS_AS_CUDA_H
#define SNUG_TESTS_AS_CUDA_H

#include <snug_cuda.h>

#include <stdlib.h>
#include <string.h>

#define SNUG_HOST_H /* the real one stays out */

#define SNUG_HOST_QUEUE_MAX     1024
#define SNUG_HOST_ARGUMENTS_MAX 192

#define AS_CUDA_UNUSED __attribute__((unused))

typedef struct CUstream_st snug_host_stream;

/* Pools are made on CUDA, whatever their options say. */
__attribute__((constructor)) AS_CUDA_UNUSED static void as_cuda(void) {
    setenv("SNUG_OPTIONS", "device=cuda", 1);
}

AS_CUDA_UNUSED static snug_status as_cuda_status(cudaError_t error) {
    return error == cudaSuccess ? SNUG_OK : SNUG_DEVICE;
}

AS_CUDA_UNUSED static snug_status snug_host_stream_create(snug_host_stream **stream) {
    return as_cuda_status(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
}

AS_CUDA_UNUSED static snug_status snug_host_stream_destroy(snug_host_stream *stream) {
    cudaError_t error = cudaStreamSynchronize(stream);
    return as_cuda_status(error == cudaSuccess ? cudaStreamDestroy(stream) : error);
}

typedef struct as_cuda_launch {
    void (*function)(void *arguments);
    _Alignas(16) unsigned char arguments[SNUG_HOST_ARGUMENTS_MAX];
} as_cuda_launch;

AS_CUDA_UNUSED static void as_cuda_run(void *launch) {
    as_cuda_launch *l = launch;
    l->function(l->arguments);
    free(l);
}

AS_CUDA_UNUSED static snug_status snug_host_launch(snug_host_stream *stream, void (*function)(void *), const void *arguments,
                                                   size_t bytes) {
    as_cuda_launch *launch = malloc(sizeof *launch);
    if (!launch || bytes > sizeof launch->arguments) {
        free(launch);
        return SNUG_INVALID;
    }
    launch->function = function;
    if (bytes)
        memcpy(launch->arguments, arguments, bytes);
    return as_cuda_status(cudaLaunchHostFunc(stream, as_cuda_run, launch));
}

AS_CUDA_UNUSED static snug_status snug_host_stream_sync(snug_host_stream *stream) {
    return as_cuda_status(cudaStreamSynchronize(stream));
}

AS_CUDA_UNUSED static snug_status snug_host_stream_wait(snug_host_stream *stream, snug_host_stream *other) {
    cudaEvent_t event;
    cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventRecord(event, other);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(stream, event, 0);
    cudaEventDestroy(event);
    return as_cuda_status(error);
}

#endif
