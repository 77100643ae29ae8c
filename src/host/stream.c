/* stream.c: a host stream: a worker thread behind a bounded queue.
 *
 * The queue is a ring with one consumer and any number of producers: a producer claims the next position, waits until its
 * cell is free (a full stream blocks its caller), fills it and publishes it; the worker takes cells in order. No lock is
 * taken to enqueue; a system call is made only to wake a worker that sleeps.
 * The stream owns its cells and thread; it has its timeline for as long as it lives. */
#include "stream.h"

#include "../assert.h"

#include <stdlib.h>
#include <string.h>

#define STREAM_MAGIC UINT64_C(0x736e75672d737472)

typedef struct cell {
    _Atomic uint64_t ready; /* position + 1 once filled */
    void (*function)(void *arguments);
    _Alignas(16) unsigned char arguments[SNUG_HOST_ARGUMENTS_MAX];
} cell;

struct snug_host_stream {
    _Atomic uint64_t magic;
    snug__timeline  *timeline;
    pthread_t        worker;
    uint64_t         first;             /* position at which this stream's life on the timeline began */
    _Alignas(64) _Atomic uint64_t tail; /* positions claimed */
    _Alignas(64) _Atomic uint32_t sleeping;
    _Atomic uint32_t closing;
    pthread_mutex_t  mutex;
    pthread_cond_t   work;
    cell             cells[SNUG_HOST_QUEUE_MAX];
};

/* ------------------------------------------------------------------------------------------------ timeline */

#define TIMELINES_MAX 65535u
#define POINT_BITS    48

static pthread_mutex_t timelines_mutex = PTHREAD_MUTEX_INITIALIZER;
static snug__timeline
               *timelines[TIMELINES_MAX + 1]; /* by id; 0 is none. A slot is written once, before its id is known */
static uint32_t timelines_made;
static uint32_t idle[TIMELINES_MAX]; /* ids without a stream */
static uint32_t idle_count;

static snug__timeline *timeline_make(uint32_t id) {
    snug__timeline *timeline = calloc(1, sizeof *timeline);
    if (!timeline)
        return NULL;
    timeline->id = id;
    atomic_init(&timeline->awaited, UINT64_MAX);
    pthread_mutex_init(&timeline->mutex, NULL);
    pthread_cond_init(&timeline->advanced, NULL);
    return timeline;
}

static snug__timeline *timeline_acquire(void) {
    snug__timeline *timeline = NULL;
    pthread_mutex_lock(&timelines_mutex);
    if (idle_count) {
        timeline = timelines[idle[--idle_count]];
    } else if (timelines_made < TIMELINES_MAX) {
        timeline = timeline_make(timelines_made + 1);
        if (timeline)
            timelines[++timelines_made] = timeline;
    }
    pthread_mutex_unlock(&timelines_mutex);
    return timeline;
}

static void timeline_give_back(snug__timeline *timeline) {
    pthread_mutex_lock(&timelines_mutex);
    idle[idle_count++] = timeline->id;
    pthread_mutex_unlock(&timelines_mutex);
}

static bool timeline_reached(snug__timeline *timeline, uint64_t done) {
    return atomic_load(&timeline->done) >= done;
}

static void timeline_wait(snug__timeline *timeline, uint64_t done) {
    if (timeline_reached(timeline, done))
        return;
    pthread_mutex_lock(&timeline->mutex);
    for (;;) {
        /* announce first, look again after: the worker looks for it after it has advanced */
        if (atomic_load(&timeline->awaited) > done)
            atomic_store(&timeline->awaited, done);
        if (timeline_reached(timeline, done))
            break;
        pthread_cond_wait(&timeline->advanced, &timeline->mutex);
    }
    pthread_mutex_unlock(&timeline->mutex);
}

static snug__timeline *point_timeline(snug__point point) {
    return timelines[point >> POINT_BITS];
}

static uint64_t point_done(snug__point point) {
    return point & ((UINT64_C(1) << POINT_BITS) - 1);
}

bool snug__point_reached(snug__point point) {
    return !point || timeline_reached(point_timeline(point), point_done(point));
}

void snug__point_wait(snug__point point) {
    if (point)
        timeline_wait(point_timeline(point), point_done(point));
}

static void timeline_advance(snug__timeline *timeline, uint64_t done) {
    atomic_store(&timeline->done, done);
    if (atomic_load(&timeline->awaited) <= done) {
        pthread_mutex_lock(&timeline->mutex);
        atomic_store(&timeline->awaited, UINT64_MAX); /* who is woken too early announces again */
        pthread_cond_broadcast(&timeline->advanced);
        pthread_mutex_unlock(&timeline->mutex);
    }
}

/* ------------------------------------------------------------------------------------------------ worker */

static bool worker_sleep_until(snug_host_stream *stream, cell *next, uint64_t position) {
    pthread_mutex_lock(&stream->mutex);
    atomic_store(&stream->sleeping, 1);
    bool closed = false;
    while (atomic_load(&next->ready) != position + 1) {
        closed = atomic_load(&stream->closing) && atomic_load(&stream->tail) == position;
        if (closed)
            break;
        pthread_cond_wait(&stream->work, &stream->mutex);
    }
    atomic_store(&stream->sleeping, 0);
    pthread_mutex_unlock(&stream->mutex);
    return !closed;
}

static void *worker_main(void *argument) {
    snug_host_stream *stream = argument;
    for (uint64_t position = stream->first;; position++) {
        cell *next = &stream->cells[position % SNUG_HOST_QUEUE_MAX];
        if (atomic_load(&next->ready) != position + 1 && !worker_sleep_until(stream, next, position))
            return NULL;
        next->function(next->arguments);
        timeline_advance(stream->timeline, position + 1);
    }
}

static void worker_wake(snug_host_stream *stream) {
    if (!atomic_load(&stream->sleeping))
        return;
    pthread_mutex_lock(&stream->mutex);
    pthread_cond_signal(&stream->work);
    pthread_mutex_unlock(&stream->mutex);
}

/* ------------------------------------------------------------------------------------------------ stream */

static void enqueue(snug_host_stream *stream, void (*function)(void *), const void *arguments, size_t bytes) {
    uint64_t position = atomic_fetch_add(&stream->tail, 1);
    if (position - stream->first >= SNUG_HOST_QUEUE_MAX)
        timeline_wait(stream->timeline, position - SNUG_HOST_QUEUE_MAX + 1);
    cell *mine     = &stream->cells[position % SNUG_HOST_QUEUE_MAX];
    mine->function = function;
    if (bytes)
        memcpy(mine->arguments, arguments, bytes);
    atomic_store(&mine->ready, position + 1);
    worker_wake(stream);
}

snug_status snug_host_stream_create(snug_host_stream **out) {
    if (!out)
        return SNUG_INVALID;
    snug_host_stream *stream = aligned_alloc(64, (sizeof *stream + 63) / 64 * 64);
    if (!stream)
        return SNUG_NO_MEMORY;
    memset(stream, 0, sizeof *stream);
    stream->timeline = timeline_acquire();
    if (!stream->timeline) {
        free(stream);
        return SNUG_NO_MEMORY;
    }
    stream->first = atomic_load(&stream->timeline->done);
    atomic_init(&stream->tail, stream->first);
    pthread_mutex_init(&stream->mutex, NULL);
    pthread_cond_init(&stream->work, NULL);
    if (pthread_create(&stream->worker, NULL, worker_main, stream) != 0) {
        pthread_cond_destroy(&stream->work);
        pthread_mutex_destroy(&stream->mutex);
        timeline_give_back(stream->timeline);
        free(stream);
        return SNUG_NO_MEMORY;
    }
    atomic_store(&stream->magic, STREAM_MAGIC);
    *out = stream;
    return SNUG_OK;
}

snug_status snug_host_stream_destroy(snug_host_stream *stream) {
    if (!snug__host_stream_valid(stream))
        return SNUG_INVALID;
    pthread_mutex_lock(&stream->mutex);
    atomic_store(&stream->closing, 1);
    pthread_cond_signal(&stream->work);
    pthread_mutex_unlock(&stream->mutex);
    pthread_join(stream->worker, NULL);
    atomic_store(&stream->magic, 0);
    pthread_cond_destroy(&stream->work);
    pthread_mutex_destroy(&stream->mutex);
    timeline_give_back(stream->timeline);
    free(stream);
    return SNUG_OK;
}

snug_status snug_host_launch(snug_host_stream *stream, void (*function)(void *), const void *arguments, size_t bytes) {
    if (!snug__host_stream_valid(stream) || !function || bytes > SNUG_HOST_ARGUMENTS_MAX || (bytes && !arguments))
        return SNUG_INVALID;
    enqueue(stream, function, arguments, bytes);
    return SNUG_OK;
}

snug_status snug_host_stream_sync(snug_host_stream *stream) {
    if (!snug__host_stream_valid(stream))
        return SNUG_INVALID;
    snug__point_wait(snug__host_stream_point(stream));
    return SNUG_OK;
}

snug_status snug_host_stream_wait(snug_host_stream *stream, snug_host_stream *other) {
    if (!snug__host_stream_valid(stream) || !snug__host_stream_valid(other))
        return SNUG_INVALID;
    snug__host_stream_wait_point(stream, snug__host_stream_point(other));
    return SNUG_OK;
}

static void run_wait(void *arguments) {
    snug__point_wait(*(snug__point *)arguments);
}

void snug__host_stream_wait_point(snug_host_stream *stream, snug__point point) {
    if (point >> POINT_BITS != stream->timeline->id && !snug__point_reached(point))
        enqueue(stream, run_wait, &point, sizeof point);
}

snug__point snug__host_stream_point(snug_host_stream *stream) {
    return (uint64_t)stream->timeline->id << POINT_BITS | atomic_load(&stream->tail);
}

bool snug__host_stream_valid(snug_host_stream *stream) {
    return stream && (uintptr_t)stream % 64 == 0 && atomic_load(&stream->magic) == STREAM_MAGIC;
}
