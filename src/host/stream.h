/* stream.h: the host device's streams and their timelines. The device row and snug_host.h both stand on it. */
#ifndef SNUG__HOST_STREAM_H
#define SNUG__HOST_STREAM_H

#include <snug_host.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* How far a stream has got. A timeline is never freed, only handed to the next stream, and its count never goes back: so a
 * point on it can be looked at by anyone at any time, without a lock or a reference, also when its stream is long gone. */
typedef struct snug__timeline {
    _Atomic uint64_t done;    /* operations run, over all its streams */
    _Atomic uint64_t awaited; /* the least that a sleeping thread waits for; UINT64_MAX: there is none */
    uint32_t         id;
    pthread_mutex_t  mutex;
    pthread_cond_t   advanced;
} snug__timeline;

/* A point: id << 48 | operations. 0: no point, reached by definition. 48 bits are nine years at a million a second. */
typedef uint64_t snug__point;

bool snug__point_reached(snug__point point);
void snug__point_wait(snug__point point);

/* The point after everything enqueued on the stream so far. */
snug__point snug__host_stream_point(snug_host_stream *stream);
bool        snug__host_stream_valid(snug_host_stream *stream);

/* Later operations of stream wait until the point is reached. */
void snug__host_stream_wait_point(snug_host_stream *stream, snug__point point);

#endif
