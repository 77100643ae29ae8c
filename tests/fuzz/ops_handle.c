/* ops_handle.c - the table of handles against a plain model of every word: pins, long pins, frees, moves, deferred frees, and
 * generations that run out. After each operation each word is exactly what the model says. */
#include "fuzz/fuzz.h"

#include "handle.h"

enum { ENTRIES = 6, ISSUED_MAX = 256, OPS_MAX = 600, TAG = 7 };

static snug__handles table;
static snug__order   order; /* without streams: no claims */

static struct {
    struct {
        uint32_t generation, pins;
        bool     live, dying, moving, frozen, current, long_pin;
    } entry[ENTRIES];
    uint32_t    made, live, retired, max, first;
    uint32_t    unused[ENTRIES], unused_count; /* oldest first */
    uint32_t    dead[ENTRIES], dead_count;     /* latest last */
    uint32_t    taken;                         /* taken and not yet live; ENTRIES: none */
    snug_handle issued[ISSUED_MAX];
    uint32_t    issued_count;
} model;

static uint64_t model_word(uint32_t i) {
    return (uint64_t)model.entry[i].generation << 32 | (uint64_t)model.entry[i].live << 31 |
           (uint64_t)model.entry[i].dying << 30 | (uint64_t)model.entry[i].frozen << 29 |
           (uint64_t)model.entry[i].moving << 28 | (uint64_t)model.entry[i].current << 27 |
           (uint64_t)model.entry[i].long_pin << 26 | model.entry[i].pins;
}

FUZZ_MODEL static void model_compare(void) {
    uint64_t unused = 0;
    EXPECT(table.live == model.live && table.retired == model.retired && atomic_load(&table.made) == model.made,
           "counts");
    for (uint32_t i = 0; i < model.made; i++) {
        uint64_t word = atomic_load(&snug__handles_at(&table, i)->word), next;
        EXPECT(word == model_word(i), "entry %u: %llx, model %llx", i, (unsigned long long)word,
               (unsigned long long)model_word(i));
        next   = (uint64_t)model.entry[i].generation + model.entry[i].live;
        unused = next == 0 ? UINT64_MAX : next > unused ? next : unused;
    }
    for (uint32_t i = 0; i < model.made; i++)
        if (model.entry[i].generation == 0)
            unused = UINT64_MAX;
    EXPECT(snug__handles_unused_generation(&table, 0) == (unused > UINT32_MAX ? 0 : unused), "the unused generation");
}

/* What any call says of a handle, and its entry. */
static snug_status model_status(snug_handle handle, uint32_t *index) {
    uint32_t i = (uint32_t)(handle & 0xffffff), generation = (uint32_t)(handle >> 24), tag = (uint32_t)(handle >> 56);
    *index = i;
    if (tag != TAG)
        return tag ? SNUG_FOREIGN : SNUG_UNKNOWN;
    if (i >= model.made)
        return SNUG_UNKNOWN;
    if (model.entry[i].live && model.entry[i].generation == generation)
        return model.entry[i].dying ? SNUG_STALE : SNUG_OK;
    bool past = model.entry[i].generation == 0 || generation < model.entry[i].generation;
    return generation && past ? SNUG_STALE : SNUG_UNKNOWN;
}

static snug_handle any_handle(fuzz_input *in) {
    uint32_t how = fuzz_byte(in);
    if (how >= 248 || model.issued_count == 0)
        return fuzz_u64(in);
    snug_handle handle =
        model.issued[how < 192 ? model.issued_count - 1 - how % (model.issued_count < 8 ? model.issued_count : 8)
                               : how % model.issued_count];
    if (how >= 240) /* never issued yet, or another pool's */
        handle ^= UINT64_C(1) << (24 + 8 * (how & 3)) << (how & 4);
    return handle;
}

/* The model's entry has lost its generation. */
static void model_end(uint32_t i) {
    model.entry[i].generation++;
    model.entry[i].live = model.entry[i].dying = model.entry[i].moving = model.entry[i].frozen =
        model.entry[i].long_pin                                        = false;
    model.entry[i].pins                                                = 0;
}

static void give_back(uint32_t i) {
    snug__handles_give_back(&table, snug__handles_at(&table, i));
    if (model.entry[i].generation == 0)
        model.retired++;
    else
        model.unused[model.unused_count++] = i;
}

/* ------------------------------------------------------------------------------------------------ operations */

static void do_take(void) {
    snug__entry *entry = NULL;
    if (model.taken != ENTRIES)
        return;
    snug_status status = snug__handles_take(&table, &entry);
    if (model.unused_count) {
        EXPECT(status == SNUG_OK && snug__handles_index(&table, entry) == model.unused[0], "not first in, first out");
        memmove(model.unused, model.unused + 1, --model.unused_count * sizeof model.unused[0]);
    } else if (model.made == model.max) {
        EXPECT(status == SNUG_HANDLES, "%s", snug_status_name(status));
        return;
    } else {
        EXPECT(status == SNUG_OK && snug__handles_index(&table, entry) == model.made, "a new entry");
        model.entry[model.made++].generation = model.first;
    }
    model.taken = snug__handles_index(&table, entry);
    EXPECT(entry->long_pins == 0 && entry->moved_at_ns == 0 && entry->pinned_at_ns == 0, "not fresh");
    EXPECT(snug__atomic_stamp_get(&entry->writers).mask == 0 && snug__atomic_stamp_get(&entry->readers).mask == 0,
           "stamps");
}

static void do_live(bool live) {
    uint32_t i = model.taken;
    if (i == ENTRIES)
        return;
    model.taken = ENTRIES;
    if (!live) {
        give_back(i);
        return;
    }
    snug_handle handle  = snug__handles_live(&table, snug__handles_at(&table, i));
    model.entry[i].live = true;
    model.live++;
    EXPECT(handle == ((uint64_t)TAG << 56 | (uint64_t)model.entry[i].generation << 24 | i), "%llx",
           (unsigned long long)handle);
    for (uint32_t k = 0; k < model.issued_count; k++)
        EXPECT(model.issued[k] != handle, "%llx comes back", (unsigned long long)handle); /* I7 */
    if (model.issued_count < ISSUED_MAX)
        model.issued[model.issued_count++] = handle;
}

static bool find(snug_handle handle, snug__entry **entry, uint32_t *generation) {
    uint32_t    index;
    snug_status status = snug__handles_find(&table, handle, entry), expected = model_status(handle, &index);
    *generation = snug__handle_generation(handle);
    if (status != SNUG_OK)
        EXPECT(status == expected, "%s, model %s", snug_status_name(status), snug_status_name(expected));
    return status == SNUG_OK;
}

static void do_pin(fuzz_input *in, bool write, bool for_long) {
    snug_handle  handle = any_handle(in);
    snug__entry *entry;
    uint32_t     i, generation;
    uint64_t     word = 0;
    if (!find(handle, &entry, &generation))
        return;
    snug_status expected = model_status(handle, &i);
    if (expected == SNUG_OK && model.entry[i].frozen)
        return; /* it would wait for the mover */
    snug_status status = snug__entry_pin(entry, generation, write, &word);
    EXPECT(status == expected, "%s, model %s", snug_status_name(status), snug_status_name(expected));
    if (status != SNUG_OK)
        return;
    model.entry[i].pins++;
    model.entry[i].moving = model.entry[i].moving && !write;
    EXPECT(word == model_word(i), "the word told");
    if (for_long && !model.entry[i].long_pin) {
        snug__entry_set_long(entry, true);
        model.entry[i].long_pin = true;
    }
}

static void do_unpin(fuzz_input *in, bool of_long) {
    snug_handle  handle = any_handle(in);
    snug__entry *entry;
    uint32_t     i, generation;
    bool         last = false;
    if (!find(handle, &entry, &generation))
        return;
    snug_status expected = model_status(handle, &i);
    bool        ours     = model.entry[i].live && model.entry[i].generation == generation;
    if (of_long) {
        if (!ours || !model.entry[i].long_pin)
            return;
        snug__entry_set_long(entry, false);
        model.entry[i].long_pin = false;
    }
    if (ours)
        expected = model.entry[i].pins == model.entry[i].long_pin ? SNUG_NOT_PINNED : SNUG_OK;
    snug_status status = snug__entry_unpin(entry, generation, &last);
    EXPECT(status == expected, "%s, model %s", snug_status_name(status), snug_status_name(expected));
    if (status != SNUG_OK)
        return;
    EXPECT(last == (model.entry[i].dying && model.entry[i].pins == 1), "the last unpin");
    model.entry[i].pins--;
    if (!last)
        return;
    model_end(i);
    snug__entry_end(&table, &order, handle);
    model.dead[model.dead_count++] = i;
}

static void do_kill(fuzz_input *in) {
    snug_handle  handle = any_handle(in);
    snug__entry *entry;
    uint32_t     i, generation;
    if (!find(handle, &entry, &generation))
        return;
    snug_status expected = model_status(handle, &i);
    if (expected == SNUG_OK && model.entry[i].frozen)
        expected = SNUG_TIMEOUT;
    else if (expected == SNUG_OK && model.entry[i].pins)
        expected = SNUG_BUSY;
    snug_status status = snug__entry_kill(&table, &order, handle);
    EXPECT(status == expected, "%s, model %s", snug_status_name(status), snug_status_name(expected));
    if (status == SNUG_OK) {
        model_end(i);
        table.live--;
        model.live--;
        give_back(i);
    } else if (status == SNUG_BUSY) {
        model.entry[i].dying  = true;
        model.entry[i].moving = false;
        table.live--;
        model.live--;
    }
}

static void do_bury(void) {
    uint32_t i = snug__handles_pop_dead(&table);
    for (; i != SNUG__NONE;) {
        uint32_t next = snug__handles_at(&table, i)->next;
        EXPECT(model.dead_count && model.dead[model.dead_count - 1] == i, "entry %u isn't the next dead one", i);
        model.dead_count--;
        give_back(i);
        i = next;
    }
    EXPECT(model.dead_count == 0, "%u dead are left", model.dead_count);
}

/* The mover's steps, in any order; but it begins none that it has under way. */
static void do_move(fuzz_input *in, unsigned step) {
    snug_handle  handle = any_handle(in);
    snug__entry *entry;
    uint32_t     i, generation;
    if (!find(handle, &entry, &generation))
        return;
    snug_status expected = model_status(handle, &i) == SNUG_OK ? SNUG_OK : SNUG_STALE, status;
    bool        ours     = expected == SNUG_OK;
    switch (step) {
    case 0:
        if (ours && model.entry[i].moving && !model.entry[i].pins)
            return;
        expected = !ours ? SNUG_STALE : model.entry[i].pins ? SNUG_BUSY : SNUG_OK;
        status   = snug__entry_begin_move(entry, handle, &order);
        if (status == SNUG_OK)
            model.entry[i].moving = true;
        break;
    case 1:
        expected = !ours ? SNUG_STALE : model.entry[i].pins || !model.entry[i].moving ? SNUG_BUSY : SNUG_OK;
        status   = snug__entry_freeze(entry, generation);
        if (status == SNUG_OK)
            model.entry[i].frozen = true;
        break;
    case 2:
        expected = !ours || !model.entry[i].moving ? SNUG_STALE : model.entry[i].pins ? SNUG_BUSY : SNUG_OK;
        status   = snug__entry_publish(entry, generation);
        if (status == SNUG_OK) {
            model.entry[i].current = !model.entry[i].current;
            model.entry[i].moving = model.entry[i].frozen = false;
        }
        break;
    default:
        status = expected;
        snug__entry_give_up(entry, generation);
        if (model.entry[i].generation == generation)
            model.entry[i].moving = model.entry[i].frozen = false;
    }
    EXPECT(status == expected, "step %u: %s, model %s", step, snug_status_name(status), snug_status_name(expected));
}

static void one_op(fuzz_input *in) {
    unsigned what = fuzz_byte(in) % 16;
    switch (what) {
    case 0:
    case 1:
        do_take();
        do_live(true);
        break;
    case 2: do_take(); break;
    case 3: do_live(fuzz_byte(in) & 1); break;
    case 4:
    case 5: do_pin(in, what == 4, false); break;
    case 6: do_pin(in, true, true); break;
    case 7:
    case 8: do_unpin(in, false); break;
    case 9: do_unpin(in, true); break;
    case 10: do_kill(in); break;
    case 11: do_bury(); break;
    default: do_move(in, what - 12);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = {data, data + size};
    memset(&model, 0, sizeof model);
    uint32_t how = fuzz_byte(&in);
    model.taken  = ENTRIES;
    model.max    = 1 + how % ENTRIES;
    model.first  = how & 128 ? UINT32_MAX - (how >> 4 & 7) : 1; /* close to the end: entries retire */
    EXPECT(snug__handles_open(&table, TAG, model.max, model.first) == SNUG_OK, "no memory");
    for (unsigned op = 0; op < OPS_MAX && fuzz_more(&in); op++) {
        one_op(&in);
        EXPECT_SOUND(snug__handles_check(&table));
        model_compare();
    }
    snug__handles_close(&table);
    return 0;
}
