/* runtime.c: see runtime.h. */
#include "runtime.h"

snug_status snug__cuda_scope_open(snug__cuda_scope *scope, int device) {
    int         current;
    cudaError_t error = cudaGetDevice(&current);
    if (error == cudaSuccess && current != device)
        error = cudaSetDevice(device);
    if (error != cudaSuccess)
        return snug__cuda_status(error, "cudaSetDevice");
    scope->device = current == device ? -1 : current;
    scope->mode   = cudaStreamCaptureModeRelaxed;
    error         = cudaThreadExchangeStreamCaptureMode(&scope->mode);
    if (error == cudaSuccess)
        return SNUG_OK;
    if (scope->device >= 0)
        cudaSetDevice(scope->device);
    return snug__cuda_status(error, "cudaThreadExchangeStreamCaptureMode");
}

void snug__cuda_scope_close(const snug__cuda_scope *scope) {
    enum cudaStreamCaptureMode mode = scope->mode;
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (scope->device >= 0)
        cudaSetDevice(scope->device);
}

/* Errors after which the context is of no use any more: "the process must be terminated and relaunched", or the like. */
static bool sticks(cudaError_t error) {
    switch ((int)error) {
    case cudaErrorCudartUnloading:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorUnknown: return true;
    default: return false;
    }
}

static bool captures(cudaError_t error) {
    return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
}

snug_status snug__cuda_status(cudaError_t error, const char *call) {
    if (error == cudaSuccess)
        return SNUG_OK;
    if (sticks(error)) {
        snug__device_error_set("%s: %s: %s", call, cudaGetErrorName(error), cudaGetErrorString(error));
        return SNUG_LOST;
    }
    cudaGetLastError();
    snug__device_error_set("%s: %s: %s", call, cudaGetErrorName(error), cudaGetErrorString(error));
    return captures(error) ? SNUG_CAPTURING : SNUG_DEVICE;
}

snug_status snug__cuda_driver_status(CUresult result, const char *call) {
    if (result == CUDA_SUCCESS)
        return SNUG_OK;
    /* the driver's numbers are the runtime's, where both have the error, and then its names and words are as good */
    snug__device_error_set("%s: %s: %s", call, cudaGetErrorName((cudaError_t)result),
                           cudaGetErrorString((cudaError_t)result));
    return sticks((cudaError_t)result) ? SNUG_LOST : SNUG_DEVICE;
}

void *snug__cuda_driver_function(const char *name) {
    enum { AS_OF = 12000 }; /* the version of CUDA whose signatures are meant */
    void                                *function = NULL;
    enum cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, AS_OF, cudaEnableDefault, &found);
#else
    cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
    if (error != cudaSuccess) {
        snug__cuda_status(error, "cudaGetDriverEntryPoint");
        return NULL;
    }
    return found == cudaDriverEntryPointSuccess ? function : NULL;
}
