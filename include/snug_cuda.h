/* snug_cuda.h - snug on CUDA: the only header of snug that names CUDA types.
 *
 * A pool with device = "cuda" lies on CUDA device options.device_index (the runtime's numbering: CUDA_VISIBLE_DEVICES counts).
 * Several devices are several pools. Every call of snug may be made with any device current; it leaves the thread's current
 * device, capture mode and last error as they were. doc/cuda.md says what is guaranteed on which streams, and what graphs and
 * libraries that keep addresses need.
 *
 * Streams: any stream of the pool's device. Two are special:
 *   - the legacy default stream (0, cudaStreamLegacy) waits for, and is waited for by, all blocking streams; the pool's own
 *     streams are non-blocking;
 *   - the per-thread default stream (cudaStreamPerThread) is another stream on each thread: each thread attaches its own, and
 *     only that thread may use or detach what it has attached (INVALID otherwise).
 *
 * Captures: snug_resolve, snug_release, transfers, snug_stream_detach and snug_stream_sync on a stream that is being captured
 * return SNUG_CAPTURING, before anything has happened to the capture. */
#ifndef SNUG_CUDA_H
#define SNUG_CUDA_H

#include "snug.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The stream that 0 means in the calling file: CUDA decides that by how the file is compiled, so it can't be a function of
 * the library. Any other stream is itself. */
static inline cudaStream_t snug_cuda_stream(cudaStream_t stream) {
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
    return stream ? stream : cudaStreamPerThread;
#else
    return stream ? stream : cudaStreamLegacy;
#endif
}

/* snug_stream_attach for a cudaStream_t. Errors: those, and INVALID for a stream of another device. */
static inline snug_status snug_cuda_attach(snug_pool *pool, cudaStream_t stream, snug_stream **attached) {
    return snug_stream_attach(pool, snug_cuda_stream(stream), attached);
}

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
/* In device code: where the buffer lies now, by the pool's address table (snug_address_table). */
template <class T> static __device__ __forceinline__ T *snug_cuda_at(const void *table, snug_handle handle) {
    return static_cast<T *>(static_cast<void *const *>(table)[SNUG_HANDLE_INDEX(handle)]);
}
#endif
#endif
