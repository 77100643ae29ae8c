/* between.c - of simulation runs: the mode `between`, in which somebody else comes while a call is under way. One thread can
 * do that wherever the library calls the device: before a mover's copy, wait or record another client resolves a buffer,
 * launches and releases, or keeps its pin until a later such point or the end of the operation; before a client's wait
 * another thread uses the same stream; before any record another thread polls.
 *
 * The other takes what any client may: a live buffer that isn't FROZEN (it would wait, and its one thread with it), and not
 * the one that is being resized, whose size the model learns of only afterwards. It leaves no pin when the operation ends. */
#include "world.h"

enum { COMES_MAX = 3 }; /* in one operation: fewer than the library's tries, so that what fits must still be granted */

static world *here; /* one in a process */

static arena *arena_of(const snug__device *device) {
    for (unsigned k = 0; k < here->arenas; k++)
        if (here->arena[k].pool && here->arena[k].pool->device == device)
            return &here->arena[k];
    return NULL;
}

/* May a mover be met in it by a client whose buffers are as the model has them? */
static bool meets_mover(kind kind) {
    return kind == OP_ALLOC || kind == OP_RESIZE || kind == OP_COMPACT || kind == OP_TRIM || kind == OP_PIN ||
           kind == OP_COMPACTION;
}

static bool frozen(const arena *a, const buffer *b) {
    snug__entry *entry;
    return snug__handles_find(&a->pool->handles, b->handle, &entry) != SNUG_OK ||
           (atomic_load(&entry->word) & SNUG__FROZEN);
}

static bool other_leaves(world *w) {
    other *o = &w->other;
    if (!o->b)
        return true;
    buffer *b = o->b;
    o->b      = NULL;
    return launch(w, &o->draw, o->stream, &b, &o->address, &o->access, 1, true) &&
           (w->calls++, snug_release(o->a->stream[o->stream], &b->handle, 1, &o->access) == SNUG_OK);
}

static bool other_comes(world *w, arena *a, buffer *b, unsigned s) {
    other   *o      = &w->other;
    dice    *d      = &o->draw;
    void    *at     = NULL;
    unsigned stream = s;
    if (b->state != LIVE || w->intruded == COMES_MAX || frozen(a, b) || !a->stream[stream] ||
        (w->doing.kind == OP_RESIZE && b == &a->buffers[w->doing.slot % a->slots]))
        return true;
    o->access = chance(d, 50) ? SNUG_WRITE : SNUG_READ;
    w->calls++;
    EXPECT(snug_resolve(a->stream[stream], &b->handle, 1, &o->access, &at) == SNUG_OK, "another's resolve");
    w->intruded++;
    o->a       = a;
    o->b       = b;
    o->stream  = stream;
    o->address = at;
    note(w, "between: a %s of %" PRIx64 " on stream %u", o->access == SNUG_WRITE ? "write" : "read", b->handle, stream);
    return check_address(w, a, b, at) && order_use(w, b, stream, o->access == SNUG_WRITE);
}

/* At a call of the device for a mover. A failure shows when the operation ends. */
static void meet_mover(const snug__device *device) {
    world *w = here;
    dice  *d = &w->other.draw;
    if (!meets_mover(w->doing.kind) || w->other.inside || w->failed || !chance(d, 10))
        return;
    arena *a        = arena_of(device);
    w->other.inside = true;
    if (w->other.b)
        other_leaves(w);
    else if (a && a->live_count &&
             other_comes(w, a, &a->buffers[a->live[below(d, a->live_count)]], (unsigned)below(d, w->streams)) &&
             chance(d, 60))
        other_leaves(w);
    w->other.inside = false;
}

static bool is_mover(const void *native) {
    return ((const snug_sim_stream *)native)->role != SNUG__SIM_CLIENT;
}

/* At a client's wait in its resolve: another thread on that stream, for the same buffer if it is to matter. */
static void meet_client(const snug__device *device, const void *native) {
    world *w = here;
    dice  *d = &w->other.draw;
    arena *a = arena_of(device);
    if (w->doing.kind != OP_LAUNCH || !a || a != &w->arena[w->doing.arena] || w->other.inside || w->failed ||
        !chance(d, 20))
        return;
    w->other.inside = true;
    for (unsigned s = 0; s < w->streams; s++)
        if (w->native[s] == native && other_comes(w, a, &a->buffers[w->doing.slot % a->slots], s))
            other_leaves(w);
    w->other.inside = false;
}

/* ------------------------------------------------------------------------------------------------ the row */

static snug_status between_wait(snug__device *device, void *native, snug__event *event) {
    if (is_mover(native))
        meet_mover(device);
    else
        meet_client(device, native);
    return snug__device_sim.stream_wait(device, native, event);
}

static snug_status between_record(snug__device *device, snug__event *event, void *native) {
    arena *a = arena_of(device);
    if (is_mover(native))
        meet_mover(device);
    if (a && !here->other.inside && chance(&here->other.draw, 5)) { /* inside, a poll may be under way */
        here->other.inside = true;
        snug__order_poll(&a->pool->order);
        here->other.inside = false;
    }
    return snug__device_sim.event_record(device, event, native);
}

static snug_status between_query(snug__device *device, snug__event *event, bool *complete) {
    meet_mover(device);
    return snug__device_sim.event_query(device, event, complete);
}

static snug_status between_move(snug__device *device, void *native, const snug__copy *copies, uint32_t n) {
    meet_mover(device);
    return snug__device_sim.move(device, native, copies, n);
}

static snug__device_row row;

const snug__device_row *between_row(world *w) {
    here             = w;
    row              = snug__device_sim;
    row.stream_wait  = between_wait;
    row.event_record = between_record;
    row.event_query  = between_query;
    row.move         = between_move;
    return &row;
}

void between_begin(world *w, op o) {
    w->intruded   = 0;
    w->other.draw = (dice){o.r ^ UINT64_C(0x5bd1e995)};
}

bool between_end(world *w) {
    w->other.inside = true; /* nobody comes while it leaves */
    bool left       = other_leaves(w);
    w->other.inside = false;
    EXPECT(left || w->failed, "another's release");
    return !w->failed;
}
