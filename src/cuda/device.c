/* device.c: the CUDA row of the device table. */
#include "../assert.h"
#include "../device.h"
#include "arena.h"

#include <cudaTypedefs.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct snug__device {
    int              ordinal;
    _Atomic bool     batches; /* as far as is known, cudaMemcpyBatchAsync is to be had */
    snug__cuda_arena arena;
};

struct snug__event {
    cudaEvent_t event;
};

/* CALL, of the runtime, inside a scope. */
#define IN_SCOPE(device, call, name)                                                                                   \
    do {                                                                                                               \
        snug__cuda_scope scope_;                                                                                       \
        snug_status      status_ = snug__cuda_scope_open(&scope_, (device)->ordinal);                                  \
        if (status_ != SNUG_OK)                                                                                        \
            return status_;                                                                                            \
        cudaError_t error_ = (call);                                                                                   \
        snug__cuda_scope_close(&scope_);                                                                               \
        return snug__cuda_status(error_, (name));                                                                      \
    } while (0)

/* ------------------------------------------------------------------------------------------------ device */

static int cuda_count(void) {
    int         count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess)
        return count;
    snug__cuda_status(error, "cudaGetDeviceCount");
    return 0;
}

static snug_status cuda_open(int index, snug__device **device) {
    int count = cuda_count();
    if (count == 0)
        return SNUG_NO_DEVICE;
    if (index < 0 || index >= count) {
        snug__device_error_set("there are %d CUDA devices; asked for index %d", count, index);
        return SNUG_NO_DEVICE;
    }
    snug__cuda_scope scope;
    snug_status      status = snug__cuda_scope_open(&scope, index); /* makes the context, where there is none */
    if (status != SNUG_OK)
        return status;
    snug__cuda_scope_close(&scope);
    snug__device *made = calloc(1, sizeof *made);
    if (!made)
        return SNUG_NO_MEMORY;
    made->ordinal = made->arena.device = index;
    atomic_init(&made->batches, true);
    *device = made;
    return SNUG_OK;
}

static void cuda_close(snug__device *device) {
    free(device);
}

/* ------------------------------------------------------------------------------------------------ the arena */

static snug_status cuda_arena_reserve(snug__device *device, uint64_t bytes) {
    snug__cuda_scope scope;
    snug_status      status = snug__cuda_scope_open(&scope, device->ordinal);
    if (status != SNUG_OK)
        return status;
    status = snug__cuda_arena_reserve(&device->arena, bytes);
    snug__cuda_scope_close(&scope);
    return status;
}

static void cuda_arena_release(snug__device *device) {
    snug__cuda_scope scope;
    bool             scoped = snug__cuda_scope_open(&scope, device->ordinal) == SNUG_OK;
    snug__cuda_arena_release(&device->arena); /* in any case: there won't be another chance */
    if (scoped)
        snug__cuda_scope_close(&scope);
}

static uint64_t cuda_commit_granule(snug__device *device) {
    return device->arena.piece;
}

static snug_status cuda_arena_commit(snug__device *device, uint64_t offset, uint64_t bytes) {
    snug__cuda_scope scope;
    snug_status      status = snug__cuda_scope_open(&scope, device->ordinal);
    if (status != SNUG_OK)
        return status;
    status = snug__cuda_arena_commit(&device->arena, offset, bytes);
    snug__cuda_scope_close(&scope);
    return status;
}

static snug_status cuda_arena_decommit(snug__device *device, uint64_t offset, uint64_t bytes) {
    snug__cuda_scope scope;
    snug_status      status = snug__cuda_scope_open(&scope, device->ordinal);
    if (status != SNUG_OK)
        return status;
    status = snug__cuda_arena_decommit(&device->arena, offset, bytes);
    snug__cuda_scope_close(&scope);
    return status;
}

static char *cuda_arena_base(snug__device *device) {
    return device->arena.base;
}

/* ------------------------------------------------------------------------------------------------ streams */

/* The default streams are those of the current device, and so to be used in a scope. */
static bool is_default(void *native) {
    return native == NULL || native == (void *)cudaStreamLegacy || native == (void *)cudaStreamPerThread;
}

static cudaError_t identify(snug__device *device, cudaStream_t native, unsigned long long *id) {
#if CUDART_VERSION >= 12080
    int         ordinal;
    cudaError_t error = cudaStreamGetDevice(native, &ordinal);
    if (error == cudaSuccess && ordinal != device->ordinal)
        return cudaErrorInvalidResourceHandle;
    if (error != cudaSuccess)
        return error;
#else
    (void)device;
#endif
    return cudaStreamGetId(native, id);
}

static snug_status cuda_stream_identify(snug__device *device, void *native, uint64_t *identity, bool *of_thread) {
    snug__cuda_scope   scope;
    unsigned long long id     = 0;
    snug_status        status = snug__cuda_scope_open(&scope, device->ordinal);
    if (status != SNUG_OK)
        return status;
    cudaError_t error = identify(device, native, &id);
    snug__cuda_scope_close(&scope);
    status = snug__cuda_status(error, "cudaStreamGetId");
    if (status == SNUG_DEVICE)
        return SNUG_INVALID;
    *identity  = id;
    *of_thread = native == (void *)cudaStreamPerThread;
    return status;
}

static snug_status cuda_stream_ready(snug__device *device, void *native) {
    enum cudaStreamCaptureStatus capture;
    (void)device;
    cudaError_t error = cudaStreamIsCapturing(native, &capture);
    if (error != cudaSuccess)
        return snug__cuda_status(error, "cudaStreamIsCapturing");
    if (capture == cudaStreamCaptureStatusNone)
        return SNUG_OK;
    snug__device_error_set("stream %p is being captured", native);
    return SNUG_CAPTURING;
}

static cudaError_t stream_create(cudaStream_t *stream, int priority) {
    int         lowest, highest;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    if (error != cudaSuccess)
        return error;
    /* non-blocking: work on the legacy stream neither waits for the mover nor is waited for */
    return cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking,
                                        priority == SNUG__PRIORITY_HIGH ? highest : lowest);
}

static snug_status cuda_stream_open(snug__device *device, int priority, void **native) {
    IN_SCOPE(device, stream_create((cudaStream_t *)native, priority), "cudaStreamCreateWithPriority");
}

static void cuda_stream_close(snug__device *device, void *native) {
    (void)device;
    snug__cuda_status(cudaStreamDestroy(native), "cudaStreamDestroy");
}

static snug_status cuda_stream_sync(snug__device *device, void *native) {
    IN_SCOPE(device, cudaStreamSynchronize(native), "cudaStreamSynchronize");
}

static snug_status cuda_sync(snug__device *device) {
    IN_SCOPE(device, cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

/* ------------------------------------------------------------------------------------------------ events */

static snug_status event_make(snug__device *device, cudaEvent_t *event) {
    IN_SCOPE(device, cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

static snug_status cuda_event_create(snug__device *device, snug__event **event) {
    snug__event *made = calloc(1, sizeof *made);
    if (!made)
        return SNUG_NO_MEMORY;
    snug_status status = event_make(device, &made->event);
    if (status != SNUG_OK) {
        free(made);
        return status;
    }
    *event = made;
    return SNUG_OK;
}

static void cuda_event_destroy(snug__device *device, snug__event *event) {
    (void)device;
    snug__cuda_status(cudaEventDestroy(event->event), "cudaEventDestroy");
    free(event);
}

static snug_status record(snug__device *device, snug__event *event, void *native) {
    IN_SCOPE(device, cudaEventRecord(event->event, native), "cudaEventRecord");
}

static snug_status cuda_event_record(snug__device *device, snug__event *event, void *native) {
    snug_status status = is_default(native)
                             ? record(device, event, native)
                             : snug__cuda_status(cudaEventRecord(event->event, native), "cudaEventRecord");
    atomic_thread_fence(memory_order_seq_cst); /* the contract; the runtime promises nothing of the kind */
    return status;
}

/* "Not ready" is no error, but the runtime may keep it as the thread's last one. */
static cudaError_t query(cudaEvent_t event, bool *complete) {
    cudaError_t before = cudaPeekAtLastError(), error = cudaEventQuery(event);
    *complete = error == cudaSuccess;
    if (error != cudaErrorNotReady)
        return error;
    if (before == cudaSuccess)
        cudaGetLastError();
    return cudaSuccess;
}

static snug_status cuda_event_query(snug__device *device, snug__event *event, bool *complete) {
    *complete = false;
    IN_SCOPE(device, query(event->event, complete), "cudaEventQuery");
}

static snug_status cuda_event_sync(snug__device *device, snug__event *event) {
    IN_SCOPE(device, cudaEventSynchronize(event->event), "cudaEventSynchronize");
}

static snug_status wait_in_scope(snug__device *device, void *native, snug__event *event) {
    IN_SCOPE(device, cudaStreamWaitEvent(native, event->event, 0), "cudaStreamWaitEvent");
}

static snug_status cuda_stream_wait(snug__device *device, void *native, snug__event *event) {
    snug_status status = is_default(native)
                             ? wait_in_scope(device, native, event)
                             : snug__cuda_status(cudaStreamWaitEvent(native, event->event, 0), "cudaStreamWaitEvent");
    atomic_thread_fence(memory_order_seq_cst);
    return status;
}

/* ------------------------------------------------------------------------------------------------ transfers */

static snug_status transfer(snug__device *device, void *native, void *to, const void *from, uint64_t bytes,
                            enum cudaMemcpyKind kind) {
    if (!is_default(native))
        return snug__cuda_status(cudaMemcpyAsync(to, from, bytes, kind, native), "cudaMemcpyAsync");
    IN_SCOPE(device, cudaMemcpyAsync(to, from, bytes, kind, native), "cudaMemcpyAsync");
}

#if CUDART_VERSION >= 12080
enum { BATCH_MAX = 64 };

static cudaError_t copy_batch(void **to, void **from, size_t *sizes, size_t n, cudaStream_t stream) {
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    size_t                      first      = 0;
#if CUDART_VERSION >= 13000
    return cudaMemcpyBatchAsync((void *const *)to, (const void *const *)from, sizes, n, &attributes, &first, 1, stream);
#else
    size_t failed;
    return cudaMemcpyBatchAsync(to, from, sizes, n, &attributes, &first, 1, &failed, stream);
#endif
}

static cudaError_t batch(snug__device *device, cudaStream_t stream, const snug__copy *copies, uint32_t n) {
    void       *to[BATCH_MAX], *from[BATCH_MAX];
    size_t      sizes[BATCH_MAX];
    char       *base  = device->arena.base;
    cudaError_t error = cudaSuccess;
    for (uint32_t at = 0, m; at < n && error == cudaSuccess; at += m) {
        m = n - at < BATCH_MAX ? n - at : BATCH_MAX;
        for (uint32_t i = 0; i < m; i++) {
            to[i]    = base + copies[at + i].to;
            from[i]  = base + copies[at + i].from;
            sizes[i] = copies[at + i].bytes;
        }
        error = copy_batch(to, from, sizes, m, stream);
    }
    return error;
}
#else
static cudaError_t batch(snug__device *device, cudaStream_t stream, const snug__copy *copies, uint32_t n) {
    (void)device, (void)stream, (void)copies, (void)n;
    return cudaErrorNotSupported;
}
#endif

/* The mover's streams are explicit ones: no scope. */
static snug_status cuda_move(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        snug__assert(copies[i].to + copies[i].bytes <= copies[i].from ||
                     copies[i].from + copies[i].bytes <= copies[i].to); /* I8 */
    if (n > 1 && atomic_load_explicit(&device->batches, memory_order_relaxed)) {
        cudaError_t error = batch(device, native, copies, n);
        if (error != cudaErrorNotSupported)
            return snug__cuda_status(error, "cudaMemcpyBatchAsync");
        cudaGetLastError();
        atomic_store_explicit(&device->batches, false, memory_order_relaxed);
    }
    char       *base   = device->arena.base;
    snug_status status = SNUG_OK;
    for (uint32_t i = 0; i < n && status == SNUG_OK; i++)
        status = transfer(device, native, base + copies[i].to, base + copies[i].from, copies[i].bytes,
                          cudaMemcpyDeviceToDevice);
    return status;
}

static snug_status cuda_copy(snug__device *device, void *native, uint64_t to, uint64_t from, uint64_t bytes) {
    snug__assert(to + bytes <= from || from + bytes <= to); /* I8 */
    return transfer(device, native, device->arena.base + to, device->arena.base + from, bytes,
                    cudaMemcpyDeviceToDevice);
}

static snug_status cuda_write(snug__device *device, void *native, uint64_t to, const void *from, uint64_t bytes) {
    return transfer(device, native, device->arena.base + to, from, bytes, cudaMemcpyHostToDevice);
}

static snug_status cuda_read(snug__device *device, void *native, void *to, uint64_t from, uint64_t bytes) {
    return transfer(device, native, to, device->arena.base + from, bytes, cudaMemcpyDeviceToHost);
}

static snug_status cuda_fill(snug__device *device, void *native, uint64_t to, int byte, uint64_t bytes) {
    void *at = device->arena.base + to;
    if (!is_default(native))
        return snug__cuda_status(cudaMemsetAsync(at, byte, bytes, native), "cudaMemsetAsync");
    IN_SCOPE(device, cudaMemsetAsync(at, byte, bytes, native), "cudaMemsetAsync");
}

/* In the order of the stream, without a kernel: a memory operation of the stream. The driver's function is looked for once it
 * is asked for; all devices that have the runtime of CUDA 12 can do it, but the driver may not let them. */
static snug_status cuda_put(snug__device *device, void *native, uint64_t to, uint64_t value) {
    static _Atomic(PFN_cuStreamWriteValue64_v11070) write;
    PFN_cuStreamWriteValue64_v11070                 found = atomic_load_explicit(&write, memory_order_relaxed);
    if (!found) {
        found = (PFN_cuStreamWriteValue64_v11070)snug__cuda_driver_function("cuStreamWriteValue64");
        atomic_store_explicit(&write, found, memory_order_relaxed);
    }
    if (!found) {
        snug__device_error_set("this driver has no cuStreamWriteValue64");
        return SNUG_UNSUPPORTED;
    }
    snug__cuda_scope scope;
    snug_status      status = snug__cuda_scope_open(&scope, device->ordinal);
    if (status != SNUG_OK)
        return status;
    CUresult result =
        found(native, (CUdeviceptr)(uintptr_t)device->arena.base + to, value, CU_STREAM_WRITE_VALUE_DEFAULT);
    snug__cuda_scope_close(&scope);
    status = snug__cuda_driver_status(result, "cuStreamWriteValue64");
    return result == CUDA_ERROR_NOT_SUPPORTED ? SNUG_UNSUPPORTED : status;
}

/* ------------------------------------------------------------------------------------------------ figures */

static uint64_t cuda_copy_overhead_bytes(snug__device *device) {
    (void)device;
    return UINT64_C(2) << 20; /* a copy of 2 MiB takes about as long as its launch: 1.3 us on an A100, 2.3 on an H100 */
}

static cudaError_t memory_info(uint64_t *free_bytes, uint64_t *total_bytes) {
    size_t      unused, all;
    cudaError_t error = cudaMemGetInfo(&unused, &all);
    *free_bytes       = error == cudaSuccess ? unused : 0;
    *total_bytes      = error == cudaSuccess ? all : 0;
    return error;
}

static snug_status memory_ask(snug__device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    IN_SCOPE(device, memory_info(free_bytes, total_bytes), "cudaMemGetInfo");
}

static void cuda_memory(snug__device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    *free_bytes = *total_bytes = 0;
    memory_ask(device, free_bytes, total_bytes);
}

static uint64_t cuda_now_ns(snug__device *device) {
    (void)device;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const snug__device_row snug__device_cuda = {
    .name                = "cuda",
    .captures            = true,
    .count               = cuda_count,
    .open                = cuda_open,
    .close               = cuda_close,
    .arena_reserve       = cuda_arena_reserve,
    .arena_release       = cuda_arena_release,
    .commit_granule      = cuda_commit_granule,
    .arena_commit        = cuda_arena_commit,
    .arena_decommit      = cuda_arena_decommit,
    .arena_base          = cuda_arena_base,
    .stream_identify     = cuda_stream_identify,
    .stream_ready        = cuda_stream_ready,
    .stream_open         = cuda_stream_open,
    .stream_close        = cuda_stream_close,
    .stream_sync         = cuda_stream_sync,
    .sync                = cuda_sync,
    .event_create        = cuda_event_create,
    .event_destroy       = cuda_event_destroy,
    .event_record        = cuda_event_record,
    .event_query         = cuda_event_query,
    .event_sync          = cuda_event_sync,
    .stream_wait         = cuda_stream_wait,
    .move                = cuda_move,
    .copy                = cuda_copy,
    .write               = cuda_write,
    .read                = cuda_read,
    .fill                = cuda_fill,
    .put                 = cuda_put,
    .moves_per_operation = 1,
    .copy_overhead_bytes = cuda_copy_overhead_bytes,
    .memory              = cuda_memory,
    .now_ns              = cuda_now_ns,
};
