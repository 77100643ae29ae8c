/* arena.c: see arena.h. */
#include "arena.h"

#include <cudaTypedefs.h>
#include <pthread.h>
#include <stdlib.h>

enum { PIECES_MAX = 2048 };

/* What the driver has for virtual memory. `found` only if it has all of it. */
static struct driver {
    PFN_cuDeviceGet_v2000                    device_get;
    PFN_cuDeviceGetAttribute_v2000           device_attribute;
    PFN_cuMemGetAllocationGranularity_v10020 granularity;
    PFN_cuMemAddressReserve_v10020           reserve;
    PFN_cuMemAddressFree_v10020              free;
    PFN_cuMemCreate_v10020                   create;
    PFN_cuMemRelease_v10020                  release;
    PFN_cuMemMap_v10020                      map;
    PFN_cuMemUnmap_v10020                    unmap;
    PFN_cuMemSetAccess_v10020                set_access;
    bool                                     found;
} driver;

static void driver_find(void) {
    struct driver d    = {0};
    d.device_get       = (PFN_cuDeviceGet_v2000)snug__cuda_driver_function("cuDeviceGet");
    d.device_attribute = (PFN_cuDeviceGetAttribute_v2000)snug__cuda_driver_function("cuDeviceGetAttribute");
    d.granularity =
        (PFN_cuMemGetAllocationGranularity_v10020)snug__cuda_driver_function("cuMemGetAllocationGranularity");
    d.reserve    = (PFN_cuMemAddressReserve_v10020)snug__cuda_driver_function("cuMemAddressReserve");
    d.free       = (PFN_cuMemAddressFree_v10020)snug__cuda_driver_function("cuMemAddressFree");
    d.create     = (PFN_cuMemCreate_v10020)snug__cuda_driver_function("cuMemCreate");
    d.release    = (PFN_cuMemRelease_v10020)snug__cuda_driver_function("cuMemRelease");
    d.map        = (PFN_cuMemMap_v10020)snug__cuda_driver_function("cuMemMap");
    d.unmap      = (PFN_cuMemUnmap_v10020)snug__cuda_driver_function("cuMemUnmap");
    d.set_access = (PFN_cuMemSetAccess_v10020)snug__cuda_driver_function("cuMemSetAccess");
    d.found = d.device_get && d.device_attribute && d.granularity && d.reserve && d.free && d.create && d.release &&
              d.map && d.unmap && d.set_access;
    driver = d;
}

static CUmemAllocationProp properties(int device) {
    return (CUmemAllocationProp){.type     = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

/* *unit: pieces start and end on multiples of it. */
static bool virtual_memory(int ordinal, size_t *unit) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    CUdevice               device;
    int                    supported = 0;
    pthread_mutex_lock(&mutex); /* not once for all: before the driver is there it hasn't got anything */
    if (!driver.found)
        driver_find();
    pthread_mutex_unlock(&mutex);
    if (!driver.found || driver.device_get(&device, ordinal) != CUDA_SUCCESS ||
        driver.device_attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) !=
            CUDA_SUCCESS ||
        !supported)
        return false;
    CUmemAllocationProp prop = properties(ordinal);
    return driver.granularity(unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
           *unit <= SNUG_ALIGNMENT_MAX; /* the bounce buffer starts on such a multiple */
}

static uint64_t round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/* ------------------------------------------------------------------------------------------------ reserve, release */

static snug_status reserve_addresses(snug__cuda_arena *arena, uint64_t bytes, size_t unit) {
    CUdeviceptr base;
    arena->unit = arena->piece = unit;
    while (bytes / arena->piece > PIECES_MAX)
        arena->piece *= 2;
    arena->reserved = round_up(bytes, unit);
    arena->pieces   = calloc(arena->reserved / unit, sizeof arena->pieces[0]);
    if (!arena->pieces)
        return SNUG_NO_MEMORY;
    snug_status status = snug__cuda_driver_status(driver.reserve(&base, arena->reserved, SNUG_ALIGNMENT_MAX, 0, 0),
                                                  "cuMemAddressReserve");
    if (status != SNUG_OK) {
        free(arena->pieces);
        arena->pieces = NULL;
        return status;
    }
    arena->base = (char *)(uintptr_t)base;
    return SNUG_OK;
}

snug_status snug__cuda_arena_reserve(snug__cuda_arena *arena, uint64_t bytes) {
    size_t unit;
    if (virtual_memory(arena->device, &unit))
        return reserve_addresses(arena, bytes, unit);
    snug_status status = snug__cuda_status(cudaMalloc(&arena->allocated, bytes + SNUG_ALIGNMENT_MAX), "cudaMalloc");
    if (status != SNUG_OK)
        return status;
    arena->base     = (char *)(uintptr_t)round_up((uintptr_t)arena->allocated, SNUG_ALIGNMENT_MAX);
    arena->reserved = bytes;
    arena->unit = arena->piece = SNUG_ALIGNMENT_MAX;
    return SNUG_OK;
}

static snug_status piece_unmap(snug__cuda_arena *arena, uint64_t offset) {
    snug__cuda_piece *piece  = &arena->pieces[offset / arena->unit];
    CUdeviceptr       at     = (CUdeviceptr)(uintptr_t)arena->base + offset;
    snug_status       status = snug__cuda_driver_status(driver.unmap(at, piece->bytes), "cuMemUnmap");
    if (status == SNUG_OK)
        status = snug__cuda_driver_status(driver.release(piece->memory), "cuMemRelease");
    piece->bytes = 0;
    return status;
}

/* Every piece in it, whatever goes wrong with one. The first error. */
static snug_status pieces_unmap(snug__cuda_arena *arena, uint64_t offset, uint64_t end) {
    snug_status first = SNUG_OK;
    for (uint64_t at = offset; at < end; at += arena->unit) {
        snug_status status = arena->pieces[at / arena->unit].bytes ? piece_unmap(arena, at) : SNUG_OK;
        if (first == SNUG_OK)
            first = status;
    }
    return first;
}

void snug__cuda_arena_release(snug__cuda_arena *arena) {
    if (arena->pieces) {
        pieces_unmap(arena, 0, arena->reserved);
        driver.free((CUdeviceptr)(uintptr_t)arena->base, arena->reserved);
        free(arena->pieces);
    }
    if (arena->allocated)
        cudaFree(arena->allocated);
    *arena = (snug__cuda_arena){.device = arena->device};
}

/* ------------------------------------------------------------------------------------------------ commit, decommit */

static snug_status piece_map(snug__cuda_arena *arena, uint64_t offset, uint64_t bytes) {
    CUmemAllocationProp prop  = properties(arena->device);
    CUmemAccessDesc     desc  = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr         at    = (CUdeviceptr)(uintptr_t)arena->base + offset;
    snug__cuda_piece   *piece = &arena->pieces[offset / arena->unit];
    snug_status status        = snug__cuda_driver_status(driver.create(&piece->memory, bytes, &prop, 0), "cuMemCreate");
    if (status != SNUG_OK)
        return status;
    status = snug__cuda_driver_status(driver.map(at, bytes, 0, piece->memory, 0), "cuMemMap");
    if (status != SNUG_OK) {
        driver.release(piece->memory);
        return status;
    }
    piece->bytes = bytes;
    return snug__cuda_driver_status(driver.set_access(at, bytes, &desc, 1), "cuMemSetAccess");
}

/* All or nothing: a range that is mapped in part can't be mapped again. */
snug_status snug__cuda_arena_commit(snug__cuda_arena *arena, uint64_t offset, uint64_t bytes) {
    if (!arena->pieces)
        return SNUG_OK;
    uint64_t    end    = offset + round_up(bytes, arena->unit);
    snug_status status = SNUG_OK;
    for (uint64_t at = offset, next; at < end && status == SNUG_OK; at = next) {
        next   = round_up(at + 1, arena->piece);
        next   = next < end ? next : end;
        status = piece_map(arena, at, next - at);
    }
    if (status == SNUG_OK)
        return SNUG_OK;
    char words[128]; /* of what failed first */
    snprintf(words, sizeof words, "%s", snug__device_error());
    pieces_unmap(arena, offset, end);
    snug__device_error_set("%s", words);
    return status;
}

snug_status snug__cuda_arena_decommit(snug__cuda_arena *arena, uint64_t offset, uint64_t bytes) {
    if (arena->pieces)
        return pieces_unmap(arena, offset, offset + round_up(bytes, arena->unit));
    snug__device_error_set("device %d has no virtual memory management: the arena can't shrink", arena->device);
    return SNUG_UNSUPPORTED;
}
