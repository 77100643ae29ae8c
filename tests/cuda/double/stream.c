/* stream.c - streams: a queue of operations each, and a thread that runs them in order.
 *
 * An operation waits for its dependencies, which are points (a stream, and how many of its operations must be done);
 * so events, waits and the legacy stream's barriers are all the same thing. A stream's thread starts with its first
 * operation and ends when the stream has been destroyed and its queue is empty. The stream itself stays until a reset:
 * points refer to it. */
#include "machine.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define QUERIES_MAX      6        /* that a late operation puts up with before it starts */
#define LATE_NS_MAX      20000000 /* after which it starts in any case */
#define TIMELY_NS_MAX    100000
#define LEGACY_STREAM_ID 1

stream         *streams;
static uint64_t streams_made = LEGACY_STREAM_ID + DOUBLE_DEVICES_MAX; /* ids are unique for the life of the program */
static uint64_t streams_here; /* since the last reset, so that a seed gives the same delays after it */

/* ------------------------------------------------------------------------------------------------ operations */

op *op_make(op_kind kind, const char *function) {
    op *o       = make(sizeof *o);
    o->kind     = kind;
    o->function = function;
    return o;
}

void mark_release(mark *m) {
    if (m && !--m->uses)
        free(m);
}

void op_free(op *o) {
    free(o->deps);
    free(o->pieces);
    free(o->staged);
    free(o->writes);
    free(o->arguments);
    mark_release(o->mark);
    if (o->graph)
        program_release(o->graph);
    free(o);
}

void op_after(op *o, point p) {
    if (p.stream->done >= p.position)
        return;
    if (o->deps_n == o->deps_max) {
        o->deps_max = o->deps_max ? 2 * o->deps_max : 4;
        o->deps     = realloc(o->deps, o->deps_max * sizeof *o->deps);
        if (!o->deps)
            trap(o->function, "the host is out of memory");
    }
    o->deps[o->deps_n++] = p;
}

static bool op_ready(const op *o) {
    for (unsigned i = 0; i < o->deps_n; i++)
        if (o->deps[i].stream->done < o->deps[i].position)
            return false;
    return true;
}

void op_check(const op *o, const char *when) {
    switch (o->kind) {
    case OP_COPY:
        for (size_t i = 0; i < o->n; i++) {
            memory_check(o->function, when, "target", o->pieces[i].to, o->pieces[i].bytes);
            memory_check(o->function, when, "source", o->pieces[i].from, o->pieces[i].bytes);
        }
        break;
    case OP_SET: memory_check(o->function, when, "target", o->to, o->bytes); break;
    case OP_WRITE:
        for (size_t i = 0; i < o->n; i++)
            memory_check(o->function, when, "target", o->writes[i].to, o->writes[i].bytes);
        break;
    case OP_GRAPH:
        for (const op *each = o->graph->first; each; each = each->next)
            op_check(each, when);
        break;
    default: break;
    }
}

static bool overlap(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
}

bool op_uses(const op *o, const char *at, size_t bytes) {
    switch (o->kind) {
    case OP_COPY:
        for (size_t i = 0; i < o->n; i++)
            if (overlap(o->pieces[i].to, o->pieces[i].bytes, at, bytes) ||
                overlap(o->pieces[i].from, o->pieces[i].bytes, at, bytes))
                return true;
        return false;
    case OP_SET: return overlap(o->to, o->bytes, at, bytes);
    case OP_WRITE:
        for (size_t i = 0; i < o->n; i++)
            if (overlap(o->writes[i].to, o->writes[i].bytes, at, bytes))
                return true;
        return false;
    case OP_GRAPH:
        for (const op *each = o->graph->first; each; each = each->next)
            if (op_uses(each, at, bytes))
                return true;
        return false;
    default: return false;
    }
}

void queues_check(const char *function, const char *at, size_t bytes, const char *what) {
    for (stream *s = streams; s; s = s->next)
        for (op *o = s->first; o; o = o->next)
            if (op_uses(o, at, bytes))
                trap(function, "%s [%p, +%zu) is still used by %s queued on stream %llu", what, (const void *)at, bytes,
                     o->function, (unsigned long long)s->id);
}

/* ------------------------------------------------------------------------------------------------ programs */

program *program_retain(program *p) {
    p->uses++;
    return p;
}

void program_release(program *p) {
    if (--p->uses)
        return;
    while (p->first) {
        op *o    = p->first;
        p->first = o->next;
        op_free(o);
    }
    free(p);
}

void program_append(program *p, op *o) {
    o->next = NULL;
    if (p->last)
        p->last->next = o;
    else
        p->first = o;
    p->last = o;
    p->n++;
}

/* ------------------------------------------------------------------------------------------------ execution */

#ifdef __SANITIZE_THREAD__
/* A cancelled move may read bytes that a client is writing; what it copied is thrown away. So under ThreadSanitizer
 * the reads of device-to-device copies go unseen, while their writes, which nobody may race with, are seen. */
__attribute__((no_sanitize("thread"), noinline)) static void read_unseen(char *to, const volatile char *from,
                                                                         size_t n) {
    volatile char *bytes = to;
    size_t         i     = 0;
    if ((uintptr_t)from % 8 == 0)
        for (; i + 8 <= n; i += 8)
            *(volatile uint64_t *)(volatile void *)(bytes + i) =
                *(const volatile uint64_t *)(const volatile void *)(from + i);
    for (; i < n; i++)
        bytes[i] = from[i];
}

static void copy_unseen(char *to, const char *from, size_t bytes) {
    _Alignas(64) char part[4096];
    for (size_t at = 0; at < bytes; at += sizeof part) {
        size_t n = bytes - at < sizeof part ? bytes - at : sizeof part;
        read_unseen(part, from + at, n);
        memcpy(to + at, part, n);
    }
}
#else
static void copy_unseen(char *to, const char *from, size_t bytes) {
    memcpy(to, from, bytes);
}
#endif

static void copy_pieces(op *o) {
    /* the pieces of a batch are in no order: start anywhere and go in any direction */
    size_t start = o->n > 1 ? o->shuffle % o->n : 0;
    bool   back  = o->shuffle >> 63;
    for (size_t i = 0; i < o->n; i++) {
        const piece *p = &o->pieces[back ? (start + o->n - i) % o->n : (start + i) % o->n];
        if (p->unseen)
            copy_unseen(p->to, p->from, p->bytes);
        else
            memcpy(p->to, p->from, p->bytes);
    }
}

static void write_values(const op *o) {
    for (size_t i = 0; i < o->n; i++) {
        if (o->writes[i].bytes == sizeof(uint64_t))
            __atomic_store_n((uint64_t *)(void *)o->writes[i].to, o->writes[i].value, __ATOMIC_RELEASE);
        else
            __atomic_store_n((uint32_t *)(void *)o->writes[i].to, (uint32_t)o->writes[i].value, __ATOMIC_RELEASE);
    }
}

/* Runs an operation. Held on entry and return, the lock is given up for the work itself. */
static void execute(thread *t, op *o) {
    if (o->kind == OP_GRAPH) {
        for (op *each = o->graph->first; each; each = each->next)
            execute(t, each);
        return;
    }
    op_check(o, "when it ran");
    t->in_host_function = o->kind == OP_HOST;
    pthread_mutex_unlock(&the.mutex);
    switch (o->kind) {
    case OP_COPY: copy_pieces(o); break;
    case OP_SET: memset(o->to, o->byte, o->bytes); break;
    case OP_WRITE: write_values(o); break;
    case OP_KERNEL: o->kernel(o->grid, o->block, o->arguments); break;
    case OP_HOST: o->host(o->host_data); break;
    default: break;
    }
    pthread_mutex_lock(&the.mutex);
    t->in_host_function = false;
    if (o->kind == OP_RECORD)
        o->mark->time_ns = now_ns();
}

static void want(stream *s, uint64_t position) {
    if (s->wanted >= position || s->done >= position)
        return;
    s->wanted = position;
    pthread_cond_signal(&s->work);
}

static void block(stream *s) {
    if (!s->blocked) {
        s->blocked = true;
        pthread_cond_broadcast(&the.advanced);
    }
    pthread_cond_wait(&s->work, &the.mutex);
}

static void wait_until(stream *s, uint64_t deadline_ns) {
    struct timespec t = {(time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};
    pthread_cond_timedwait(&s->work, &the.mutex, &t);
}

/* Takes the delay that the seed has for the next operation; true if time has passed, so that all must be looked at
 * again. */
static bool delay(stream *s, op *o) {
    if (o->delayed)
        return false;
    if (the.mode == DOUBLE_LATE) {
        if (!o->timed) {
            o->timed          = true;
            o->deadline_ns    = now_ns() + random_next(&s->random) % LATE_NS_MAX;
            s->queries        = 0;
            s->queries_wanted = 1 + (unsigned)(random_next(&s->random) % QUERIES_MAX);
        }
        if (s->wanted > s->done || s->queries >= s->queries_wanted || now_ns() >= o->deadline_ns)
            o->delayed = true;
        else
            wait_until(s, o->deadline_ns);
        return true;
    }
    o->delayed = true;
    uint64_t r = the.mode == DOUBLE_EAGER ? 1 : random_next(&s->random);
    if (r % 8)
        return false;
    pthread_mutex_unlock(&the.mutex);
    if (r % 32) {
        sched_yield();
    } else {
        struct timespec t = {0, (long)(r / 32 % TIMELY_NS_MAX)};
        nanosleep(&t, NULL);
    }
    pthread_mutex_lock(&the.mutex);
    return true;
}

static void complete(stream *s) {
    op *o    = s->first;
    s->first = o->next;
    if (!s->first)
        s->last = NULL;
    s->done++;
    s->queries = 0;
    op_free(o);
    pthread_cond_broadcast(&s->room);
    pthread_cond_broadcast(&the.advanced);
    for (stream *other = streams; other; other = other->next)
        if (other->blocked && other != s) {
            other->blocked = false;
            pthread_cond_signal(&other->work);
        }
}

static void *stream_main(void *argument) {
    stream *s = argument;
    pthread_mutex_lock(&the.mutex);
    thread *t = thread_worker();
    for (;;) {
        op *o = s->first;
        if (!o && s->closing)
            break;
        if (!o) {
            pthread_cond_wait(&s->work, &the.mutex);
        } else if (s->stalled) {
            block(s);
        } else if (!op_ready(o)) {
            if (s->wanted > s->done)
                for (unsigned i = 0; i < o->deps_n; i++)
                    want(o->deps[i].stream, o->deps[i].position);
            block(s);
        } else if (!delay(s, o)) {
            s->blocked = false;
            execute(t, o);
            complete(s);
        }
    }
    s->ended = true;
    pthread_cond_broadcast(&the.advanced);
    pthread_mutex_unlock(&the.mutex);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ queues */

static void stream_start(stream *s) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    int error = pthread_create(&s->thread, NULL, stream_main, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        trap("double", "no thread for a stream: %s", strerror(error));
    s->started = true;
}

static void barrier(stream *s, op *o) {
    if (s->flags & cudaStreamNonBlocking)
        return;
    stream *legacy = the.devices[s->device].legacy;
    if (!s->legacy) {
        if (legacy)
            op_after(o, (point){legacy, legacy->enqueued});
        return;
    }
    for (stream *other = streams; other; other = other->next)
        if (other != s && other->device == s->device && !(other->flags & cudaStreamNonBlocking))
            op_after(o, (point){other, other->enqueued});
}

uint64_t stream_enqueue(stream *s, op *o) {
    op_check(o, "when it was enqueued");
    while (s->enqueued - s->done >= DOUBLE_QUEUE_MAX) {
        want(s, s->done + 1);
        pthread_cond_wait(&s->room, &the.mutex);
    }
    if (s->closing)
        trap(o->function, "stream %llu was destroyed meanwhile", (unsigned long long)s->id);
    barrier(s, o);
    o->shuffle = random_next(&s->random);
    o->next    = NULL;
    if (s->last)
        s->last->next = o;
    else
        s->first = o;
    s->last           = o;
    uint64_t position = ++s->enqueued;
    if (!s->started)
        stream_start(s);
    pthread_cond_signal(&s->work);
    if (the.mode == DOUBLE_EAGER) {
        want(s, position);
        while (s->done < position && !s->blocked)
            pthread_cond_wait(&the.advanced, &the.mutex);
    }
    return position;
}

void stream_wait(stream *s, uint64_t position) {
    want(s, position);
    while (s->done < position)
        pthread_cond_wait(&the.advanced, &the.mutex);
}

bool stream_done(stream *s, uint64_t position) {
    if (s->done >= position)
        return true;
    s->queries++;
    if (s->queries >= s->queries_wanted) {
        /* so are those that it waits for, however far off: else a poll of this one could go on for long */
        want(s, s->done + 1);
        pthread_cond_signal(&s->work);
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------ streams */

/* Joins the threads that have ended. */
static void reap(void) {
    for (stream *s = streams; s; s = s->next)
        if (s->ended && !s->joined) {
            s->joined = true;
            pthread_join(s->thread, NULL); /* it needs no lock any more */
        }
}

__attribute__((destructor)) static void streams_end(void) {
    pthread_mutex_lock(&the.mutex);
    reap();
    pthread_mutex_unlock(&the.mutex);
}

stream *stream_new(int device, unsigned flags, int priority) {
    pthread_condattr_t monotonic;
    stream            *s = make(sizeof *s);
    reap();
    s->id             = ++streams_made;
    s->device         = device;
    s->flags          = flags;
    s->priority       = priority;
    s->random         = the.seed * UINT64_C(0x2545f4914f6cdd1d) + ++streams_here;
    s->queries_wanted = 1;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->work, &monotonic);
    pthread_cond_init(&s->room, NULL);
    pthread_condattr_destroy(&monotonic);
    s->next = streams;
    streams = s;
    return s;
}

void stream_close(stream *s) {
    s->closing = true;
    pthread_cond_signal(&s->work);
}

stream *stream_legacy(int number) {
    device *d = &the.devices[number];
    if (!d->legacy) {
        d->legacy         = stream_new(number, cudaStreamDefault, 0);
        d->legacy->legacy = true;
        d->legacy->id     = LEGACY_STREAM_ID + (uint64_t)number;
        d->legacy->handle = cudaStreamLegacy;
    }
    return d->legacy;
}

stream *stream_find(cudaStream_t handle, const char *function) {
    thread *t = thread_self();
    if (!handle || handle == cudaStreamLegacy)
        return stream_legacy(t->device);
    if (handle != cudaStreamPerThread)
        return handle_object(STREAM, handle, function);
    stream **mine = &t->streams[t->device];
    if (!*mine) {
        *mine           = stream_new(t->device, cudaStreamDefault, 0);
        (*mine)->handle = cudaStreamPerThread;
    }
    return *mine;
}

void streams_wait(void) {
    for (stream *s = streams; s; s = s->next)
        want(s, s->enqueued);
    for (stream *s = streams; s; s = s->next)
        stream_wait(s, s->enqueued);
}

void streams_reset(void) {
    for (stream *s = streams; s; s = s->next)
        stream_close(s);
    for (stream *s = streams; s; s = s->next)
        while (s->started && !s->ended)
            pthread_cond_wait(&the.advanced, &the.mutex);
    reap();
    streams_here = 0;
    while (streams) {
        stream *s = streams;
        streams   = s->next;
        pthread_cond_destroy(&s->work);
        pthread_cond_destroy(&s->room);
        free(s);
    }
}
