/* process.c - see process.h. */
#include "process.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

outcome *outcome_new(void) {
    void *o = mmap(NULL, sizeof(outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (o == MAP_FAILED)
        abort();
    return o;
}

static bool steps_run(outcome *o, const run *r, world *w) {
    uint64_t quiet = r->mode == STALL && !r->replay ? r->steps - r->steps / 8 : r->steps;
    for (uint64_t i = 0; i < r->steps && !w->lost; i++) {
        bool first = w->mode == STALL && w->stalled < 0 && (r->replay ? o->ops[i].kind == OP_STALL_STEP : i == quiet);
        if (first && !stall_begin(w))
            return false;
        if (!r->replay)
            o->ops[i] = op_draw(w);
        o->steps = i + 1; /* before, should it crash */
        o->calls = w->calls;
        if (!world_step(w, o->ops[i]))
            return false;
    }
    return (w->stalled < 0 || stall_end(w)) && world_close(w);
}

static void child(outcome *o, const run *r) {
    world *w = world_new(r->seed, r->mode, r->row);
    w->walks = !r->no_walks;
    w->trace = r->trace;
    alarm(30 + (unsigned)(r->steps / 500));
    bool held     = world_open(w) && steps_run(o, r, w);
    o->calls      = w->calls;
    o->violations = snug__sim.report.violations;
    for (int kind = 0; kind < SNUG_SIM_VIOLATIONS; kind++)
        o->by_kind[kind] = (uint32_t)snug__sim.report.by_kind[kind];
    o->failed = !held;
    o->line   = w->failed_line;
    memcpy(o->failure, w->failure, sizeof o->failure);
    fflush(stdout);
    exit(held ? 0 : 1); /* not _exit: coverage is written then */
}

bool run_process(outcome *o, const run *r) {
    int status;
    fflush(stdout);
    o->failed = false;
    o->line   = 0;
    o->steps = o->calls = 0;
    pid_t pid           = fork();
    if (pid < 0)
        abort();
    if (pid == 0)
        child(o, r);
    while (waitpid(pid, &status, 0) < 0)
        ;
    if (WIFSIGNALED(status)) {
        o->failed = true;
        o->line   = -WTERMSIG(status);
        snprintf(o->failure, sizeof o->failure, "%s",
                 WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) > 1) {
        o->failed = true;
        o->line   = WEXITSTATUS(status);
        snprintf(o->failure, sizeof o->failure, "exit status %d", WEXITSTATUS(status));
    }
    return !o->failed;
}

/* Does the sequence fail as before? */
static bool fails(outcome *o, const run *r, const op *ops, uint64_t n, int line) {
    run replay    = *r;
    replay.replay = true;
    replay.trace  = false;
    replay.steps  = n;
    memcpy(o->ops, ops, n * sizeof *ops);
    return !run_process(o, &replay) && o->line == line;
}

uint64_t run_shrink(outcome *o, const run *r, double seconds) {
    double   until = seconds_now() + seconds;
    uint64_t n     = o->steps, left;
    int      line  = o->line;
    op      *ops = malloc((n + 1) * sizeof *ops), *fewer = malloc((n + 1) * sizeof *fewer);
    if (!ops || !fewer)
        abort();
    memcpy(ops, o->ops, n * sizeof *ops);
    for (uint64_t piece = (n + 1) / 2; piece > 0 && fails(o, r, ops, n, line); piece /= 2)
        for (uint64_t at = 0; at < n && seconds_now() < until;) {
            uint64_t cut = n - at < piece ? n - at : piece;
            left         = n - cut;
            memcpy(fewer, ops, at * sizeof *ops);
            memcpy(fewer + at, ops + at + cut, (left - at) * sizeof *ops);
            if (fails(o, r, fewer, left, line)) {
                memcpy(ops, fewer, left * sizeof *ops);
                n = left;
            } else {
                at += piece;
            }
        }
    memcpy(o->ops, ops, n * sizeof *ops);
    free(ops);
    free(fewer);
    return n;
}
