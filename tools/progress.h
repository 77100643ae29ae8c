/* progress.h - one line on stderr that shows how far a run is: only on a terminal, at most ten times a second.
 *
 * One thread owns a progress; nothing is allocated. In a pipe or a file every call returns at once.
 */
#ifndef SNUG_TOOLS_PROGRESS_H
#define SNUG_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    const char *label; /* "stress mixed, compaction on" */
    bool        shown; /* stderr is a terminal */
    bool        dirty; /* a line stands there and must be wiped */
    uint64_t    next_ns;
} progress;

/* label must live as long as the progress. */
void progress_start(progress *p, const char *label);

/* done of total, in `unit` ("operations", "events"); total 0: unknown, only done is shown. Cheap enough for a call per
 * event: it looks at the clock only when stderr is a terminal. */
void progress_update(progress *p, uint64_t done, uint64_t total, const char *unit);

/* Wipes the line, so that what comes next begins at the left. */
void progress_end(progress *p);

#endif
