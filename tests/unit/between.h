/* between.h - what others do at an exact point of the library's way, without luck: just before it takes a lock, yields, begins
 * a move, or freezes a buffer. The linker brings these calls here first (--wrap; see between_ldflags in Makefile.am).
 *
 * A hook belongs to the thread that sets it, stays until it is set anew, and may call the library: that meets no hook. Include
 * this after fixture.h, in one file of the program. */
#ifndef SNUG_TESTS_BETWEEN_H
#define SNUG_TESTS_BETWEEN_H

static _Thread_local struct between {
    void (*lock)(pthread_mutex_t *mutex);
    void (*yield)(void);
    void (*begin)(void);
    void (*freeze)(void);
    bool        inside;
    unsigned    yields;
    snug_handle begins; /* what the begin hook comes before the move of */
} between;

static inline void between_clear(void) {
    between = (struct between){0};
}

static inline void between_call(void (*hook)(void)) {
    if (!hook || between.inside)
        return;
    between.inside = true;
    hook();
    between.inside = false;
}

int         __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int         __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int         __real_sched_yield(void);
int         __wrap_sched_yield(void);
snug_status __real_snug__entry_begin_move(snug__entry *entry, snug_handle handle, snug__order *order);
snug_status __wrap_snug__entry_begin_move(snug__entry *entry, snug_handle handle, snug__order *order);
snug_status __real_snug__entry_freeze(snug__entry *entry, uint32_t generation);
snug_status __wrap_snug__entry_freeze(snug__entry *entry, uint32_t generation);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
    if (between.lock && !between.inside) {
        between.inside = true;
        between.lock(mutex);
        between.inside = false;
    }
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_sched_yield(void) {
    between.yields++;
    between_call(between.yield);
    return __real_sched_yield();
}

snug_status __wrap_snug__entry_begin_move(snug__entry *entry, snug_handle handle, snug__order *order) {
    if (!between.inside)
        between.begins = handle;
    between_call(between.begin);
    return __real_snug__entry_begin_move(entry, handle, order);
}

snug_status __wrap_snug__entry_freeze(snug__entry *entry, uint32_t generation) {
    between_call(between.freeze);
    return __real_snug__entry_freeze(entry, generation);
}

#endif
