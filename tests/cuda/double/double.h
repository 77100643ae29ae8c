/* double.h - a test double of the CUDA runtime, and the controls that it has and the real one hasn't.
 *
 * The library is a libcudart.so.13 that needs no GPU. A program linked to the real shared runtime runs over it
 * unchanged, by LD_LIBRARY_PATH or LD_PRELOAD; a test links to it directly and includes this header. The static
 * runtime ignores it.
 *
 * Device memory is host memory with real bytes. Every stream has a thread of its own: a call that CUDA says is
 * asynchronous returns before its work is done, and when the work runs is up to a seed and a mode (double_seed,
 * double_mode). Copies to and from pageable memory are asynchronous too: CUDA says that they might be. Copies between
 * two host places are not. Device-to-device cudaMemcpy and cudaMemset of device memory do not wait, as documented.
 *
 * What CUDA leaves undefined is a trap: one line on stderr, "double: FUNCTION: what was wrong", then abort(). What
 * CUDA answers with an error is that error here. FUNCTION of work that went wrong when it ran is the call that
 * enqueued it.
 *
 * Kernels: the double can't run device code. A test registers a host function under a kernel's name; a launch copies
 * the arguments, and the stream's thread calls the function once a launch with the grid, the block and the copies. It
 * is handed device addresses and may use them: a stale one is a SIGSEGV.
 *
 * Captures: an operation captured becomes one of a list, and a launch of the graph replays the list in order of
 * capture as one operation of the stream. Nodes and edges can't be looked at: cudaStreamGetCaptureInfo gives no graph
 * and no dependencies. Events recorded or waited for with the external flags aren't modelled.
 *
 * All calls share one lock, so ThreadSanitizer takes any two calls for ordered: a race of a client is seen only when
 * no call lies between its two sides on the way from one thread to the other. Work itself runs outside the lock.
 * Device-to-device copies read unseen by ThreadSanitizer: what a cancelled move copies may be being written, and is
 * thrown away.
 *
 * Environment, for programs that aren't written for it: SNUG_DOUBLE_SEED, SNUG_DOUBLE_MODE (eager, timely, late),
 * SNUG_DOUBLE_MEMORY_MB (per device), SNUG_DOUBLE_DEVICES. They are what double_reset goes back to.
 *
 * Any thread may call the controls, except double_reset. */
#ifndef SNUG_TESTS_CUDA_DOUBLE_H
#define SNUG_TESTS_CUDA_DOUBLE_H

#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DOUBLE_DEVICES_MAX   8
#define DOUBLE_QUEUE_MAX     1024 /* operations pending on a stream; a call that would add one more waits for room */
#define DOUBLE_ARGUMENTS_MAX 32   /* arguments of a kernel */
#define DOUBLE_GRANULE       ((size_t)2 << 20) /* of physical memory */

typedef enum double_mode {
    DOUBLE_EAGER,  /* a call returns when its work is done, unless that is held up by other work or by double_stall */
    DOUBLE_TIMELY, /* work starts when it can, sometimes a little later. Default */
    DOUBLE_LATE    /* work starts when it is waited for, or queried a few times, or after some milliseconds */
} double_mode;

/* Sets when work runs; for operations that haven't started. */
void double_set_mode(double_mode mode);

/* Sets the seed of delays and orders that are left open; for streams made from now on. */
void double_seed(uint64_t seed);

/* The number of devices, 0 to DOUBLE_DEVICES_MAX. pre: nothing is on a device that goes. */
void double_devices(int n);

/* The memory of each device, in bytes; what exceeds it is refused as the real one does. */
void double_memory(uint64_t bytes);

/* Whether devices can do virtual memory management; with false, those driver calls answer CUDA_ERROR_NOT_SUPPORTED. */
void double_virtual_memory(bool on);

/* With an error, every call behaves as on a machine without a driver (cudaErrorInsufficientDriver, or
 * cudaErrorStubLibrary with the toolkit's stub of it); with cudaSuccess, as on one with it. */
void double_absent(cudaError_t error);

/* A stalled stream starts no operation; one that is running goes on. */
void double_stall(cudaStream_t stream, bool on);

/* The nth call from now (1 is the next one) of a function, or with NULL of any function, returns the error and does
 * nothing. Driver functions count under their own names and return the CUresult of the same number. With sticky, from
 * then on every call of every function returns it, except those about names, texts and versions. Calls that only read
 * or clear the last error aren't counted as any function. Several may be set at once, 16 at most. */
void double_fail_nth(const char *function, uint64_t n, int error, bool sticky);

/* Calls of a function so far, failed ones too; with NULL of all. The forms for per-thread default streams (_ptsz,
 * _ptds) count as the plain ones. */
uint64_t double_calls(const char *function);

/* Prints all functions called and how often. */
void double_calls_report(FILE *to);

typedef void (*double_kernel)(dim3 grid, dim3 block, void **arguments);

/* Says what a kernel does, and the size in bytes of each argument; again for the same name replaces it. A name is a
 * kernel's as the compiler mangled it, or the plain name of a function outside any class and namespace. Kept by
 * double_reset. */
void double_kernel_register(const char *name, double_kernel function, size_t arguments, const size_t *sizes);

typedef struct double_counts {
    unsigned streams, events, allocations, host_allocations, graphs, graph_execs, libraries;
    unsigned reservations, mappings, handles; /* of virtual memory; handles are those not released */
} double_counts;

/* What has been made and not yet been destroyed. */
double_counts double_live(void);

/* Waits for all work, stalled streams go on; then everything is as in a fresh process: nothing is live, no failure is
 * set, no call was counted, devices, memory, seed and mode are as the environment says. pre: no other thread is in a
 * call or uses anything made before. */
void double_reset(void);

#ifdef __cplusplus
}
#endif

#endif
