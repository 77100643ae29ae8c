/* snug_host.h - the host device: host memory, and worker threads as streams.
 *
 * A stream runs what is enqueued on it, in order, on a thread of its own, asynchronously to the caller, as a GPU's stream
 * does. It holds SNUG_HOST_QUEUE_MAX operations; enqueuing on a full one blocks the caller until there is room.
 * Streams are independent of pools: one may be attached to several. */
#ifndef SNUG_HOST_H
#define SNUG_HOST_H

#include <snug.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SNUG_HOST_QUEUE_MAX 1024
#define SNUG_HOST_ARGUMENTS_MAX 192 /* bytes */

typedef struct snug_host_stream snug_host_stream;

/* Errors: NO_MEMORY (also: no thread to be had). */
SNUG_API snug_status snug_host_stream_create(snug_host_stream **stream);

/* Runs what is queued to its end, then frees the stream. Detach it from every pool first. Not from its own functions. */
SNUG_API snug_status snug_host_stream_destroy(snug_host_stream *stream);

/* Enqueues function(arguments), with a copy of the argument bytes: the host device's kernel launch. The function runs on
 * the stream's thread; it may not call snug on pools, nor enqueue on its own stream.
 * Errors: INVALID (no function, or more than SNUG_HOST_ARGUMENTS_MAX bytes). Any thread. */
SNUG_API snug_status snug_host_launch(snug_host_stream *stream, void (*function)(void *arguments), const void *arguments,
                                      size_t bytes);

/* Waits until everything enqueued before the call has run. Not from the stream's own functions. */
SNUG_API snug_status snug_host_stream_sync(snug_host_stream *stream);

/* Makes later operations of stream wait for everything enqueued so far on other: the client's own ordering of streams. */
SNUG_API snug_status snug_host_stream_wait(snug_host_stream *stream, snug_host_stream *other);

#ifdef __cplusplus
}
#endif
#endif
