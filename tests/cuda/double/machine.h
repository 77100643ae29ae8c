/* machine.h - what the files of the double share.
 *
 * One mutex guards all state; a call holds it from ENTER to LEAVE. It is given up only while waiting and while work
 * runs. Layers, top down: ptsz, driver, runtime, kernel, capture, memory, stream, fault, machine. Each file has the
 * calls on its noun. Objects: a stream lives until double_reset, since points refer to it; marks, programs and clocks
 * are counted. */
#ifndef SNUG_TESTS_CUDA_DOUBLE_MACHINE_H
#define SNUG_TESTS_CUDA_DOUBLE_MACHINE_H

#include "double.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <pthread.h>
#include <time.h>

typedef struct stream  stream;
typedef struct capture capture;
typedef struct program program;

/* ------------------------------------------------------------------------------------------------ machine.c */

typedef struct device {
    uint64_t used;
    stream  *legacy; /* made when first used */
} device;

typedef struct machine {
    pthread_mutex_t mutex;
    pthread_cond_t  advanced;   /* some stream has completed something, or has become blocked, or has ended */
    uint64_t        generation; /* resets so far */
    uint64_t        seed;
    double_mode     mode;
    int             devices_n;
    device          devices[DOUBLE_DEVICES_MAX];
    uint64_t        memory;
    bool            virtual_memory;
    cudaError_t     absent;
    double_counts   live;
} machine;

extern machine the;

typedef struct call_configuration {
    dim3         grid, block;
    size_t       shared;
    cudaStream_t stream;
} call_configuration;

#define CONFIGURATIONS_MAX 8

typedef struct thread {
    uint64_t                   id;
    uint64_t                   generation;
    cudaError_t                last;
    int                        device;
    enum cudaStreamCaptureMode mode;
    bool                       in_host_function;
    stream                    *streams[DOUBLE_DEVICES_MAX]; /* cudaStreamPerThread's */
    call_configuration         configurations[CONFIGURATIONS_MAX];
    unsigned                   configurations_n;
} thread;

thread *thread_self(void);
thread *thread_worker(void); /* thread_self of a stream's thread, which owns no streams */

typedef enum kind { STREAM, EVENT, GRAPH, EXEC, LIBRARY, KERNEL, PHYSICAL, KINDS } kind;

/* Handles are numbers that look like addresses and are never used twice, so that a stale one is always known for
 * one. */
void *handle_make(kind k, void *object);
void *handle_object(kind k, const void *handle, const char *function); /* traps unless it is live */
void *handle_find(kind k, const void *handle);                         /* NULL unless it is live */
bool  handle_was(kind k, const void *handle);                          /* whether it is or ever was one */
void  handle_end(kind k, const void *handle);
void  handles_each(kind k, void (*visit)(void *object)); /* those that are live */

uint64_t random_next(uint64_t *state);
uint64_t now_ns(void);
void    *make(size_t bytes); /* zeroed; never NULL */

/* ------------------------------------------------------------------------------------------------ fault.c */

typedef struct function_calls {
    const char            *name;
    uint64_t               calls;
    struct function_calls *next;
} function_calls;

/* Begins a call: takes the lock and counts. On refusal the lock isn't held. */
cudaError_t call_enter(function_calls *function);
cudaError_t call_leave(cudaError_t error);
CUresult    call_leave_driver(CUresult error);
void        call_count(function_calls *function); /* for calls that can't fail; takes no lock */
void        call_forget(void);                    /* counts and failures */

#define ENTER(function)                                                                                                \
    static function_calls function_ = {#function, 0, NULL};                                                            \
    const char           *FN        = function_.name;                                                                  \
    cudaError_t           refused_  = call_enter(&function_);                                                          \
    (void)FN;                                                                                                          \
    if (refused_)                                                                                                      \
    return refused_

#define ENTER_DRIVER(function)                                                                                         \
    static function_calls function_ = {#function, 0, NULL};                                                            \
    const char           *FN        = function_.name;                                                                  \
    cudaError_t           refused_  = call_enter(&function_);                                                          \
    (void)FN;                                                                                                          \
    if (refused_)                                                                                                      \
    return (CUresult)refused_

#define LEAVE(error)        return call_leave(error)
#define LEAVE_DRIVER(error) return call_leave_driver(error)

#define LEAVE_UNLESS(condition, error)                                                                                 \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return call_leave(error);                                                                                  \
    } while (0)

_Noreturn void trap(const char *function, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ------------------------------------------------------------------------------------------------ stream.c */

typedef struct point {
    stream  *stream;
    uint64_t position;
} point;

/* What an event record leaves behind: outlives the event while work still needs it. */
typedef struct mark {
    unsigned uses;
    point    at;
    uint64_t time_ns;
} mark;

#define CAPTURE_STREAMS_MAX 256

/* How much of each stream of a capture comes before some place of it, as counts of operations. */
typedef struct clock_vector {
    uint32_t seen[CAPTURE_STREAMS_MAX];
} clock_vector;

typedef struct event {
    int           device;
    unsigned      flags;
    mark         *mark;       /* NULL: never recorded, or captured */
    uint64_t      capture_id; /* of the capture in which it was last recorded, or 0 */
    clock_vector *captured;
} event;

typedef struct piece {
    char       *to;
    const char *from;
    size_t      bytes;
    bool        unseen; /* device to device */
} piece;

typedef struct write {
    char    *to;
    uint64_t value;
    size_t   bytes;
} write_value;

typedef enum op_kind { OP_COPY, OP_SET, OP_KERNEL, OP_HOST, OP_RECORD, OP_WAIT, OP_WRITE, OP_GRAPH } op_kind;

typedef struct op {
    struct op    *next;
    op_kind       kind;
    const char   *function; /* that enqueued it */
    point        *deps;
    unsigned      deps_n, deps_max;
    bool          delayed, timed; /* the delay before its start has been taken; its deadline has been set */
    uint64_t      deadline_ns;
    uint64_t      shuffle; /* COPY: seed of the order of the pieces */
    size_t        n;       /* pieces, writes */
    piece        *pieces;
    char         *staged; /* COPY: sources that were read in the call */
    write_value  *writes;
    char         *to; /* SET */
    size_t        bytes;
    int           byte;
    double_kernel kernel;
    dim3          grid, block;
    void        **arguments; /* KERNEL: pointers and, behind them, the bytes */
    cudaHostFn_t  host;
    void         *host_data;
    mark         *mark;
    program      *graph;
} op;

/* Operations in order of capture. Immutable when the capture is over. */
struct program {
    unsigned uses;
    op      *first, *last;
    size_t   n;
};

struct stream {
    stream        *next; /* in the list of all */
    cudaStream_t   handle;
    uint64_t       id;
    int            device, priority;
    unsigned       flags;
    bool           legacy, user; /* user: made by a call */
    bool           closing, stalled;
    bool           started, ended, joined; /* its thread */
    bool           blocked;                /* its thread waits for other streams, or for the end of a stall */
    pthread_t      thread;
    uint64_t       enqueued, done, wanted;
    unsigned       queries, queries_wanted;
    uint64_t       random;
    pthread_cond_t work, room;
    op            *first, *last;
    capture       *capture;
    unsigned       capture_index;
};

extern stream *streams; /* all that haven't ended, and those that have until a reset */

op      *op_make(op_kind kind, const char *function);
void     op_free(op *o);
void     op_after(op *o, point p);
void     op_check(const op *o, const char *when);
bool     op_uses(const op *o, const char *at, size_t bytes); /* whether it touches any of these */
uint64_t stream_enqueue(stream *s, op *o);                   /* takes the op; returns its position */
void     stream_wait(stream *s, uint64_t position);
bool     stream_done(stream *s, uint64_t position); /* counts as a query */
stream  *stream_find(cudaStream_t handle, const char *function);
stream  *stream_legacy(int device);
stream  *stream_new(int device, unsigned flags, int priority);
void     stream_close(stream *s);
void     streams_wait(void);                                                                 /* for everything */
void     streams_reset(void);                                                                /* ends all threads */
void     queues_check(const char *function, const char *at, size_t bytes, const char *what); /* traps if in use */
void     mark_release(mark *m);
program *program_retain(program *p);
void     program_release(program *p);
void     program_append(program *p, op *o);

/* ------------------------------------------------------------------------------------------------ memory.c */

bool memory_is_device(const void *at); /* an address that belongs to devices, whether live or not */
bool memory_is_pinned(const void *at); /* inside host memory made here */
int  memory_device(const void *at);    /* whose it is, or -1 */
void memory_check(const char *function, const char *when, const char *role, const void *at, size_t bytes);
void memory_reset(void);

/* ------------------------------------------------------------------------------------------------ capture.c */

/* Whether this thread may make a call that is unsafe during captures; if not, the captures that forbid it are
 * invalidated. */
cudaError_t capture_unsafe(void);
/* Whether the stream is the legacy one and a blocking stream captures, so that it can't be used. */
cudaError_t capture_implicit(stream *s, bool invalidate);
/* Whether a stream, an event, or a whole device may be waited for or queried. */
cudaError_t capture_sync(stream *s);
cudaError_t capture_sync_event(event *e);
cudaError_t capture_sync_device(int device);
/* Enqueues the operation, or captures it; takes it in any case. position, which may be NULL, is 0 for what was
 * captured. */
cudaError_t submit(stream *s, op *o, uint64_t *position);
cudaError_t capture_record(stream *s, event *e);              /* pre: s captures */
cudaError_t capture_wait(stream *s, event *e, bool *handled); /* handled: nothing remains to be enqueued */
cudaError_t capture_unsupported(stream *s);                   /* of an operation that can't be captured */
void        event_clear(event *e);                            /* as if never recorded */
void        capture_reset(void);

/* ------------------------------------------------------------------------------------------------ kernel.c */

void kernels_reset(void);

/* ------------------------------------------------------------------------------------------------ runtime.c */

int device_attribute(int attribute);

/* cudaMemcpy and cudaMemset on the default stream of a caller's kind. */
cudaError_t copy_waiting(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t fill_waiting(void *to, int byte, size_t bytes, cudaStream_t stream);

#endif
