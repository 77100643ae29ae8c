/* pattern.c - see pattern.h.
 *
 * The word at offset o is base(id, version) + (o / 8) * STEP: one addition per word, so that verifying runs at the
 * speed of memory, and still no shift, no other buffer and no other version gives the same bytes. base is a 64-bit mix.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "pattern.h"

#include <stdio.h>
#include <string.h>

#define STEP        UINT64_C(0x9e3779b97f4a7c15)
#define BLOCK_WORDS 64u
#define BLOCK_BYTES (BLOCK_WORDS * 8u)
#define CHUNK_BYTES (16u << 10) /* verified and then written while it is in the first-level cache */

#define ID_BITS 40

/* What a launch carries: pattern_buffer packed to 32 bytes. */
typedef struct packed_buffer {
    unsigned char *address;
    uint64_t       id : ID_BITS;
    uint64_t       version : 64 - ID_BITS;
    uint64_t       verify_bytes, write_bytes;
} packed_buffer;

typedef struct batch {
    pattern_tally *tally;
    uint64_t       n;
    packed_buffer  buffers[PATTERN_BATCH];
} batch;

_Static_assert(sizeof(batch) <= SNUG_HOST_ARGUMENTS_MAX, "a batch must fit a launch's arguments");

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Only the bits that a launch carries count, so that both ways in agree. */
static uint64_t base_of(uint64_t id, uint32_t version) {
    uint64_t low = id & (((uint64_t)1 << ID_BITS) - 1);
    return mix((low | (uint64_t)version << ID_BITS) + STEP);
}

uint64_t pattern_word(uint64_t id, uint32_t version, uint64_t offset) {
    return base_of(id, version) + (offset / 8) * STEP;
}

/* ---------------------------------------------------------------------------------------------- spans */

/* Fixed length: compilers vectorise it at -O2. */
static uint64_t block_difference(const unsigned char *bytes, uint64_t word) {
    uint64_t difference = 0;
    for (uint32_t k = 0; k < BLOCK_WORDS; k++) {
        uint64_t got;
        memcpy(&got, bytes + 8 * k, 8);
        difference |= got ^ word;
        word += STEP;
    }
    return difference;
}

static void block_write(unsigned char *bytes, uint64_t word) {
    for (uint32_t k = 0; k < BLOCK_WORDS; k++) {
        memcpy(bytes + 8 * k, &word, 8);
        word += STEP;
    }
}

static uint64_t load_word(const unsigned char *p, uint64_t bytes) {
    uint64_t word = 0;
    if (bytes >= 8)
        memcpy(&word, p, 8);
    else
        memcpy(&word, p, bytes);
    return word;
}

/* Word by word; `bytes` may end inside one. */
static uint64_t first_difference(const unsigned char *p, uint64_t bytes, uint64_t word) {
    uint64_t at = 0;
    for (; at + 8 <= bytes && load_word(p + at, 8) == word; at += 8) word += STEP;
    for (const unsigned char *wanted = (const unsigned char *)&word; at < bytes; at++, wanted++)
        if (p[at] != *wanted) return at;
    return bytes;
}

/* first: the word at p. Returns the offset of the first wrong byte from p, or bytes. */
static uint64_t span_verify(const unsigned char *p, uint64_t bytes, uint64_t first) {
    uint64_t at = 0;
    for (; at + BLOCK_BYTES <= bytes; at += BLOCK_BYTES)
        if (block_difference(p + at, first + at / 8 * STEP))
            return at + first_difference(p + at, BLOCK_BYTES, first + at / 8 * STEP);
    return at + first_difference(p + at, bytes - at, first + at / 8 * STEP);
}

static void span_write(unsigned char *p, uint64_t bytes, uint64_t first) {
    uint64_t at = 0;
    for (; at + BLOCK_BYTES <= bytes; at += BLOCK_BYTES) block_write(p + at, first + at / 8 * STEP);
    uint64_t word = first + at / 8 * STEP;
    for (; at + 8 <= bytes; at += 8, word += STEP) memcpy(p + at, &word, 8);
    if (at < bytes) memcpy(p + at, &word, bytes - at);
}

void pattern_write(void *address, uint64_t bytes, uint64_t id, uint32_t version) {
    span_write(address, bytes, base_of(id, version));
}

uint64_t pattern_verify(const void *address, uint64_t bytes, uint64_t id, uint32_t version) {
    return span_verify(address, bytes, base_of(id, version));
}

/* ---------------------------------------------------------------------------------------------- buffers */

static void keep_first(pattern_tally *tally, const pattern_fault *fault) {
    int none = 0;
    if (!atomic_compare_exchange_strong(&tally->first_state, &none, 1)) return;
    tally->first = *fault;
    atomic_store(&tally->first_state, 2);
}

static pattern_fault fault_at(const packed_buffer *b, uint64_t offset) {
    uint64_t word_at = offset & ~UINT64_C(7), left = b->verify_bytes - word_at;
    uint64_t expected = pattern_word(b->id, (uint32_t)b->version, offset);
    return (pattern_fault){
        .id = b->id,
        .version = (uint32_t)b->version,
        .offset = offset,
        .expected = load_word((const unsigned char *)&expected, left),
        .got = load_word(b->address + word_at, left),
    };
}

/* Verifying and writing chunk by chunk brings each cache line in once. A wrong buffer is still written, so that one
 * fault is counted once. */
static void run(pattern_tally *tally, const packed_buffer *b) {
    uint64_t old_base = base_of(b->id, (uint32_t)b->version), new_base = base_of(b->id, (uint32_t)b->version + 1);
    uint64_t most = b->verify_bytes > b->write_bytes ? b->verify_bytes : b->write_bytes;
    bool     wrong = false;
    for (uint64_t at = 0; at < most; at += CHUNK_BYTES) {
        if (at < b->verify_bytes && !wrong) {
            uint64_t left = b->verify_bytes - at, n = left < CHUNK_BYTES ? left : CHUNK_BYTES;
            uint64_t good = span_verify(b->address + at, n, old_base + at / 8 * STEP);
            if (good < n) {
                pattern_fault fault = fault_at(b, at + good);
                wrong = true;
                keep_first(tally, &fault);
            }
        }
        if (at < b->write_bytes) {
            uint64_t left = b->write_bytes - at, n = left < CHUNK_BYTES ? left : CHUNK_BYTES;
            span_write(b->address + at, n, new_base + at / 8 * STEP);
        }
    }
    if (b->verify_bytes) {
        atomic_fetch_add_explicit(&tally->verified, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&tally->verified_bytes, b->verify_bytes, memory_order_relaxed);
    }
    if (wrong) atomic_fetch_add_explicit(&tally->corrupted, 1, memory_order_relaxed);
    if (b->write_bytes) atomic_fetch_add_explicit(&tally->written_bytes, b->write_bytes, memory_order_relaxed);
}

static packed_buffer pack(const pattern_buffer *b) {
    packed_buffer packed = {
        .address = b->address,
        .id = b->id & (((uint64_t)1 << ID_BITS) - 1),
        .version = b->version & ((1u << (64 - ID_BITS)) - 1),
        .verify_bytes = b->verify_bytes,
        .write_bytes = b->write_bytes,
    };
    return packed;
}

static void kernel(void *arguments) {
    batch b;
    memcpy(&b, arguments, offsetof(batch, buffers)); /* the queue's copy needn't be aligned */
    for (uint64_t i = 0; i < b.n; i++) {
        packed_buffer one;
        memcpy(&one, (char *)arguments + offsetof(batch, buffers) + i * sizeof one, sizeof one);
        run(b.tally, &one);
    }
    atomic_fetch_add_explicit(&b.tally->batches, 1, memory_order_release);
}

snug_status pattern_launch(snug_host_stream *stream, pattern_tally *tally, const pattern_buffer *buffers, size_t n) {
    for (size_t at = 0; at < n;) {
        batch b;
        b.tally = tally;
        b.n = n - at < PATTERN_BATCH ? n - at : PATTERN_BATCH;
        for (size_t i = 0; i < b.n; i++) b.buffers[i] = pack(&buffers[at + i]);
        snug_status status = snug_host_launch(stream, kernel, &b, offsetof(batch, buffers) + b.n * sizeof b.buffers[0]);
        if (status) return status;
        at += b.n;
    }
    return SNUG_OK;
}

void pattern_run(pattern_tally *tally, const pattern_buffer *buffer) {
    packed_buffer packed = pack(buffer);
    run(tally, &packed);
}

void pattern_tally_merge(pattern_tally *into, const pattern_tally *from) {
    atomic_fetch_add(&into->verified, atomic_load(&from->verified));
    atomic_fetch_add(&into->corrupted, atomic_load(&from->corrupted));
    atomic_fetch_add(&into->verified_bytes, atomic_load(&from->verified_bytes));
    atomic_fetch_add(&into->written_bytes, atomic_load(&from->written_bytes));
    atomic_fetch_add(&into->batches, atomic_load(&from->batches));
    if (atomic_load(&from->first_state) == 2) keep_first(into, &from->first);
}

void pattern_fault_print(const char *command, const pattern_tally *tally) {
    if (atomic_load(&tally->first_state) != 2) return;
    const pattern_fault *f = &tally->first;
    fprintf(stderr,
            "%s: %llu corrupted; first: buffer %llu version %lu, byte %llu: expected word %016llx, got %016llx\n",
            command, (unsigned long long)atomic_load(&tally->corrupted), (unsigned long long)f->id,
            (unsigned long)f->version, (unsigned long long)f->offset, (unsigned long long)f->expected,
            (unsigned long long)f->got);
}
