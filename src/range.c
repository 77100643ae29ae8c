/* range.c: see range.h. */
#include "range.h"

enum {
    LOOKS_MAX  = 32, /* ranges of one bin looked at for a better fit */
    NODES_KEPT = 8
};

snug_status snug__map_open(snug__map *map, snug__order *order, uint32_t limit, uint32_t ranges_max) {
    memset(map, 0, sizeof *map);
    snug_status status = snug__table_reserve(&map->table, (size_t)ranges_max * sizeof(snug__range));
    if (status == SNUG_OK)
        status = snug__table_reserve(&map->free_bits, (size_t)ranges_max / 8 + 1);
    if (status != SNUG_OK) {
        snug__map_close(map);
        return status;
    }
    map->order     = order;
    map->limit     = limit;
    map->nodes_max = ranges_max;
    map->unused    = SNUG__NONE;
    map->first = map->last = map->gaps = SNUG__NONE;
    memset(map->bins, 0xff, sizeof map->bins);
    return SNUG_OK;
}

void snug__map_close(snug__map *map) {
    snug__table_release(&map->table);
    snug__table_release(&map->free_bits);
}

/* ------------------------------------------------------------------------------------------------ nodes */

static uint32_t node_make(snug__map *map) {
    snug__assert(map->unused != SNUG__NONE);
    uint32_t node = map->unused;
    map->unused   = snug__range_at(map, node)->next;
    map->nodes_spare--;
    return node;
}

static void node_drop(snug__map *map, uint32_t node) {
    *snug__range_at(map, node) = (snug__range){.next = map->unused, .kind = SNUG__RANGE_UNUSED};
    map->unused                = node;
    map->nodes_spare++;
}

/* Callers that may fail ask first, and leave a few nodes to those that may not: a slide that has been published. */
static bool nodes_ready(snug__map *map, uint32_t nodes) {
    while (map->nodes_spare < nodes + NODES_KEPT) {
        if (map->nodes_made == map->nodes_max ||
            snug__table_ensure(&map->table, (size_t)(map->nodes_made + 1) * sizeof(snug__range)) != SNUG_OK ||
            snug__table_ensure(&map->free_bits, map->nodes_made / 8 + 1) != SNUG_OK)
            return false;
        node_drop(map, map->nodes_made++);
    }
    return true;
}

bool snug__map_ready(snug__map *map) {
    return nodes_ready(map, 1);
}

static void link_after(snug__map *map, uint32_t previous, uint32_t node) {
    snug__range *range = snug__range_at(map, node);
    range->previous    = previous;
    range->next        = previous == SNUG__NONE ? map->first : snug__range_at(map, previous)->next;
    if (previous == SNUG__NONE)
        map->first = node;
    else
        snug__range_at(map, previous)->next = node;
    if (range->next == SNUG__NONE)
        map->last = node;
    else
        snug__range_at(map, range->next)->previous = node;
}

static void unlink_node(snug__map *map, uint32_t node) {
    snug__range *range = snug__range_at(map, node);
    if (range->previous == SNUG__NONE)
        map->first = range->next;
    else
        snug__range_at(map, range->previous)->next = range->next;
    if (range->next == SNUG__NONE)
        map->last = range->previous;
    else
        snug__range_at(map, range->next)->previous = range->previous;
}

static void free_bit_flip(snug__map *map, uint32_t node) {
    map->free_bits.base[node / 8] ^= (char)(1 << node % 8);
}

static bool is_free(const snug__map *map, uint32_t node) {
    return node != SNUG__NONE && (map->free_bits.base[node / 8] >> node % 8 & 1);
}

/* ------------------------------------------------------------------------------------------------ bins */

/* Row 0 has a bin for each size below 32; row r > 0 cuts [32 << (r-1), 64 << (r-1)) into 32. */
static uint16_t bin_of(uint32_t size) {
    if (size < SNUG__BIN_COLUMNS)
        return (uint16_t)size;
    unsigned log2 = 31u - (unsigned)__builtin_clz(size);
    unsigned row  = log2 - SNUG__BIN_COLUMNS_LOG2 + 1;
    return (uint16_t)(row * SNUG__BIN_COLUMNS + ((size >> (log2 - SNUG__BIN_COLUMNS_LOG2)) & (SNUG__BIN_COLUMNS - 1)));
}

static void bin_add(snug__map *map, uint32_t node) {
    snug__range *range = snug__range_at(map, node);
    range->bin         = bin_of(range->size);
    unsigned  row = range->bin / SNUG__BIN_COLUMNS, column = range->bin % SNUG__BIN_COLUMNS;
    uint32_t *head      = &map->bins[row][column];
    range->bin_previous = SNUG__NONE;
    range->bin_next     = *head;
    if (*head != SNUG__NONE)
        snug__range_at(map, *head)->bin_previous = node;
    *head = node;
    map->rows |= 1u << row;
    map->columns[row] |= 1u << column;
}

static void bin_remove(snug__map *map, uint32_t node) {
    snug__range *range = snug__range_at(map, node);
    unsigned     row = range->bin / SNUG__BIN_COLUMNS, column = range->bin % SNUG__BIN_COLUMNS;
    if (range->bin_next != SNUG__NONE)
        snug__range_at(map, range->bin_next)->bin_previous = range->bin_previous;
    if (range->bin_previous != SNUG__NONE) {
        snug__range_at(map, range->bin_previous)->bin_next = range->bin_next;
        return;
    }
    map->bins[row][column] = range->bin_next;
    if (range->bin_next == SNUG__NONE) {
        map->columns[row] &= ~(1u << column);
        if (map->columns[row] == 0)
            map->rows &= ~(1u << row);
    }
}

static void gap_add(snug__map *map, uint32_t node) {
    snug__range *range  = snug__range_at(map, node);
    range->bin_previous = SNUG__NONE;
    range->bin_next     = map->gaps;
    if (map->gaps != SNUG__NONE)
        snug__range_at(map, map->gaps)->bin_previous = node;
    map->gaps = node;
}

static void gap_remove(snug__map *map, uint32_t node) {
    snug__range *range = snug__range_at(map, node);
    if (range->bin_next != SNUG__NONE)
        snug__range_at(map, range->bin_next)->bin_previous = range->bin_previous;
    if (range->bin_previous != SNUG__NONE)
        snug__range_at(map, range->bin_previous)->bin_next = range->bin_next;
    else
        map->gaps = range->bin_next;
}

/* Into and out of what is kept of ranges by kind: counters, bins, the list of gaps. */
static void enlist(snug__map *map, uint32_t node) {
    snug__range *range = snug__range_at(map, node);
    map->granules[range->kind] += range->size;
    map->count[range->kind]++;
    if (range->kind == SNUG__RANGE_FREE) {
        bin_add(map, node);
        free_bit_flip(map, node);
    } else if (range->kind == SNUG__RANGE_GAP) {
        gap_add(map, node);
    }
}

static void delist(snug__map *map, uint32_t node) {
    snug__range *range = snug__range_at(map, node);
    map->granules[range->kind] -= range->size;
    map->count[range->kind]--;
    if (range->kind == SNUG__RANGE_FREE) {
        bin_remove(map, node);
        free_bit_flip(map, node);
    } else if (range->kind == SNUG__RANGE_GAP) {
        gap_remove(map, node);
    }
}

/* The next bin from this one on that isn't empty, or -1. */
static int bin_next_filled(const snug__map *map, unsigned bin) {
    unsigned row = bin / SNUG__BIN_COLUMNS, column = bin % SNUG__BIN_COLUMNS;
    if (row >= SNUG__BIN_ROWS)
        return -1;
    uint32_t columns = map->columns[row] & (~UINT32_C(0) << column);
    if (!columns) {
        uint32_t rows = row + 1 < 32 ? map->rows & (~UINT32_C(0) << (row + 1)) : 0;
        if (!rows)
            return -1;
        row     = (unsigned)__builtin_ctz(rows);
        columns = map->columns[row];
    }
    return (int)(row * SNUG__BIN_COLUMNS + (unsigned)__builtin_ctz(columns));
}

/* ------------------------------------------------------------------------------------------------ search */

static bool fits(const snug__range *range, snug__fit fit, uint32_t *offset) {
    uint64_t start = ((uint64_t)range->offset + fit.alignment - 1) & ~((uint64_t)fit.alignment - 1);
    *offset        = (uint32_t)start;
    return start + fit.size <= (uint64_t)range->offset + range->size;
}

typedef struct best {
    uint32_t node, offset, size;
    bool     settled;
} best;

/* Looks at up to looks ranges of a bin; a settled one beats any other, then the smaller. */
static void bin_search(snug__map *map, unsigned bin, snug__fit fit, unsigned looks, best *found) {
    uint32_t node = map->bins[bin / SNUG__BIN_COLUMNS][bin % SNUG__BIN_COLUMNS];
    for (; node != SNUG__NONE && looks > 0; node = snug__range_at(map, node)->bin_next, looks--) {
        const snug__range *range = snug__range_at(map, node);
        uint32_t           offset;
        if (!fits(range, fit, &offset))
            continue;
        bool have = found->node != SNUG__NONE;
        if (have && found->settled && range->size >= found->size)
            continue;
        bool settled = snug__order_settled(map->order, range->fence);
        if (fit.settled && !settled)
            continue;
        if (!have || (settled && !found->settled) || (settled == found->settled && range->size < found->size))
            *found = (best){node, offset, range->size, settled};
        if (found->settled && found->size == fit.size)
            return;
    }
}

uint32_t snug__map_find(snug__map *map, snug__fit fit, uint32_t *offset) {
    best found = {SNUG__NONE, 0, 0, false};
    for (int bin = (int)bin_of(fit.size); bin >= 0 && found.node == SNUG__NONE; bin++) {
        bin = bin_next_filled(map, (unsigned)bin);
        if (bin < 0)
            break;
        bin_search(map, (unsigned)bin, fit, LOOKS_MAX, &found);
    }
    /* nothing by a quick look: what the looks left out in the bins that may hold it */
    for (int bin = (int)bin_of(fit.size); bin >= 0 && found.node == SNUG__NONE; bin++) {
        bin = bin_next_filled(map, (unsigned)bin);
        if (bin < 0)
            break;
        bin_search(map, (unsigned)bin, fit, UINT32_MAX, &found);
    }
    if (found.node != SNUG__NONE)
        *offset = found.offset;
    return found.node;
}

uint32_t snug__map_find_low(snug__map *map, snug__fit fit, uint32_t limit, uint32_t *offset) {
    for (uint32_t node = map->first; node != SNUG__NONE; node = snug__range_at(map, node)->next) {
        const snug__range *range = snug__range_at(map, node);
        if (range->offset >= limit)
            break;
        if (range->kind == SNUG__RANGE_FREE && fits(range, fit, offset) &&
            (!fit.settled || snug__order_settled(map->order, range->fence)))
            return node;
    }
    return SNUG__NONE;
}

uint32_t snug__map_largest(snug__map *map) {
    if (!map->rows)
        return 0;
    unsigned row     = 31u - (unsigned)__builtin_clz(map->rows);
    unsigned column  = 31u - (unsigned)__builtin_clz(map->columns[row]);
    uint32_t largest = 0;
    for (uint32_t node = map->bins[row][column]; node != SNUG__NONE; node = snug__range_at(map, node)->bin_next) {
        uint32_t size = snug__range_at(map, node)->size;
        largest       = size > largest ? size : largest;
    }
    return largest;
}

/* ------------------------------------------------------------------------------------------------ changes */

static uint32_t range_insert(snug__map *map, uint32_t previous, snug__range value) {
    uint32_t node              = node_make(map);
    *snug__range_at(map, node) = value;
    link_after(map, previous, node);
    enlist(map, node);
    return node;
}

static void range_remove(snug__map *map, uint32_t node) {
    const snug__range *range = snug__range_at(map, node);
    if (snug__unlikely(map->removed != NULL))
        map->removed(map->removed_context, node, range->previous != SNUG__NONE ? range->previous : range->next);
    delist(map, node);
    unlink_node(map, node);
    node_drop(map, node);
}

static void range_resize(snug__map *map, uint32_t node, uint32_t offset, uint32_t size) {
    snug__range *range = snug__range_at(map, node);
    range->offset      = offset;
    if (range->kind == SNUG__RANGE_FREE && bin_of(size) != range->bin) {
        delist(map, node);
        range->size = size;
        enlist(map, node);
    } else {
        map->granules[range->kind] += (uint64_t)size - range->size;
        range->size = size;
    }
}

void snug__range_set_kind(snug__map *map, uint32_t node, snug__range_kind kind) {
    delist(map, node);
    snug__range_at(map, node)->kind = (uint8_t)kind;
    enlist(map, node);
    map->changes++;
}

snug_status snug__map_grow(snug__map *map, uint32_t granules) {
    snug__range *last = map->last == SNUG__NONE ? NULL : snug__range_at(map, map->last);
    if (last && last->kind == SNUG__RANGE_FREE) {
        range_resize(map, map->last, last->offset, last->size + granules);
    } else {
        snug__range fresh = {.offset = map->committed, .size = granules, .entry = SNUG__NONE, .kind = SNUG__RANGE_FREE};
        if (!nodes_ready(map, 1))
            return SNUG_NO_MEMORY;
        range_insert(map, map->last, fresh);
    }
    map->committed += granules;
    map->changes++;
    return SNUG_OK;
}

void snug__map_shrink(snug__map *map, uint32_t granules) {
    snug__range *last = snug__range_at(map, map->last);
    snug__assert(last->kind == SNUG__RANGE_FREE && last->size >= granules);
    if (last->size == granules)
        range_remove(map, map->last);
    else
        range_resize(map, map->last, last->offset, last->size - granules);
    map->committed -= granules;
    map->changes++;
}

uint32_t snug__range_take(snug__map *map, uint32_t node, uint32_t offset, uint32_t size, snug__range_kind kind,
                          uint32_t entry) {
    snug__range whole = *snug__range_at(map, node);
    uint32_t    lead = offset - whole.offset, rest = whole.size - lead - size;
    snug__assert_debug(whole.kind == SNUG__RANGE_FREE && offset >= whole.offset && lead + size <= whole.size);
    if (!nodes_ready(map, (lead > 0) + (rest > 0)))
        return SNUG__NONE;
    snug__range part = whole;
    if (lead && rest) {
        part.offset = offset + size;
        part.size   = rest;
        range_insert(map, node, part);
    }
    part.offset    = offset;
    part.size      = size;
    part.kind      = (uint8_t)kind;
    part.entry     = entry;
    uint32_t taken = node;
    if (lead) {
        range_resize(map, node, whole.offset, lead);
        taken = range_insert(map, node, part);
    } else if (rest) {
        range_resize(map, node, offset + size, rest);
        taken = range_insert(map, whole.previous, part);
    } else {
        delist(map, node);
        snug__range_at(map, node)->kind  = part.kind;
        snug__range_at(map, node)->entry = entry;
        enlist(map, node);
    }
    map->changes++;
    return taken;
}

/* Gives a free range the bytes and the fence of the one beside it, which goes. */
static void merge(snug__map *map, uint32_t into, uint32_t from) {
    snug__range *range = snug__range_at(map, into);
    snug__range  other = *snug__range_at(map, from);
    uint32_t     start = range->offset < other.offset ? range->offset : other.offset;
    range->fence       = snug__order_unite(map->order, range->fence, other.fence);
    range_remove(map, from);
    range_resize(map, into, start, range->size + other.size);
}

void snug__range_free(snug__map *map, uint32_t node, snug__stamp fence) {
    snug__range *range    = snug__range_at(map, node);
    uint32_t     previous = range->previous, next = range->next;
    bool         below = is_free(map, previous), above = is_free(map, next);
    fence        = snug__order_unite(map->order, range->fence, fence);
    range->fence = snug__order_settled(map->order, fence) ? SNUG__STAMP_NONE : fence;
    map->changes++;
    if (below || above) { /* a neighbour takes it in, so that the one beyond needn't be touched */
        merge(map, below ? previous : next, node);
        if (below && above)
            merge(map, previous, next);
        return;
    }
    range->entry   = SNUG__NONE;
    range->copying = 0;
    range->fixed   = 0;
    delist(map, node);
    range->kind = SNUG__RANGE_FREE;
    enlist(map, node);
}

uint32_t snug__range_split(snug__map *map, uint32_t node, uint32_t size) {
    snug__range whole = *snug__range_at(map, node);
    snug__assert_debug(size > 0 && size < whole.size && whole.kind != SNUG__RANGE_FREE);
    if (!nodes_ready(map, 1))
        return SNUG__NONE;
    range_resize(map, node, whole.offset, size);
    snug__range rest = whole;
    rest.offset      = whole.offset + size;
    rest.size        = whole.size - size;
    map->changes++;
    return range_insert(map, node, rest);
}

snug__stamp snug__range_extend(snug__map *map, uint32_t node, uint32_t granules) {
    snug__range *range = snug__range_at(map, node);
    uint32_t     next  = range->next;
    snug__range  other = *snug__range_at(map, next);
    snug__assert_debug(other.kind == SNUG__RANGE_FREE && other.size >= granules);
    if (other.size == granules)
        range_remove(map, next);
    else
        range_resize(map, next, other.offset + granules, other.size - granules);
    range_resize(map, node, range->offset, range->size + granules);
    map->changes++;
    return other.fence;
}

void snug__gaps_free(snug__map *map) {
    while (map->gaps != SNUG__NONE)
        snug__range_free(map, map->gaps, SNUG__STAMP_NONE);
}

void snug__gap_absorb(snug__map *map, uint32_t gap, uint32_t neighbour) {
    snug__range *range = snug__range_at(map, gap);
    snug__range  other = *snug__range_at(map, neighbour);
    uint32_t     start = range->offset < other.offset ? range->offset : other.offset;
    range_remove(map, neighbour);
    range->fence = snug__order_unite(map->order, range->fence, other.fence);
    range_resize(map, gap, start, range->size + other.size);
    map->changes++;
}

void snug__gap_swap(snug__map *map, uint32_t gap, uint32_t live, uint32_t to, snug__stamp fence) {
    snug__range *g = snug__range_at(map, gap), *l = snug__range_at(map, live);
    uint32_t     start = g->offset < l->offset ? g->offset : l->offset, end = start + g->size + l->size;
    bool         down = g->offset < l->offset;
    uint32_t     size = l->size;
    g->fence          = snug__order_unite(map->order, g->fence, fence);
    unlink_node(map, gap);
    if (down) { /* [leftover] live gap */
        link_after(map, live, gap);
        range_resize(map, gap, to + size, end - to - size);
    } else { /* gap live [leftover] */
        link_after(map, l->previous, gap);
        range_resize(map, gap, start, to - start);
    }
    range_resize(map, live, to, size);
    uint32_t    left_at = down ? start : to + size, left = down ? to - start : end - to - size;
    snug__range leftover = {
        .offset = left_at, .size = left, .entry = SNUG__NONE, .kind = SNUG__RANGE_GAP, .fence = g->fence};
    if (left) {
        uint32_t node = range_insert(map, down ? l->previous : live, leftover);
        snug__range_free(map, node, SNUG__STAMP_NONE);
    }
    map->changes++;
}

/* ------------------------------------------------------------------------------------------------ check */

static const char *check_node(snug__map *map, uint32_t node, uint32_t previous, uint64_t end) {
    const snug__range *range = snug__range_at(map, node);
    if (range->offset != end)
        return "two ranges overlap, or leave bytes between them";
    if (range->size == 0)
        return "a range is empty";
    if (range->previous != previous)
        return "the address list is broken";
    if (range->kind == SNUG__RANGE_UNUSED || range->kind >= SNUG__RANGE_KINDS)
        return "a range in the list has no kind";
    if (range->kind != SNUG__RANGE_FREE)
        return NULL;
    if (previous != SNUG__NONE && snug__range_at(map, previous)->kind == SNUG__RANGE_FREE)
        return "two neighbouring ranges are free"; /* I2 */
    if (range->bin != bin_of(range->size))
        return "a free range is in the wrong bin";
    if (range->bin_previous == SNUG__NONE &&
        map->bins[range->bin / SNUG__BIN_COLUMNS][range->bin % SNUG__BIN_COLUMNS] != node)
        return "a free range is in no bin";
    return NULL;
}

static const char *check_bins(snug__map *map) {
    uint32_t found = 0;
    for (unsigned bin = 0; bin < SNUG__BIN_ROWS * SNUG__BIN_COLUMNS; bin++) {
        unsigned row = bin / SNUG__BIN_COLUMNS, column = bin % SNUG__BIN_COLUMNS;
        uint32_t head   = map->bins[row][column];
        bool     filled = (map->columns[row] >> column) & 1;
        if (filled != (head != SNUG__NONE) || ((map->rows >> row) & 1) != (map->columns[row] != 0))
            return "a bin's bit is wrong";
        for (uint32_t node = head, last = SNUG__NONE; node != SNUG__NONE; node = snug__range_at(map, node)->bin_next) {
            const snug__range *range = snug__range_at(map, node);
            if (++found > map->count[SNUG__RANGE_FREE] || range->kind != SNUG__RANGE_FREE ||
                range->bin_previous != last)
                return "a bin's list is broken";
            last = node;
        }
    }
    if (found != map->count[SNUG__RANGE_FREE])
        return "a free range is in no bin";
    for (uint32_t node = 0; node < map->nodes_made; node++)
        if (is_free(map, node) != (snug__range_at(map, node)->kind == SNUG__RANGE_FREE))
            return "the bit of a free range is wrong";
    uint32_t gaps = 0;
    for (uint32_t node = map->gaps; node != SNUG__NONE; node = snug__range_at(map, node)->bin_next)
        if (snug__range_at(map, node)->kind != SNUG__RANGE_GAP || ++gaps > map->count[SNUG__RANGE_GAP])
            return "the list of gaps is broken";
    return gaps == map->count[SNUG__RANGE_GAP] ? NULL : "a gap is in no list";
}

const char *snug__map_check(snug__map *map) {
    uint64_t granules[SNUG__RANGE_KINDS] = {0}, end = 0;
    uint32_t count[SNUG__RANGE_KINDS] = {0}, previous = SNUG__NONE;
    for (uint32_t node = map->first; node != SNUG__NONE; node = snug__range_at(map, node)->next) {
        const char *fault = check_node(map, node, previous, end);
        if (fault)
            return fault;
        const snug__range *range = snug__range_at(map, node);
        granules[range->kind] += range->size;
        count[range->kind]++;
        end += range->size;
        previous = node;
    }
    if (end != map->committed || previous != map->last || map->committed > map->limit)
        return "the ranges don't add up to the committed bytes"; /* I3 */
    if (memcmp(granules, map->granules, sizeof granules) != 0 || memcmp(count, map->count, sizeof count) != 0)
        return "a counter disagrees with the map"; /* I9 */
    return check_bins(map);
}
