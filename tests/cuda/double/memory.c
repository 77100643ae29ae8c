/* memory.c - memory: allocations, pinned host memory, and virtual memory (reservations, physical handles, mappings).
 *
 * Addresses of devices come from large chunks that belong to nothing else, so a stale one is known for a device's.
 * Within a chunk they go round, so that an address is used again late. What isn't accessible is PROT_NONE. All
 * physical memory of virtual memory management is one sparse file: a descriptor per handle would run out. */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE        ((size_t)4096)
#define CHUNK_BYTES ((size_t)64 << 30)
#define CHUNKS_MAX  64

typedef enum area_kind { ALLOCATION, PINNED, RESERVATION } area_kind;

typedef struct physical {
    int      device;
    size_t   bytes;
    off_t    offset;
    unsigned mappings;
    bool     released;
} physical;

typedef struct area {
    char     *at;
    size_t    bytes;
    area_kind kind;
    int       device;
    uint64_t  charged;    /* to the device's memory */
    physical *of;         /* mappings only */
    bool      accessible; /* mappings only */
} area;

typedef struct area_list { /* by address; none overlaps another */
    area  *areas;
    size_t n, max;
} area_list;

static area_list areas, mappings;

static struct {
    char  *at;
    size_t bytes, cursor;
} chunks[CHUNKS_MAX];
static unsigned chunks_n;

static int   file = -1;
static off_t file_bytes;

/* ------------------------------------------------------------------------------------------------ lists */

static size_t list_after(const area_list *list, const char *at) { /* the number of areas that begin at or before */
    size_t low = 0, high = list->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list->areas[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static area *list_at(const area_list *list, const char *at) { /* the area with this byte */
    size_t i = list_after(list, at);
    return i && at < list->areas[i - 1].at + list->areas[i - 1].bytes ? &list->areas[i - 1] : NULL;
}

static area *list_overlap(const area_list *list, const char *at, size_t bytes) {
    area  *first = list_at(list, at);
    size_t i     = list_after(list, at);
    if (first)
        return first;
    return i < list->n && list->areas[i].at < at + bytes ? &list->areas[i] : NULL;
}

static void list_add(area_list *list, area a) {
    if (list->n == list->max) {
        list->max   = list->max ? 2 * list->max : 64;
        list->areas = realloc(list->areas, list->max * sizeof *list->areas);
        if (!list->areas)
            trap("double", "the host is out of memory");
    }
    size_t i = list_after(list, a.at);
    memmove(&list->areas[i + 1], &list->areas[i], (list->n - i) * sizeof a);
    list->areas[i] = a;
    list->n++;
}

static void list_remove(area_list *list, const area *a) {
    size_t i = (size_t)(a - list->areas);
    memmove(&list->areas[i], &list->areas[i + 1], (--list->n - i) * sizeof *a);
}

/* ------------------------------------------------------------------------------------------------ addresses */

static char *align_up(char *at, size_t alignment) {
    return (char *)(((uintptr_t)at + alignment - 1) & ~(uintptr_t)(alignment - 1));
}

static void inaccessible(char *at, size_t bytes) {
    if (mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        trap("double", "mmap of %zu bytes: %s", bytes, strerror(errno));
}

static char *chunk_search(char *from, char *end, size_t bytes, size_t alignment) {
    char *at = align_up(from, alignment);
    while (at < end && bytes <= (size_t)(end - at)) {
        area *in_the_way = list_overlap(&areas, at, bytes);
        if (!in_the_way)
            return at;
        at = align_up(in_the_way->at + in_the_way->bytes + PAGE, alignment);
    }
    return NULL;
}

/* Addresses that are free, with a page behind them that stays so. */
static char *addresses_find(size_t bytes, size_t alignment) {
    bytes = (bytes + 2 * PAGE - 1) / PAGE * PAGE;
    if (alignment < PAGE)
        alignment = PAGE;
    for (unsigned i = 0; i < chunks_n; i++) {
        char *start = chunks[i].at, *end = start + chunks[i].bytes;
        char *at = chunk_search(start + chunks[i].cursor, end, bytes, alignment);
        if (!at)
            at = chunk_search(start, end, bytes, alignment);
        if (at) {
            chunks[i].cursor = (size_t)(at + bytes - start);
            return at;
        }
    }
    size_t chunk_bytes = bytes + alignment > CHUNK_BYTES ? bytes + alignment : CHUNK_BYTES;
    if (chunks_n == CHUNKS_MAX)
        return NULL;
    void *at = mmap(NULL, chunk_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    chunks[chunks_n].at     = at;
    chunks[chunks_n].bytes  = chunk_bytes;
    chunks[chunks_n].cursor = 0;
    chunks_n++;
    return addresses_find(bytes - PAGE, alignment);
}

bool memory_is_device(const void *pointer) {
    const char *at = pointer;
    for (unsigned i = 0; i < chunks_n; i++)
        if (at >= chunks[i].at && at < chunks[i].at + chunks[i].bytes)
            return true;
    return false;
}

bool memory_is_pinned(const void *at) {
    area *a = list_at(&areas, at);
    return a && a->kind == PINNED;
}

int memory_device(const void *at) {
    area *a = list_at(&areas, at);
    if (a && a->kind == RESERVATION)
        a = list_at(&mappings, at);
    return a ? a->device : -1;
}

static void mapped_check(const char *function, const char *when, const char *role, const char *at, size_t bytes) {
    for (const char *p = at; p < at + bytes;) {
        area *m = list_at(&mappings, p);
        if (!m || !m->accessible)
            trap(function, "%s, its %s [%p, +%zu) was not %s at +%zu", when, role, (const void *)at, bytes,
                 m ? "accessible" : "mapped", (size_t)(p - at));
        p = m->at + m->bytes;
    }
}

void memory_check(const char *function, const char *when, const char *role, const void *pointer, size_t bytes) {
    const char *at = pointer;
    if (!bytes)
        return;
    area *a = list_overlap(&areas, at, bytes);
    if (a && a->kind == RESERVATION)
        mapped_check(function, when, role, at, bytes);
    else if (a ? at < a->at || bytes > (size_t)(a->at + a->bytes - at)
               : memory_is_device(at) || memory_is_device(at + bytes - 1))
        trap(function, "%s, its %s [%p, +%zu) was not inside a live allocation", when, role, pointer, bytes);
}

/* ------------------------------------------------------------------------------------------------ allocations */

cudaError_t cudaMalloc(void **out, size_t bytes) {
    ENTER(cudaMalloc);
    LEAVE_UNLESS(out, cudaErrorInvalidValue);
    cudaError_t error = capture_unsafe();
    LEAVE_UNLESS(!error, error);
    int number = thread_self()->device;
    LEAVE_UNLESS(number < the.devices_n, cudaErrorNoDevice);
    *out = NULL;
    LEAVE_UNLESS(bytes, cudaSuccess);
    device  *d       = &the.devices[number];
    uint64_t charged = (bytes + 255) / 256 * 256;
    LEAVE_UNLESS(bytes <= SIZE_MAX / 2 && charged <= the.memory - d->used && d->used <= the.memory,
                 cudaErrorMemoryAllocation);
    char *at = addresses_find(bytes, 1);
    LEAVE_UNLESS(at && mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                            -1, 0) != MAP_FAILED,
                 cudaErrorMemoryAllocation);
    d->used += charged;
    the.live.allocations++;
    list_add(&areas, (area){.at = at, .bytes = bytes, .kind = ALLOCATION, .device = number, .charged = charged});
    *out = at;
    LEAVE(cudaSuccess);
}

/* The area to be freed, when all work is done. */
static area *area_to_free(const char *function, const void *pointer, area_kind kind) {
    area *a = list_at(&areas, pointer);
    if (!a || a->at != (const char *)pointer || a->kind != kind)
        trap(function, "%p is not, or no longer, what it frees", pointer);
    streams_wait();
    a = list_at(&areas, pointer);
    if (!a)
        trap(function, "%p was freed by two threads", pointer);
    queues_check(function, a->at, a->bytes, "memory");
    return a;
}

static void allocation_free(area *a) {
    if (a->kind == PINNED)
        free(a->at);
    else
        inaccessible(a->at, a->bytes);
    the.devices[a->device].used -= a->charged;
    list_remove(&areas, a);
}

cudaError_t cudaFree(void *pointer) {
    ENTER(cudaFree);
    cudaError_t error = capture_unsafe();
    LEAVE_UNLESS(!error, error);
    if (!pointer)
        LEAVE(cudaSuccess);
    allocation_free(area_to_free(FN, pointer, ALLOCATION));
    the.live.allocations--;
    LEAVE(cudaSuccess);
}

static cudaError_t pinned_make(void **out, size_t bytes) {
    cudaError_t error = out ? capture_unsafe() : cudaErrorInvalidValue;
    if (error)
        return error;
    *out = NULL;
    if (!bytes)
        return cudaSuccess;
    void *at;
    if (posix_memalign(&at, PAGE, bytes))
        return cudaErrorMemoryAllocation;
    the.live.host_allocations++;
    list_add(&areas, (area){.at = at, .bytes = bytes, .kind = PINNED, .device = thread_self()->device});
    *out = at;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t bytes) {
    ENTER(cudaMallocHost);
    LEAVE(pinned_make(out, bytes));
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
    ENTER(cudaHostAlloc);
    LEAVE_UNLESS(!(flags & ~(unsigned)(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined)),
                 cudaErrorInvalidValue);
    LEAVE(pinned_make(out, bytes));
}

cudaError_t cudaFreeHost(void *pointer) {
    ENTER(cudaFreeHost);
    cudaError_t error = capture_unsafe();
    LEAVE_UNLESS(!error, error);
    if (!pointer)
        LEAVE(cudaSuccess);
    allocation_free(area_to_free(FN, pointer, PINNED));
    the.live.host_allocations--;
    LEAVE(cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    ENTER(cudaMemGetInfo);
    LEAVE_UNLESS(free_bytes && total, cudaErrorInvalidValue);
    int number = thread_self()->device;
    LEAVE_UNLESS(number < the.devices_n, cudaErrorNoDevice);
    uint64_t used = the.devices[number].used;
    *total        = the.memory;
    *free_bytes   = used < the.memory ? the.memory - used : 0;
    LEAVE(cudaSuccess);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer) {
    ENTER(cudaPointerGetAttributes);
    LEAVE_UNLESS(attributes && pointer, cudaErrorInvalidValue);
    memset(attributes, 0, sizeof *attributes);
    area *a = list_at(&areas, pointer);
    if (a && a->kind == RESERVATION)
        a = list_at(&mappings, pointer);
    attributes->type = !a ? cudaMemoryTypeUnregistered : a->kind == PINNED ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->device = a ? a->device : -2;
    if (a)
        attributes->devicePointer = (void *)(uintptr_t)pointer;
    if (!a || a->kind == PINNED)
        attributes->hostPointer = (void *)(uintptr_t)pointer;
    LEAVE(cudaSuccess);
}

/* ------------------------------------------------------------------------------------------------ virtual memory */

static bool granular(size_t bytes) {
    return bytes && bytes % DOUBLE_GRANULE == 0;
}

static void granular_check(const char *function, CUdeviceptr at, size_t bytes) {
    if (!granular(bytes) || at % DOUBLE_GRANULE)
        trap(function, "[%p, +%zu) is not in whole granules", (void *)at, bytes);
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option) {
    ENTER_DRIVER(cuMemGetAllocationGranularity);
    if (!the.virtual_memory)
        LEAVE_DRIVER(CUDA_ERROR_NOT_SUPPORTED);
    if (!bytes || !properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        LEAVE_DRIVER(CUDA_ERROR_INVALID_VALUE);
    *bytes = DOUBLE_GRANULE;
    LEAVE_DRIVER(CUDA_SUCCESS);
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
    ENTER_DRIVER(cuMemAddressReserve);
    (void)hint;
    if (!the.virtual_memory)
        LEAVE_DRIVER(CUDA_ERROR_NOT_SUPPORTED);
    if (!out || flags || (alignment & (alignment - 1)))
        LEAVE_DRIVER(CUDA_ERROR_INVALID_VALUE);
    granular_check(FN, 0, bytes);
    char *at = addresses_find(bytes, alignment < DOUBLE_GRANULE ? DOUBLE_GRANULE : alignment);
    if (!at)
        LEAVE_DRIVER(CUDA_ERROR_OUT_OF_MEMORY);
    list_add(&areas, (area){.at = at, .bytes = bytes, .kind = RESERVATION});
    the.live.reservations++;
    *out = (CUdeviceptr)at;
    LEAVE_DRIVER(CUDA_SUCCESS);
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
    ENTER_DRIVER(cuMemAddressFree);
    area *a = list_at(&areas, (char *)pointer);
    if (!a || a->kind != RESERVATION || a->at != (char *)pointer || a->bytes != bytes)
        trap(FN, "[%p, +%zu) is not, or no longer, a reservation", (void *)pointer, bytes);
    if (list_overlap(&mappings, a->at, a->bytes))
        trap(FN, "[%p, +%zu) has something mapped", (void *)pointer, bytes);
    list_remove(&areas, a);
    the.live.reservations--;
    LEAVE_DRIVER(CUDA_SUCCESS);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long flags) {
    ENTER_DRIVER(cuMemCreate);
    if (!the.virtual_memory)
        LEAVE_DRIVER(CUDA_ERROR_NOT_SUPPORTED);
    if (!handle || !properties || flags || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        LEAVE_DRIVER(CUDA_ERROR_INVALID_VALUE);
    if (properties->location.id < 0 || properties->location.id >= the.devices_n)
        LEAVE_DRIVER(CUDA_ERROR_INVALID_DEVICE);
    granular_check(FN, 0, bytes);
    device *d = &the.devices[properties->location.id];
    if (d->used > the.memory || bytes > the.memory - d->used)
        LEAVE_DRIVER(CUDA_ERROR_OUT_OF_MEMORY);
    if (file < 0 && (file = memfd_create("snug double", MFD_CLOEXEC)) < 0)
        trap(FN, "memfd_create: %s", strerror(errno));
    if (ftruncate(file, file_bytes + (off_t)bytes) != 0)
        LEAVE_DRIVER(CUDA_ERROR_OUT_OF_MEMORY);
    physical *p = make(sizeof *p);
    p->device   = properties->location.id;
    p->bytes    = bytes;
    p->offset   = file_bytes;
    file_bytes += (off_t)bytes;
    d->used += bytes;
    the.live.handles++;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)handle_make(PHYSICAL, p);
    LEAVE_DRIVER(CUDA_SUCCESS);
}

static void physical_free_if_unused(physical *p) {
    if (p->mappings || !p->released)
        return;
    if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, p->offset, (off_t)p->bytes) != 0)
        trap("double", "fallocate: %s", strerror(errno));
    the.devices[p->device].used -= p->bytes;
    free(p);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    ENTER_DRIVER(cuMemRelease);
    const void *opaque = (const void *)(uintptr_t)handle;
    physical   *p      = handle_object(PHYSICAL, opaque, FN);
    handle_end(PHYSICAL, opaque);
    the.live.handles--;
    p->released = true; /* what is mapped stays mapped */
    physical_free_if_unused(p);
    LEAVE_DRIVER(CUDA_SUCCESS);
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    ENTER_DRIVER(cuMemMap);
    char     *at = (char *)pointer;
    physical *p  = handle_object(PHYSICAL, (const void *)(uintptr_t)handle, FN);
    granular_check(FN, pointer, bytes);
    if (offset)
        trap(FN, "offset %zu is not 0", offset);
    area *reservation = list_at(&areas, at);
    if (!reservation || reservation->kind != RESERVATION || bytes > (size_t)(reservation->at + reservation->bytes - at))
        trap(FN, "[%p, +%zu) is not inside a reservation", (void *)at, bytes);
    if (flags || bytes != p->bytes || list_overlap(&mappings, at, bytes))
        LEAVE_DRIVER(CUDA_ERROR_INVALID_VALUE);
    if (mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, p->offset) == MAP_FAILED)
        LEAVE_DRIVER(CUDA_ERROR_OUT_OF_MEMORY);
    list_add(&mappings, (area){.at = at, .bytes = bytes, .kind = RESERVATION, .device = p->device, .of = p});
    p->mappings++;
    the.live.mappings++;
    LEAVE_DRIVER(CUDA_SUCCESS);
}

static void mapping_end(area *m) {
    physical *p = m->of;
    inaccessible(m->at, m->bytes);
    list_remove(&mappings, m);
    p->mappings--;
    physical_free_if_unused(p);
    the.live.mappings--;
}

/* Whether all of a range is mapped; traps if a mapping is only partly in it. */
static bool whole_mappings(const char *function, const char *at, size_t bytes) {
    bool mapped = true;
    for (const char *p = at; p < at + bytes;) {
        area *m = list_at(&mappings, p);
        if (!m) {
            mapped = false;
            p += DOUBLE_GRANULE;
            continue;
        }
        if (m->at < at || m->at + m->bytes > at + bytes)
            trap(function, "[%p, +%zu) has only a part of the mapping [%p, +%zu)", (const void *)at, bytes,
                 (void *)m->at, m->bytes);
        p = m->at + m->bytes;
    }
    return mapped;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    ENTER_DRIVER(cuMemUnmap);
    char *at = (char *)pointer;
    granular_check(FN, pointer, bytes);
    if (!whole_mappings(FN, at, bytes))
        LEAVE_DRIVER(CUDA_ERROR_INVALID_VALUE);
    queues_check(FN, at, bytes, "memory");
    for (area *m; (m = list_at(&mappings, at)) && bytes;) {
        size_t gone = m->bytes;
        mapping_end(m);
        at += gone;
        bytes -= gone;
    }
    LEAVE_DRIVER(CUDA_SUCCESS);
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    ENTER_DRIVER(cuMemSetAccess);
    char *at = (char *)pointer;
    granular_check(FN, pointer, bytes);
    if (!access || !count || !whole_mappings(FN, at, bytes))
        LEAVE_DRIVER(CUDA_ERROR_INVALID_VALUE);
    int protection = PROT_NONE;
    for (size_t i = 0; i < count; i++) {
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || access[i].location.id < 0 ||
            access[i].location.id >= the.devices_n)
            LEAVE_DRIVER(CUDA_ERROR_INVALID_DEVICE);
        protection |= access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                      : access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                            : PROT_NONE;
    }
    if (protection != (PROT_READ | PROT_WRITE))
        queues_check(FN, at, bytes, "access");
    if (mprotect(at, bytes, protection) != 0)
        LEAVE_DRIVER(CUDA_ERROR_OUT_OF_MEMORY);
    for (const char *p = at; p < at + bytes;) {
        area *m       = list_at(&mappings, p);
        m->accessible = protection != PROT_NONE;
        p             = m->at + m->bytes;
    }
    LEAVE_DRIVER(CUDA_SUCCESS);
}

/* ------------------------------------------------------------------------------------------------ reset */

void memory_reset(void) {
    while (mappings.n)
        mapping_end(&mappings.areas[mappings.n - 1]);
    while (areas.n) {
        area *a = &areas.areas[areas.n - 1];
        if (a->kind == RESERVATION)
            list_remove(&areas, a);
        else
            allocation_free(a);
    }
    handles_each(PHYSICAL, free); /* what was released is gone with its mappings */
    free(areas.areas);
    free(mappings.areas);
    areas = mappings = (area_list){NULL, 0, 0};
    if (file >= 0)
        close(file);
    file       = -1;
    file_bytes = 0;
}
