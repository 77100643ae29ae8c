/* double_test.c - the double of the CUDA runtime itself: that it does what CUDA says, answers as CUDA does, and traps
 * what CUDA leaves undefined. */
#include "tap.h"

#include "double/double.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#if CUDART_VERSION < 12080
int main(void) {
    skip_all("the test of the double is written for the libraries and batches of CUDA 12.8");
}
#else

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MiB      ((size_t)1 << 20)
#define is(a, b) is_i64((int64_t)(a), (int64_t)(b), "%s", #a)
#define fine(a)  is_i64((int64_t)(a), 0, "%s", #a)
#define must(a)                                                                                                        \
    do {                                                                                                               \
        int error_ = (int)(a);                                                                                         \
        if (error_)                                                                                                    \
            bail_out("%s:%d: %s is %d", __FILE__, __LINE__, #a, error_);                                               \
    } while (0)

static void nap_ms(unsigned ms) {
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static cudaStream_t stream_make(unsigned flags) {
    cudaStream_t s;
    must(cudaStreamCreateWithFlags(&s, flags));
    return s;
}

static cudaEvent_t event_make(void) {
    cudaEvent_t e;
    must(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}

static char *device_make(size_t bytes) {
    void *at;
    must(cudaMalloc(&at, bytes));
    return at;
}

static char *host_make(size_t bytes) {
    void *at;
    must(cudaMallocHost(&at, bytes));
    memset(at, 0, bytes);
    return at;
}

/* Every test begins with a fresh double. */
static void fresh(double_mode mode) {
    double_reset();
    double_set_mode(mode);
    cudaGetLastError();
}

/* ------------------------------------------------------------------------------------------------ kernels */

static _Atomic uint32_t sequence_next, sequence_wrong;

static void kernel_expect(dim3 grid, dim3 block, void **arguments) {
    (void)grid, (void)block;
    sequence_wrong += *(uint32_t *)arguments[0] != sequence_next++;
}

static void kernel_add(dim3 grid, dim3 block, void **arguments) {
    (void)block;
    for (unsigned i = 0; i < grid.x; i++)
        (*(int **)arguments[0])[i] += *(int *)arguments[1];
}

static cudaLibrary_t library;

static cudaKernel_t kernel_get(const char *name) {
    cudaKernel_t k;
    if (!library)
        must(cudaLibraryLoadData(&library, "image", NULL, NULL, 0, NULL, NULL, 0));
    must(cudaLibraryGetKernel(&k, library, name));
    return k;
}

static void kernels_make(void) {
    library = NULL;
    double_kernel_register("expect", kernel_expect, 1, (size_t[]){sizeof(uint32_t)});
    double_kernel_register("add", kernel_add, 2, (size_t[]){sizeof(int *), sizeof(int)});
}

static const dim3 one = {1, 1, 1};

static cudaError_t expect_next(cudaKernel_t k, uint32_t number, cudaStream_t s) {
    void *arguments[] = {&number};
    return cudaLaunchKernel((const void *)k, one, one, arguments, 0, s);
}

/* ------------------------------------------------------------------------------------------------ traps */

static char trapped_text[512];

static bool child_ends(void (*body)(void), int *status) {
    int ends[2];
    double_reset();
    fflush(NULL);
    if (pipe(ends) != 0)
        bail_out("no pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        alarm(30);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t  n = 0;
    ssize_t got;
    while (n < sizeof trapped_text - 1 && (got = read(ends[0], trapped_text + n, sizeof trapped_text - 1 - n)) > 0)
        n += (size_t)got;
    trapped_text[n] = 0;
    close(ends[0]);
    return waitpid(child, status, 0) == child;
}

static void traps(void (*body)(void), const char *line, const char *name) {
    int  status = 0;
    bool ended  = child_ends(body, &status);
    char begins[256];
    snprintf(begins, sizeof begins, "double: %s", line);
    ok(ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(trapped_text, begins) == trapped_text,
       "a trap: %s (%.*s)", name, (int)strcspn(trapped_text, "\n"), trapped_text);
}

static void copies_overlap(void) {
    char *d = device_make(4096);
    cudaMemcpyAsync(d + 1, d, 2, cudaMemcpyDeviceToDevice, 0);
}

static const struct cudaMemcpyAttributes in_stream_order = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};

static cudaError_t batch(void **to, const void **from, size_t *sizes, size_t n, cudaStream_t s) {
    struct cudaMemcpyAttributes attributes = in_stream_order;
    size_t                      first      = 0;
#if CUDART_VERSION >= 13000
    return cudaMemcpyBatchAsync((void *const *)to, from, sizes, n, &attributes, &first, 1, s);
#else
    size_t failed;
    return cudaMemcpyBatchAsync(to, (void **)from, sizes, n, &attributes, &first, 1, &failed, s);
#endif
}

static void batch_overlaps(void) {
    char *d = device_make(4096);
    batch((void *[]){d, d + 1024}, (const void *[]){d + 2048, d + 512}, (size_t[]){513, 512}, 2, stream_make(0));
}

static void batch_targets_overlap(void) {
    char *d = device_make(4096);
    batch((void *[]){d, d + 511}, (const void *[]){d + 2048, d + 3072}, (size_t[]){512, 512}, 2, stream_make(0));
}

static void stream_destroyed(void) {
    cudaStream_t s = stream_make(0);
    cudaStreamDestroy(s);
    cudaStreamQuery(s);
}

static void event_destroyed(void) {
    cudaEvent_t e = event_make();
    cudaEventDestroy(e);
    cudaEventRecord(e, 0);
}

static void copy_outside(void) {
    char *d = device_make(4096), h[2] = {0};
    cudaMemcpyAsync(d + 4095, h, 2, cudaMemcpyHostToDevice, 0);
}

static void set_after_free(void) {
    char *d = device_make(4096);
    cudaFree(d);
    cudaMemset(d, 0, 1);
}

static void set_outside_pinned(void) {
    cudaMemset(host_make(100) + 50, 0, 51);
}

static void host_as_device(void) {
    char a[4] = {0}, b[4] = {0};
    cudaMemcpyAsync(a, b, 4, cudaMemcpyHostToDevice, 0);
}

static void double_free(void) {
    char *d = device_make(4096);
    cudaFree(d);
    cudaFree(d);
}

static void free_inside(void) {
    cudaFree(device_make(4096) + 16);
}

static void free_of_host(void) {
    cudaFree(host_make(4096));
}

static void kernel_unknown(void) {
    cudaLaunchKernel((const void *)kernel_get("nobody"), one, one, NULL, 0, 0);
}

static void kernel_unloaded(void) {
    cudaKernel_t k = kernel_get("expect");
    cudaLibraryUnload(library);
    expect_next(k, 0, 0);
}

static cudaGraphExec_t exec_of_fill(char *at, size_t bytes) {
    cudaStream_t    s = stream_make(cudaStreamNonBlocking);
    cudaGraph_t     g;
    cudaGraphExec_t x;
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    must(cudaMemsetAsync(at, 7, bytes, s));
    must(cudaStreamEndCapture(s, &g));
    must(cudaGraphInstantiate(&x, g, 0));
    must(cudaGraphDestroy(g));
    return x;
}

static void exec_destroyed(void) {
    cudaGraphExec_t x = exec_of_fill(device_make(64), 64);
    cudaGraphExecDestroy(x);
    cudaGraphLaunch(x, 0);
}

static void graph_of_freed(void) {
    char           *d = device_make(64);
    cudaGraphExec_t x = exec_of_fill(d, 64);
    cudaFree(d);
    cudaGraphLaunch(x, 0);
}

/* ------------------------------------------------------------------------------------------------ virtual memory */

static PFN_cuMemAddressReserve_v10020           va_reserve;
static PFN_cuMemAddressFree_v10020              va_free;
static PFN_cuMemCreate_v10020                   va_create;
static PFN_cuMemRelease_v10020                  va_release;
static PFN_cuMemMap_v10020                      va_map;
static PFN_cuMemUnmap_v10020                    va_unmap;
static PFN_cuMemSetAccess_v10020                va_access;
static PFN_cuMemGetAllocationGranularity_v10020 va_granule;
static PFN_cuStreamBatchMemOp_v8000             memops;
static PFN_cuStreamWriteValue64_v9000           write64;

static const CUmemAllocationProp where = {.type     = CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc     rw    = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                          .flags    = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void *entry(const char *name) {
    enum cudaDriverEntryPointQueryResult result;
    void                                *found;
    must(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
    return result == cudaDriverEntryPointSuccess ? found : NULL;
}

static void entries_get(void) {
    *(void **)&va_reserve = entry("cuMemAddressReserve");
    *(void **)&va_free    = entry("cuMemAddressFree");
    *(void **)&va_create  = entry("cuMemCreate");
    *(void **)&va_release = entry("cuMemRelease");
    *(void **)&va_map     = entry("cuMemMap");
    *(void **)&va_unmap   = entry("cuMemUnmap");
    *(void **)&va_access  = entry("cuMemSetAccess");
    *(void **)&va_granule = entry("cuMemGetAllocationGranularity");
    *(void **)&memops     = entry("cuStreamBatchMemOp");
    *(void **)&write64    = entry("cuStreamWriteValue64");
}

static CUdeviceptr reserved(size_t bytes) {
    CUdeviceptr at;
    must(va_reserve(&at, bytes, 0, 0, 0));
    return at;
}

static CUmemGenericAllocationHandle mapped(CUdeviceptr at, size_t bytes) {
    CUmemGenericAllocationHandle h;
    must(va_create(&h, bytes, &where, 0));
    must(va_map(at, bytes, 0, h, 0));
    must(va_access(at, bytes, &rw, 1));
    return h;
}

static void set_unmapped(void) {
    CUdeviceptr at = reserved(4 * MiB);
    mapped(at, 2 * MiB);
    cudaMemset((char *)at + 2 * MiB - 1, 0, 2);
}

static void set_without_access(void) {
    CUdeviceptr                  at = reserved(2 * MiB);
    CUmemGenericAllocationHandle h;
    must(va_create(&h, 2 * MiB, &where, 0));
    must(va_map(at, 2 * MiB, 0, h, 0));
    cudaMemset((void *)at, 0, 1);
}

static void unmap_under_work(void) {
    CUdeviceptr  at = reserved(4 * MiB);
    cudaStream_t s  = stream_make(cudaStreamNonBlocking);
    mapped(at, 2 * MiB);
    double_stall(s, true);
    cudaMemsetAsync((char *)at + MiB, 1, 16, s);
    va_unmap(at, 2 * MiB);
}

static void map_with_offset(void) {
    CUdeviceptr                  at = reserved(2 * MiB);
    CUmemGenericAllocationHandle h;
    must(va_create(&h, 4 * MiB, &where, 0));
    va_map(at, 2 * MiB, 2 * MiB, h, 0);
}

static void unmap_part(void) {
    CUdeviceptr at = reserved(4 * MiB);
    mapped(at, 4 * MiB);
    va_unmap(at, 2 * MiB);
}

static void create_odd(void) {
    CUmemGenericAllocationHandle h;
    va_create(&h, 3 * MiB, &where, 0);
}

static void release_twice(void) {
    CUmemGenericAllocationHandle h;
    must(va_create(&h, 2 * MiB, &where, 0));
    va_release(h);
    va_release(h);
}

static void free_of_mapped(void) {
    CUdeviceptr at = reserved(2 * MiB);
    mapped(at, 2 * MiB);
    va_free(at, 2 * MiB);
}

static void write_outside(void) {
    char *d = device_make(64);
    cudaFree(d);
    write64(0, (CUdeviceptr)d, 1, 0);
}

static void graph_unmapped_while_queued(void) {
    CUdeviceptr at = reserved(2 * MiB);
    mapped(at, 2 * MiB);
    cudaGraphExec_t x = exec_of_fill((char *)at, 64);
    cudaStream_t    s = stream_make(cudaStreamNonBlocking);
    double_stall(s, true);
    cudaGraphLaunch(x, s);
    va_unmap(at, 2 * MiB);
}

static void what_is_undefined_traps(void) {
    traps(copies_overlap, "cudaMemcpyAsync: ", "source and target overlap");
    traps(batch_overlaps, "cudaMemcpyBatchAsync: ", "a target overlaps another's source");
    traps(batch_targets_overlap, "cudaMemcpyBatchAsync: ", "two targets overlap");
    traps(stream_destroyed, "cudaStreamQuery: ", "a destroyed stream is used");
    traps(event_destroyed, "cudaEventRecord: ", "a destroyed event is used");
    traps(copy_outside, "cudaMemcpyAsync: when it was enqueued", "a copy runs over the end");
    traps(set_after_free, "cudaMemset: when it was enqueued", "freed memory is filled");
    traps(set_outside_pinned, "cudaMemset: when it was enqueued", "a fill runs over pinned memory");
    traps(host_as_device, "cudaMemcpyAsync: ", "host memory as the device's");
    traps(double_free, "cudaFree: ", "freed twice");
    traps(free_inside, "cudaFree: ", "freed in the middle");
    traps(free_of_host, "cudaFree: ", "pinned memory freed as the device's");
    traps(kernel_unknown, "cudaLaunchKernel: kernel nobody", "a kernel without a function");
    traps(kernel_unloaded, "cudaLaunchKernel: ", "a kernel of an unloaded library");
    traps(exec_destroyed, "cudaGraphLaunch: ", "a destroyed graph is launched");
    traps(graph_of_freed, "cudaMemsetAsync: when it was enqueued", "a graph uses freed memory");
    traps(set_unmapped, "cudaMemset: ", "a fill runs into what isn't mapped");
    traps(set_without_access, "cudaMemset: ", "a fill of mapped memory without access");
    traps(unmap_under_work, "cuMemUnmap: ", "unmapped under queued work");
    traps(graph_unmapped_while_queued, "cuMemUnmap: ", "unmapped under a queued graph");
    traps(map_with_offset, "cuMemMap: ", "mapped with an offset");
    traps(unmap_part, "cuMemUnmap: ", "a part of a mapping unmapped");
    traps(create_odd, "cuMemCreate: ", "half a granule");
    traps(release_twice, "cuMemRelease: ", "a handle released twice");
    traps(free_of_mapped, "cuMemAddressFree: ", "a reservation with a mapping freed");
    traps(write_outside, "cuStreamWriteValue64: ", "a memory operation on freed memory");
}

/* ------------------------------------------------------------------------------------------------ streams, events */

static void streams_run_in_order(double_mode mode) {
    fresh(mode);
    kernels_make();
    cudaKernel_t k    = kernel_get("expect");
    cudaStream_t s[2] = {stream_make(cudaStreamNonBlocking), stream_make(cudaStreamNonBlocking)};
    cudaEvent_t  e    = event_make();
    uint32_t     n    = mode == DOUBLE_LATE ? 40 : (uint32_t)tap_scaled(400);
    sequence_next = sequence_wrong = 0;
    for (uint32_t i = 0; i < n; i++) {
        must(expect_next(k, i, s[i % 2]));
        must(cudaEventRecord(e, s[i % 2]));
        must(cudaStreamWaitEvent(s[(i + 1) % 2], e, 0));
    }
    must(cudaDeviceSynchronize());
    is_u64(sequence_next, n, "mode %d: %u launches alternating on two streams have run", mode, n);
    is_u64(sequence_wrong, 0, "each behind the one before");
    fine(cudaLibraryUnload(library));
    fine(cudaEventDestroy(e));
    fine(cudaStreamDestroy(s[0]));
    fine(cudaStreamDestroy(s[1]));
    double_counts live = double_live();
    is_u64(live.streams + live.events + live.libraries, 0, "nothing is left over");
}

static void copies_move_bytes(double_mode mode) {
    fresh(mode);
    cudaStream_t s = stream_make(cudaStreamNonBlocking);
    char        *a = device_make(MiB), *b = device_make(MiB), *h = host_make(MiB);
    for (size_t i = 0; i < MiB; i++)
        h[i] = (char)(i * 7);
    char *expected = malloc(MiB);
    memcpy(expected, h, MiB);
    must(cudaMemcpyAsync(a, h, MiB, cudaMemcpyHostToDevice, s));
    must(batch((void *[]){b, b + MiB / 2}, (const void *[]){a + MiB / 2, a}, (size_t[]){MiB / 2, MiB / 2}, 2, s));
    must(cudaMemcpyAsync(a, b + MiB / 2, MiB / 2, cudaMemcpyDefault, s));
    must(cudaMemcpyAsync(a + MiB / 2, b, MiB / 2, cudaMemcpyDeviceToDevice, s));
    must(cudaMemsetAsync(b, 1, MiB, s));
    must(cudaMemcpyAsync(h, a, MiB, cudaMemcpyDeviceToHost, s));
    must(cudaStreamSynchronize(s));
    is_bytes(h, expected, MiB, "mode %d: bytes through two devices' buffers come back", mode);
    memset(h, 0, MiB);
    must(cudaMemcpy(h, a, MiB, cudaMemcpyDeviceToHost));
    is_bytes(h, expected, MiB, "cudaMemcpy to the host has copied when it returns");
    free(expected);
    fine(cudaFree(a));
    fine(cudaFree(b));
    fine(cudaFreeHost(h));
    fine(cudaStreamDestroy(s));
}

static void batches_read_when_told(void) {
    fresh(DOUBLE_LATE);
    cudaStream_t                s = stream_make(cudaStreamNonBlocking);
    char                       *d = device_make(64), *h = host_make(64), got[64];
    struct cudaMemcpyAttributes attributes[2] = {{.srcAccessOrder = cudaMemcpySrcAccessOrderStream},
                                                 {.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall}};
    size_t                      first[2] = {0, 1}, sizes[2] = {32, 32};
    void                       *to[2]   = {d, d + 32};
    const void                 *from[2] = {h, h + 32};
    double_stall(s, true);
#if CUDART_VERSION >= 13000
    fine(cudaMemcpyBatchAsync((void *const *)to, from, sizes, 2, attributes, first, 2, s));
#else
    size_t failed;
    fine(cudaMemcpyBatchAsync(to, (void **)from, sizes, 2, attributes, first, 2, &failed, s));
#endif
    memset(h, 9, 64);
    double_stall(s, false);
    must(cudaStreamSynchronize(s));
    must(cudaMemcpy(got, d, 64, cudaMemcpyDeviceToHost));
    is(got[0], 9);
    is(got[32], 0);
}

static void launches_of_a_graph_are_in_order(void) {
    fresh(DOUBLE_TIMELY);
    cudaStream_t    s = stream_make(cudaStreamNonBlocking), t = stream_make(cudaStreamNonBlocking);
    cudaGraphExec_t x = exec_of_fill(device_make(64), 64);
    double_stall(s, true);
    must(cudaGraphLaunch(x, s));
    must(cudaGraphLaunch(x, t));
    nap_ms(5);
    is(cudaStreamQuery(t), cudaErrorNotReady);
    fine(cudaGraphExecDestroy(x)); /* it goes when its launches have run */
    double_stall(s, false);
    fine(cudaStreamSynchronize(t));
}

static void queries_tell_the_truth(void) {
    fresh(DOUBLE_TIMELY);
    cudaStream_t s = stream_make(cudaStreamNonBlocking), t = stream_make(cudaStreamNonBlocking);
    cudaEvent_t  e = event_make(), never = event_make();
    char        *d = device_make(64);
    fine(cudaEventQuery(never));
    fine(cudaEventSynchronize(never));
    fine(cudaStreamWaitEvent(s, never, 0));
    fine(cudaStreamQuery(s));
    double_stall(s, true);
    must(cudaMemsetAsync(d, 1, 64, s));
    must(cudaEventRecord(e, s));
    for (int i = 0; i < 100; i++)
        if (cudaEventQuery(e) != cudaErrorNotReady)
            bail_out("an event of a stalled stream is complete");
    is(cudaStreamQuery(s), cudaErrorNotReady);
    is(cudaPeekAtLastError(), cudaErrorNotReady);
    is(cudaGetLastError(), cudaErrorNotReady);
    is(cudaGetLastError(), cudaSuccess);
    must(cudaStreamWaitEvent(t, e, 0));
    is(cudaStreamQuery(t), cudaErrorNotReady);
    must(cudaEventRecord(e, t)); /* what waits for the former record goes on waiting for that */
    must(cudaEventDestroy(e));
    must(cudaStreamDestroy(s));
    nap_ms(5);
    is(cudaStreamQuery(t), cudaErrorNotReady);
    is_u64(double_live().streams, 1, "a destroyed stream isn't live, its work pending or not");
    double_reset();
    is_u64(double_live().events, 0, "a reset waits for all and forgets all");
}

static uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Of those launches that nobody asked for during a short nap, how many had begun after it? The machine may be busy, so
 * only naps that were short count. */
static void late_work_is_late(void) {
    unsigned naps = 0, begun = 0;
    fresh(DOUBLE_LATE);
    kernels_make();
    cudaKernel_t k = kernel_get("expect");
    cudaStream_t s = stream_make(cudaStreamNonBlocking);
    sequence_next = sequence_wrong = 0;
    for (uint32_t i = 0; i < 40; i++) {
        uint64_t start = clock_ns();
        must(expect_next(k, i, s));
        nap_ms(1);
        bool has_begun = sequence_next > i;
        if (clock_ns() - start < 4000000) {
            naps++;
            begun += has_begun;
        }
        must(cudaStreamSynchronize(s));
        if (sequence_next != i + 1)
            bail_out("a stream has been waited for, and its work isn't done");
    }
    ok(begun * 2 <= naps, "of %u launches, %u began before anybody asked for them", naps, begun);
}

static void late_work_waits_to_be_wanted(void) {
    fresh(DOUBLE_LATE);
    unsigned early = 0, polls_max = 0;
    for (int i = 0; i < 10; i++) {
        cudaStream_t s = stream_make(cudaStreamNonBlocking), t = stream_make(cudaStreamNonBlocking);
        cudaEvent_t  e = event_make();
        char        *d = device_make(64);
        must(cudaMemsetAsync(d, 1, 64, s));
        must(cudaEventRecord(e, s));
        must(cudaStreamWaitEvent(t, e, 0));
        must(cudaMemsetAsync(d, 2, 64, t));
        early += cudaEventQuery(e) == cudaSuccess;
        unsigned polls = 0;
        if (i % 2)
            must(cudaStreamSynchronize(t));
        else
            for (; cudaStreamQuery(t); polls++)
                nap_ms(1);
        polls_max = polls > polls_max ? polls : polls_max;
        must(cudaFree(d));
    }
    ok(early < 10, "late work isn't done at once (%u of 10 was)", early);
    ok(polls_max < 2000, "a poll comes to an end, after %u at most", polls_max);
}

static void eager_work_is_done_at_once(void) {
    fresh(DOUBLE_EAGER);
    cudaStream_t s = stream_make(cudaStreamNonBlocking), t = stream_make(cudaStreamNonBlocking);
    cudaEvent_t  e = event_make();
    char        *d = device_make(64), h[64];
    must(cudaMemsetAsync(d, 3, 64, s));
    must(cudaMemcpyAsync(h, d, 64, cudaMemcpyDeviceToHost, s));
    is(h[63], 3);
    fine(cudaStreamQuery(s));
    double_stall(s, true);
    must(cudaEventRecord(e, s));
    must(cudaStreamWaitEvent(t, e, 0));
    must(cudaMemsetAsync(d, 4, 64, t));
    is(cudaStreamQuery(t), cudaErrorNotReady);
    double_stall(s, false);
    fine(cudaStreamSynchronize(t));
}

static void events_tell_times(void) {
    fresh(DOUBLE_TIMELY);
    cudaEvent_t  a, b, untimed = event_make();
    cudaStream_t s  = stream_make(0);
    float        ms = -1;
    must(cudaEventCreate(&a));
    must(cudaEventCreateWithFlags(&b, cudaEventBlockingSync));
    is(cudaEventElapsedTime(&ms, a, b), cudaErrorInvalidResourceHandle);
    must(cudaEventRecord(a, s));
    must(cudaStreamSynchronize(s));
    double_stall(s, true);
    must(cudaEventRecord(b, s));
    is(cudaEventElapsedTime(&ms, a, b), cudaErrorNotReady);
    nap_ms(3);
    double_stall(s, false);
    must(cudaEventSynchronize(b));
    fine(cudaEventElapsedTime(&ms, a, b));
    ok(ms >= 2.9f && ms < 30000, "%g ms have passed", (double)ms);
    must(cudaEventRecord(untimed, s));
    must(cudaEventSynchronize(untimed));
    is(cudaEventElapsedTime(&ms, a, untimed), cudaErrorInvalidResourceHandle);
    is(cudaEventCreateWithFlags(&a, 64), cudaErrorInvalidValue);
}

static void the_legacy_stream_is_a_barrier(void) {
    fresh(DOUBLE_TIMELY);
    cudaStream_t blocking = stream_make(0), free_one = stream_make(cudaStreamNonBlocking);
    char        *d = device_make(64);
    double_stall(blocking, true);
    must(cudaMemsetAsync(d, 1, 8, blocking));
    must(cudaMemsetAsync(d + 8, 1, 8, 0));
    must(cudaMemsetAsync(d + 16, 1, 8, free_one));
    fine(cudaStreamSynchronize(free_one));
    nap_ms(5);
    is(cudaStreamQuery(0), cudaErrorNotReady);
    double_stall(blocking, false);
    fine(cudaStreamSynchronize(0));
    double_stall(cudaStreamLegacy, true);
    must(cudaMemsetAsync(d, 1, 8, cudaStreamLegacy));
    must(cudaMemsetAsync(d + 8, 1, 8, blocking));
    must(cudaMemsetAsync(d + 24, 1, 8, cudaStreamPerThread));
    must(cudaMemsetAsync(d + 16, 1, 8, free_one));
    fine(cudaStreamSynchronize(free_one));
    nap_ms(5);
    is(cudaStreamQuery(blocking), cudaErrorNotReady);
    is(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
    double_stall(0, false);
    fine(cudaDeviceSynchronize());
    fine(cudaStreamQuery(blocking));
}

static void *per_thread_id(void *id) {
    char h[8] = {0}, *d = device_make(8);
    must(cudaStreamGetId(cudaStreamPerThread, id));
    must(cudaMemcpyAsync(d, h, 8, cudaMemcpyHostToDevice, cudaStreamPerThread));
    must(cudaStreamSynchronize(cudaStreamPerThread));
    return NULL;
}

static void each_thread_has_a_stream(void) {
    fresh(DOUBLE_TIMELY);
    unsigned long long mine, others[2], legacy, made;
    pthread_t          threads[2];
    per_thread_id(&mine);
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, per_thread_id, &others[i]);
        pthread_join(threads[i], NULL);
    }
    must(cudaStreamGetId(0, &legacy));
    must(cudaStreamGetId(stream_make(0), &made));
    ok(mine != others[0] && mine != others[1] && others[0] != others[1] && legacy != mine && made != mine,
       "ids are all different");
}

static void properties_of_streams(void) {
    fresh(DOUBLE_TIMELY);
    cudaStream_t s;
    unsigned     flags;
    int          priority, least, greatest, device;
    must(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    ok(greatest < least, "there are priorities");
    must(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, -100));
    must(cudaStreamGetFlags(s, &flags));
    is(flags, cudaStreamNonBlocking);
    must(cudaStreamGetPriority(s, &priority));
    is(priority, greatest);
#if CUDART_VERSION >= 12080
    must(cudaStreamGetDevice(s, &device));
    is(device, 0);
#endif
    is(cudaStreamDestroy(0), cudaErrorInvalidResourceHandle);
    is(cudaStreamCreateWithFlags(&s, 16), cudaErrorInvalidValue);
    is(cudaStreamCreate(NULL), cudaErrorInvalidValue);
}

typedef struct filler {
    cudaStream_t     s;
    char            *d;
    _Atomic unsigned n;
} filler;

static void *fill_up(void *pointer) {
    filler *f = pointer;
    for (int i = 0; i < DOUBLE_QUEUE_MAX + 100; i++, f->n++)
        must(cudaMemsetAsync(f->d, i, 1, f->s));
    return NULL;
}

static void a_full_queue_blocks_its_caller(void) {
    fresh(DOUBLE_TIMELY);
    filler    f = {stream_make(cudaStreamNonBlocking), device_make(8), 0};
    pthread_t thread;
    double_stall(f.s, true);
    pthread_create(&thread, NULL, fill_up, &f);
    while (f.n < DOUBLE_QUEUE_MAX)
        nap_ms(1);
    nap_ms(20);
    is_u64(f.n, DOUBLE_QUEUE_MAX, "a stream takes so many and no more");
    double_stall(f.s, false);
    pthread_join(thread, NULL);
    fine(cudaStreamSynchronize(f.s));
}

static void many_streams_work(void) {
    fresh(DOUBLE_TIMELY);
    enum { N = 200 };
    char *d = device_make(N), h[N];
    for (int i = 0; i < N; i++)
        must(cudaMemsetAsync(d + i, i, 1, stream_make(cudaStreamNonBlocking)));
    must(cudaDeviceSynchronize());
    must(cudaMemcpy(h, d, N, cudaMemcpyDeviceToHost));
    unsigned wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += h[i] != (char)i;
    is_u64(wrong, 0, "%d streams have done their work", N);
}

static void host_function(void *data) {
    *(cudaError_t *)data = cudaStreamQuery(0);
}

static void host_functions_run(void) {
    fresh(DOUBLE_TIMELY);
    cudaError_t inside = cudaSuccess;
    must(cudaLaunchHostFunc(cudaStreamPerThread, host_function, &inside));
    must(cudaStreamSynchronize(cudaStreamPerThread));
    is(inside, cudaErrorNotPermitted);
    is(cudaLaunchHostFunc(0, NULL, NULL), cudaErrorInvalidValue);
}

static void kernels_run(void) {
    fresh(DOUBLE_LATE);
    kernels_make();
    int *d = (int *)(void *)device_make(4 * sizeof(int)), h[4], by = 5;
    must(cudaMemset(d, 0, 4 * sizeof(int)));
    void              *arguments[] = {&d, &by};
    cudaLaunchConfig_t configuration;
    memset(&configuration, 0, sizeof configuration);
    configuration.gridDim  = (dim3){4, 1, 1};
    configuration.blockDim = one;
    fine(cudaLaunchKernel((const void *)kernel_get("add"), configuration.gridDim, one, arguments, 0, 0));
    by = 7; /* the launch before has its own copy */
    fine(cudaLaunchKernelExC(&configuration, (const void *)kernel_get("_Z3addPii"), arguments));
    by = 100;
    must(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    is(h[3], 12);
    is(cudaLaunchKernel((const void *)kernel_get("add"), (dim3){0, 1, 1}, one, arguments, 0, 0),
       cudaErrorInvalidConfiguration);
    is(cudaLaunchKernel(NULL, one, one, arguments, 0, 0), cudaErrorInvalidDeviceFunction);
    is(cudaLaunchKernel((const void *)&by, one, one, arguments, 0, 0), cudaErrorInvalidDeviceFunction);
}

static void kernel_touch(dim3 grid, dim3 block, void **arguments) {
    (void)grid, (void)block;
    **(volatile char **)arguments[0] = 1;
}

static void touch_freed(void) {
    signal(SIGSEGV, SIG_DFL); /* no sanitizer's report */
    kernels_make();
    double_kernel_register("touch", kernel_touch, 1, (size_t[]){sizeof(char *)});
    char *d = device_make(64);
    must(cudaFree(d));
    must(cudaLaunchKernel((const void *)kernel_get("touch"), one, one, (void *[]){&d}, 0, 0));
    cudaDeviceSynchronize();
}

static void stale_addresses_fault(void) {
    int  status = 0;
    bool ended  = child_ends(touch_freed, &status);
    ok(ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV,
       "a kernel that touches freed memory ends with SIGSEGV (status %#x)", (unsigned)status);
}

/* ------------------------------------------------------------------------------------------------ many threads */

#define STRESS_THREADS 6
#define STRESS_BYTES   ((size_t)4096)

static _Atomic unsigned stress_wrong;

static uint64_t stress_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void stress_round(uint64_t *random, char *h, cudaStream_t other) {
    cudaStream_t s = stream_make(stress_random(random) % 2 ? cudaStreamNonBlocking : cudaStreamDefault);
    cudaEvent_t  e = event_make(), behind = event_make();
    char        *a = device_make(STRESS_BYTES), *b = device_make(STRESS_BYTES);
    char         byte = (char)stress_random(random);
    memset(h, byte, STRESS_BYTES);
    must(cudaMemcpyAsync(a, h, STRESS_BYTES, cudaMemcpyHostToDevice, s));
    must(cudaEventRecord(e, s));
    must(cudaStreamWaitEvent(other, e, 0));
    must(cudaMemcpyAsync(b, a, STRESS_BYTES, cudaMemcpyDeviceToDevice, other));
    must(cudaEventRecord(behind, other));
    if (stress_random(random) % 2)
        must(cudaEventSynchronize(e));
    must(cudaEventDestroy(e));
    must(cudaMemsetAsync(a + 1, byte + 1, STRESS_BYTES - 1, other));
    must(cudaStreamWaitEvent(s, behind, 0));
    must(cudaMemcpyAsync(h, b, STRESS_BYTES, cudaMemcpyDeviceToHost, s));
    must(cudaEventRecord(behind, s));
    bool early = stress_random(random) % 2;
    if (early)
        must(cudaStreamDestroy(s));
    while (cudaEventQuery(behind) == cudaErrorNotReady)
        cudaGetLastError();
    for (size_t i = 0; i < STRESS_BYTES; i++)
        stress_wrong += h[i] != byte;
    if (!early)
        must(cudaStreamDestroy(s));
    must(cudaEventDestroy(behind));
    must(cudaFree(a));
    must(cudaFree(b));
}

static void *stress_main(void *number) {
    uint64_t     random = (uintptr_t)number * 977 + 5;
    cudaStream_t mine   = stream_make(cudaStreamNonBlocking);
    char        *h      = host_make(STRESS_BYTES);
    uint64_t     rounds = tap_scaled(30);
    for (uint64_t i = 0; i < rounds; i++)
        stress_round(&random, h, stress_random(&random) % 2 ? mine : cudaStreamPerThread);
    must(cudaStreamDestroy(mine));
    must(cudaFreeHost(h));
    return NULL;
}

static void threads_share_the_machine(double_mode mode) {
    pthread_t threads[STRESS_THREADS];
    fresh(mode);
    stress_wrong = 0;
    for (uintptr_t i = 0; i < STRESS_THREADS; i++)
        pthread_create(&threads[i], NULL, stress_main, (void *)i);
    for (int i = 0; i < STRESS_THREADS; i++)
        pthread_join(threads[i], NULL);
    is_u64(stress_wrong, 0, "mode %d: every byte is right in %d threads that make, use and destroy", mode,
           STRESS_THREADS);
    double_counts live = double_live();
    is_u64(live.streams + live.events + live.allocations + live.host_allocations, 0, "and nothing is left");
}

/* ------------------------------------------------------------------------------------------------ per-thread forms */

extern __typeof__(cudaStreamGetId)                  cudaStreamGetId_ptsz;
extern __typeof__(cudaMemcpy)                       cudaMemcpy_ptds;
extern __typeof__(cudaGetDriverEntryPointByVersion) cudaGetDriverEntryPointByVersion_ptsz;

static void stream_0_may_be_the_threads(void) {
    fresh(DOUBLE_LATE);
    unsigned long long own, per_thread, legacy;
    must(cudaStreamGetId(cudaStreamPerThread, &per_thread));
    must(cudaStreamGetId_ptsz(NULL, &own));
    must(cudaStreamGetId_ptsz(cudaStreamLegacy, &legacy));
    is_u64(own, per_thread, "0 is the thread's own stream");
    ok(legacy != own, "the legacy one can still be named");
    is_u64(double_calls("cudaStreamGetId"), 3, "both forms are counted as one");
    uint64_t *d = (uint64_t *)(void *)device_make(8), h = 0;
    void     *write;
    must(cudaGetDriverEntryPointByVersion_ptsz("cuStreamWriteValue64", &write, 12000, cudaEnableDefault, NULL));
    double_stall(cudaStreamLegacy, true);
    must((*(PFN_cuStreamWriteValue64_v9000 *)&write)(NULL, (CUdeviceptr)d, 5, 0));
    must(cudaMemcpy_ptds(&h, d, 8, cudaMemcpyDeviceToHost));
    is_u64(h, 5, "a driver function found by such a program goes there too");
    double_stall(cudaStreamLegacy, false);
}

/* ------------------------------------------------------------------------------------------------ errors */

static void errors_are_cudas(void) {
    fresh(DOUBLE_TIMELY);
    char        *d = device_make(64), h[8] = {0};
    cudaStream_t s = stream_make(0);
    is(batch((void *[]){d}, (const void *[]){d + 32}, (size_t[]){8}, 1, 0), cudaErrorInvalidResourceHandle);
    is(batch((void *[]){d}, (const void *[]){d + 32}, (size_t[]){0}, 1, s), cudaErrorInvalidValue);
    is(batch((void *[]){NULL}, (const void *[]){d + 32}, (size_t[]){8}, 1, s), cudaErrorInvalidValue);
    is(batch((void *[]){d}, (const void *[]){d + 32}, (size_t[]){8}, 0, s), cudaErrorInvalidValue);
    is(cudaMemcpyAsync(NULL, d, 8, cudaMemcpyDefault, s), cudaErrorInvalidValue);
    is(cudaMemcpyAsync(d, h, 8, cudaMemcpyDeviceToHost, s), cudaErrorInvalidValue);
    is(cudaMemcpyAsync(d, h, 8, (enum cudaMemcpyKind)9, s), cudaErrorInvalidMemcpyDirection);
    fine(cudaMemcpyAsync(d, d, 0, cudaMemcpyDeviceToDevice, s));
    is(cudaMemsetAsync(NULL, 0, 8, s), cudaErrorInvalidValue);
    is(cudaSetDevice(1), cudaErrorInvalidDevice);
    is(cudaEventRecord(NULL, s), cudaErrorInvalidResourceHandle);
    is(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    fine(cudaFree(NULL));
    is_string(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady", "a name");
    is_string(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory", "a text");
    is_string(cudaGetErrorString((cudaError_t)12345), "unrecognized error code", "no text");
    struct cudaPointerAttributes a;
    fine(cudaPointerGetAttributes(&a, d));
    is(a.type, cudaMemoryTypeDevice);
    fine(cudaPointerGetAttributes(&a, h));
    is(a.type, cudaMemoryTypeUnregistered);
    PFN_cuGetErrorName_v6000 name;
    const char              *text = NULL;
    *(void **)&name               = entry("cuGetErrorName");
    fine(name(CUDA_ERROR_OUT_OF_MEMORY, &text));
    is_string(text, "CUDA_ERROR_OUT_OF_MEMORY", "the driver's name");
    is_pointer(entry("cuNothing"), NULL, "an unknown driver function is none");
}

static void several_devices(void) {
    fresh(DOUBLE_TIMELY);
    double_devices(2);
    int n;
    must(cudaGetDeviceCount(&n));
    is(n, 2);
    cudaStream_t s = stream_make(0);
    cudaEvent_t  e = event_make();
    char        *a = device_make(64), h[64];
    must(cudaMemset(a, 9, 64));
    must(cudaStreamSynchronize(0));
    must(cudaSetDevice(1));
    char        *b = device_make(64);
    cudaStream_t t = stream_make(0);
    is(cudaEventRecord(e, t), cudaErrorInvalidResourceHandle);
    must(cudaEventRecord(e, s));
    fine(cudaStreamWaitEvent(t, e, 0));
    fine(cudaMemcpyPeerAsync(b, 1, a, 0, 64, t));
    must(cudaStreamSynchronize(t));
    must(cudaMemcpy(h, b, 64, cudaMemcpyDeviceToHost));
    is(h[63], 9);
    must(cudaSetDevice(0));
    double_devices(0);
    is(cudaGetDeviceCount(&n), cudaErrorNoDevice);
}

static void memory_has_an_end(void) {
    fresh(DOUBLE_TIMELY);
    double_memory(8 * MiB);
    size_t left, total;
    void  *p = NULL;
    char  *d = device_make(MiB);
    must(cudaMemGetInfo(&left, &total));
    is_u64(left, 7 * MiB, "cudaMemGetInfo tells what is free");
    is_u64(total, 8 * MiB, "and what there is");
    is(cudaMalloc(&p, 7 * MiB + 1), cudaErrorMemoryAllocation);
    fine(cudaMalloc(&p, 7 * MiB));
    is(cudaMalloc(&p, 1), cudaErrorMemoryAllocation);
    CUmemGenericAllocationHandle h;
    is(va_create(&h, 2 * MiB, &where, 0), CUDA_ERROR_OUT_OF_MEMORY);
    must(cudaFree(d));
    is(va_create(&h, 2 * MiB, &where, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

static void virtual_memory_lives(void) {
    fresh(DOUBLE_TIMELY);
    size_t granule, before, after, total;
    must(va_granule(&granule, &where, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    is_u64(granule, 2 * MiB, "a granule");
    must(cudaMemGetInfo(&before, &total));
    CUdeviceptr                  at = reserved(8 * MiB);
    CUmemGenericAllocationHandle a = mapped(at + 2 * MiB, 2 * MiB), b = mapped(at + 4 * MiB, 2 * MiB);
    char                         h[8];
    fine(cudaMemset((void *)(at + 2 * MiB), 6, 4 * MiB));
    must(cudaMemcpy(h, (void *)(at + 4 * MiB - 4), 8, cudaMemcpyDeviceToHost));
    is(h[0] + h[7], 12);
    is(va_map(at + 2 * MiB, 2 * MiB, 0, a, 0), CUDA_ERROR_INVALID_VALUE);
    is(va_unmap(at, 4 * MiB), CUDA_ERROR_INVALID_VALUE);
    fine(va_release(a)); /* stays while it is mapped */
    must(cudaMemGetInfo(&after, &total));
    is_u64(before - after, 4 * MiB, "memory released but mapped is in use");
    must(cudaDeviceSynchronize());
    fine(va_unmap(at + 2 * MiB, 4 * MiB));
    must(cudaMemGetInfo(&after, &total));
    is_u64(before - after, 2 * MiB, "unmapped, it is free");
    fine(va_map(at, 2 * MiB, 0, b, 0));
    fine(va_access(at, 2 * MiB, &rw, 1));
    must(cudaMemcpy(h, (void *)at, 1, cudaMemcpyDeviceToHost));
    is(h[0], 6);
    fine(va_unmap(at, 2 * MiB));
    fine(va_release(b));
    fine(va_free(at, 8 * MiB));
    double_counts live = double_live();
    is_u64(live.reservations + live.mappings + live.handles, 0, "nothing is left");
    double_virtual_memory(false);
    int                            can = 1;
    PFN_cuDeviceGetAttribute_v2000 attribute;
    *(void **)&attribute = entry("cuDeviceGetAttribute");
    must(attribute(&can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    is(can, 0);
    is(va_reserve(&at, 2 * MiB, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
}

static void many_handles_are_few_files(void) {
    fresh(DOUBLE_TIMELY);
    enum { N = 1500 };
    double_memory((uint64_t)N * 2 * MiB);
    CUdeviceptr at = reserved((size_t)N * 2 * MiB);
    for (size_t i = 0; i < N; i++)
        va_release(mapped(at + i * 2 * MiB, 2 * MiB));
    is_u64(double_live().mappings, N, "%d granules are mapped one by one", N);
    fine(va_unmap(at, (size_t)N * 2 * MiB));
}

static void memory_operations_write(void) {
    fresh(DOUBLE_TIMELY);
    uint64_t                *d = (uint64_t *)(void *)device_make(64), h[8];
    cudaStream_t             s = stream_make(cudaStreamNonBlocking);
    CUstreamBatchMemOpParams p[2];
    memset(p, 0, sizeof p);
    for (int i = 0; i < 2; i++) {
        p[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        p[i].writeValue.address   = (CUdeviceptr)(d + i);
        p[i].writeValue.value64   = UINT64_C(0x123456789a) + (unsigned)i;
    }
    fine(memops(s, 2, p, 0));
    fine(write64(s, (CUdeviceptr)(d + 2), 77, 0));
    must(cudaMemcpyAsync(h, d, 24, cudaMemcpyDeviceToHost, s));
    must(cudaStreamSynchronize(s));
    is_u64(h[1], UINT64_C(0x123456789b), "a value written in a batch");
    is_u64(h[2], 77, "and alone");
    is(memops(s, 256, p, 0), CUDA_ERROR_INVALID_VALUE);
    is(write64(s, (CUdeviceptr)d + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
}

/* ------------------------------------------------------------------------------------------------ captures */

static enum cudaStreamCaptureStatus status_of(cudaStream_t s) {
    enum cudaStreamCaptureStatus status;
    must(cudaStreamIsCapturing(s, &status));
    return status;
}

static void captures_replay(void) {
    fresh(DOUBLE_TIMELY);
    kernels_make();
    cudaStream_t    s = stream_make(cudaStreamNonBlocking), t = stream_make(cudaStreamNonBlocking);
    cudaEvent_t     fork_event = event_make(), join_event = event_make();
    cudaGraph_t     g, other;
    cudaGraphExec_t x;
    int            *d = (int *)(void *)device_make(8), h[2], by = 3;
    must(cudaMemset(d, 0, 8));
    must(cudaDeviceSynchronize());
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    is(status_of(s), cudaStreamCaptureStatusActive);
    is(status_of(t), cudaStreamCaptureStatusNone);
    must(cudaEventRecord(fork_event, s));
    must(cudaStreamWaitEvent(t, fork_event, 0));
    is(status_of(t), cudaStreamCaptureStatusActive);
    fine(cudaLaunchKernel((const void *)kernel_get("add"), one, one, (void *[]){&d, &by}, 0, t));
    must(cudaEventRecord(join_event, t));
    must(cudaStreamWaitEvent(s, join_event, 0));
    must(cudaMemcpyAsync(d + 1, d, 4, cudaMemcpyDeviceToDevice, s));
    fine(cudaStreamEndCapture(s, &g));
    is(status_of(t), cudaStreamCaptureStatusNone);
    by = 50;
    fine(cudaGraphInstantiate(&x, g, 0));
    must(cudaMemcpy(h, d, 8, cudaMemcpyDeviceToHost));
    is(h[1], 0);
    for (int i = 0; i < 3; i++)
        fine(cudaGraphLaunch(x, i % 2 ? t : s));
    must(cudaDeviceSynchronize());
    must(cudaMemcpy(h, d, 8, cudaMemcpyDeviceToHost));
    is(h[0], 9);
    is(h[1], 9);

    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    must(cudaLaunchKernel((const void *)kernel_get("add"), one, one, (void *[]){&d, &by}, 0, s));
    must(cudaMemcpyAsync(d + 1, d, 4, cudaMemcpyDeviceToDevice, s));
    must(cudaStreamEndCapture(s, &other));
    cudaGraphExecUpdateResultInfo result;
    must(cudaGraphLaunch(x, s)); /* as it was */
    fine(cudaGraphExecUpdate(x, other, &result));
    must(cudaGraphLaunch(x, s));
    must(cudaStreamSynchronize(s));
    must(cudaMemcpy(h, d, 8, cudaMemcpyDeviceToHost));
    is(h[1], 62);
    must(cudaGraphDestroy(other));
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    must(cudaGraphLaunch(x, s)); /* a graph in a graph */
    must(cudaStreamEndCapture(s, &other));
    is(cudaGraphExecUpdate(x, other, &result), cudaErrorGraphExecUpdateFailure);
    fine(cudaGraphDestroy(other));
    fine(cudaGraphDestroy(g));
    fine(cudaGraphExecDestroy(x));
    double_counts live = double_live();
    is_u64(live.graphs + live.graph_execs, 0, "no graph is left");
}

/* A capture that some call has spoilt: the end says so. */
static void spoilt(cudaStream_t s, const char *by) {
    cudaGraph_t g = (cudaGraph_t)1;
    is(status_of(s), cudaStreamCaptureStatusInvalidated);
    is_i64(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated, "spoilt by %s", by);
    is_pointer(g, NULL, "there is no graph");
    is(status_of(s), cudaStreamCaptureStatusNone);
}

static void captures_forbid(void) {
    fresh(DOUBLE_TIMELY);
    cudaStream_t s = stream_make(cudaStreamNonBlocking), t = stream_make(cudaStreamNonBlocking);
    cudaStream_t blocking = stream_make(0);
    cudaEvent_t  e = event_make(), plain = event_make();
    char        *d = device_make(64);
    void        *p;
    cudaGraph_t  g;
    must(cudaEventRecord(plain, t));
    must(cudaStreamSynchronize(t));
#define CAPTURE        must(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal))
    CAPTURE;
    is(cudaMalloc(&p, 64), cudaErrorStreamCaptureUnsupported);
    is(cudaMemsetAsync(d, 0, 8, s), cudaErrorStreamCaptureInvalidated);
    spoilt(s, "cudaMalloc");
    CAPTURE;
    is(cudaEventQuery(plain), cudaErrorStreamCaptureUnsupported);
    spoilt(s, "a query of another event");
    CAPTURE;
    is(cudaStreamSynchronize(t), cudaErrorStreamCaptureUnsupported);
    spoilt(s, "waiting for another stream");
    CAPTURE;
    is(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
    spoilt(s, "waiting for itself");
    CAPTURE;
    is(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
    spoilt(s, "waiting for the device");
    CAPTURE;
    is(cudaStreamWaitEvent(s, plain, 0), cudaErrorStreamCaptureIsolation);
    spoilt(s, "an event that isn't captured");
    CAPTURE;
    is(batch((void *[]){d}, (const void *[]){d + 32}, (size_t[]){8}, 1, s), cudaErrorStreamCaptureUnsupported);
    spoilt(s, "a batch");
    CAPTURE;
    must(cudaEventRecord(e, s));
    is(cudaEventQuery(e), cudaErrorCapturedEvent);
    spoilt(s, "a query of a captured event");
    is(cudaStreamWaitEvent(t, e, 0), cudaErrorCapturedEvent);
    CAPTURE;
    must(cudaEventRecord(e, s));
    must(cudaStreamBeginCapture(t, cudaStreamCaptureModeGlobal));
    is(cudaStreamWaitEvent(t, e, 0), cudaErrorStreamCaptureMerge);
    spoilt(s, "a merge");
    spoilt(t, "a merge");
    CAPTURE;
    must(cudaEventRecord(e, s));
    must(cudaStreamWaitEvent(t, e, 0));
    must(cudaMemsetAsync(d, 0, 8, t));
    is(cudaStreamEndCapture(t, &g), cudaErrorStreamCaptureUnmatched);
    spoilt(s, "an end on another stream");
    CAPTURE;
    must(cudaEventRecord(e, s));
    must(cudaStreamWaitEvent(t, e, 0));
    must(cudaMemsetAsync(d, 0, 8, t));
    is(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureUnjoined);
    is(status_of(t), cudaStreamCaptureStatusNone);
    must(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
    enum cudaStreamCaptureStatus status;
    is(cudaStreamIsCapturing(0, &status), cudaErrorStreamCaptureImplicit);
    is(status_of(blocking), cudaStreamCaptureStatusActive);
    is(cudaMemsetAsync(d, 0, 8, 0), cudaErrorStreamCaptureImplicit);
    spoilt(blocking, "the legacy stream");
    CAPTURE;
    fine(cudaMemsetAsync(d, 0, 8, 0)); /* it isn't a blocking one */
    is(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
    fine(cudaStreamEndCapture(s, &g));
    is(cudaStreamEndCapture(s, &g), cudaErrorIllegalState);
    is(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
    unsigned long long id = 0;
    CAPTURE;
#if CUDART_VERSION >= 13000
    fine(cudaStreamGetCaptureInfo(s, &status, &id, NULL, NULL, NULL, NULL));
#else
    fine(cudaStreamGetCaptureInfo(s, &status, &id, NULL, NULL, NULL));
#endif
    ok(id && status == cudaStreamCaptureStatusActive, "a capture has an id");
#undef CAPTURE
}

static cudaStream_t captured_stream;
static cudaError_t  other_thread_got;

static void *malloc_elsewhere(void *mode) {
    void *p;
    if (mode)
        must(cudaThreadExchangeStreamCaptureMode(mode));
    other_thread_got = cudaMalloc(&p, 64);
    return NULL;
}

static void *end_elsewhere(void *unused) {
    cudaGraph_t g;
    other_thread_got = cudaStreamEndCapture(captured_stream, &g);
    return unused;
}

static cudaError_t elsewhere(void *(*what)(void *), void *argument) {
    pthread_t thread;
    pthread_create(&thread, NULL, what, argument);
    pthread_join(thread, NULL);
    return other_thread_got;
}

static void capture_modes(void) {
    fresh(DOUBLE_TIMELY);
    cudaStream_t               s = captured_stream = stream_make(cudaStreamNonBlocking);
    enum cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed, local = cudaStreamCaptureModeThreadLocal, mine;
    cudaGraph_t                g;
    void                      *p;
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    is(elsewhere(malloc_elsewhere, NULL), cudaErrorStreamCaptureUnsupported);
    spoilt(s, "another thread's cudaMalloc");
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    fine(elsewhere(malloc_elsewhere, &relaxed));
    is(relaxed, cudaStreamCaptureModeGlobal);
    fine(elsewhere(malloc_elsewhere, &local));
    is(elsewhere(end_elsewhere, NULL), cudaErrorStreamCaptureWrongThread);
    fine(cudaStreamEndCapture(s, &g));
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    fine(elsewhere(malloc_elsewhere, NULL));
    is(cudaMalloc(&p, 64), cudaErrorStreamCaptureUnsupported);
    spoilt(s, "the thread's own cudaMalloc");
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    fine(cudaMalloc(&p, 64));
    fine(elsewhere(end_elsewhere, NULL));
    mine = cudaStreamCaptureModeRelaxed;
    must(cudaThreadExchangeStreamCaptureMode(&mine));
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    fine(cudaMalloc(&p, 64));
    fine(cudaStreamEndCapture(s, &g));
    must(cudaThreadExchangeStreamCaptureMode(&mine));
    is(mine, cudaStreamCaptureModeRelaxed);
}

/* ------------------------------------------------------------------------------------------------ failures */

static void failures_come_when_ordered(void) {
    fresh(DOUBLE_TIMELY);
    void *p = NULL;
    double_fail_nth("cudaMalloc", 2, cudaErrorMemoryAllocation, false);
    fine(cudaMalloc(&p, 64));
    is(cudaMalloc(&p, 64), cudaErrorMemoryAllocation);
    is(cudaGetLastError(), cudaErrorMemoryAllocation);
    fine(cudaMalloc(&p, 64));
    is_u64(double_calls("cudaMalloc"), 3, "calls are counted, failed ones too");
    is_u64(double_live().allocations, 2, "a failed one did nothing");
    double_fail_nth("cuMemAddressReserve", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
    CUdeviceptr at;
    is(va_reserve(&at, 2 * MiB, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    double_fail_nth(NULL, 2, cudaErrorIllegalAddress, true);
    fine(cudaStreamQuery(0));
    is(cudaStreamQuery(0), cudaErrorIllegalAddress);
    is(cudaFree(NULL), cudaErrorIllegalAddress);
    is(cudaGetLastError(), cudaErrorIllegalAddress);
    is(cudaGetLastError(), cudaErrorIllegalAddress);
    is(va_reserve(&at, 2 * MiB, 0, 0, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    is_string(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress", "names can still be had");
    double_reset();
    fine(cudaFree(NULL));
    is_u64(double_calls(NULL), 1, "a reset forgets failures and counts");
}

static void there_may_be_no_driver(void) {
    fresh(DOUBLE_TIMELY);
    int n = 77, version;
    double_absent(cudaErrorInsufficientDriver);
    is(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
    is(n, 77);
    is(cudaGetLastError(), cudaErrorInsufficientDriver);
    fine(cudaRuntimeGetVersion(&version));
    is(version, CUDART_VERSION);
    fine(cudaDriverGetVersion(&version));
    is(version, 0);
    double_absent(cudaErrorStubLibrary);
    is(cudaFree(NULL), cudaErrorStubLibrary);
    double_absent(cudaSuccess);
    fine(cudaGetDeviceCount(&n));
}

static void the_environment_is_heeded(void) {
    size_t left, total;
    int    n;
    setenv("SNUG_DOUBLE_MEMORY_MB", "48", 1);
    setenv("SNUG_DOUBLE_DEVICES", "3", 1);
    double_reset();
    unsetenv("SNUG_DOUBLE_MEMORY_MB");
    unsetenv("SNUG_DOUBLE_DEVICES");
    must(cudaMemGetInfo(&left, &total));
    is_u64(total, 48 * MiB, "memory");
    must(cudaGetDeviceCount(&n));
    is(n, 3);
}

int main(void) {
    setenv("SNUG_DOUBLE_MODE", "timely", 1);
    double_reset();
    uint64_t seed = tap_seed(20260101);
    char     text[32];
    snprintf(text, sizeof text, "%" PRIu64, seed);
    setenv("SNUG_DOUBLE_SEED", text, 1);
    entries_get();
    what_is_undefined_traps();
    for (double_mode mode = DOUBLE_EAGER; mode <= DOUBLE_LATE; mode++) {
        streams_run_in_order(mode);
        copies_move_bytes(mode);
    }
    for (double_mode mode = DOUBLE_EAGER; mode <= DOUBLE_LATE; mode++)
        threads_share_the_machine(mode);
    stream_0_may_be_the_threads();
    stale_addresses_fault();
    batches_read_when_told();
    launches_of_a_graph_are_in_order();
    queries_tell_the_truth();
    late_work_is_late();
    late_work_waits_to_be_wanted();
    the_environment_is_heeded();
    eager_work_is_done_at_once();
    events_tell_times();
    the_legacy_stream_is_a_barrier();
    each_thread_has_a_stream();
    properties_of_streams();
    a_full_queue_blocks_its_caller();
    many_streams_work();
    host_functions_run();
    kernels_run();
    errors_are_cudas();
    several_devices();
    memory_has_an_end();
    virtual_memory_lives();
    many_handles_are_few_files();
    memory_operations_write();
    captures_replay();
    captures_forbid();
    capture_modes();
    failures_come_when_ordered();
    there_may_be_no_driver();
    double_reset();
    return done_testing();
}
#endif
