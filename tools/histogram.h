/* histogram.h - a log-linear histogram of latencies: fixed memory, a few ns per record, at most 0.8 % error.
 *
 * Values below 64 have a bucket each; above, every power of two is cut into 64 buckets. A histogram is a plain struct
 * of some 19 KB without pointers: zeroed is empty. One thread records into one; merge them afterwards.
 */
#ifndef SNUG_TOOLS_HISTOGRAM_H
#define SNUG_TOOLS_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS   6  /* 64 buckets per power of two */
#define HISTOGRAM_VALUE_BITS 42 /* values up to 2^42 - 1 (73 minutes in ns); larger ones count as that */
#define HISTOGRAM_BUCKETS    ((HISTOGRAM_VALUE_BITS - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS)

typedef struct histogram {
    uint64_t count, max;
    uint64_t buckets[HISTOGRAM_BUCKETS];
} histogram;

/* Three percentiles, as the report prints them. All 0 when nothing was recorded. */
typedef struct histogram_summary {
    uint64_t count, p50, p99, p999, max;
} histogram_summary;

static inline uint32_t histogram__index(uint64_t value) {
    if (value >> HISTOGRAM_VALUE_BITS) return HISTOGRAM_BUCKETS - 1;
    if (value < (1u << HISTOGRAM_SUB_BITS)) return (uint32_t)value;
    uint32_t shift = 63u - (uint32_t)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
    return (shift << HISTOGRAM_SUB_BITS) + (uint32_t)(value >> shift);
}

static inline void histogram_record(histogram *h, uint64_t value) {
    h->buckets[histogram__index(value)]++;
    h->count++;
    if (value > h->max) h->max = value;
}

void histogram_reset(histogram *h);

/* Adds what from holds to into. */
void histogram_merge(histogram *into, const histogram *from);

/* The smallest recorded value (middle of its bucket, never above max) that at least the given share of all values does
 * not exceed; share from 0 to 1, as 0.999. 0 when empty. */
uint64_t histogram_percentile(const histogram *h, double share);

histogram_summary histogram_summarise(const histogram *h);

#endif
