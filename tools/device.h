/* device.h - the device under a command: its options, its native streams, and the kernels that write and verify.
 *
 * One table, a row for each device. On host a kernel writes and reads real bytes (pattern.h). On sim (snug_sim.h) there
 * are none: a buffer's content is the tag (id, version, offset), kernels say which tags they expect and leave, and the
 * machine's own checker counts what is wrong, for a run as a whole: device_finish.
 *
 * A device belongs to the command, and is constant once settled. A stream belongs to one thread, but for its tally.
 */
#ifndef SNUG_TOOLS_DEVICE_H
#define SNUG_TOOLS_DEVICE_H

#include "pattern.h"
#include "report.h"
#include <snug.h>
#include <snug_sim.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEVICE_LAUNCH_MAX 8 /* buffers of one launch */

typedef struct device_row device_row;

typedef struct device {
    /* as given, by DEVICE_ARGUMENTS */
    int         kind, style;
    const char *profile_name;
    bool        style_given;
    /* made of it, by device_settle */
    const char             *name;
    const device_row       *row;
    const snug_sim_profile *profile; /* NULL on host */
    int                     index;   /* snug_pool_options.device_index */
} device;

/* The options of every command that has a device: `d` points to it. */
#define DEVICE_ARGUMENTS(d)                                                                                            \
    {"device", ARGUMENT_CHOICE, &(d)->kind, NULL, "that holds the pool", 0, 0, device_names, NULL},                    \
        {"profile", ARGUMENT_TEXT, &(d)->profile_name, "NAME",                                                         \
         "the card that sim stands for: H200, A100, \"RTX 4090\" or \"RTX 3060\" (default H200)", 0, 0, NULL, NULL},   \
        {"style", ARGUMENT_CHOICE, &(d)->style, NULL, "when work on sim is found to have run", 0, 0, device_styles,    \
         &(d)->style_given}
extern const char *const device_names[];  /* ended by NULL */
extern const char *const device_styles[]; /* by snug_sim_style, ended by NULL */

/* What the table of options can't check. Returns 0, or 2 after an error line. */
int device_settle(device *d, const char *command);

/* Before the pool of a run is made: a machine as new. */
snug_status device_start(const device *d, uint64_t seed);

/* On the device's own clock since device_start, 0.0 if it has none. */
double device_seconds(const device *d);

/* After the pool of a run is destroyed. Returns how often the device's own checker found something wrong; that, and
 * whether it has checked all, is printed on stderr. */
uint64_t device_finish(const device *d, const char *command);

/* Bytes that a pool may take; UINT64_MAX: any. */
uint64_t device_memory_available(const device *d);

/* ---- streams. Zeroed is closed. A row fills in `native`. */

typedef struct device_stream {
    _Alignas(64) pattern_tally tally; /* host: the stream's thread counts here */
    _Alignas(64) const device *device;
    void    *native;  /* for snug_stream_attach */
    uint64_t batches; /* host launches made */
} device_stream;

snug_status device_stream_open(device_stream *s, const device *d);
snug_status device_stream_close(device_stream *s);

/* Later work of s waits for all enqueued so far on other: the client's own ordering. */
snug_status device_stream_wait(device_stream *s, device_stream *other);

/* A client that runs far ahead of the stream waits here, outside what is measured, so that no call blocks on a full
 * queue. */
void device_stream_throttle(device_stream *s);

/* One launch between resolve and release: verifies and writes the buffers, up to DEVICE_LAUNCH_MAX. After a failure
 * some of it may have been enqueued. */
snug_status device_launch(device_stream *s, const pattern_buffer *buffers, size_t n);

#endif
