/* results.h - repeated measurements, and how they are told: a table for people, JSON for programs.
 *
 * A series holds one value for each repetition. What is compared is measured in the same repetition, one after the other,
 * so a ratio is taken value by value and then summed up: what disturbed a whole repetition cancels out.
 * The JSON document belongs to the results; builds without jansson have none and refuse --json. One thread. */
#ifndef SNUG_BENCH_RESULTS_H
#define SNUG_BENCH_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SERIES_MAX = 512 };

typedef struct series {
    unsigned count;
    double   values[SERIES_MAX];
} series;

typedef struct summary {
    double median, q1, q3, least, most;
} summary;

void    series_add(series *s, double value); /* beyond SERIES_MAX: aborts */
summary series_summary(const series *s);     /* of at least one value */
/* The value below which so large a share of sorted values lies, interpolated. */
double sorted_quantile(const double *sorted, size_t count, double share);

typedef struct ratio {
    const char   *to;
    const series *base; /* as many values, of the same repetitions */
} ratio;

enum { RATIOS_MAX = 3 };

typedef struct results {
    char           section;
    struct json_t *document; /* NULL: nobody wants it */
} results;

bool results_json_available(void);
void results_open(results *r, bool json, uint64_t seed, bool quick);
/* The document to a file; closes the results. false: it couldn't be written, errno says why. */
bool results_close(results *r, const char *path, unsigned faults);

void results_section(results *r, char letter, const char *title);
/* A line of the table. ratios end at the first without a base; NULL: none. A series without values is left out. */
void results_row(results *r, const char *unit, const series *s, const ratio *ratios, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* A sentence under the table. */
void results_note(results *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
