/* range_model.c - the map of the arena against an array of granules, over random sequences. */
#include "tap.h"

#include "fixture.h"

static world w;

enum { MODEL = 3000, LIVES = 400 };

typedef struct model {
    uint32_t owner[MODEL]; /* 0: free */
    uint32_t fences[MODEL];
    uint32_t committed;
    uint32_t node[LIVES], lives;
} model;

static bool model_fits(const model *m, uint32_t size, uint32_t alignment) {
    uint32_t run = 0;
    for (uint32_t i = m->committed; i-- > 0;) {
        run = m->owner[i] ? 0 : run + 1;
        if (run >= size && i % alignment == 0)
            return true;
    }
    return false;
}

static const char *model_compare(const model *m) {
    uint32_t at = 0;
    for (uint32_t node = w.map.first; node != SNUG__NONE; node = snug__range_at(&w.map, node)->next) {
        const snug__range *r = snug__range_at(&w.map, node);
        for (; at < r->offset + r->size; at++) {
            if (m->owner[at] != (r->kind == SNUG__RANGE_FREE ? 0 : node + 1))
                return "a granule isn't its owner's";
            if (r->kind == SNUG__RANGE_FREE && (m->fences[at] & ~r->fence.mask))
                return "a free granule has lost its fence";
        }
    }
    return at == m->committed ? NULL : "the map doesn't end where it should";
}

static void model_own(model *m, uint32_t node) {
    const snug__range *r = snug__range_at(&w.map, node);
    for (uint32_t i = r->offset; i < r->offset + r->size; i++)
        m->owner[i] = node + 1;
}

static const char *model_alloc(model *m, dice *d) {
    uint32_t size = 1 + dice_below(d, dice_below(d, 8) ? 40 : 400), offset = 0;
    uint32_t alignment = dice_below(d, 3) ? 1 : UINT32_C(1) << dice_below(d, 11);
    uint32_t node = snug__map_find(&w.map, (snug__fit){size, alignment, false}, &offset);
    if ((node != SNUG__NONE) != model_fits(m, size, alignment))
        return node == SNUG__NONE ? "a fit exists and isn't found" : "a fit is found that doesn't exist";
    if (node == SNUG__NONE || m->lives == LIVES)
        return NULL;
    if (offset % alignment)
        return "the fit isn't aligned";
    node = snug__range_take(&w.map, node, offset, size, SNUG__RANGE_LIVE, SNUG__NONE);
    for (uint32_t i = offset; i < offset + size; i++) {
        if (m->owner[i])
            return "the fit isn't free";
        if (m->fences[i] & ~snug__range_at(&w.map, node)->fence.mask)
            return "the taken range has lost a fence";
        m->fences[i] = 0;
    }
    snug__range_at(&w.map, node)->fence = SNUG__STAMP_NONE; /* as an allocation does: it is the buffer's now */
    model_own(m, node);
    m->node[m->lives++] = node;
    return NULL;
}

static void model_release(model *m, uint32_t which, uint32_t mask) {
    const snug__range *r = snug__range_at(&w.map, m->node[which]);
    for (uint32_t i = r->offset; i < r->offset + r->size; i++) {
        m->owner[i]  = 0;
        m->fences[i] = mask;
    }
    snug__range_free(&w.map, m->node[which], (snug__stamp){mask, mask ? LATER : 0});
    m->node[which] = m->node[--m->lives];
}

static void model_resize(model *m, dice *d, uint32_t which) {
    uint32_t     node = m->node[which];
    snug__range *r    = snug__range_at(&w.map, node);
    if (dice_below(d, 2) && r->size > 1 && m->lives < LIVES) {
        uint32_t tail       = snug__range_split(&w.map, node, 1 + dice_below(d, r->size - 1));
        m->node[m->lives++] = tail;
        model_own(m, tail);
    } else if (r->next != SNUG__NONE && snug__range_at(&w.map, r->next)->kind == SNUG__RANGE_FREE) {
        uint32_t old = r->offset + r->size;
        snug__range_extend(&w.map, node, 1 + dice_below(d, snug__range_at(&w.map, r->next)->size));
        for (uint32_t i = old; i < r->offset + r->size; i++)
            m->fences[i] = 0;
        model_own(m, node);
    }
}

static void model_end(model *m, dice *d) {
    uint32_t last = w.map.last;
    if (dice_below(d, 2) && m->committed < MODEL) {
        uint32_t more = 1 + dice_below(d, MODEL - m->committed);
        more          = more > 100 ? 100 : more;
        snug__map_grow(&w.map, more);
        m->committed += more;
    } else if (last != SNUG__NONE && snug__range_at(&w.map, last)->kind == SNUG__RANGE_FREE) {
        uint32_t less = 1 + dice_below(d, snug__range_at(&w.map, last)->size);
        snug__map_shrink(&w.map, less);
        for (uint32_t i = m->committed - less; i < m->committed; i++)
            m->fences[i] = 0;
        m->committed -= less;
    }
}

static void random_sequences_agree_with_the_model(uint64_t seed) {
    static model m;
    const char  *fault = NULL;
    uint64_t     rounds = tap_scaled(20), steps = 0;
    for (uint64_t round = 0; round < rounds && !fault; round++) {
        dice d = {seed + round};
        memset(&m, 0, sizeof m);
        world_open(&w, MODEL, 65536);
        m.committed = 1 + dice_below(&d, MODEL);
        snug__map_grow(&w.map, m.committed);
        for (unsigned step = 0; step < 1500 && !fault; step++, steps++) {
            uint32_t what = dice_below(&d, 20);
            if (what < 10)
                fault = model_alloc(&m, &d);
            else if (what < 17 && m.lives)
                model_release(&m, dice_below(&d, m.lives), dice_below(&d, 3) ? 0 : 1u << dice_below(&d, 8));
            else if (what < 19 && m.lives)
                model_resize(&m, &d, dice_below(&d, m.lives));
            else
                model_end(&m, &d);
            if (!fault)
                fault = snug__map_check(&w.map);
            if (!fault && step % 16 == 0)
                fault = model_compare(&m);
        }
        world_close(&w);
        if (fault)
            diag("round %" PRIu64 " of seed %" PRIu64, round, seed);
    }
    is_string(fault, NULL, "the map and an array of granules agree over %" PRIu64 " steps", steps);
}

int main(int argc, char **argv) {
    random_sequences_agree_with_the_model(fixture_seed(argc, argv));
    return done_testing();
}
