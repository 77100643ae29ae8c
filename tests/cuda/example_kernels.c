/* example_kernels.c - what the kernels of examples/04 to 06 do, for the test double, which can't run device code: a library
 * that is loaded before the program (LD_PRELOAD) and registers host functions under the kernels' names. With
 * SNUG_EXAMPLE_FAULT in the environment those that write leave the last word out, so that the examples have a fault to find. */
#include "double/double.h"

#include <snug_cuda.h>
#include <stdlib.h>

/* The ith argument, of a type. */
#define ARGUMENT(type, i) (*(type *)arguments[i])

enum { LAYERS = 8 }; /* of 04_runtime.cu */

static unsigned weight(unsigned layer, unsigned i) {
    return ((layer + 1) * 2654435761u) ^ i;
}

/* How many words a kernel that writes n of them does write. */
static size_t written(size_t n) {
    return n && getenv("SNUG_EXAMPLE_FAULT") ? n - 1 : n;
}

static void count(unsigned *wrong, unsigned n) {
    if (n)
        __atomic_fetch_add(wrong, n, __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------------------------------------ 04_runtime */

static void runtime_weights(dim3 grid, dim3 block, void **arguments) {
    (void)grid, (void)block;
    unsigned *w = ARGUMENT(unsigned *, 0);
    for (unsigned i = 0; i < ARGUMENT(unsigned, 1); i++)
        w[i] = weight(ARGUMENT(unsigned, 2), i);
}

static void runtime_input(dim3 grid, dim3 block, void **arguments) {
    (void)grid, (void)block;
    unsigned *x = ARGUMENT(unsigned *, 0);
    for (unsigned i = 0; i < ARGUMENT(unsigned, 1); i++)
        x[i] = ARGUMENT(unsigned, 2) + i;
}

static void runtime_layer(dim3 grid, dim3 block, void **arguments) {
    (void)grid, (void)block;
    unsigned       *y = ARGUMENT(unsigned *, 0);
    const unsigned *x = ARGUMENT(const unsigned *, 1), *w = ARGUMENT(const unsigned *, 2);
    const size_t    n = written(ARGUMENT(unsigned, 3));
    for (size_t i = 0; i < n; i++)
        y[i] = 3 * x[i] + w[i];
}

static void runtime_verify(dim3 grid, dim3 block, void **arguments) {
    (void)grid, (void)block;
    const unsigned *x     = ARGUMENT(const unsigned *, 0);
    unsigned        wrong = 0;
    for (unsigned i = 0; i < ARGUMENT(unsigned, 1); i++) {
        unsigned expected = ARGUMENT(unsigned, 2) + i;
        for (unsigned layer = 0; layer < LAYERS; layer++)
            expected = 3 * expected + weight(layer, i);
        wrong += x[i] != expected;
    }
    count(ARGUMENT(unsigned *, 3), wrong);
}

/* ------------------------------------------------------------------------------------------------ 05_graph */

static void step(unsigned *state, const unsigned *term, unsigned factor, unsigned n) {
    const size_t end = written(n);
    for (size_t i = 0; i < end; i++)
        state[i] = factor * state[i] + term[i];
}

static void graph_step(dim3 grid, dim3 block, void **arguments) {
    (void)grid, (void)block;
    step(ARGUMENT(unsigned *, 0), ARGUMENT(const unsigned *, 1), ARGUMENT(unsigned, 2), ARGUMENT(unsigned, 3));
}

static void graph_step_by_table(dim3 grid, dim3 block, void **arguments) {
    (void)grid, (void)block;
    unsigned *const *table = ARGUMENT(unsigned *const *, 0);
    step(table[SNUG_HANDLE_INDEX(ARGUMENT(snug_handle, 1))], table[SNUG_HANDLE_INDEX(ARGUMENT(snug_handle, 2))],
         ARGUMENT(unsigned, 3), ARGUMENT(unsigned, 4));
}

/* ------------------------------------------------------------------------------------------------ 06_shrink */

static void shrink_fill(dim3 grid, dim3 block, void **arguments) {
    (void)grid, (void)block;
    unsigned    *at = ARGUMENT(unsigned *, 0);
    const size_t n  = written(ARGUMENT(size_t, 1));
    for (size_t i = 0; i < n; i++)
        at[i] = ARGUMENT(unsigned, 2) + (unsigned)i;
}

static void shrink_verify(dim3 grid, dim3 block, void **arguments) {
    (void)grid, (void)block;
    const unsigned *at    = ARGUMENT(const unsigned *, 0);
    unsigned        wrong = 0;
    for (size_t i = 0; i < ARGUMENT(size_t, 1); i++)
        wrong += at[i] != ARGUMENT(unsigned, 2) + (unsigned)i;
    count(ARGUMENT(unsigned *, 3), wrong);
}

/* ------------------------------------------------------------------------------------------------ */

enum { P = sizeof(void *), U = sizeof(unsigned), Z = sizeof(size_t), H = sizeof(snug_handle) };

#define REGISTER(name, ...)                                                                                            \
    double_kernel_register(#name, name, sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t), (const size_t[]){__VA_ARGS__})

__attribute__((constructor)) static void example_kernels(void) {
    REGISTER(runtime_weights, P, U, U);
    REGISTER(runtime_input, P, U, U);
    REGISTER(runtime_layer, P, P, P, U);
    REGISTER(runtime_verify, P, U, U, P);
    REGISTER(graph_step, P, P, U, U);
    REGISTER(graph_step_by_table, P, H, H, U, U);
    REGISTER(shrink_fill, P, Z, U);
    REGISTER(shrink_verify, P, Z, U, P);
}
