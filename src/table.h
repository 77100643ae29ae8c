/* table.h: an array whose elements never move: address space reserved at once, memory committed as it grows.
 * Growing is for one thread at a time (the pool's lock); elements below the committed end may be used by any thread. */
#ifndef SNUG__TABLE_H
#define SNUG__TABLE_H

#include <snug.h>

typedef struct snug__table {
    char  *base;
    size_t reserved, committed; /* bytes */
} snug__table;

snug_status snug__table_reserve(snug__table *table, size_t bytes); /* NO_MEMORY */
snug_status snug__table_ensure(snug__table *table, size_t bytes);  /* at least so many committed, zeroed. NO_MEMORY */
void        snug__table_release(snug__table *table);

#endif
