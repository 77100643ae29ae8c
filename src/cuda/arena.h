/* arena.h: the arena of a pool on a CUDA device.
 *
 * Where the device has virtual memory management: one reserved range of addresses, in which pieces of physical memory are
 * mapped and unmapped. A mapping can't be unmapped in part, so each piece is one, and pieces are what the arena grows and
 * shrinks by. One costs some 230 us to make (kvcached's measurements on an A100, per 2 MiB chunk: create 193, map 1.5, set
 * access 36; unmap 26), hardly more if it is larger, so pools of many gigabytes have larger ones: at most 2048 to a pool.
 * Elsewhere: one cudaMalloc, which neither grows nor shrinks.
 *
 * Unmapped memory goes back to the driver at once. Keeping it for the next growth would save its making, but keep from
 * other processes what snug_trim has promised them. */
#ifndef SNUG__CUDA_ARENA_H
#define SNUG__CUDA_ARENA_H

#include "runtime.h"

typedef struct snug__cuda_piece {
    CUmemGenericAllocationHandle memory;
    uint64_t                     bytes; /* 0: there is none here */
} snug__cuda_piece;

typedef struct snug__cuda_arena {
    int               device;
    char             *base;
    uint64_t          reserved;
    uint64_t          unit;   /* of the device: pieces start and end on multiples */
    uint64_t          piece;  /* bytes of one, but for the last ones */
    snug__cuda_piece *pieces; /* by offset / unit; NULL: no virtual memory management */
    void             *allocated;
} snug__cuda_arena;

/* All of them inside a scope on the arena's device. Errors: DEVICE, NO_MEMORY; UNSUPPORTED: it can't shrink. */
snug_status snug__cuda_arena_reserve(snug__cuda_arena *arena, uint64_t bytes);
void        snug__cuda_arena_release(snug__cuda_arena *arena);
snug_status snug__cuda_arena_commit(snug__cuda_arena *arena, uint64_t offset, uint64_t bytes);
snug_status snug__cuda_arena_decommit(snug__cuda_arena *arena, uint64_t offset, uint64_t bytes);

#endif
