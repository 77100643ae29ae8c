/* histogram.c - see histogram.h. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "histogram.h"

#include <string.h>

void histogram_reset(histogram *h) { memset(h, 0, sizeof *h); }

void histogram_merge(histogram *into, const histogram *from) {
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) into->buckets[i] += from->buckets[i];
    into->count += from->count;
    if (from->max > into->max) into->max = from->max;
}

static uint64_t bucket_middle(uint32_t index) {
    uint32_t sub = 1u << HISTOGRAM_SUB_BITS;
    if (index < 2 * sub) return index;
    uint32_t shift = index / sub - 1;
    uint64_t first = (uint64_t)(sub + index % sub) << shift;
    return first + ((uint64_t)1 << shift) / 2;
}

uint64_t histogram_percentile(const histogram *h, double share) {
    if (!h->count) return 0;
    double   exact = share * (double)h->count;
    uint64_t wanted = (uint64_t)exact;
    if ((double)wanted < exact) wanted++;
    if (wanted < 1) wanted = 1;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen < wanted) continue;
        uint64_t middle = bucket_middle(i);
        return middle < h->max ? middle : h->max;
    }
    return h->max;
}

histogram_summary histogram_summarise(const histogram *h) {
    histogram_summary s = {
        .count = h->count,
        .p50 = histogram_percentile(h, 0.5),
        .p99 = histogram_percentile(h, 0.99),
        .p999 = histogram_percentile(h, 0.999),
        .max = h->max,
    };
    return s;
}
