/* runtime.c - calls about devices, streams and events, and those that enqueue copies, fills and host functions. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

#define PRIORITY_GREATEST (-5)

/* ------------------------------------------------------------------------------------------------ devices */

cudaError_t cudaGetDeviceCount(int *count) {
    ENTER(cudaGetDeviceCount);
    LEAVE_UNLESS(count, cudaErrorInvalidValue);
    *count = the.devices_n;
    LEAVE(the.devices_n ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int *number) {
    ENTER(cudaGetDevice);
    LEAVE_UNLESS(number, cudaErrorInvalidValue);
    LEAVE_UNLESS(the.devices_n, cudaErrorNoDevice);
    *number = thread_self()->device;
    LEAVE(cudaSuccess);
}

cudaError_t cudaSetDevice(int number) {
    ENTER(cudaSetDevice);
    LEAVE_UNLESS(the.devices_n, cudaErrorNoDevice);
    LEAVE_UNLESS(number >= 0 && number < the.devices_n, cudaErrorInvalidDevice);
    thread_self()->device = number;
    LEAVE(cudaSuccess);
}

int device_attribute(int attribute) {
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 49152;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 132;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 3;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS: return 1;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: return the.virtual_memory;
    default: return 0;
    }
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int number) {
    ENTER(cudaDeviceGetAttribute);
    LEAVE_UNLESS(value && (int)attribute > 0, cudaErrorInvalidValue);
    LEAVE_UNLESS(number >= 0 && number < the.devices_n, cudaErrorInvalidDevice);
    *value = device_attribute((int)attribute); /* the driver's and the runtime's have the same numbers */
    LEAVE(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int number) {
    ENTER(cudaGetDeviceProperties);
    LEAVE_UNLESS(properties, cudaErrorInvalidValue);
    LEAVE_UNLESS(number >= 0 && number < the.devices_n, cudaErrorInvalidDevice);
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, "test double");
    properties->totalGlobalMem              = the.memory;
    properties->major                       = device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    properties->warpSize                    = device_attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    properties->multiProcessorCount         = device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    properties->maxThreadsPerBlock          = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    properties->maxThreadsPerMultiProcessor = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    properties->asyncEngineCount            = device_attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
    properties->unifiedAddressing           = 1;
    properties->concurrentKernels           = 1;
    LEAVE(cudaSuccess);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    ENTER(cudaDeviceGetStreamPriorityRange);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = PRIORITY_GREATEST;
    LEAVE(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize(void) {
    ENTER(cudaDeviceSynchronize);
    int         device = thread_self()->device;
    cudaError_t error  = capture_sync_device(device);
    LEAVE_UNLESS(!error, error);
    for (stream *s = streams; s; s = s->next)
        if (s->device == device)
            stream_wait(s, s->enqueued);
    LEAVE(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    static function_calls function = {"cudaRuntimeGetVersion", 0, NULL};
    call_count(&function);
    if (!version)
        return cudaErrorInvalidValue;
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    static function_calls function = {"cudaDriverGetVersion", 0, NULL};
    call_count(&function);
    if (!version)
        return cudaErrorInvalidValue;
    pthread_mutex_lock(&the.mutex);
    *version = the.absent ? 0 : CUDART_VERSION;
    pthread_mutex_unlock(&the.mutex);
    return cudaSuccess;
}

/* ------------------------------------------------------------------------------------------------ streams */

static cudaError_t stream_create(cudaStream_t *out, unsigned flags, int priority) {
    if (!out || (flags & ~(unsigned)cudaStreamNonBlocking))
        return cudaErrorInvalidValue;
    int device = thread_self()->device;
    if (device >= the.devices_n)
        return cudaErrorNoDevice;
    priority  = priority > 0 ? 0 : priority < PRIORITY_GREATEST ? PRIORITY_GREATEST : priority;
    stream *s = stream_new(device, flags, priority);
    s->user   = true;
    s->handle = handle_make(STREAM, s);
    *out      = s->handle;
    the.live.streams++;
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *out) {
    ENTER(cudaStreamCreate);
    LEAVE(stream_create(out, cudaStreamDefault, 0));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
    ENTER(cudaStreamCreateWithFlags);
    LEAVE(stream_create(out, flags, 0));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
    ENTER(cudaStreamCreateWithPriority);
    LEAVE(stream_create(out, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    ENTER(cudaStreamDestroy);
    stream *s = stream_find(handle, FN);
    LEAVE_UNLESS(s->user, cudaErrorInvalidResourceHandle);
    cudaError_t error = capture_unsupported(s);
    LEAVE_UNLESS(!error, error);
    handle_end(STREAM, handle);
    the.live.streams--;
    stream_close(s);
    LEAVE(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    ENTER(cudaStreamSynchronize);
    stream     *s     = stream_find(handle, FN);
    cudaError_t error = capture_sync(s);
    LEAVE_UNLESS(!error, error);
    stream_wait(s, s->enqueued);
    LEAVE(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    ENTER(cudaStreamQuery);
    stream     *s     = stream_find(handle, FN);
    cudaError_t error = capture_sync(s);
    LEAVE_UNLESS(!error, error);
    LEAVE(stream_done(s, s->enqueued) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long *id) {
    ENTER(cudaStreamGetId);
    LEAVE_UNLESS(id, cudaErrorInvalidValue);
    *id = stream_find(handle, FN)->id;
    LEAVE(cudaSuccess);
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned *flags) {
    ENTER(cudaStreamGetFlags);
    LEAVE_UNLESS(flags, cudaErrorInvalidValue);
    *flags = stream_find(handle, FN)->flags;
    LEAVE(cudaSuccess);
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority) {
    ENTER(cudaStreamGetPriority);
    LEAVE_UNLESS(priority, cudaErrorInvalidValue);
    *priority = stream_find(handle, FN)->priority;
    LEAVE(cudaSuccess);
}

#if CUDART_VERSION >= 12080
cudaError_t cudaStreamGetDevice(cudaStream_t handle, int *number) {
    ENTER(cudaStreamGetDevice);
    LEAVE_UNLESS(number, cudaErrorInvalidValue);
    *number = stream_find(handle, FN)->device;
    LEAVE(cudaSuccess);
}
#endif

/* ------------------------------------------------------------------------------------------------ events */

static cudaError_t event_create(cudaEvent_t *out, unsigned flags) {
    unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (!out || (flags & ~known) || ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming)))
        return cudaErrorInvalidValue;
    if (thread_self()->device >= the.devices_n)
        return cudaErrorNoDevice;
    event *e  = make(sizeof *e);
    e->device = thread_self()->device;
    e->flags  = flags;
    *out      = handle_make(EVENT, e);
    the.live.events++;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out) {
    ENTER(cudaEventCreate);
    LEAVE(event_create(out, cudaEventDefault));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
    ENTER(cudaEventCreateWithFlags);
    LEAVE(event_create(out, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
    ENTER(cudaEventDestroy);
    LEAVE_UNLESS(handle, cudaErrorInvalidResourceHandle);
    event *e = handle_object(EVENT, handle, FN);
    handle_end(EVENT, handle);
    event_clear(e);
    free(e);
    the.live.events--;
    LEAVE(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
    ENTER(cudaEventRecord);
    LEAVE_UNLESS(handle, cudaErrorInvalidResourceHandle);
    event  *e = handle_object(EVENT, handle, FN);
    stream *s = stream_find(stream_handle, FN);
    LEAVE_UNLESS(e->device == s->device, cudaErrorInvalidResourceHandle);
    if (s->capture)
        LEAVE(capture_record(s, e));
    mark *m = make(sizeof *m);
    op   *o = op_make(OP_RECORD, FN);
    m->uses = 2;
    o->mark = m;
    uint64_t    position;
    cudaError_t error = submit(s, o, &position);
    if (error) {
        mark_release(m);
        LEAVE(error);
    }
    m->at = (point){s, position};
    if (handle_find(EVENT, handle) != e)
        trap(FN, "event %p was destroyed meanwhile", (void *)handle);
    event_clear(e);
    e->mark = m;
    LEAVE(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
    ENTER(cudaStreamWaitEvent);
    LEAVE_UNLESS(handle, cudaErrorInvalidResourceHandle);
    LEAVE_UNLESS(!flags, cudaErrorInvalidValue);
    event      *e = handle_object(EVENT, handle, FN);
    stream     *s = stream_find(stream_handle, FN);
    bool        handled;
    cudaError_t error = capture_wait(s, e, &handled);
    if (handled || !e->mark || e->mark->at.stream->done >= e->mark->at.position)
        LEAVE(error);
    op *o = op_make(OP_WAIT, FN);
    op_after(o, e->mark->at);
    LEAVE(submit(s, o, NULL));
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
    ENTER(cudaEventQuery);
    LEAVE_UNLESS(handle, cudaErrorInvalidResourceHandle);
    event      *e     = handle_object(EVENT, handle, FN);
    cudaError_t error = capture_sync_event(e);
    LEAVE_UNLESS(!error, error);
    LEAVE(!e->mark || stream_done(e->mark->at.stream, e->mark->at.position) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    ENTER(cudaEventSynchronize);
    LEAVE_UNLESS(handle, cudaErrorInvalidResourceHandle);
    event      *e     = handle_object(EVENT, handle, FN);
    cudaError_t error = capture_sync_event(e);
    LEAVE_UNLESS(!error, error);
    if (e->mark)
        stream_wait(e->mark->at.stream, e->mark->at.position);
    LEAVE(cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    ENTER(cudaEventElapsedTime);
    LEAVE_UNLESS(ms, cudaErrorInvalidValue);
    LEAVE_UNLESS(start && end, cudaErrorInvalidResourceHandle);
    event *events[2] = {handle_object(EVENT, start, FN), handle_object(EVENT, end, FN)};
    for (int i = 0; i < 2; i++) {
        LEAVE_UNLESS(!events[i]->capture_id, cudaErrorCapturedEvent);
        LEAVE_UNLESS(!(events[i]->flags & cudaEventDisableTiming) && events[i]->mark, cudaErrorInvalidResourceHandle);
    }
    for (int i = 0; i < 2; i++)
        LEAVE_UNLESS(stream_done(events[i]->mark->at.stream, events[i]->mark->at.position), cudaErrorNotReady);
    *ms = (float)((double)(int64_t)(events[1]->mark->time_ns - events[0]->mark->time_ns) / 1e6);
    LEAVE(cudaSuccess);
}

/* ------------------------------------------------------------------------------------------------ copies, fills */

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    return (const char *)a < (const char *)b + b_bytes && (const char *)b < (const char *)a + a_bytes;
}

/* What a kind says of one side must be so. */
static bool side_agrees(const char *function, const char *role, const void *at, size_t bytes, bool device) {
    if (!device)
        return !memory_is_device(at);
    if (!memory_is_device(at) && !memory_is_pinned(at))
        trap(function, "its %s [%p, +%zu) is not device memory", role, at, bytes);
    return true;
}

static cudaError_t copy_check(const char *function, const void *to, const void *from, size_t bytes,
                              enum cudaMemcpyKind kind) {
    if ((unsigned)kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if (!bytes)
        return cudaSuccess;
    if (!to || !from)
        return cudaErrorInvalidValue;
    if (kind != cudaMemcpyDefault) {
        bool to_device   = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
        bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
        if (!side_agrees(function, "target", to, bytes, to_device) ||
            !side_agrees(function, "source", from, bytes, from_device))
            return cudaErrorInvalidValue;
    }
    if (overlap(to, bytes, from, bytes))
        trap(function, "target %p and source %p of %zu bytes overlap", to, from, bytes);
    return cudaSuccess;
}

static void piece_set(piece *p, void *to, const void *from, size_t bytes) {
    *p = (piece){to, from, bytes, memory_is_device(to) && memory_is_device(from)};
}

/* Copies on a stream; with wait, as a call that waits where CUDA says that it does. */
static cudaError_t copy(const char *function, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                        stream *s, bool wait) {
    cudaError_t error = copy_check(function, to, from, bytes, kind);
    if (error)
        return error;
    if (!bytes)
        return capture_implicit(s, true);
    op *o     = op_make(OP_COPY, function);
    o->n      = 1;
    o->pieces = make(sizeof *o->pieces);
    piece_set(o->pieces, to, from, bytes);
    bool     between_devices = o->pieces->unseen;
    bool     between_hosts   = !memory_is_device(to) && !memory_is_device(from);
    uint64_t position        = 0;
    error                    = submit(s, o, &position);
    if (position && (between_hosts || (wait && !between_devices)))
        stream_wait(s, position);
    return error;
}

cudaError_t copy_waiting(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                         cudaStream_t stream_handle) {
    ENTER(cudaMemcpy);
    stream     *s     = stream_find(stream_handle, FN);
    cudaError_t error = capture_sync(s);
    LEAVE_UNLESS(!error, error);
    LEAVE(copy(FN, to, from, bytes, kind, s, true));
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return copy_waiting(to, from, bytes, kind, cudaStreamLegacy);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    ENTER(cudaMemcpyAsync);
    LEAVE(copy(FN, to, from, bytes, kind, stream_find(stream, FN), false));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream) {
    ENTER(cudaMemcpyPeerAsync);
    LEAVE_UNLESS(to_device >= 0 && to_device < the.devices_n && from_device >= 0 && from_device < the.devices_n,
                 cudaErrorInvalidDevice);
    if (bytes && to && from && (memory_device(to) != to_device || memory_device(from) != from_device))
        trap(FN, "target %p or source %p of %zu bytes is not memory of its device, %d or %d", to, from, bytes,
             to_device, from_device);
    LEAVE(copy(FN, to, from, bytes, cudaMemcpyDeviceToDevice, stream_find(stream, FN), false));
}

static cudaError_t fill(const char *function, void *to, int byte, size_t bytes, stream *s, bool wait) {
    if (!bytes)
        return capture_implicit(s, true);
    if (!to)
        return cudaErrorInvalidValue;
    side_agrees(function, "target", to, bytes, true);
    op *o                = op_make(OP_SET, function);
    o->to                = to;
    o->byte              = byte;
    o->bytes             = bytes;
    uint64_t    position = 0;
    cudaError_t error    = submit(s, o, &position);
    if (position && wait && memory_is_pinned(to))
        stream_wait(s, position);
    return error;
}

cudaError_t fill_waiting(void *to, int byte, size_t bytes, cudaStream_t stream_handle) {
    ENTER(cudaMemset);
    stream     *s     = stream_find(stream_handle, FN);
    cudaError_t error = capture_sync(s);
    LEAVE_UNLESS(!error, error);
    LEAVE(fill(FN, to, byte, bytes, s, true));
}

cudaError_t cudaMemset(void *to, int byte, size_t bytes) {
    return fill_waiting(to, byte, bytes, cudaStreamLegacy);
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream) {
    ENTER(cudaMemsetAsync);
    LEAVE(fill(FN, to, byte, bytes, stream_find(stream, FN), false));
}

#if CUDART_VERSION >= 12080
static bool attributes_valid(const struct cudaMemcpyAttributes *attributes, const size_t *first, size_t n,
                             size_t count) {
    if (!attributes || !first || !n || n > count || first[0])
        return false;
    for (size_t i = 0; i < n; i++)
        if ((i && first[i] <= first[i - 1]) || first[i] >= count ||
            attributes[i].srcAccessOrder < cudaMemcpySrcAccessOrderStream ||
            attributes[i].srcAccessOrder > cudaMemcpySrcAccessOrderAny)
            return false;
    return true;
}

/* Reads the sources in the call, before what the stream has yet to do, where the attributes say so or, by chance, where
 * they allow it. */
static void batch_stage(stream *s, op *o, const struct cudaMemcpyAttributes *attributes, const size_t *first,
                        size_t n) {
    size_t bytes = 0;
    for (size_t i = 0; i < o->n; i++)
        bytes += o->pieces[i].bytes;
    op_check(o, "when it was enqueued");
    for (size_t i = 0, at = 0, a = 0; i < o->n; i++) {
        piece *p = &o->pieces[i];
        if (a + 1 < n && first[a + 1] == i)
            a++;
        enum cudaMemcpySrcAccessOrder order = attributes[a].srcAccessOrder;
        if (order == cudaMemcpySrcAccessOrderStream ||
            (order == cudaMemcpySrcAccessOrderAny && random_next(&s->random) % 2))
            continue;
        if (!o->staged)
            o->staged = make(bytes);
        p->from   = memcpy(o->staged + at, p->from, p->bytes);
        p->unseen = false;
        at += p->bytes;
    }
}

/* No target of a batch may overlap anything else in it. */
static void batch_check(const char *function, const op *o) {
    for (size_t i = 0; i < o->n; i++)
        for (size_t j = 0; j < o->n; j++) {
            const piece *a = &o->pieces[i], *b = &o->pieces[j];
            if (overlap(a->to, a->bytes, b->from, b->bytes) || (i != j && overlap(a->to, a->bytes, b->to, b->bytes)))
                trap(function, "target %zu [%p, +%zu) overlaps copy %zu, [%p, +%zu) from %p", i, (void *)a->to,
                     a->bytes, j, (void *)b->to, b->bytes, (const void *)b->from);
        }
}

static cudaError_t batch(const char *function, void *const *to, const void *const *from, const size_t *sizes,
                         size_t count, const struct cudaMemcpyAttributes *attributes, const size_t *first, size_t n,
                         cudaStream_t handle) {
    if (!handle || handle == cudaStreamLegacy)
        return cudaErrorInvalidResourceHandle;
    if (!to || !from || !sizes || !count || !attributes_valid(attributes, first, n, count))
        return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; i++)
        if (!to[i] || !from[i] || !sizes[i])
            return cudaErrorInvalidValue;
    stream     *s     = stream_find(handle, function);
    cudaError_t error = capture_unsupported(s);
    if (error)
        return error;
    op *o     = op_make(OP_COPY, function);
    o->n      = count;
    o->pieces = make(count * sizeof *o->pieces);
    for (size_t i = 0; i < count; i++)
        piece_set(&o->pieces[i], to[i], from[i], sizes[i]);
    batch_check(function, o);
    batch_stage(s, o, attributes, first, n);
    return submit(s, o, NULL);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *sizes, size_t count,
                                 struct cudaMemcpyAttributes *attributes, size_t *first, size_t n,
                                 cudaStream_t stream) {
    ENTER(cudaMemcpyBatchAsync);
    LEAVE(batch(FN, to, from, sizes, count, attributes, first, n, stream));
}
#else
cudaError_t cudaMemcpyBatchAsync(void **to, void **from, size_t *sizes, size_t count,
                                 struct cudaMemcpyAttributes *attributes, size_t *first, size_t n, size_t *failed,
                                 cudaStream_t stream) {
    ENTER(cudaMemcpyBatchAsync);
    cudaError_t error = batch(FN, to, (const void *const *)from, sizes, count, attributes, first, n, stream);
    if (error && failed)
        *failed = SIZE_MAX; /* not due to one of the copies */
    LEAVE(error);
}
#endif
#endif

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    ENTER(cudaLaunchHostFunc);
    LEAVE_UNLESS(function, cudaErrorInvalidValue);
    op *o        = op_make(OP_HOST, FN);
    o->host      = function;
    o->host_data = data;
    LEAVE(submit(stream_find(stream, FN), o, NULL));
}
