/* ops_pool.c - whole pools through the public calls against a plain model, on a device whose work is as late as the input
 * decides: who is granted and who refused, what the figures are, and every byte of every buffer. One thread, two streams.
 * The pool is checked after every operation. */
#include "tap.h"

#include "client.h"
#include "fuzz/fuzz.h"
#include "options.h"
#include "pool.h"

#include "fuzz/manual_device.h"

enum {
    BUFFERS      = 20,
    STREAMS      = 2,
    HELD         = 12,
    HELD_HANDLES = 3,
    OPS_MAX      = 200,
    BYTES        = FD_GRANULES_MAX * SNUG_GRANULE,
    SCRATCH      = 1 << 20,
    PIECE        = 600
};

typedef struct buffer {
    enum { NOBODY, LIVE, DYING } state;
    snug_handle   handle;
    uint64_t      size, alignment;
    uint32_t      pins, long_pins, flags;
    unsigned      users;     /* streams with work on it that the next use must wait for */
    unsigned      pin_users; /* streams that used it by its address since it was pinned long */
    char         *address;   /* while pinned either way */
    unsigned char data[BYTES], defined[BYTES];
} buffer;

typedef struct held { /* resolved and not yet released */
    unsigned    stream;
    size_t      n;
    snug_handle handles[HELD_HANDLES];
    snug_access access[HELD_HANDLES];
    uint32_t    which[HELD_HANDLES];
} held;

static struct {
    snug_pool        *pool;
    snug_pool_options options;
    fd_stream        *native[STREAMS];
    snug_stream      *stream[STREAMS];
    uint64_t          capacity; /* granules */
    buffer            buffers[BUFFERS];
    held              held[HELD];
    unsigned          held_count, values;
    snug_handle       gone[64]; /* handles that are dead */
    unsigned          gone_count;
    unsigned char     scratch[SCRATCH]; /* host memory of work under way */
    uint32_t          scratch_used;
    bool              late; /* a budget has been used: a move may be under way between calls */
} w;

static void log_line(void *context, int level, const char *line) {
    (void)context;
    EXPECT(level != SNUG_LOG_ERRORS, "%s", line);
}

/* ------------------------------------------------------------------------------------------------ the model */

typedef struct sums {
    uint64_t live_bytes, live, pending, free, pinned; /* granules but for the first */
    uint64_t slack;                                   /* what larger alignments may waste */
    unsigned lives, dying, held, fixed;
} sums;

FUZZ_MODEL static sums model_sums(void) {
    sums s = {0};
    for (unsigned i = 0; i < BUFFERS; i++) {
        const buffer *b     = &w.buffers[i];
        bool          fixed = b->long_pins || b->flags & SNUG_ALLOC_IMMOVABLE;
        if (b->state == DYING) {
            s.pending += granules_of(b->size);
            s.dying++;
        }
        if (b->state != LIVE)
            continue;
        s.lives++;
        s.live_bytes += b->size;
        s.live += granules_of(b->size);
        s.slack += b->size ? b->alignment / SNUG_GRANULE - 1 : 0;
        s.held += b->pins > 0;
        s.fixed += fixed;
        s.pinned += fixed ? granules_of(b->size) : 0;
    }
    s.free = w.capacity - s.live - s.pending;
    return s;
}

FUZZ_MODEL static void model_compare(void) {
    sums       s = model_sums();
    snug_stats t = client_stats(w.pool);
    EXPECT(snug_pool_check(w.pool) == SNUG_OK, "the pool is broken");
    EXPECT(t.live_bytes == s.live_bytes && t.padding_bytes == GRANULES(s.live) - s.live_bytes, "live bytes");
    EXPECT(t.pending_bytes == GRANULES(s.pending), "pending %llu", (unsigned long long)t.pending_bytes);
    EXPECT(t.free_bytes + t.in_flight_bytes + t.limit_bytes - t.committed_bytes == GRANULES(s.free), "free bytes");
    EXPECT(t.live_bytes + t.padding_bytes + t.free_bytes + t.pending_bytes + t.in_flight_bytes + t.bounce_bytes ==
                   t.committed_bytes &&
               t.committed_bytes <= t.limit_bytes,
           "I3");
    EXPECT(t.pinned_bytes == GRANULES(s.pinned), "pinned %llu, model %llu", (unsigned long long)t.pinned_bytes,
           (unsigned long long)GRANULES(s.pinned));
    EXPECT(t.handles_live == s.lives && t.buffers.current == s.lives, "handles");
    EXPECT(t.in_flight_bytes == 0 || w.late, "in flight between calls");
    EXPECT(t.largest_hole_bytes <= t.free_bytes && (t.holes == 0) == (t.free_bytes == 0), "holes");
    for (unsigned i = 0; i < BUFFERS; i++) {
        const buffer *b = &w.buffers[i];
        if (b->state != LIVE)
            continue;
        snug_handle_info info = client_info(w.pool, b->handle);
        EXPECT(info.size == b->size && info.alignment == b->alignment, "size %llu", (unsigned long long)info.size);
        EXPECT(info.pins == b->pins + (b->long_pins > 0) || info.pins == b->pins, "%u pins", info.pins);
        EXPECT(info.long_pins == b->long_pins, "%u long pins", info.long_pins);
        if (b->size)
            EXPECT(info.offset % b->alignment == 0, "alignment");
        if (b->address)
            EXPECT(b->address == fd.memory + info.offset, "a pinned buffer has moved");
    }
}

/* Was a request for so many granules more answered rightly? */
static void model_verdict(snug_status status, uint64_t need, uint64_t slack, bool settled) {
    sums s      = model_sums();
    bool bounds = w.options.compaction_off || w.options.demand_bytes_max || settled;
    if (s.free < need) {
        EXPECT(status == (s.free + s.pending >= need ? SNUG_PENDING : SNUG_CAPACITY),
               "%s: need %u, free %u, pending %u", snug_status_name(status), (unsigned)need, (unsigned)s.free,
               (unsigned)s.pending);
    } else if (status != SNUG_OK) {
        EXPECT(bounds || s.held + s.fixed + s.pending > 0 || s.free < need + s.slack + slack,
               "it fits: need %u, free %u, but %s", (unsigned)need, (unsigned)s.free, snug_status_name(status));
        EXPECT((status == SNUG_PINNED && s.held + s.fixed + s.dying > 0) ||
                   (status == SNUG_PENDING && (s.pending || settled)) ||
                   (status == SNUG_CAPACITY && s.slack + slack > 0) || (status == SNUG_FRAGMENTED && bounds),
               "%s: need %u, free %u, pending %u", snug_status_name(status), (unsigned)need, (unsigned)s.free,
               (unsigned)s.pending);
    }
}

static void model_refusal(snug_status status, uint64_t size) {
    sums         s = model_sums();
    snug_refusal r = client_refusal();
    if (status < SNUG_LIMIT || status > SNUG_DEVICE)
        return;
    EXPECT(r.verdict == status && r.request_bytes == size, "the refusal is of another request");
    EXPECT(r.live_bytes == s.live_bytes && r.pending_bytes == GRANULES(s.pending) &&
               r.pinned_bytes == GRANULES(s.pinned),
           "figures");
}

static buffer *pick(fuzz_input *in, int state) {
    unsigned n = fuzz_byte(in), count = 0;
    for (unsigned i = 0; i < BUFFERS; i++)
        count += (int)w.buffers[i].state == state;
    if (!count)
        return NULL;
    n %= count;
    for (unsigned i = 0;; i++)
        if ((int)w.buffers[i].state == state && n-- == 0)
            return &w.buffers[i];
}

static unsigned char *scratch(uint32_t bytes) {
    if (w.scratch_used + bytes > SCRATCH)
        return NULL;
    w.scratch_used += bytes;
    return w.scratch + w.scratch_used - bytes;
}

static void model_gone(buffer *b) {
    if (b->pins == 0 && b->long_pins == 0)
        b->state = NOBODY;
}

static void model_dead(snug_handle handle) {
    w.gone[w.gone_count++ % 64] = handle;
}

/* ------------------------------------------------------------------------------------------------ use */

/* What two streams do with one buffer is the client's to order. */
static void order_use(buffer *b, unsigned stream) {
    if (b->users & ~(1u << stream))
        fd_wait_stream(w.native[stream], w.native[1 - stream]);
    b->users = 1u << stream;
}

/* A kernel at an address: a look at a piece, and, if it writes, another value in part of it. */
static void launch(fuzz_input *in, buffer *b, char *address, unsigned stream, bool writes, const char *what) {
    if (!b->size)
        return;
    uint64_t       from   = fuzz_below(in, (uint32_t)b->size);
    uint32_t       bytes  = (uint32_t)(b->size - from < PIECE ? b->size - from : PIECE);
    unsigned char *memory = scratch(2 * bytes);
    if (!memory)
        return;
    fd_op op = {.kind = FD_KERNEL};
    memcpy(memory, b->data + from, bytes);
    memcpy(memory + bytes, b->defined + from, bytes);
    op.kernel = (fd_kernel){.at       = (unsigned char *)address + from,
                            .expected = memory,
                            .defined  = memory + bytes,
                            .check    = bytes,
                            .what     = what};
    if (writes) {
        op.kernel.from  = fuzz_byte(in) % bytes;
        op.kernel.put   = bytes - op.kernel.from;
        op.kernel.value = (unsigned char)++w.values;
        memset(b->data + from + op.kernel.from, op.kernel.value, op.kernel.put);
        memset(b->defined + from + op.kernel.from, 1, op.kernel.put);
    }
    order_use(b, stream);
    fd_enqueue(w.native[stream], op);
}

/* Reads by the call and looks at what came, on the stream. */
static bool read_and_check(buffer *b, unsigned stream, uint64_t from, uint32_t bytes, const char *what) {
    unsigned char *memory = bytes ? scratch(3 * bytes) : NULL;
    if (bytes && !memory)
        return false;
    order_use(b, stream);
    EXPECT(snug_read(w.stream[stream], b->handle, from, memory, bytes) == SNUG_OK, "read");
    if (!bytes)
        return true;
    memcpy(memory + bytes, b->data + from, bytes);
    memcpy(memory + 2 * bytes, b->defined + from, bytes);
    fd_op op = {
        .kind   = FD_KERNEL,
        .kernel = {
            .at = memory, .expected = memory + bytes, .defined = memory + 2 * bytes, .check = bytes, .what = what}};
    fd_enqueue(w.native[stream], op);
    return true;
}

static void do_transfer(fuzz_input *in) {
    buffer  *b   = pick(in, LIVE);
    uint32_t how = fuzz_byte(in), stream = how & 1;
    if (!b)
        return;
    uint64_t from  = b->size ? fuzz_below(in, (uint32_t)b->size) : 0;
    uint32_t bytes = (uint32_t)(b->size - from < PIECE || how & 64 ? b->size - from : PIECE);
    if (how & 128) { /* beyond the end */
        unsigned char byte[1];
        EXPECT(snug_fill(w.stream[stream], b->handle, b->size - bytes + 1, 1, bytes) == SNUG_RANGE, "beyond the end");
        EXPECT(snug_write(w.stream[stream], b->handle, UINT64_MAX, byte, 1) == SNUG_RANGE, "far beyond the end");
        return;
    }
    unsigned char *memory = how & 8 ? scratch(bytes) : NULL;
    switch (how >> 1 & 3) {
    case 0: read_and_check(b, stream, from, bytes, "a read"); break;
    case 1:
        order_use(b, stream);
        if (memory) {
            memset(memory, (unsigned char)++w.values, bytes);
            EXPECT(snug_write(w.stream[stream], b->handle, from, memory, bytes) == SNUG_OK, "write");
        } else {
            EXPECT(snug_fill(w.stream[stream], b->handle, from, (unsigned char)++w.values, bytes) == SNUG_OK, "fill");
        }
        memset(b->data + from, (unsigned char)w.values, bytes);
        memset(b->defined + from, 1, bytes);
        break;
    default: { /* one to another, or within one */
        buffer  *to = pick(in, LIVE);
        uint64_t at = to->size > bytes ? fuzz_below(in, (uint32_t)(to->size - bytes + 1)) : 0;
        bytes       = to->size < bytes ? (uint32_t)to->size : bytes;
        bool over   = to == b && bytes && at < from + bytes && from < at + bytes;
        order_use(b, stream);
        order_use(to, stream);
        snug_status status = snug_copy(w.stream[stream], to->handle, at, b->handle, from, bytes);
        EXPECT(status == (over ? SNUG_INVALID : SNUG_OK), "copy: %s", snug_status_name(status));
        if (status != SNUG_OK)
            return;
        memcpy(to->data + at, b->data + from, bytes);
        memcpy(to->defined + at, b->defined + from, bytes);
    }
    }
}

static void do_resolve(fuzz_input *in) {
    uint32_t how                     = fuzz_byte(in);
    held     h                       = {.stream = how & 1, .n = 1 + (how >> 1) % HELD_HANDLES};
    void    *addresses[HELD_HANDLES] = {0};
    if (w.held_count == HELD)
        return;
    bool stale = false;
    for (size_t i = 0; i < h.n; i++) {
        buffer *b   = pick(in, LIVE);
        h.access[i] = fuzz_byte(in) & 1 ? SNUG_READ : SNUG_WRITE;
        if (how & 128 && w.gone_count && i + 1 == h.n) {
            h.handles[i] = w.gone[fuzz_byte(in) % (w.gone_count < 64 ? w.gone_count : 64)];
            stale        = true;
        } else if (b) {
            h.which[i]   = (uint32_t)(b - w.buffers);
            h.handles[i] = b->handle;
        } else {
            return;
        }
    }
    snug_status status = snug_resolve(w.stream[h.stream], h.handles, h.n, h.access, addresses);
    EXPECT(status == (stale ? SNUG_STALE : SNUG_OK), "resolve: %s", snug_status_name(status));
    if (stale) {
        for (size_t i = 0; i < h.n; i++)
            EXPECT(!addresses[i], "an address of a failed resolve");
        return;
    }
    for (size_t i = 0; i < h.n; i++) {
        buffer *b = &w.buffers[h.which[i]];
        EXPECT((addresses[i] == NULL) == (b->size == 0), "an address");
        EXPECT(!b->address || b->address == addresses[i], "moved while it is pinned");
        b->address = addresses[i];
        b->pins++;
    }
    w.held[w.held_count++] = h;
}

/* Work with what is resolved or pinned, whether or not it has been freed meanwhile. */
static void do_launch(fuzz_input *in) {
    uint32_t which = fuzz_byte(in);
    if (w.held_count && which & 1) {
        const held *h = &w.held[which / 2 % w.held_count];
        size_t      i = fuzz_byte(in) % h->n;
        buffer     *b = &w.buffers[h->which[i]];
        launch(in, b, b->address, h->stream, h->access[i] == SNUG_WRITE, "a launch");
        return;
    }
    buffer *b = &w.buffers[which / 2 % BUFFERS];
    if (b->state == NOBODY || !b->long_pins)
        return;
    unsigned stream = fuzz_byte(in) & 1;
    launch(in, b, b->address, stream, true, "a launch on a pinned buffer");
    b->pin_users |= 1u << stream;
}

static void do_release(fuzz_input *in) {
    if (!w.held_count)
        return;
    unsigned at = fuzz_byte(in) % w.held_count;
    held     h  = w.held[at];
    EXPECT(snug_release(w.stream[h.stream], h.handles, h.n, h.access) == SNUG_OK, "release");
    w.held[at] = w.held[--w.held_count];
    for (size_t i = 0; i < h.n; i++) {
        buffer *b = &w.buffers[h.which[i]];
        b->pins--;
        if (!b->pins && !b->long_pins)
            b->address = NULL;
        if (b->state == DYING)
            model_gone(b);
    }
}

static void do_pin(fuzz_input *in) {
    buffer *b = pick(in, LIVE), *other = pick(in, LIVE);
    bool    twice = fuzz_byte(in) & 1;
    if (!b)
        return;
    buffer     *of[2]      = {b, other};
    snug_handle handles[2] = {b->handle, other->handle};
    void       *addresses[2];
    size_t      n = 1 + twice;
    EXPECT(snug_pin(w.pool, handles, n, addresses) == SNUG_OK, "pin");
    for (size_t i = 0; i < n; i++) {
        EXPECT((addresses[i] == NULL) == (of[i]->size == 0), "an address");
        EXPECT(!of[i]->address || of[i]->address == addresses[i], "moved while it is pinned");
        of[i]->address = addresses[i];
        of[i]->long_pins++;
    }
}

static void do_unpin(fuzz_input *in) {
    uint32_t how = fuzz_byte(in);
    for (unsigned i = 0; i < BUFFERS; i++) {
        buffer *b = &w.buffers[(i + how) % BUFFERS];
        if (b->state == NOBODY || !b->long_pins)
            continue;
        snug_stream *streams[STREAMS];
        size_t       n = 0;
        for (unsigned s = 0; s < STREAMS; s++)
            if (b->pin_users & 1u << s)
                streams[n++] = w.stream[s];
        EXPECT(snug_unpin(w.pool, &b->handle, 1, streams, n) == SNUG_OK, "unpin");
        b->long_pins--;
        if (!b->long_pins)
            b->pin_users = 0;
        if (!b->pins && !b->long_pins)
            b->address = NULL;
        if (b->state == DYING)
            model_gone(b);
        return;
    }
    buffer *b = pick(in, LIVE);
    if (b)
        EXPECT(snug_unpin(w.pool, &b->handle, 1, NULL, 0) == SNUG_NOT_PINNED, "an unpin without a pin");
}

/* ------------------------------------------------------------------------------------------------ allocations */

static uint64_t any_size(fuzz_input *in) {
    uint32_t how = fuzz_byte(in), free = (uint32_t)model_sums().free, granules;
    switch (how & 7) {
    case 0: granules = free; break;
    case 1: granules = free + 1; break;
    case 2: granules = how >> 3 ? (uint32_t)w.capacity + (how >> 3 & 1) : 0; break;
    case 3: granules = 1 + fuzz_byte(in) % (free + 1); break;
    default: granules = 1 + (how >> 3) % 10;
    }
    return granules ? GRANULES(granules) - (how & 128 ? how % SNUG_GRANULE : 0) : 0;
}

static void do_alloc(fuzz_input *in) {
    static const char *const tags[] = {NULL, "weights", "cache",
                                       "a name that is much longer than a tag may be, and is cut"};
    snug_alloc_options       o      = snug_alloc_options_default();
    uint32_t                 how    = fuzz_byte(in);
    uint64_t                 size   = any_size(in);
    snug_handle              handle = 77;
    buffer                  *b      = pick(in, NOBODY);
    if (!b)
        return;
    if (how & 1)
        o.alignment = SNUG_GRANULE << (how >> 1 & 3);
    if ((how & 24) == 24)
        o.flags = 1u << fuzz_byte(in) % 3;
    if (how & 32)
        o.grows_to = 2 * size;
    o.tag               = tags[how >> 6];
    bool        settled = o.flags & SNUG_ALLOC_SETTLED;
    sums        s       = model_sums();
    snug_status status  = snug_alloc(w.pool, size, &o, &handle);
    uint64_t    slack   = o.alignment ? o.alignment / SNUG_GRANULE - 1 : 0;
    if (status == SNUG_HANDLES) {
        EXPECT(w.options.generation_first != 1 || s.lives + s.dying >= w.options.handles_max, "%u live", s.lives);
        return;
    }
    if (granules_of(size) > w.capacity)
        EXPECT(status == SNUG_LIMIT, "%s", snug_status_name(status));
    else
        model_verdict(status, granules_of(size), slack, settled);
    model_refusal(status, size);
    if (status != SNUG_OK) {
        EXPECT(handle == 77, "refused, and written");
        return;
    }
    for (unsigned i = 0; i < BUFFERS; i++)
        EXPECT(w.buffers[i].state == NOBODY || w.buffers[i].handle != handle, "a handle twice");
    for (unsigned i = 0; i < w.gone_count && i < 64; i++)
        EXPECT(w.gone[i] != handle, "a handle comes back"); /* I7 */
    b->state     = LIVE;
    b->handle    = handle;
    b->size      = size;
    b->alignment = o.alignment ? o.alignment : SNUG_GRANULE;
    b->flags     = o.flags;
    b->pins = b->long_pins = b->users = b->pin_users = 0;
    b->address                                       = NULL;
    memset(b->defined, 0, size);
}

static void do_free(fuzz_input *in) {
    buffer *b = pick(in, LIVE);
    if (!b)
        return;
    EXPECT(snug_free(w.pool, b->handle) == SNUG_OK, "free");
    EXPECT(snug_free(w.pool, b->handle) == SNUG_STALE, "a second free");
    model_dead(b->handle);
    b->state = DYING;
    model_gone(b);
}

static void do_resize(fuzz_input *in) {
    buffer *b = pick(in, LIVE);
    if (!b)
        return;
    uint64_t    size = any_size(in), old = granules_of(b->size), need = granules_of(size);
    snug_status status = snug_resize(w.pool, b->handle, size);
    bool        pinned = b->pins || b->long_pins, fixed = b->long_pins || b->flags & SNUG_ALLOC_IMMOVABLE;
    if (need > w.capacity)
        EXPECT(status == SNUG_LIMIT, "%s", snug_status_name(status));
    else if (pinned)
        EXPECT(status == SNUG_BUSY || (status == SNUG_OK && need == old) ||
                   (status >= SNUG_LIMIT && status <= SNUG_PINNED),
               "%s", snug_status_name(status));
    else if (need <= old)
        EXPECT(status == SNUG_OK, "%s from %u to %u", snug_status_name(status), (unsigned)old, (unsigned)need);
    else if (!fixed)
        model_verdict(status, need - old, old ? 0 : b->alignment / SNUG_GRANULE - 1, false);
    model_refusal(status, size);
    if (status != SNUG_OK)
        return;
    for (uint64_t i = b->size; i < size; i++)
        b->defined[i] = 0;
    b->size = size;
    if (b->pins || b->long_pins) /* within its granules */
        return;
    b->address = NULL;
}

/* ------------------------------------------------------------------------------------------------ compaction */

static void do_compact(fuzz_input *in) {
    uint32_t            how    = fuzz_byte(in);
    snug_budget         budget = {.bytes_max = how & 1 ? GRANULES(1 + (how >> 3)) : 0,
                                  .moves_max = how & 2 ? 1 + (how >> 5) : 0};
    snug_compact_result r      = {.struct_size = sizeof r};
    EXPECT(snug_compact(w.pool, how & 3 ? &budget : NULL, &r) == SNUG_OK, "compact");
    w.late = true;
    EXPECT(!budget.bytes_max || r.moved_bytes <= budget.bytes_max, "%llu bytes", (unsigned long long)r.moved_bytes);
    EXPECT(!budget.moves_max || r.moves <= budget.moves_max, "%u moves of %u", r.moves, budget.moves_max);
    EXPECT(r.largest_hole_bytes <= r.free_bytes, "holes");
    EXPECT(!w.options.compaction_off || (r.moves == 0 && r.state == SNUG_COMPACT_DONE), "off, and it moves");
}

static void do_trim(fuzz_input *in) {
    uint64_t   keep = GRANULES(fuzz_byte(in) % (w.capacity + 1)), returned = 0;
    snug_stats before = client_stats(w.pool);
    EXPECT(snug_trim(w.pool, keep, &returned) == SNUG_OK, "trim");
    snug_stats after = client_stats(w.pool);
    EXPECT(after.committed_bytes + returned == before.committed_bytes, "returned %llu", (unsigned long long)returned);
    EXPECT(after.committed_bytes - after.bounce_bytes >= keep || before.committed_bytes - before.bounce_bytes <= keep,
           "more than was said");
    sums s = model_sums();
    if (!w.options.compaction_off && !s.held && !s.fixed && !s.dying && !s.slack) {
        uint64_t least = (s.live + FD_COMMIT_GRANULES - 1) / FD_COMMIT_GRANULES * FD_COMMIT_GRANULES;
        uint64_t kept  = (keep / SNUG_GRANULE + FD_COMMIT_GRANULES - 1) / FD_COMMIT_GRANULES * FD_COMMIT_GRANULES;
        EXPECT(after.committed_bytes - after.bounce_bytes <= GRANULES(least > kept ? least : kept),
               "less than there was");
    }
}

static void do_quote(fuzz_input *in) {
    uint64_t       size = any_size(in), moves = snug_moves(w.pool);
    snug_quotation quote = {.struct_size = sizeof quote};
    EXPECT(snug_quote(w.pool, size, &quote) == SNUG_OK, "quote");
    EXPECT(snug_moves(w.pool) == moves, "a quote moves");
    if (quote.verdict == SNUG_OK)
        return;
    sums s = model_sums();
    if (granules_of(size) > w.capacity)
        EXPECT(quote.verdict == SNUG_LIMIT, "%s", snug_status_name(quote.verdict));
    else if (s.free < granules_of(size))
        EXPECT(quote.verdict == (s.free + s.pending >= granules_of(size) ? SNUG_PENDING : SNUG_CAPACITY), "%s",
               snug_status_name(quote.verdict));
}

static void do_wrong(fuzz_input *in) {
    uint32_t    how    = fuzz_byte(in);
    snug_handle handle = w.gone_count ? w.gone[how % (w.gone_count < 64 ? w.gone_count : 64)] : 0;
    snug_status dead   = w.gone_count ? SNUG_STALE : SNUG_UNKNOWN;
    buffer     *b      = pick(in, LIVE);
    void       *address;
    switch (how >> 6) {
    case 0:
        EXPECT(snug_free(w.pool, handle) == dead, "a dead handle freed");
        EXPECT(snug_resize(w.pool, handle, 256) == dead, "a dead handle resized");
        break;
    case 1: {
        snug_status status = snug_pin(w.pool, &handle, 1, &address);
        EXPECT(status == dead, "a dead handle pinned: %s", snug_status_name(status));
        break;
    }
    case 2:
        if (b) {
            snug_handle other = b->handle ^ UINT64_C(1) << 60;
            EXPECT(snug_free(w.pool, other) == (other >> 56 ? SNUG_FOREIGN : SNUG_UNKNOWN), "another pool's");
        }
        break;
    default:
        if (b && !b->pins) {
            snug_status status = snug_release(w.stream[how & 1], &b->handle, 1, NULL);
            EXPECT(status == SNUG_NOT_PINNED, "a release without a resolve: %s", snug_status_name(status));
        }
    }
}

static void do_stream(fuzz_input *in) {
    uint32_t   how    = fuzz_byte(in);
    fd_stream *stream = &fd.streams[how % FD_STREAMS];
    uint64_t   n      = how / FD_STREAMS % 8;
    if (n == 7) { /* a client leaves and comes back */
        unsigned s = how & 1;
        for (unsigned i = 0; i < w.held_count; i++)
            if (w.held[i].stream == s)
                return;
        for (unsigned i = 0; i < BUFFERS; i++)
            if (w.buffers[i].state != NOBODY && w.buffers[i].pin_users & 1u << s)
                return;
        EXPECT(snug_stream_detach(w.stream[s]) == SNUG_OK, "detach");
        EXPECT(snug_stream_detach(w.stream[s]) == SNUG_GONE, "a second detach");
        EXPECT(snug_stream_attach(w.pool, w.native[s], &w.stream[s]) == SNUG_OK, "attach");
    } else if (n == 6) {
        EXPECT(snug_stream_sync(w.stream[how & 1]) == SNUG_OK, "sync");
    } else if (stream->open) {
        fd_run(stream, stream->done + n + 1 < stream->tail ? stream->done + n + 1 : stream->tail);
    }
}

static void one_op(fuzz_input *in) {
    switch (fuzz_byte(in) % 24) {
    case 0:
    case 1:
    case 2:
    case 3: do_alloc(in); break;
    case 4:
    case 5: do_free(in); break;
    case 6:
    case 7: do_resize(in); break;
    case 8:
    case 9: do_transfer(in); break;
    case 10:
    case 11: do_resolve(in); break;
    case 12: do_launch(in); break;
    case 13:
    case 14: do_release(in); break;
    case 15: do_pin(in); break;
    case 16: do_unpin(in); break;
    case 17:
    case 18: do_compact(in); break;
    case 19: do_trim(in); break;
    case 20: do_quote(in); break;
    case 21: do_wrong(in); break;
    default: do_stream(in);
    }
}

/* ------------------------------------------------------------------------------------------------ a pool's life */

static void begin(fuzz_input *in) {
    uint32_t       how = fuzz_byte(in), more = fuzz_byte(in);
    snug__settings settings;
    w.options                  = snug_pool_options_default();
    w.capacity                 = 4 + how % (FD_GRANULES_MAX - 3);
    w.options.capacity         = GRANULES(w.capacity);
    w.options.commit_bytes     = how & 128 ? SNUG_GRANULE : 0;
    w.options.handles_max      = more & 1 ? 1 + (more >> 5) : 4 * BUFFERS;
    w.options.jumble           = (more & 6) == 2;
    w.options.compaction_off   = (more & 14) == 4;
    w.options.demand_bytes_max = (more & 14) == 12 ? GRANULES(1 + (more >> 4)) : 0;
    w.options.generation_first = (more & 24) == 16 ? UINT32_MAX - (more >> 5) : 1;
    w.options.pin_wait_ns      = 4000;
    w.options.log              = log_line;
    EXPECT(snug__settings_make(&w.options, NULL, &settings) == SNUG_OK, "options");
    EXPECT(snug__pool_create_on(&fd_row, &settings.pool, &w.pool) == SNUG_OK, "no pool");
    for (unsigned s = 0; s < STREAMS; s++) {
        if (!w.native[s])
            w.native[s] = fd_stream_open(); /* kept from one input to the next */
        EXPECT(snug_stream_attach(w.pool, w.native[s], &w.stream[s]) == SNUG_OK, "attach");
    }
    w.held_count = w.gone_count = w.scratch_used = w.values = 0;
    w.late                                                  = false;
    for (unsigned i = 0; i < BUFFERS; i++)
        w.buffers[i].state = NOBODY;
}

/* Every byte once more, then everything goes; the pool must come out empty. */
static void end(void) {
    for (unsigned s = 0; s < STREAMS; s++)
        EXPECT(snug_stream_sync(w.stream[s]) == SNUG_OK, "sync");
    w.scratch_used = 0;
    for (unsigned i = 0; i < BUFFERS; i++)
        if (w.buffers[i].state == LIVE) {
            read_and_check(&w.buffers[i], i % STREAMS, 0, (uint32_t)w.buffers[i].size, "the last look");
            EXPECT(snug_stream_sync(w.stream[i % STREAMS]) == SNUG_OK, "sync");
            w.scratch_used = 0;
        }
    fuzz_input none = {NULL, NULL};
    while (w.held_count)
        do_release(&none);
    for (unsigned i = 0; i < BUFFERS; i++)
        while (w.buffers[i].state != NOBODY && w.buffers[i].long_pins) {
            none     = (fuzz_input){&(const uint8_t){(uint8_t)i}, NULL};
            none.end = none.at + 1;
            do_unpin(&none);
        }
    for (unsigned i = 0; i < BUFFERS; i++)
        if (w.buffers[i].state == LIVE)
            EXPECT(snug_free(w.pool, w.buffers[i].handle) == SNUG_OK, "free");
    for (unsigned i = 0; i < BUFFERS; i++)
        w.buffers[i].state = NOBODY;
    model_compare();
    for (unsigned s = 0; s < STREAMS; s++)
        EXPECT(snug_stream_detach(w.stream[s]) == SNUG_OK, "detach");
    EXPECT(snug_pool_destroy(w.pool) == SNUG_OK, "destroy");
    /* Generations go on from one life of a shell to the next. Here each input begins with the first. */
    w.pool->generation_floor = 0;
    w.pool->retired          = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = {data, data + size};
    begin(&in);
    for (unsigned op = 0; op < OPS_MAX && fuzz_more(&in); op++) {
        one_op(&in);
        model_compare();
    }
    end();
    return 0;
}
