/* plan_search.h - the best plan for a small map, by exhaustive search: the fewest granules to move, one buffer at a time, each to
 * any legal place (over itself too), until a gap of the wanted size is there. Include after tap.h, in one file of the program.
 *
 * A* over layouts. What still has to move at least: the live granules of the cheapest place for the gap, since each buffer
 * there must leave it. One move changes that by no more than it costs, so the first layout with a gap is the best one.
 * Buffers of the same size and alignment are interchangeable, their places sorted; nothing else is left out. */
#ifndef SNUG_TESTS_PLAN_SEARCH_H
#define SNUG_TESTS_PLAN_SEARCH_H

#include <uthash.h>

enum { PIECES_MAX = 9, GRANULES_MAX = 64, COST_MAX = 4096, STATES_MAX = 1 << 17, MOVES_MAX = 64 };

#define IMPOSSIBLE UINT32_MAX /* a cost */
#define UNKNOWN    (UINT32_MAX - 1)

typedef struct piece {
    uint8_t at, size, alignment;
    bool    fixed;
} piece;

typedef struct puzzle {
    uint32_t granules, count, size, alignment; /* the last two: of the gap */
    piece    pieces[PIECES_MAX];               /* at first in address order */
} puzzle;

typedef struct search_move {
    uint8_t size, from, to;
} search_move;

typedef struct search_state {
    uint64_t       places; /* 6 bits for each piece */
    uint32_t       parent, spent;
    bool           closed;
    UT_hash_handle hh;
} search_state;

typedef struct search_open {
    uint32_t state, next;
} search_open;

static struct {
    search_state  states[STATES_MAX];
    search_open   open[STATES_MAX * 2];
    uint32_t      count, opened, buckets[COST_MAX + 1];
    search_state *table;
    const puzzle *puzzle;
} search;

static inline uint64_t mask_of(uint32_t at, uint32_t size) {
    return ((UINT64_C(1) << size) - 1) << at;
}

static inline uint32_t place_get(uint64_t places, uint32_t i) {
    return (uint32_t)(places >> (6 * i)) & 63;
}

static inline uint64_t place_set(uint64_t places, uint32_t i, uint32_t at) {
    return (places & ~(UINT64_C(63) << (6 * i))) | (uint64_t)at << (6 * i);
}

static inline bool same_kind(const piece *a, const piece *b) {
    return a->size == b->size && a->alignment == b->alignment && !a->fixed && !b->fixed;
}

static inline uint64_t places_sorted(const puzzle *p, uint64_t places) {
    for (uint32_t i = 0; i < p->count; i++)
        for (uint32_t k = i + 1; k < p->count; k++) {
            uint32_t low = place_get(places, i), high = place_get(places, k);
            if (same_kind(&p->pieces[i], &p->pieces[k]) && low > high)
                places = place_set(place_set(places, i, high), k, low);
        }
    return places;
}

static inline uint64_t puzzle_places(const puzzle *p) {
    uint64_t places = 0;
    for (uint32_t i = 0; i < p->count; i++)
        places = place_set(places, i, p->pieces[i].at);
    return places;
}

/* The live granules that lie where a gap would that starts at an offset; fixed ones count for IMPOSSIBLE. */
static inline uint32_t window_cost(const puzzle *p, uint64_t places, uint32_t at, uint32_t without) {
    uint32_t cost = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t place = place_get(places, i);
        if (i == without || place >= at + p->size || place + p->pieces[i].size <= at)
            continue;
        if (p->pieces[i].fixed)
            return IMPOSSIBLE;
        cost += p->pieces[i].size;
    }
    return cost;
}

/* What must move at least: 0 if the gap is there. */
static inline uint32_t least_cost(const puzzle *p, uint64_t places) {
    uint32_t least = IMPOSSIBLE;
    for (uint32_t at = 0; at + p->size <= p->granules; at += p->alignment) {
        uint32_t cost = window_cost(p, places, at, PIECES_MAX);
        least         = cost < least ? cost : least;
    }
    return least;
}

static inline void search_push(uint64_t places, uint32_t parent, uint32_t spent, uint32_t total) {
    search_state *state;
    HASH_FIND(hh, search.table, &places, sizeof places, state);
    if (state && (state->closed || state->spent <= spent))
        return;
    if (!state) {
        state  = &search.states[search.count++];
        *state = (search_state){.places = places};
        HASH_ADD(hh, search.table, places, sizeof state->places, state);
    }
    state->parent              = parent;
    state->spent               = spent;
    search.open[search.opened] = (search_open){(uint32_t)(state - search.states), search.buckets[total]};
    search.buckets[total]      = search.opened++;
}

/* For each end of the arena: the cheapest place for the gap that reaches no further than an offset from there. */
typedef struct cheapest {
    uint32_t below[GRANULES_MAX + 1], above[GRANULES_MAX + 1];
} cheapest;

static inline cheapest cheapest_without(const puzzle *p, uint64_t places, uint32_t without) {
    cheapest c;
    uint32_t cost[GRANULES_MAX + 1];
    for (uint32_t at = 0; at <= p->granules; at++)
        cost[at] =
            at % p->alignment == 0 && at + p->size <= p->granules ? window_cost(p, places, at, without) : IMPOSSIBLE;
    for (uint32_t end = 0; end <= p->granules; end++) {
        uint32_t before = end ? c.below[end - 1] : IMPOSSIBLE, here = end >= p->size ? cost[end - p->size] : IMPOSSIBLE;
        c.below[end] = here < before ? here : before;
    }
    for (uint32_t at = p->granules + 1; at-- > 0;) {
        uint32_t after = at < p->granules ? c.above[at + 1] : IMPOSSIBLE;
        c.above[at]    = cost[at] < after ? cost[at] : after;
    }
    return c;
}

/* Every place that a piece can go to. What costs limit or more altogether is left out. */
static inline void search_expand(uint32_t from, uint32_t limit) {
    const puzzle *p      = search.puzzle;
    uint64_t      places = search.states[from].places, taken = 0;
    for (uint32_t i = 0; i < p->count; i++)
        taken |= mask_of(place_get(places, i), p->pieces[i].size);
    for (uint32_t i = 0; i < p->count; i++) {
        piece    moved = p->pieces[i];
        uint32_t now = place_get(places, i), spent = search.states[from].spent + moved.size;
        uint64_t others = taken & ~mask_of(now, moved.size);
        if (moved.fixed || spent >= limit)
            continue;
        cheapest c = cheapest_without(p, places, i);
        for (uint32_t to = 0; to + moved.size <= p->granules; to += moved.alignment) {
            if (to == now || others & mask_of(to, moved.size))
                continue;
            uint32_t least = c.below[to] < c.above[to + moved.size] ? c.below[to] : c.above[to + moved.size];
            if (c.above[0] != IMPOSSIBLE && c.above[0] + moved.size < least)
                least = c.above[0] + moved.size;
            if (least != IMPOSSIBLE && spent + least < limit)
                search_push(places_sorted(p, place_set(places, i, to)), from, spent, spent + least);
        }
    }
}

/* From the state back to the first: the moves that led to it, in order. */
static inline uint32_t search_path(uint32_t state, search_move *moves) {
    const puzzle *p     = search.puzzle;
    uint32_t      count = 0;
    for (uint32_t at = state; at != 0; at = search.states[at].parent)
        count++;
    for (uint32_t at = state, k = count; at != 0; at = search.states[at].parent) {
        uint64_t after = search.states[at].places, before = search.states[search.states[at].parent].places;
        uint64_t left = 0, come = 0;
        k--;
        for (uint32_t i = 0; i < p->count; i++) {
            left |= UINT64_C(1) << place_get(before, i);
            come |= UINT64_C(1) << place_get(after, i);
        }
        if (k >= MOVES_MAX)
            continue;
        moves[k] = (search_move){0, (uint8_t)__builtin_ctzll(left & ~come), (uint8_t)__builtin_ctzll(come & ~left)};
        for (uint32_t i = 0; i < p->count; i++)
            if (place_get(before, i) == moves[k].from)
                moves[k].size = p->pieces[i].size;
    }
    return count < MOVES_MAX ? count : MOVES_MAX;
}

/* The least that must be moved, if it is less than limit: IMPOSSIBLE if it isn't, UNKNOWN if there are too many layouts to
 * tell. moves: room for MOVES_MAX, how it is done. */
static inline uint32_t search_best(const puzzle *p, uint32_t limit, search_move *moves, uint32_t *moves_count) {
    uint64_t start = places_sorted(p, puzzle_places(p));
    uint32_t least = least_cost(p, start), result = IMPOSSIBLE;
    limit        = limit < COST_MAX ? limit : COST_MAX;
    search.count = search.opened = 0;
    search.puzzle                = p;
    memset(search.buckets, 0xff, sizeof search.buckets);
    if (least < limit)
        search_push(start, 0, 0, least);
    for (uint32_t total = 0; total < limit && result == IMPOSSIBLE;) {
        uint32_t open = search.buckets[total];
        if (open == UINT32_MAX) {
            total++;
            continue;
        }
        search.buckets[total] = search.open[open].next;
        uint32_t state        = search.open[open].state;
        if (search.states[state].closed)
            continue;
        search.states[state].closed = true;
        if (search.states[state].spent == total && least_cost(p, search.states[state].places) == 0) {
            result       = total;
            *moves_count = search_path(state, moves);
        } else if (search.count > STATES_MAX - PIECES_MAX * GRANULES_MAX ||
                   search.opened > 2 * STATES_MAX - PIECES_MAX * GRANULES_MAX) {
            result = UNKNOWN;
        } else {
            search_expand(state, limit);
        }
    }
    HASH_CLEAR(hh, search.table);
    return result;
}

#endif
