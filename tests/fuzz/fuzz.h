/* fuzz.h - what every fuzz target shares: the input taken byte by byte as a list of decisions, and expectations that end
 * the process, so that both libFuzzer and the plain programs of main.c notice. An input that is used up reads as zeros. */
#ifndef SNUG_TESTS_FUZZ_H
#define SNUG_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* the target; libFuzzer's name for it */

typedef struct fuzz_input {
    const uint8_t *at, *end;
} fuzz_input;

static inline bool fuzz_more(const fuzz_input *in) {
    return in->at < in->end;
}

static inline uint32_t fuzz_byte(fuzz_input *in) {
    return in->at < in->end ? *in->at++ : 0;
}

/* Below n, which is at least 1: one byte decides where that is enough, else two. */
static inline uint32_t fuzz_below(fuzz_input *in, uint32_t n) {
    uint32_t value = fuzz_byte(in);
    if (n > 256)
        value |= fuzz_byte(in) << 8;
    return value % n;
}

static inline uint64_t fuzz_u64(fuzz_input *in) {
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)fuzz_byte(in) << 8 * i;
    return value;
}

/* Of a model, which runs after every operation: see uncounted.txt. What is inlined is counted with its caller. */
#define FUZZ_MODEL __attribute__((noinline))

#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: false: %s: ", __FILE__, __LINE__, #condition);                                     \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#define EXPECT_SOUND(fault)                                                                                            \
    do {                                                                                                               \
        const char *expect_fault = (fault);                                                                            \
        EXPECT(!expect_fault, "%s", expect_fault);                                                                     \
    } while (0)

#endif
