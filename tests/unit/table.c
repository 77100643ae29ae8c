/* table.c - arrays that never move. */
#include "tap.h"

#include "table.h"

int main(void) {
    snug__table t;
    const size_t MiB = 1 << 20;
    succeeds(snug__table_reserve(&t, 100 * MiB));
    ok(t.base != NULL, "it has an address");
    is_u64(t.reserved, 100 * MiB, "reserved");
    is_u64(t.committed, 0, "nothing is committed");
    succeeds(snug__table_ensure(&t, 0));
    is_u64(t.committed, 0, "nothing asked, nothing committed");
    succeeds(snug__table_ensure(&t, 1));
    ok(t.committed >= 1 && t.committed <= MiB, "a little is committed for one byte: %zu", t.committed);
    char  *base = t.base;
    size_t had  = 0, dirty = 0;
    unsigned moved = 0, less = 0;
    for (size_t want = 1; want <= 100 * MiB; want += want / 2 + 1) {
        succeeds(snug__table_ensure(&t, want));
        less += t.committed < want;
        moved += t.base != base;
        for (size_t i = had; i < t.committed; i += 4096)
            dirty += t.base[i] != 0;
        memset(t.base + had, 0xee, t.committed - had);
        had = t.committed;
    }
    is_u64(less, 0, "as much as asked is committed");
    is_u64(moved, 0, "it never moves");
    is_u64(dirty, 0, "what comes is zeroed");
    succeeds(snug__table_ensure(&t, 100 * MiB));
    is_u64(t.committed, 100 * MiB, "all of it");
    is_u64((unsigned char)t.base[100 * MiB - 1] | (unsigned char)t.base[0], 0xee, "both ends can be used");
    is_status(snug__table_ensure(&t, 100 * MiB + 1), SNUG_NO_MEMORY, "not a byte more than was reserved");
    is_u64(t.committed, 100 * MiB, "a refusal changes nothing");
    snug__table_release(&t);
    is_pointer(t.base, NULL, "released");
    is_u64(t.committed + t.reserved, 0, "it is empty");
    snug__table_release(&t);
    ok(true, "a second release is harmless");
    snug__table_reserve(&t, 1);
    ok(t.reserved >= 1, "a table of one byte");
    is_status(snug__table_ensure(&t, t.reserved + 1), SNUG_NO_MEMORY, "has its end too");
    snug__table_release(&t);
    is_status(snug__table_reserve(&t, SIZE_MAX / 2), SNUG_NO_MEMORY, "more than there are addresses");
    return done_testing();
}
