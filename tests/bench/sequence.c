/* sequence.c: see sequence.h. */
#include "sequence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REDRAWS_MAX = 100000 };

const sizes sizes_large = {SNUG_GRANULE, UINT64_C(4) << 20, "to 4 MiB"};
const sizes sizes_small = {SNUG_GRANULE, UINT64_C(64) << 10, "to 64 KiB"};

uint64_t size_draw(const sizes *sizes, dice *d) {
    double   low = log((double)sizes->least), high = log((double)sizes->most);
    double   drawn    = exp(low + dice_share(d) * (high - low));
    uint64_t granules = ((uint64_t)drawn + SNUG_GRANULE - 1) / SNUG_GRANULE;
    uint64_t bytes    = granules * SNUG_GRANULE;
    return bytes < sizes->least ? sizes->least : bytes > sizes->most ? sizes->most : bytes;
}

static void fill_draw(sequence *s, const sequence_options *o, dice *d) {
    size_t room = 1024;
    s->fill     = need_memory(room, sizeof s->fill[0]);
    for (;;) {
        uint64_t bytes = size_draw(o->sizes, d);
        if (s->live_bytes + bytes > o->live_bytes)
            return;
        if (s->slots == room) {
            uint32_t *larger = need_memory(room *= 2, sizeof larger[0]);
            memcpy(larger, s->fill, s->slots * sizeof larger[0]);
            free(s->fill);
            s->fill = larger;
        }
        s->fill[s->slots++] = (uint32_t)bytes;
        s->live_bytes += bytes;
    }
}

/* Is this the sum wanted, or nearer to it than before? (A fill may end below the window.) */
static bool sum_fits(const sequence_options *o, uint64_t before, uint64_t after) {
    uint64_t least = o->live_bytes - o->window_bytes / 100;
    return after <= o->live_bytes && (after >= least || after >= before);
}

void sequence_make(sequence *s, const sequence_options *o, dice d) {
    *s = (sequence){0};
    fill_draw(s, o, &d);
    s->pairs_count = o->pairs ? o->pairs : s->slots * o->rounds;
    s->pairs       = need_memory(s->pairs_count ? s->pairs_count : 1, sizeof s->pairs[0]);
    uint32_t *now  = need_memory(s->slots, sizeof now[0]);
    memcpy(now, s->fill, s->slots * sizeof now[0]);
    for (size_t i = 0; i < s->pairs_count; i++) {
        uint64_t after;
        unsigned redraws = 0;
        pair    *p       = &s->pairs[i];
        do {
            p->slot  = (uint32_t)dice_below(&d, s->slots);
            p->bytes = (uint32_t)size_draw(o->sizes, &d);
            after    = s->live_bytes - now[p->slot] + p->bytes;
            if (redraws++ == REDRAWS_MAX)
                need(SNUG_TIMEOUT, "a sequence within its window");
        } while (!sum_fits(o, s->live_bytes, after));
        now[p->slot]  = p->bytes;
        s->live_bytes = after;
    }
    free(now);
}

void sequence_free(sequence *s) {
    free(s->fill);
    free(s->pairs);
    *s = (sequence){0};
}
