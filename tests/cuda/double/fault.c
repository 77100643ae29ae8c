/* fault.c - what can go wrong: traps, failures to order, last errors, names and texts of errors; and the counts of
 * calls. */
#include "machine.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void trap(const char *function, const char *format, ...) {
    char    text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "double: %s: %s\n", function, text);
    abort();
}

/* ------------------------------------------------------------------------------------------------ failures, counts */

#define FAILURES_MAX 16

static struct {
    char     name[64]; /* empty: any */
    uint64_t left;     /* 0: free */
    int      error;
    bool     sticky;
} failures[FAILURES_MAX];

static int             stuck; /* what every call returns from now on */
static pthread_mutex_t counts_mutex = PTHREAD_MUTEX_INITIALIZER;
static function_calls *counted;

void call_count(function_calls *function) {
    pthread_mutex_lock(&counts_mutex);
    if (!function->calls++ && !function->next) {
        static function_calls last = {"", 0, NULL}; /* so that next is never NULL in the list */
        function->next             = counted ? counted : &last;
        counted                    = function;
    }
    pthread_mutex_unlock(&counts_mutex);
}

void call_forget(void) {
    pthread_mutex_lock(&counts_mutex);
    for (function_calls *f = counted; f; f = f->next)
        f->calls = 0;
    pthread_mutex_unlock(&counts_mutex);
    memset(failures, 0, sizeof failures);
    stuck = 0;
}

uint64_t double_calls(const char *function) {
    uint64_t calls = 0;
    pthread_mutex_lock(&counts_mutex);
    for (function_calls *f = counted; f; f = f->next)
        if (!function || strcmp(f->name, function) == 0)
            calls += f->calls;
    pthread_mutex_unlock(&counts_mutex);
    return calls;
}

void double_calls_report(FILE *to) {
    pthread_mutex_lock(&counts_mutex);
    for (function_calls *f = counted; f; f = f->next)
        if (f->calls)
            fprintf(to, "%10llu %s\n", (unsigned long long)f->calls, f->name);
    pthread_mutex_unlock(&counts_mutex);
}

void double_fail_nth(const char *function, uint64_t n, int error, bool sticky) {
    if (!n || !error || (function && strlen(function) >= sizeof failures[0].name))
        trap(__func__, "it takes n >= 1, an error that is one, and the name of a function");
    pthread_mutex_lock(&the.mutex);
    unsigned i = 0;
    while (i < FAILURES_MAX && failures[i].left)
        i++;
    if (i == FAILURES_MAX)
        trap(__func__, "more than %d failures are set", FAILURES_MAX);
    strcpy(failures[i].name, function ? function : "");
    failures[i].left   = n;
    failures[i].error  = error;
    failures[i].sticky = sticky;
    pthread_mutex_unlock(&the.mutex);
}

static int failure_of(const char *name) {
    int error = 0;
    for (unsigned i = 0; i < FAILURES_MAX; i++)
        if (failures[i].left && (!*failures[i].name || strcmp(failures[i].name, name) == 0) && !--failures[i].left) {
            error = failures[i].error;
            if (failures[i].sticky)
                stuck = error;
        }
    return error;
}

cudaError_t call_enter(function_calls *function) {
    call_count(function);
    pthread_mutex_lock(&the.mutex);
    thread *t     = thread_self();
    int     error = the.absent ? (int)the.absent : stuck;
    if (!error)
        error = failure_of(function->name);
    if (!error && t->in_host_function)
        error = cudaErrorNotPermitted;
    if (error) {
        if (strncmp(function->name, "cuda", 4) == 0)
            t->last = (cudaError_t)error;
        pthread_mutex_unlock(&the.mutex);
    }
    return (cudaError_t)error;
}

cudaError_t call_leave(cudaError_t error) {
    if (error)
        thread_self()->last = error;
    pthread_mutex_unlock(&the.mutex);
    return error;
}

CUresult call_leave_driver(CUresult error) {
    pthread_mutex_unlock(&the.mutex);
    return error;
}

/* ------------------------------------------------------------------------------------------------ last errors */

static cudaError_t last_error(bool clear) {
    pthread_mutex_lock(&the.mutex);
    thread     *t     = thread_self();
    cudaError_t error = stuck ? (cudaError_t)stuck : t->last;
    if (clear)
        t->last = cudaSuccess;
    pthread_mutex_unlock(&the.mutex);
    return error;
}

cudaError_t cudaGetLastError(void) {
    static function_calls function = {"cudaGetLastError", 0, NULL};
    call_count(&function);
    return last_error(true);
}

cudaError_t cudaPeekAtLastError(void) {
    static function_calls function = {"cudaPeekAtLastError", 0, NULL};
    call_count(&function);
    return last_error(false);
}

/* ------------------------------------------------------------------------------------------------ names and texts */

#define ERRORS(X)                                                                                                      \
    X(InvalidValue, INVALID_VALUE, "invalid argument")                                                                 \
    X(MemoryAllocation, OUT_OF_MEMORY, "out of memory")                                                                \
    X(InitializationError, NOT_INITIALIZED, "initialization error")                                                    \
    X(CudartUnloading, DEINITIALIZED, "driver shutting down")                                                          \
    X(StubLibrary, STUB_LIBRARY, "CUDA driver is a stub library")                                                      \
    X(DevicesUnavailable, DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable")                     \
    X(NoDevice, NO_DEVICE, "no CUDA-capable device is detected")                                                       \
    X(InvalidDevice, INVALID_DEVICE, "invalid device ordinal")                                                         \
    X(InvalidKernelImage, INVALID_IMAGE, "device kernel image is invalid")                                             \
    X(DeviceUninitialized, INVALID_CONTEXT, "invalid device context")                                                  \
    X(NoKernelImageForDevice, NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device")           \
    X(ECCUncorrectable, ECC_UNCORRECTABLE, "uncorrectable ECC error encountered")                                      \
    X(InvalidPtx, INVALID_PTX, "a PTX JIT compilation failed")                                                         \
    X(UnsupportedPtxVersion, UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain.")  \
    X(OperatingSystem, OPERATING_SYSTEM, "OS call failed or operation not supported on this OS")                       \
    X(InvalidResourceHandle, INVALID_HANDLE, "invalid resource handle")                                                \
    X(IllegalState, ILLEGAL_STATE, "the operation cannot be performed in the present state")                           \
    X(SymbolNotFound, NOT_FOUND, "named symbol not found")                                                             \
    X(NotReady, NOT_READY, "device not ready")                                                                         \
    X(IllegalAddress, ILLEGAL_ADDRESS, "an illegal memory access was encountered")                                     \
    X(LaunchOutOfResources, LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")                        \
    X(LaunchTimeout, LAUNCH_TIMEOUT, "the launch timed out and was terminated")                                        \
    X(ContextIsDestroyed, CONTEXT_IS_DESTROYED, "context is destroyed")                                                \
    X(Assert, ASSERT, "device-side assert triggered")                                                                  \
    X(HardwareStackError, HARDWARE_STACK_ERROR, "hardware stack error")                                                \
    X(IllegalInstruction, ILLEGAL_INSTRUCTION, "an illegal instruction was encountered")                               \
    X(MisalignedAddress, MISALIGNED_ADDRESS, "misaligned address")                                                     \
    X(LaunchFailure, LAUNCH_FAILED, "unspecified launch failure")                                                      \
    X(NotPermitted, NOT_PERMITTED, "operation not permitted")                                                          \
    X(NotSupported, NOT_SUPPORTED, "operation not supported")                                                          \
    X(SystemNotReady, SYSTEM_NOT_READY, "system not yet initialized")                                                  \
    X(StreamCaptureUnsupported, STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")        \
    X(StreamCaptureInvalidated, STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture") \
    X(StreamCaptureMerge, STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences")     \
    X(StreamCaptureUnmatched, STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began")        \
    X(StreamCaptureUnjoined, STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                            \
    X(StreamCaptureIsolation, STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream")     \
    X(StreamCaptureImplicit, STREAM_CAPTURE_IMPLICIT,                                                                  \
      "operation would make the legacy stream depend on a capturing blocking stream")                                  \
    X(CapturedEvent, CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream")        \
    X(StreamCaptureWrongThread, STREAM_CAPTURE_WRONG_THREAD,                                                           \
      "attempt to terminate a thread-local capture sequence from another thread")                                      \
    X(GraphExecUpdateFailure, GRAPH_EXEC_UPDATE_FAILURE,                                                               \
      "the graph update was not performed because it included changes which violated constraints specific to "         \
      "instantiated graph update")                                                                                     \
    X(Unknown, UNKNOWN, "unknown error")

const char *cudaGetErrorName(cudaError_t error) {
    static function_calls function = {"cudaGetErrorName", 0, NULL};
    call_count(&function);
    switch ((int)error) {
#define X(name, driver, text)                                                                                          \
    case cudaError##name: return "cudaError" #name;
        ERRORS(X)
#undef X
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidMemcpyDirection: return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorMissingConfiguration: return "cudaErrorMissingConfiguration";
    case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
    static function_calls function = {"cudaGetErrorString", 0, NULL};
    call_count(&function);
    switch ((int)error) {
#define X(name, driver, text)                                                                                          \
    case cudaError##name: return text;
        ERRORS(X)
#undef X
    case cudaSuccess: return "no error";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidMemcpyDirection: return "invalid copy direction for memcpy";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorMissingConfiguration: return "__global__ function call is not configured";
    case cudaErrorInvalidDeviceFunction: return "invalid device function";
    }
    return "unrecognized error code";
}

CUresult cuGetErrorName(CUresult error, const char **text) {
    static function_calls function = {"cuGetErrorName", 0, NULL};
    call_count(&function);
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)error) {
#define X(name, driver, sentence)                                                                                      \
    case CUDA_ERROR_##driver: *text = "CUDA_ERROR_" #driver; return CUDA_SUCCESS;
        ERRORS(X)
#undef X
    case CUDA_SUCCESS: *text = "CUDA_SUCCESS"; return CUDA_SUCCESS;
    }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    static function_calls function = {"cuGetErrorString", 0, NULL};
    call_count(&function);
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)error) {
#define X(name, driver, sentence)                                                                                      \
    case CUDA_ERROR_##driver: *text = sentence; return CUDA_SUCCESS;
        ERRORS(X)
#undef X
    case CUDA_SUCCESS: *text = "no error"; return CUDA_SUCCESS;
    }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
