/* capture.c - stream capture, what it forbids, and the graphs that come of it.
 *
 * A capture has members, streams that captured work has pulled in, and for each the count of operations of every
 * member that come before its next one: so an end can tell whether all has been joined. Captured operations are a
 * program, in order of capture. A graph and what is instantiated from it share it. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

typedef struct member {
    stream      *stream;
    clock_vector clock;
} member;

struct capture {
    capture                   *next;
    uint64_t                   id;
    enum cudaStreamCaptureMode mode;
    uint64_t                   thread;
    int                        device;
    bool                       invalid;
    program                   *program;
    member                    *members[CAPTURE_STREAMS_MAX]; /* the first is its origin */
    unsigned                   members_n;
};

typedef struct graph {
    program *program;
} graph;

typedef struct exec {
    program *program;
    point    last; /* launches of one are in order */
} exec;

static capture *captures;
static uint64_t captures_made;

/* ------------------------------------------------------------------------------------------------ what is forbidden */

static bool forbids(const capture *c, const thread *t) {
    if (t->mode == cudaStreamCaptureModeRelaxed)
        return false;
    if (c->thread == t->id)
        return c->mode != cudaStreamCaptureModeRelaxed;
    return c->mode == cudaStreamCaptureModeGlobal && t->mode == cudaStreamCaptureModeGlobal;
}

cudaError_t capture_unsafe(void) {
    cudaError_t error = cudaSuccess;
    for (capture *c = captures; c; c = c->next)
        if (forbids(c, thread_self())) {
            c->invalid = true;
            error      = cudaErrorStreamCaptureUnsupported;
        }
    return error;
}

static bool has_blocking(const capture *c) {
    for (unsigned i = 0; i < c->members_n; i++)
        if (!(c->members[i]->stream->flags & cudaStreamNonBlocking))
            return true;
    return false;
}

cudaError_t capture_implicit(stream *s, bool invalidate) {
    cudaError_t error = cudaSuccess;
    for (capture *c = captures; c && s->legacy; c = c->next)
        if (c->device == s->device && has_blocking(c)) {
            c->invalid |= invalidate;
            error = cudaErrorStreamCaptureImplicit;
        }
    return error;
}

static cudaError_t invalidate(capture *c, cudaError_t error) {
    if (c->invalid)
        return cudaErrorStreamCaptureInvalidated;
    c->invalid = true;
    return error;
}

cudaError_t capture_unsupported(stream *s) {
    cudaError_t error = capture_implicit(s, true);
    if (error || !s->capture)
        return error;
    return invalidate(s->capture, cudaErrorStreamCaptureUnsupported);
}

cudaError_t capture_sync(stream *s) {
    cudaError_t error = capture_unsupported(s);
    return error ? error : capture_unsafe();
}

cudaError_t capture_sync_device(int device) {
    cudaError_t error = cudaSuccess;
    for (capture *c = captures; c; c = c->next)
        if (c->device == device) {
            c->invalid = true;
            error      = cudaErrorStreamCaptureUnsupported;
        }
    return error ? error : capture_unsafe();
}

static capture *capture_by_id(uint64_t id) {
    capture *c = captures;
    while (c && c->id != id)
        c = c->next;
    return c;
}

cudaError_t capture_sync_event(event *e) {
    if (!e->capture_id)
        return capture_unsafe();
    capture *c = capture_by_id(e->capture_id);
    if (c)
        c->invalid = true;
    return cudaErrorCapturedEvent;
}

/* ------------------------------------------------------------------------------------------------ capturing */

void event_clear(event *e) {
    mark_release(e->mark);
    free(e->captured);
    e->mark       = NULL;
    e->captured   = NULL;
    e->capture_id = 0;
}

static void capture_join(capture *c, stream *s) {
    if (c->members_n == CAPTURE_STREAMS_MAX)
        trap("double", "a capture has more than %d streams", CAPTURE_STREAMS_MAX);
    member *m                  = make(sizeof *m);
    m->stream                  = s;
    s->capture                 = c;
    s->capture_index           = c->members_n;
    c->members[c->members_n++] = m;
}

cudaError_t submit(stream *s, op *o, uint64_t *position) {
    cudaError_t error = capture_implicit(s, true);
    if (!error && s->capture && s->capture->invalid)
        error = cudaErrorStreamCaptureInvalidated;
    if (error) {
        op_free(o);
        return error;
    }
    uint64_t at = 0;
    if (s->capture) {
        op_check(o, "when it was captured");
        program_append(s->capture->program, o);
        s->capture->members[s->capture_index]->clock.seen[s->capture_index]++;
    } else {
        at = stream_enqueue(s, o);
    }
    if (position)
        *position = at;
    return cudaSuccess;
}

cudaError_t capture_record(stream *s, event *e) {
    if (s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    event_clear(e);
    e->captured   = make(sizeof *e->captured);
    *e->captured  = s->capture->members[s->capture_index]->clock;
    e->capture_id = s->capture->id;
    return cudaSuccess;
}

static cudaError_t capture_wait_captured(stream *s, const event *e) {
    capture *c = capture_by_id(e->capture_id);
    if (!c)
        return cudaErrorCapturedEvent;
    if (c->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (s->legacy)
        return invalidate(c, cudaErrorStreamCaptureImplicit);
    if (s->capture && s->capture != c) {
        c->invalid = s->capture->invalid = true;
        return cudaErrorStreamCaptureMerge;
    }
    if (!s->capture)
        capture_join(c, s);
    clock_vector *mine = &c->members[s->capture_index]->clock;
    for (unsigned i = 0; i < c->members_n; i++)
        if (mine->seen[i] < e->captured->seen[i])
            mine->seen[i] = e->captured->seen[i];
    return cudaSuccess;
}

cudaError_t capture_wait(stream *s, event *e, bool *handled) {
    cudaError_t error = capture_implicit(s, true);
    *handled          = error || e->capture_id || s->capture;
    if (error)
        return error;
    if (e->capture_id)
        return capture_wait_captured(s, e);
    if (s->capture && s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    return s->capture && e->mark ? invalidate(s->capture, cudaErrorStreamCaptureIsolation) : cudaSuccess;
}

static void capture_end(capture *c) {
    capture **at = &captures;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    for (unsigned i = 0; i < c->members_n; i++) {
        c->members[i]->stream->capture = NULL;
        free(c->members[i]);
    }
    if (c->program)
        program_release(c->program);
    free(c);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
    ENTER(cudaStreamBeginCapture);
    stream *s = stream_find(handle, FN);
    LEAVE_UNLESS(!s->legacy, cudaErrorStreamCaptureUnsupported);
    LEAVE_UNLESS((unsigned)mode <= cudaStreamCaptureModeRelaxed, cudaErrorInvalidValue);
    LEAVE_UNLESS(!s->capture, cudaErrorIllegalState);
    capture *c       = make(sizeof *c);
    c->id            = ++captures_made;
    c->mode          = mode;
    c->thread        = thread_self()->id;
    c->device        = s->device;
    c->program       = make(sizeof *c->program);
    c->program->uses = 1;
    c->next          = captures;
    captures         = c;
    capture_join(c, s);
    LEAVE(cudaSuccess);
}

static bool all_joined(const capture *c) {
    for (unsigned i = 1; i < c->members_n; i++)
        if (c->members[0]->clock.seen[i] < c->members[i]->clock.seen[i])
            return false;
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *out) {
    ENTER(cudaStreamEndCapture);
    LEAVE_UNLESS(out, cudaErrorInvalidValue);
    stream  *s = stream_find(handle, FN);
    capture *c = s->capture;
    LEAVE_UNLESS(c, cudaErrorIllegalState);
    LEAVE_UNLESS(c->mode == cudaStreamCaptureModeRelaxed || c->thread == thread_self()->id,
                 cudaErrorStreamCaptureWrongThread);
    if (c->members[0]->stream != s)
        LEAVE(invalidate(c, cudaErrorStreamCaptureUnmatched));
    cudaError_t error = c->invalid      ? cudaErrorStreamCaptureInvalidated
                        : all_joined(c) ? cudaSuccess
                                        : cudaErrorStreamCaptureUnjoined;
    *out              = NULL;
    if (!error) {
        graph *g   = make(sizeof *g);
        g->program = program_retain(c->program);
        *out       = handle_make(GRAPH, g);
        the.live.graphs++;
    }
    capture_end(c);
    LEAVE(error);
}

static enum cudaStreamCaptureStatus capture_status(const stream *s) {
    return !s->capture           ? cudaStreamCaptureStatusNone
           : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status) {
    ENTER(cudaStreamIsCapturing);
    LEAVE_UNLESS(status, cudaErrorInvalidValue);
    stream     *s     = stream_find(handle, FN);
    cudaError_t error = capture_implicit(s, false);
    LEAVE_UNLESS(!error, error);
    *status = capture_status(s);
    LEAVE(cudaSuccess);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *count) {
    if (edges)
        *edges = NULL;
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies, size_t *count) {
#endif
    ENTER(cudaStreamGetCaptureInfo);
    LEAVE_UNLESS(status, cudaErrorInvalidValue);
    stream     *s     = stream_find(handle, FN);
    cudaError_t error = capture_implicit(s, false);
    LEAVE_UNLESS(!error, error);
    *status = capture_status(s);
    if (s->capture && id)
        *id = s->capture->id;
    if (graph_out)
        *graph_out = NULL;
    if (dependencies)
        *dependencies = NULL;
    if (count)
        *count = 0;
    LEAVE(cudaSuccess);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    ENTER(cudaThreadExchangeStreamCaptureMode);
    LEAVE_UNLESS(mode && (unsigned)*mode <= cudaStreamCaptureModeRelaxed, cudaErrorInvalidValue);
    thread                    *t      = thread_self();
    enum cudaStreamCaptureMode before = t->mode;
    t->mode                           = *mode;
    *mode                             = before;
    LEAVE(cudaSuccess);
}

/* ------------------------------------------------------------------------------------------------ graphs */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t handle, unsigned long long flags) {
    ENTER(cudaGraphInstantiate);
    (void)flags;
    LEAVE_UNLESS(out && handle, cudaErrorInvalidValue);
    graph *g   = handle_object(GRAPH, handle, FN);
    exec  *x   = make(sizeof *x);
    x->program = program_retain(g->program);
    *out       = handle_make(EXEC, x);
    the.live.graph_execs++;
    LEAVE(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
    ENTER(cudaGraphLaunch);
    LEAVE_UNLESS(handle, cudaErrorInvalidValue);
    exec   *x = handle_object(EXEC, handle, FN);
    stream *s = stream_find(stream_handle, FN);
    op     *o = op_make(OP_GRAPH, FN);
    o->graph  = program_retain(x->program);
    if (x->last.stream && !s->capture)
        op_after(o, x->last);
    uint64_t    position = 0;
    cudaError_t error    = submit(s, o, &position);
    if (position)
        x->last = (point){s, position};
    LEAVE(error);
}

static bool same_shape(const program *a, const program *b) {
    if (a->n != b->n)
        return false;
    for (const op *p = a->first, *q = b->first; p; p = p->next, q = q->next)
        if (p->kind != q->kind)
            return false;
    return true;
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t handle, cudaGraph_t graph_handle,
                                cudaGraphExecUpdateResultInfo *result) {
    ENTER(cudaGraphExecUpdate);
    LEAVE_UNLESS(handle && graph_handle && result, cudaErrorInvalidValue);
    exec  *x = handle_object(EXEC, handle, FN);
    graph *g = handle_object(GRAPH, graph_handle, FN);
    memset(result, 0, sizeof *result);
    if (!same_shape(x->program, g->program)) {
        result->result = cudaGraphExecUpdateErrorTopologyChanged;
        LEAVE(cudaErrorGraphExecUpdateFailure);
    }
    program_release(x->program);
    x->program     = program_retain(g->program);
    result->result = cudaGraphExecUpdateSuccess;
    LEAVE(cudaSuccess);
}

static void exec_free(void *object) {
    exec *x = object;
    program_release(x->program);
    free(x);
}

static void graph_free(void *object) {
    graph *g = object;
    program_release(g->program);
    free(g);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
    ENTER(cudaGraphExecDestroy);
    LEAVE_UNLESS(handle, cudaErrorInvalidValue);
    exec_free(handle_object(EXEC, handle, FN));
    handle_end(EXEC, handle);
    the.live.graph_execs--;
    LEAVE(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
    ENTER(cudaGraphDestroy);
    LEAVE_UNLESS(handle, cudaErrorInvalidValue);
    graph_free(handle_object(GRAPH, handle, FN));
    handle_end(GRAPH, handle);
    the.live.graphs--;
    LEAVE(cudaSuccess);
}

/* ------------------------------------------------------------------------------------------------ reset */

static void event_free(void *object) {
    event_clear(object);
    free(object);
}

void capture_reset(void) {
    while (captures)
        capture_end(captures);
    handles_each(EXEC, exec_free);
    handles_each(GRAPH, graph_free);
    handles_each(EVENT, event_free);
}
