/* table.c: see table.h. */
#include "table.h"

#include <sys/mman.h>

#define TABLE_CHUNK ((size_t)64 << 10)

static size_t round_up(size_t bytes) {
    return (bytes + TABLE_CHUNK - 1) & ~(TABLE_CHUNK - 1);
}

snug_status snug__table_reserve(snug__table *table, size_t bytes) {
    size_t reserved = round_up(bytes);
    void  *base     = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return SNUG_NO_MEMORY;
    *table = (snug__table){base, reserved, 0};
    return SNUG_OK;
}

snug_status snug__table_ensure(snug__table *table, size_t bytes) {
    if (bytes <= table->committed)
        return SNUG_OK;
    if (bytes > table->reserved)
        return SNUG_NO_MEMORY;
    /* an eighth at a time, so that a table that grows to gigabytes asks the system seldom */
    size_t goal = round_up(bytes + table->committed / 8);
    if (goal > table->reserved)
        goal = table->reserved;
    if (mprotect(table->base + table->committed, goal - table->committed, PROT_READ | PROT_WRITE) != 0)
        return SNUG_NO_MEMORY;
    table->committed = goal;
    return SNUG_OK;
}

void snug__table_release(snug__table *table) {
    if (table->base)
        munmap(table->base, table->reserved);
    *table = (snug__table){NULL, 0, 0};
}
