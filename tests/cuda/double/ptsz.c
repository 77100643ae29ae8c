/* ptsz.c - the forms of calls that programs compiled for per-thread default streams use: stream 0 is the thread's own.
 *
 * The toolkit's headers declare them beside the plain ones for a file that says it is the runtime's own. Each leads to
 * the plain call. */
#define __CUDA_API_VERSION_INTERNAL
#include "machine.h"

static cudaStream_t own(cudaStream_t stream) {
    return stream ? stream : cudaStreamPerThread;
}

cudaError_t cudaMemcpyAsync_ptsz(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                 cudaStream_t stream) {
    return cudaMemcpyAsync(to, from, bytes, kind, own(stream));
}

cudaError_t cudaMemsetAsync_ptsz(void *to, int byte, size_t bytes, cudaStream_t stream) {
    return cudaMemsetAsync(to, byte, bytes, own(stream));
}

cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) {
    return cudaStreamQuery(own(stream));
}

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
    return cudaStreamSynchronize(own(stream));
}

cudaError_t cudaStreamGetId_ptsz(cudaStream_t stream, unsigned long long *id) {
    return cudaStreamGetId(own(stream), id);
}

cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t stream, unsigned *flags) {
    return cudaStreamGetFlags(own(stream), flags);
}

cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t stream, int *priority) {
    return cudaStreamGetPriority(own(stream), priority);
}

cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return cudaStreamWaitEvent(own(stream), event, flags);
}

cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
    return cudaEventRecord(event, own(stream));
}

cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    return cudaStreamBeginCapture(own(stream), mode);
}

cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t *graph) {
    return cudaStreamEndCapture(own(stream), graph);
}

cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    return cudaStreamIsCapturing(own(stream), status);
}

cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
    return cudaGraphLaunch(exec, own(stream));
}

cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function, void *data) {
    return cudaLaunchHostFunc(own(stream), function, data);
}

cudaError_t cudaLaunchKernel_ptsz(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                                  cudaStream_t stream) {
    return cudaLaunchKernel(function, grid, block, arguments, shared, own(stream));
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                          unsigned long long *id, cudaGraph_t *graph,
                                          const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
                                          size_t *n) {
    return cudaStreamGetCaptureInfo(own(stream), status, id, graph, dependencies, edges, n);
}
#endif

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *configuration, const void *function, void **arguments) {
    if (!configuration)
        return cudaLaunchKernelExC(configuration, function, arguments);
    cudaLaunchConfig_t mine = *configuration;
    mine.stream             = own(mine.stream);
    return cudaLaunchKernelExC(&mine, function, arguments);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaMemcpyBatchAsync_ptsz(void *const *to, const void *const *from, const size_t *sizes, size_t count,
                                      struct cudaMemcpyAttributes *attributes, size_t *first, size_t n,
                                      cudaStream_t stream) {
    return cudaMemcpyBatchAsync(to, from, sizes, count, attributes, first, n, own(stream));
}
#elif CUDART_VERSION >= 12080
cudaError_t cudaMemcpyBatchAsync_ptsz(void **to, void **from, size_t *sizes, size_t count,
                                      struct cudaMemcpyAttributes *attributes, size_t *first, size_t n, size_t *failed,
                                      cudaStream_t stream) {
    return cudaMemcpyBatchAsync(to, from, sizes, count, attributes, first, n, failed, own(stream));
}
#endif

#if CUDART_VERSION >= 12080
cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t stream, int *number) {
    return cudaStreamGetDevice(own(stream), number);
}
#endif

cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return copy_waiting(to, from, bytes, kind, cudaStreamPerThread);
}

cudaError_t cudaMemset_ptds(void *to, int byte, size_t bytes) {
    return fill_waiting(to, byte, bytes, cudaStreamPerThread);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **function, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *result) {
    return cudaGetDriverEntryPoint(symbol, function, flags ? flags : cudaEnablePerThreadDefaultStream, result);
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **function, unsigned version,
                                                  unsigned long long                    flags,
                                                  enum cudaDriverEntryPointQueryResult *result) {
    return cudaGetDriverEntryPointByVersion(symbol, function, version, flags ? flags : cudaEnablePerThreadDefaultStream,
                                            result);
}
#endif
