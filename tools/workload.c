/* workload.c - see workload.h. State lives in client.state; the client's own thread is the only one here. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "workload.h"
#include "models.h"

#define SLOTS_MIN 256u
#define SLOTS_MAX (1u << 20)

static uint32_t slots_within(uint64_t wanted) {
    return wanted < SLOTS_MIN ? SLOTS_MIN : wanted > SLOTS_MAX ? SLOTS_MAX : (uint32_t)wanted;
}

static buffer *at(client *c, uint32_t slot) { return &c->buffers[slot]; }

static void drop(client *c, uint32_t slot) {
    client_free(c, slot);
    client_slot_give(c, slot);
}

static void launch_list(client *c, uint32_t stream, client_list *list) {
    if (list->n) client_launch(c, stream, list->buffers, list->access, list->n);
    list->n = 0;
}

/* The stream on which to use the buffer first in a launch. */
static uint32_t stream_for(client *c, const buffer *b) {
    uint32_t any = client_below(c, c->run->n_streams);
    return b->flags & BUFFER_ROAMS ? any : b->home;
}

/* ---------------------------------------------------------------------------------------------- the target */

static void target_start(client *c) { c->target = c->run->share / 2; }

/* 1 KiB per step at 256 MiB of capacity, so that a rise takes as many steps whatever the capacity. */
static void target_rise(client *c) {
    uint64_t rise = c->run->capacity >> 18;
    c->target += rise ? rise : 1;
    if (c->target > c->run->share / 100 * 104) c->target = c->run->share / 100 * 70;
}

/* ---------------------------------------------------------------------------------------------- mixed */

typedef struct mixed {
    uint32_t clock; /* steps; lives are counted in them */
} mixed;

static bool mixed_open(client *c) {
    uint64_t most = c->run->max_size, octaves = 64u - (uint64_t)__builtin_clzll(most / SNUG_GRANULE);
    target_start(c);
    return client_reserve(c, slots_within(2 * c->run->share / most * octaves), sizeof(mixed));
}

/* The one of four that expires first: what was born for a short life goes soon, but nothing is certain. */
static uint32_t mixed_victim(client *c) {
    uint32_t now = ((mixed *)c->state)->clock, victim = client_slot_pick(c);
    for (int i = 0; i < 3; i++) {
        uint32_t other = client_slot_pick(c);
        if ((int32_t)(at(c, other)->expires - now) < (int32_t)(at(c, victim)->expires - now)) victim = other;
    }
    return victim;
}

static uint32_t mixed_life(client *c, uint64_t size) {
    bool     small = size < c->run->max_size / 64;
    bool     lasts = client_below(c, 16) < (small ? 8u : 3u);
    uint32_t n = c->n_live + 1;
    return lasts ? n + client_below(c, 8 * n) : client_below(c, n / 4 + 1);
}

static void mixed_launch(client *c, uint32_t newest) {
    client_list list = {.n = 0};
    buffer     *first = at(c, client_chance(c, 4) ? client_slot_pick(c) : newest);
    uint32_t    stream = stream_for(c, first), tries = 2 * client_below(c, CLIENT_LAUNCH_MAX);
    client_list_add(&list, stream, first, client_chance(c, 2) ? SNUG_READ : SNUG_WRITE);
    for (uint32_t i = 0; i < tries; i++) {
        snug_access access = client_chance(c, 2) ? SNUG_READ : SNUG_WRITE;
        client_list_add(&list, stream, at(c, client_slot_pick(c)), access);
    }
    if (c->run->n_shared && client_chance(c, 4))
        client_list_add(&list, stream, &c->run->shared[client_below(c, c->run->n_shared)], SNUG_READ);
    client_launch(c, stream, list.buffers, list.access, list.n);
    if (client_chance(c, 8)) drop(c, (uint32_t)(first - c->buffers)); /* behind the launch, nothing synchronised */
}

static void mixed_resize(client *c) {
    uint32_t slot = client_slot_pick(c);
    uint64_t old = at(c, slot)->nominal, most = c->run->max_size;
    uint64_t size = client_between(c, old / 2 + 1, old * 2 + SNUG_GRANULE);
    if (!(at(c, slot)->flags & BUFFER_PINNED)) client_resize(c, slot, size < most ? size : most);
}

static void mixed_step(client *c) {
    mixed   *m = c->state;
    uint64_t size = client_log_uniform(c, SNUG_GRANULE, c->run->max_size);
    if (client_chance(c, 1024)) size = 0;
    target_rise(c);
    m->clock++;
    while (c->n_live && (!c->n_free || c->nominal + report_rounded(size) > c->target)) drop(c, mixed_victim(c));
    uint32_t slot = client_slot_take(c);
    client_alloc(c, slot, size, 0);
    at(c, slot)->expires = m->clock + mixed_life(c, size);
    if (client_below(c, 8) < 5) mixed_launch(c, slot);
    if (c->n_live && client_chance(c, 16)) mixed_resize(c);
}

/* ---------------------------------------------------------------------------------------------- kv */

#define KV_UNITS 64 /* longest sequence, in growths of 16 tokens */

typedef struct kv {
    uint64_t unit; /* bytes of 16 tokens */
} kv;

static bool kv_open(client *c) {
    target_start(c);
    if (!client_reserve(c, slots_within(16 * c->run->share / c->run->max_size), sizeof(kv))) return false;
    uint64_t unit = c->run->max_size / KV_UNITS;
    ((kv *)c->state)->unit = unit > 16 ? unit - unit % 16 : 16;
    return true;
}

static void kv_launch(client *c, buffer *b) {
    client_list list = {.n = 0};
    uint32_t    stream = stream_for(c, b), others = client_below(c, 3);
    client_list_add(&list, stream, b, SNUG_WRITE);
    for (uint32_t i = 0; i < others; i++) client_list_add(&list, stream, at(c, client_slot_pick(c)), SNUG_READ);
    launch_list(c, stream, &list);
}

/* expires: the length at which the sequence ends. */
static void kv_admit(client *c) {
    uint64_t unit = ((kv *)c->state)->unit;
    uint32_t prompt = 1 + client_below(c, KV_UNITS / 2), last = prompt + client_below(c, KV_UNITS - prompt + 1);
    uint32_t slot = client_slot_take(c);
    client_alloc(c, slot, prompt * unit, client_chance(c, 4) ? last * unit : 0);
    at(c, slot)->expires = last;
    kv_launch(c, at(c, slot));
}

static void kv_step(client *c) {
    uint64_t unit = ((kv *)c->state)->unit;
    bool     arrives = client_chance(c, 4);
    target_rise(c);
    if (c->n_free && c->nominal < c->target && (arrives || !c->n_live)) {
        kv_admit(c);
        return;
    }
    if (!c->n_live) return;
    uint32_t slot = client_slot_pick(c);
    buffer  *b = at(c, slot);
    bool     fixed = b->flags & BUFFER_PINNED, over = c->nominal > c->target;
    bool     ended = fixed ? client_chance(c, KV_UNITS) : b->nominal / unit >= b->expires;
    if (ended || (over && client_chance(c, 2))) {
        drop(c, slot);
        return;
    }
    if (!fixed) client_resize(c, slot, b->nominal + unit);
    if (client_chance(c, 2)) kv_launch(c, b);
}

/* ---------------------------------------------------------------------------------------------- swap */

#define SWAP_ACTIVATIONS 8

typedef struct swap {
    double      scale;
    uint32_t    first[MODELS_N + 1]; /* slot of a model's first tensor; last: of the activations */
    uint64_t    bytes[MODELS_N];     /* scaled and rounded */
    bool        loaded[MODELS_N];
    uint32_t    used[MODELS_N]; /* clock of its last use */
    uint32_t    clock, next_activation;
    bool        active[SWAP_ACTIVATIONS];
    client_list lists[CLIENT_STREAMS_MAX]; /* launches being put together, by stream */
} swap;

static bool swap_open(client *c) {
    const struct models *m = c->run->models;
    uint32_t             slots = SWAP_ACTIVATIONS;
    for (int i = 0; i < MODELS_N; i++) slots += m->all[i].n;
    if (!client_reserve(c, slots, sizeof(swap))) return false;
    swap *s = c->state;
    s->scale = models_scale(m, c->run->share);
    for (int i = 0; i < MODELS_N; i++) {
        s->first[i + 1] = s->first[i] + m->all[i].n;
        for (uint32_t t = 0; t < m->all[i].n; t++)
            s->bytes[i] += report_rounded(models_scaled(m->all[i].tensors[t], s->scale));
    }
    return true;
}

static uint64_t swap_activation_max(const client *c) {
    uint64_t most = c->run->share / 64;
    if (most > c->run->max_size) most = c->run->max_size;
    return most > SNUG_GRANULE ? most : SNUG_GRANULE;
}

/* The oldest activation goes, a new one comes and is written. */
static void swap_activation(client *c) {
    swap    *s = c->state;
    uint32_t i = s->next_activation++ % SWAP_ACTIVATIONS, slot = s->first[MODELS_N] + i;
    if (s->active[i]) client_free(c, slot);
    s->active[i] = true;
    client_alloc(c, slot, client_log_uniform(c, SNUG_GRANULE, swap_activation_max(c)), 0);
    client_list list = {.n = 0};
    uint32_t    stream = stream_for(c, at(c, slot));
    client_list_add(&list, stream, at(c, slot), SNUG_WRITE);
    launch_list(c, stream, &list);
}

/* Launches go out by stream, when eight buffers have come together. */
static void swap_use(client *c, uint32_t slot, snug_access access) {
    swap        *s = c->state;
    client_list *list = &s->lists[at(c, slot)->home];
    client_list_add(list, at(c, slot)->home, at(c, slot), access);
    if (list->n == CLIENT_LAUNCH_MAX) launch_list(c, at(c, slot)->home, list);
}

static void swap_flush(client *c) {
    for (uint32_t i = 0; i < c->run->n_streams; i++) launch_list(c, i, &((swap *)c->state)->lists[i]);
}

static void swap_unload(client *c, int which) {
    swap *s = c->state;
    for (uint32_t slot = s->first[which]; slot < s->first[which + 1]; slot++) client_free(c, slot);
    s->loaded[which] = false;
}

static void swap_load(client *c, int which) {
    swap           *s = c->state;
    const uint64_t *tensors = c->run->models->all[which].tensors;
    for (uint32_t slot = s->first[which]; slot < s->first[which + 1]; slot++) {
        client_alloc(c, slot, models_scaled(tensors[slot - s->first[which]], s->scale), 0);
        swap_use(c, slot, SNUG_WRITE);
        if (client_chance(c, 16)) swap_activation(c);
    }
    swap_flush(c);
    s->loaded[which] = true;
}

static void swap_infer(client *c, int which) {
    swap *s = c->state;
    for (uint32_t slot = s->first[which]; slot < s->first[which + 1] && !c->done; slot++) {
        swap_use(c, slot, SNUG_READ);
        if (client_chance(c, 32)) swap_activation(c);
    }
    swap_flush(c);
}

static int swap_least_recent(const swap *s) {
    int least = -1;
    for (int i = 0; i < MODELS_N; i++)
        if (s->loaded[i] && (least < 0 || s->used[i] < s->used[least])) least = i;
    return least;
}

static void swap_step(client *c) {
    swap *s = c->state;
    int   which = (int)client_below(c, MODELS_N);
    if (!s->loaded[which]) {
        uint64_t room = c->run->share - swap_activation_max(c);
        while (c->nominal + s->bytes[which] > room && swap_least_recent(s) >= 0) swap_unload(c, swap_least_recent(s));
        swap_load(c, which);
    }
    s->used[which] = ++s->clock;
    for (uint32_t passes = 1 + client_below(c, 2); passes > 0 && !c->done; passes--) swap_infer(c, which);
}

/* ---------------------------------------------------------------------------------------------- train */

#define TRAIN_SURVIVORS 512
#define TRAIN_FACTOR    1024 /* sizes are multiplied by something / this */

typedef struct train {
    uint32_t iteration, factor;
    uint32_t survivors[TRAIN_SURVIVORS], n_survivors; /* slots, oldest first */
    uint64_t survivor_bytes;
    uint32_t n_stack, stack[]; /* slots of the activations, in the order of the forward pass */
} train;

static bool train_open(client *c) {
    uint32_t slots = slots_within(16 * c->run->share / c->run->max_size);
    target_start(c);
    if (!client_reserve(c, slots, sizeof(train) + slots * sizeof(uint32_t))) return false;
    ((train *)c->state)->factor = TRAIN_FACTOR;
    return true;
}

static uint64_t train_size(const client *c, uint32_t layer) {
    static const uint64_t sixteenths[8] = {8, 2, 2, 8, 4, 16, 1, 3};
    const train          *t = c->state;
    uint64_t              size = c->run->max_size / 16 * sixteenths[layer % 8] / TRAIN_FACTOR * t->factor;
    return size ? size : 1;
}

static void train_drop_survivor(client *c, uint32_t index) {
    train   *t = c->state;
    uint32_t slot = t->survivors[index];
    t->survivor_bytes -= report_rounded(at(c, slot)->nominal);
    drop(c, slot);
    t->n_survivors--;
    for (uint32_t i = index; i < t->n_survivors; i++) t->survivors[i] = t->survivors[i + 1];
}

/* Optimizer states, logged tensors: allocated in the midst of the activations, alive for many iterations. */
static void train_survive(client *c) {
    train   *t = c->state;
    uint64_t least = SNUG_GRANULE, most = c->run->max_size / 4 > least ? c->run->max_size / 4 : least;
    uint64_t size = client_log_uniform(c, least, most);
    uint32_t life = 5 + client_below(c, 60);
    if (t->n_survivors == TRAIN_SURVIVORS || !c->n_free) return;
    uint32_t slot = client_slot_take(c);
    client_alloc(c, slot, size, 0);
    at(c, slot)->expires = t->iteration + life;
    t->survivors[t->n_survivors++] = slot;
    t->survivor_bytes += report_rounded(size);
    client_list list = {.n = 0};
    client_list_add(&list, at(c, slot)->home, at(c, slot), SNUG_WRITE);
    launch_list(c, at(c, slot)->home, &list);
}

/* A layer reads what the layer before wrote, if that is on its stream, and writes its own. */
static void train_forward(client *c) {
    train *t = c->state;
    while (c->n_free > 1 && !c->done) {
        uint64_t size = train_size(c, t->n_stack);
        target_rise(c);
        if (c->nominal + report_rounded(size) > c->target) break;
        uint32_t    slot = client_slot_take(c);
        client_list list = {.n = 0};
        client_alloc(c, slot, size, 0);
        uint32_t stream = stream_for(c, at(c, slot));
        client_list_add(&list, stream, at(c, slot), SNUG_WRITE);
        if (t->n_stack) client_list_add(&list, stream, at(c, t->stack[t->n_stack - 1]), SNUG_READ);
        if (t->n_survivors)
            client_list_add(&list, stream, at(c, t->survivors[client_below(c, t->n_survivors)]), SNUG_READ);
        launch_list(c, stream, &list);
        t->stack[t->n_stack++] = slot;
        if (client_chance(c, 12)) train_survive(c);
        target_rise(c); /* once more for the backward pass */
    }
}

static void train_backward(client *c) {
    train *t = c->state;
    while (t->n_stack) {
        uint32_t    slot = t->stack[--t->n_stack];
        buffer     *activation = at(c, slot);
        uint32_t    stream = stream_for(c, activation);
        bool        gradient = client_chance(c, 2) && c->n_free;
        uint32_t    other = gradient ? client_slot_take(c) : 0;
        client_list list = {.n = 0};
        client_list_add(&list, stream, activation, SNUG_READ);
        if (gradient) {
            client_alloc(c, other, activation->nominal, 0);
            client_list_add(&list, stream, at(c, other), SNUG_WRITE);
        }
        launch_list(c, stream, &list);
        drop(c, slot);
        if (gradient) drop(c, other);
    }
}

static void train_step(client *c) {
    train *t = c->state;
    t->iteration++;
    for (uint32_t i = t->n_survivors; i-- > 0;)
        if (at(c, t->survivors[i])->expires <= t->iteration) train_drop_survivor(c, i);
    while (t->n_survivors && t->survivor_bytes > c->run->share / 3) train_drop_survivor(c, 0);
    train_forward(c);
    train_backward(c);
    t->factor += client_below(c, 65);
    t->factor -= 32;
    if (t->factor > TRAIN_FACTOR) t->factor = TRAIN_FACTOR;
    if (t->factor < TRAIN_FACTOR / 2) t->factor = TRAIN_FACTOR / 2;
}

/* ---------------------------------------------------------------------------------------------- powers */

#define POWERS_BUFFERS_MAX 8192 /* of the smallest size, about */

typedef struct powers {
    uint32_t first, last, now; /* sizes are 2 to the power of these */
    uint32_t n_order, order[]; /* slots, in order of allocation */
} powers;

static uint32_t floor_log2(uint64_t x) { return 63u - (uint32_t)__builtin_clzll(x); }

static bool powers_open(client *c) {
    uint32_t last = floor_log2(c->run->max_size), lowest = floor_log2(SNUG_GRANULE);
    uint32_t first = floor_log2(c->run->share / POWERS_BUFFERS_MAX | 1);
    if (first + 1 > last) first = last - 1;
    if (first < lowest) first = lowest;
    uint32_t slots = slots_within((c->run->share >> first) + 1);
    if (!client_reserve(c, slots, sizeof(powers) + slots * sizeof(uint32_t))) return false;
    powers *p = c->state;
    p->first = p->now = first;
    p->last = last;
    return true;
}

static void powers_launch(client *c, client_list lists[], uint32_t slot, snug_access access) {
    uint32_t stream = at(c, slot)->home;
    client_list_add(&lists[stream], stream, at(c, slot), access);
    if (lists[stream].n == CLIENT_LAUNCH_MAX) launch_list(c, stream, &lists[stream]);
}

static void powers_fill(client *c) {
    powers     *p = c->state;
    uint64_t    size = UINT64_C(1) << p->now;
    client_list lists[CLIENT_STREAMS_MAX] = {{.n = 0}};
    while (c->n_free && c->nominal + size <= c->run->share && !c->done) {
        uint32_t slot = client_slot_take(c);
        client_alloc(c, slot, size, 0);
        p->order[p->n_order++] = slot;
        powers_launch(c, lists, slot, SNUG_WRITE);
    }
    for (uint32_t s = 0; s < c->run->n_streams; s++) launch_list(c, s, &lists[s]);
}

/* Every other buffer goes, so that no hole is larger than what filled it; what stays is read through. */
static void powers_thin(client *c, bool all) {
    powers     *p = c->state;
    uint32_t    kept = 0;
    client_list lists[CLIENT_STREAMS_MAX] = {{.n = 0}};
    for (uint32_t i = 0; i < p->n_order; i++) {
        uint32_t slot = p->order[i];
        if (all || i % 2) {
            drop(c, slot);
            continue;
        }
        p->order[kept++] = slot;
        powers_launch(c, lists, slot, SNUG_READ);
    }
    p->n_order = kept;
    for (uint32_t s = 0; s < c->run->n_streams; s++) launch_list(c, s, &lists[s]);
}

static void powers_step(client *c) {
    powers *p = c->state;
    powers_fill(c);
    bool at_end = p->now == p->last;
    powers_thin(c, at_end);
    p->now = at_end ? p->first : p->now + 1;
}

/* ---------------------------------------------------------------------------------------------- all */

const char *const workload_names[] = {"mixed", "kv", "swap", "train", "powers", NULL};

const workload workload_table[WORKLOAD_N] = {
    [WORKLOAD_MIXED] = {mixed_open, mixed_step, false, true},
    [WORKLOAD_KV] = {kv_open, kv_step, false, false},
    [WORKLOAD_SWAP] = {swap_open, swap_step, true, false},
    [WORKLOAD_TRAIN] = {train_open, train_step, false, false},
    [WORKLOAD_POWERS] = {powers_open, powers_step, false, false},
};
