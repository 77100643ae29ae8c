/* claim.c: see claim.h. */
#include "claim.h"

#include <sched.h>

void snug__claims_wait(snug__claims *claims) {
    while (!snug__claims_try(claims, 0))
        sched_yield(); /* if whoever has it has lost its core, it may have this one */
}

uint32_t snug__claims_find(const snug__claims *claims, snug_handle handle) {
    uint32_t i = atomic_load_explicit(&claims->count, memory_order_relaxed);
    if (handle == SNUG_HANDLE_NONE)
        return SNUG__CLAIMS_MAX;
    while (i > 0)
        if (atomic_load_explicit(&claims->handles[--i], memory_order_relaxed) == handle)
            return i;
    return SNUG__CLAIMS_MAX;
}

/* The others stay where they are: a look through the list must miss none. */
void snug__claims_drop(snug__claims *claims, uint32_t position) {
    uint32_t count = atomic_load_explicit(&claims->count, memory_order_relaxed);
    atomic_store_explicit(&claims->handles[position], SNUG_HANDLE_NONE, memory_order_relaxed);
    while (count > 0 && atomic_load_explicit(&claims->handles[count - 1], memory_order_relaxed) == SNUG_HANDLE_NONE)
        count--;
    atomic_exchange(&claims->count, count);
}

uint32_t snug__claims_count(snug__claims *claims, snug_handle handle) {
    uint32_t found = 0;
    for (uint32_t i = 0, count = atomic_load(&claims->count); i < count; i++)
        found += atomic_load(&claims->handles[i]) == handle;
    return found;
}
