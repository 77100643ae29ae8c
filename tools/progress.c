/* progress.c - see progress.h. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_NS 100000000u

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void progress_start(progress *p, const char *label) {
    *p = (progress){.label = label, .shown = isatty(STDERR_FILENO) == 1};
}

void progress_update(progress *p, uint64_t done, uint64_t total, const char *unit) {
    if (!p->shown) return;
    uint64_t now = now_ns();
    if (now < p->next_ns) return;
    p->next_ns = now + INTERVAL_NS;
    p->dirty = true;
    if (total)
        fprintf(stderr, "\r%s: %llu of %llu %s (%.0f %%)\033[K", p->label, (unsigned long long)done,
                (unsigned long long)total, unit, 100.0 * (double)done / (double)total);
    else
        fprintf(stderr, "\r%s: %llu %s\033[K", p->label, (unsigned long long)done, unit);
    fflush(stderr);
}

void progress_end(progress *p) {
    if (p->dirty) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    p->dirty = false;
}
