/* pattern.h - contents of buffers as a function of (id, version, offset), written and verified on the stream's thread.
 *
 * A client keeps (id, version, size) per buffer. Version 0 means: never written. A launch verifies the bytes that
 * should hold `version` and, where the buffer is open for writing, writes version + 1 over it; the client then raises
 * its record. The same bytes at another offset, of another id or of another version never pass.
 *
 *     first write        {address, id, version = 0, verify_bytes = 0,    write_bytes = size}   then version = 1
 *     read access        {address, id, version,     verify_bytes = size, write_bytes = 0}
 *     read and write     {address, id, version,     verify_bytes = size, write_bytes = size}   then version++
 *     after a resize     {address, id, version,     verify_bytes = min(old, new), write_bytes = new}  then version++
 */
#ifndef SNUG_TOOLS_PATTERN_H
#define SNUG_TOOLS_PATTERN_H

#include <snug_host.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first byte found wrong; what the whole word at that place should have been and was (the tail's bytes zero). */
typedef struct pattern_fault {
    uint64_t id, offset, expected, got;
    uint32_t version;
} pattern_fault;

/* Where kernels count. One per run or one per stream; zeroed is empty. It must outlive the launches. */
typedef struct pattern_tally {
    _Atomic uint64_t verified;  /* verifications of a buffer: how often one was read through, good or bad */
    _Atomic uint64_t corrupted; /* of those: found wrong (at most once per verification) */
    _Atomic uint64_t verified_bytes, written_bytes;
    _Atomic uint64_t batches;     /* host launches that have run to their end: tells how far behind a stream is */
    _Atomic int      first_state; /* 0 none, 1 being written, 2 first is there */
    pattern_fault    first;
} pattern_tally;

typedef struct pattern_buffer {
    void    *address;
    uint64_t id;
    uint64_t verify_bytes; /* from the start; 0 = verify nothing */
    uint64_t write_bytes;  /* from the start; 0 = write nothing */
    uint32_t version;      /* expected; version + 1 is what is written */
} pattern_buffer;

#define PATTERN_BATCH 5 /* buffers that one host launch carries */

/* Host launches that pattern_launch makes for n buffers. */
static inline uint64_t pattern_batches(size_t n) { return (n + PATTERN_BATCH - 1) / PATTERN_BATCH; }

/* Enqueues the verifying and writing of n buffers on the stream, in as few host launches as they fit.
 * Call between resolve and release. Returns what snug_host_launch said; some may have been enqueued then. */
snug_status pattern_launch(snug_host_stream *stream, pattern_tally *tally, const pattern_buffer *buffers, size_t n);

/* The same at once on the calling thread, for buffers pinned for the host. */
void pattern_run(pattern_tally *tally, const pattern_buffer *buffer);

/* The pieces. verify: the offset of the first wrong byte, or bytes if all are right. Any address, any size. */
void     pattern_write(void *address, uint64_t bytes, uint64_t id, uint32_t version);
uint64_t pattern_verify(const void *address, uint64_t bytes, uint64_t id, uint32_t version);
uint64_t pattern_word(uint64_t id, uint32_t version, uint64_t offset); /* the word that covers offset & ~7 */

/* Adds one tally to another, after the streams are synchronised. Keeps the first fault of into, if it has one. */
void pattern_tally_merge(pattern_tally *into, const pattern_tally *from);

/* After the streams are synchronised: one line about the first fault on stderr, if there is one. */
void pattern_fault_print(const char *command, const pattern_tally *tally);

#endif
