/* runtime.h: calls of the CUDA runtime and driver, and their errors in snug's words.
 *
 * A call that could disturb somebody's graph capture, or that depends on the current device, is made inside a scope: on the
 * pool's device, in capture mode relaxed. The thread gets back what it had. What doesn't need it goes without: a record or a
 * copy on an explicit stream finds its device by the stream.
 *
 * The thread's last error is the client's to look at (cudaGetLastError after a launch, say). An error that a call of ours
 * left there, and that doesn't stick, is taken away again. */
#ifndef SNUG__CUDA_RUNTIME_H
#define SNUG__CUDA_RUNTIME_H

#include "../device.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#if CUDART_VERSION < 12040
#error "snug needs the headers of CUDA 12.4 or later"
#endif

typedef struct snug__cuda_scope {
    int                        device; /* to go back to; -1: it was this one */
    enum cudaStreamCaptureMode mode;
} snug__cuda_scope;

/* OK, or what the runtime says if there is no such device, or no driver. Only what OK has opened is to be closed. */
snug_status snug__cuda_scope_open(snug__cuda_scope *scope, int device);
void        snug__cuda_scope_close(const snug__cuda_scope *scope);

/* The status for what a call has returned; keeps its words, and clears the thread's last error. DEVICE, NO_MEMORY of the host,
 * CAPTURING, LOST for what sticks. */
snug_status snug__cuda_status(cudaError_t error, const char *call);
snug_status snug__cuda_driver_status(CUresult result, const char *call);

/* A function of the driver, by name; NULL: this driver hasn't got it. */
void *snug__cuda_driver_function(const char *name);

#endif
