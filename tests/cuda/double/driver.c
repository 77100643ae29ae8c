/* driver.c - the driver: its calls that are on neither memory nor errors, and the way to all of them. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

#define MEMOPS_MAX 255

/* ------------------------------------------------------------------------------------------------ devices */

CUresult cuDeviceGet(CUdevice *device, int number) {
    ENTER_DRIVER(cuDeviceGet);
    if (!device)
        LEAVE_DRIVER(CUDA_ERROR_INVALID_VALUE);
    if (number < 0 || number >= the.devices_n)
        LEAVE_DRIVER(CUDA_ERROR_INVALID_DEVICE);
    *device = number;
    LEAVE_DRIVER(CUDA_SUCCESS);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    ENTER_DRIVER(cuDeviceGetAttribute);
    if (!value || (int)attribute <= 0)
        LEAVE_DRIVER(CUDA_ERROR_INVALID_VALUE);
    if (device < 0 || device >= the.devices_n)
        LEAVE_DRIVER(CUDA_ERROR_INVALID_DEVICE);
    *value = device_attribute((int)attribute);
    LEAVE_DRIVER(CUDA_SUCCESS);
}

/* ------------------------------------------------------------------------------------------------ memory operations */

static CUresult write_add(op *o, const CUstreamBatchMemOpParams *p) {
    size_t bytes = p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? sizeof(uint64_t) : sizeof(uint32_t);
    if (p->operation == CU_STREAM_MEM_OP_BARRIER || p->operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
        return CUDA_SUCCESS;
    if (p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
        return CUDA_ERROR_NOT_SUPPORTED;
    if ((p->operation != CU_STREAM_MEM_OP_WRITE_VALUE_64 && p->operation != CU_STREAM_MEM_OP_WRITE_VALUE_32) ||
        !p->writeValue.address || p->writeValue.address % bytes)
        return CUDA_ERROR_INVALID_VALUE;
    char *to = (char *)p->writeValue.address;
    if (!memory_is_device(to) && !memory_is_pinned(to))
        trap(o->function, "its target [%p, +%zu) is not device memory", (void *)to, bytes);
    o->writes[o->n++] = (write_value){to, p->writeValue.value64, bytes};
    return CUDA_SUCCESS;
}

static CUresult memops(const char *function, cudaStream_t handle, unsigned count,
                       const CUstreamBatchMemOpParams *operations, unsigned flags) {
    if (!count || count > MEMOPS_MAX || !operations || flags)
        return CUDA_ERROR_INVALID_VALUE;
    stream  *s     = stream_find(handle, function);
    op      *o     = op_make(OP_WRITE, function);
    CUresult error = CUDA_SUCCESS;
    o->writes      = make(count * sizeof *o->writes);
    for (unsigned i = 0; i < count && !error; i++)
        error = write_add(o, &operations[i]);
    if (!error)
        return (CUresult)submit(s, o, NULL); /* errors that both have are of the same number */
    op_free(o);
    return error;
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations, unsigned flags) {
    ENTER_DRIVER(cuStreamBatchMemOp);
    LEAVE_DRIVER(memops(FN, stream, count, operations, flags));
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    ENTER_DRIVER(cuStreamWriteValue64);
    CUstreamBatchMemOpParams p;
    memset(&p, 0, sizeof p);
    p.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    p.writeValue.address   = address;
    p.writeValue.value64   = value;
    LEAVE_DRIVER(memops(FN, stream, 1, &p, flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
}

static CUresult batch_mem_op_per_thread(CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations,
                                        unsigned flags) {
    return cuStreamBatchMemOp(stream ? stream : CU_STREAM_PER_THREAD, count, operations, flags);
}

static CUresult write_value_per_thread(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
    return cuStreamWriteValue64(stream ? stream : CU_STREAM_PER_THREAD, address, value, flags);
}

/* ------------------------------------------------------------------------------------------------ entry points */

typedef void (*any_function)(void);

typedef struct entry {
    const char  *name;
    unsigned     since;
    any_function plain, per_thread; /* the latter if it differs */
} entry;

/* The type of each is the one that a program gets from cudaTypedefs.h: the wrong function is a compile error. */
#define ENTRY(name, type, since)                                                                                       \
    { #name, since, (any_function)(0 ? (type)NULL : name), NULL }
#define ENTRY_STREAM(name, type, since, pt)                                                                            \
    { #name, since, (any_function)(0 ? (type)NULL : name), (any_function)(0 ? (type)NULL : pt) }

static const entry entries[] = {
    ENTRY(cuMemAddressReserve, PFN_cuMemAddressReserve_v10020, 10020),
    ENTRY(cuMemAddressFree, PFN_cuMemAddressFree_v10020, 10020),
    ENTRY(cuMemCreate, PFN_cuMemCreate_v10020, 10020),
    ENTRY(cuMemRelease, PFN_cuMemRelease_v10020, 10020),
    ENTRY(cuMemMap, PFN_cuMemMap_v10020, 10020),
    ENTRY(cuMemUnmap, PFN_cuMemUnmap_v10020, 10020),
    ENTRY(cuMemSetAccess, PFN_cuMemSetAccess_v10020, 10020),
    ENTRY(cuMemGetAllocationGranularity, PFN_cuMemGetAllocationGranularity_v10020, 10020),
    ENTRY(cuGetErrorName, PFN_cuGetErrorName_v6000, 6000),
    ENTRY(cuGetErrorString, PFN_cuGetErrorString_v6000, 6000),
    ENTRY(cuDeviceGet, PFN_cuDeviceGet_v2000, 2000),
    ENTRY(cuDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000, 2000),
    ENTRY_STREAM(cuStreamBatchMemOp, PFN_cuStreamBatchMemOp_v8000, 8000, batch_mem_op_per_thread),
    ENTRY_STREAM(cuStreamWriteValue64, PFN_cuStreamWriteValue64_v9000, 9000, write_value_per_thread),
};

static cudaError_t entry_find(const char *symbol, void **function, unsigned version, unsigned long long flags,
                              enum cudaDriverEntryPointQueryResult *result) {
    if (!symbol || !function || flags > cudaEnablePerThreadDefaultStream)
        return cudaErrorInvalidValue;
    bool                                 per_thread = flags == cudaEnablePerThreadDefaultStream;
    enum cudaDriverEntryPointQueryResult found      = cudaDriverEntryPointSymbolNotFound;
    *function                                       = NULL;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const entry *e = &entries[i];
        if (strcmp(e->name, symbol) != 0)
            continue;
        found = version < e->since ? cudaDriverEntryPointVersionNotSufficent : cudaDriverEntryPointSuccess;
        if (found == cudaDriverEntryPointSuccess) {
            any_function f = per_thread && e->per_thread ? e->per_thread : e->plain;
            memcpy(function, &f, sizeof f);
        }
    }
    if (result)
        *result = found;
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *result) {
    ENTER(cudaGetDriverEntryPoint);
    LEAVE(entry_find(symbol, function, CUDART_VERSION, flags, result));
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *result) {
    ENTER(cudaGetDriverEntryPointByVersion);
    LEAVE(entry_find(symbol, function, version, flags, result));
}
#endif
