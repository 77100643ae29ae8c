/* receipt.c: see receipt.h. */
#include "receipt.h"

snug_receipt snug__receipt_begin(snug_pool *pool, snug_receipt_kind kind, uint32_t asked_granules) {
    return (snug_receipt){.struct_size          = sizeof(snug_receipt),
                          .kind                 = kind,
                          .began_ns             = snug__pool_now(pool),
                          .asked_bytes          = snug__bytes(asked_granules),
                          .largest_before_bytes = snug__bytes(snug__map_largest(&pool->map))};
}

/* The bound is that of the first plan: later ones begin where it has left off. */
void snug__receipt_plan(snug_receipt *receipt, const snug__plan *plan) {
    if (!receipt->plans++)
        receipt->bound_bytes = snug__bytes(plan->bound);
}

void snug__receipt_run(snug_receipt *receipt, const snug__run *run) {
    receipt->moves += run->moves;
    receipt->cancelled += run->cancelled;
    receipt->busy += run->busy;
    receipt->moved_bytes += snug__bytes(run->moved_granules);
    receipt->waited_ns += run->waited_ns;
    receipt->waited_streams |= run->waited_mask;
}

void snug__receipt_end(snug_pool *pool, snug_receipt *receipt, snug_status outcome) {
    if (!receipt->moves && !receipt->cancelled && !receipt->busy && !receipt->moved_bytes)
        return;
    receipt->outcome                                     = outcome;
    receipt->spent_ns                                    = snug__pool_now(pool) - receipt->began_ns;
    receipt->largest_after_bytes                         = snug__bytes(snug__map_largest(&pool->map));
    receipt->number                                      = ++pool->receipts_made;
    pool->receipts[receipt->number % SNUG__RECEIPTS_MAX] = *receipt;
}

snug_status snug_receipt_get(snug_pool *pool, uint64_t number, snug_receipt *receipt) {
    snug_status status = snug__pool_open(pool);
    if (status != SNUG_OK && status != SNUG_LOST)
        return status;
    if (!receipt || !snug__struct_valid(receipt))
        return SNUG_INVALID;
    snug_receipt found;
    pthread_mutex_lock(&pool->lock);
    uint64_t last = pool->receipts_made, oldest = last >= SNUG__RECEIPTS_MAX ? last - SNUG__RECEIPTS_MAX + 1 : 1;
    number = number < oldest ? oldest : number;
    status = number <= last ? SNUG_OK : SNUG_UNKNOWN;
    found  = pool->receipts[number % SNUG__RECEIPTS_MAX];
    pthread_mutex_unlock(&pool->lock);
    if (status == SNUG_OK)
        snug__struct_give(receipt, &found, sizeof found);
    return status;
}
