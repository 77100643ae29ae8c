/* slide.pml: a slide over itself: a buffer of two cells goes from cells 1, 2 to 0, 1, copied cell by cell in order. Whoever
 * reads or writes it between would find it torn, and a discarded copy has destroyed it; so it is FROZEN from before the first
 * piece until it is published (step_over, slide_over_itself): resolves and frees wait on the host, for the enqueuing only.
 *
 * The order is that of the C code: begin; freeze, which fails where there is a pin or MOVING is gone; only then the waits, for
 * ready, writers and readers (the target lies on bytes that readers still read); pieces; record; fill and publish.
 * Two clients on two streams, R rounds each, each a read or a write; -DFREE: another thread frees it, once, at any time.
 * Where the C code differs: pieces that go by way of the bounce buffer aren't here; MOVING and FROZEN are left together there,
 * here FROZEN takes MOVING's place.
 * Planted bugs, each is caught:
 *   B_NOFREEZE   without FROZEN, as a move that doesn't overlap    B_WAITFIRST  the waits before the freeze: a reader in between is missed
 *   B_NOREADERS  the waits leave the readers out                   B_FREEFROZEN a free doesn't wait for the thaw (with -DFREE)
 */
#ifndef R
#define R 2
#endif
#define MV 2
chan q[3] = [5] of { byte, byte, byte, byte, byte, byte };   /* op, a, least count, w0, w1, w2 */
#define WRITE 1
#define READ 2
#define CELL 3
#define REUSE 4
byte mem[3]; byte k; bit live = 1; bit mov, cur, frozen; byte pins; byte off[2]; byte rdy[2];
bit wr[2]; bit rr[2];                  /* writers, readers: by stream; what they stand for is the stream's latest record */
byte enq[3]; byte evt[3]; byte done[3]; byte pw[9]; byte wtd[2]; byte m; byte fin; bit dying, reused;
inline dwait(s,x) { if :: done[x] < evt[x] && evt[x] > pw[(s)*3+x] -> pw[(s)*3+x] = evt[x] :: else fi }
inline enqueue(s,op,a,c) { q[s]!op,a,c,pw[(s)*3],pw[(s)*3+1],pw[(s)*3+2]; enq[s]++; pw[(s)*3] = 0; pw[(s)*3+1] = 0; pw[(s)*3+2] = 0 }

proctype device(byte me) {
  byte op, a, c, w0, w1, w2;
end: do
  :: atomic { q[me]?op,a,c,w0,w1,w2 ->
end1: (done[0] >= w0 && done[1] >= w1 && done[2] >= w2);
     if
     :: op == WRITE -> assert(!reused && mem[a] == k && mem[a+1] == k); mem[a]++; mem[a+1]++; k++
     :: op == READ -> assert(!reused && mem[a] >= c && mem[a] <= k && mem[a+1] == mem[a])
     :: op == CELL -> assert(!reused); mem[a-1] = mem[a]; if :: a == 1 -> mem[1] = 255 :: else fi   /* a cell torn away is visible */
     :: op == REUSE -> reused = 1          /* the next owner of what it left */
     fi;
     done[me]++; op = 0; a = 0; c = 0; w0 = 0; w1 = 0; w2 = 0 }
  od
}
inline bury() {          /* the range goes to somebody else, behind its fence */
  if :: wr[0] || rr[0] -> dwait(2,0) :: else fi; if :: wr[1] || rr[1] -> dwait(2,1) :: else fi;
  enqueue(2,REUSE,0,0)   /* on the mover's stream, and so after its copies */
}
proctype client(byte s) {
  byte n, c, o, r; bit rd;
  do
  :: n == R -> break
  :: n < R -> n++;
     atomic {            /* snug__entry_pin */
       !frozen || !live ->
       if :: !live || dying -> n = R; goto l_next :: else fi;
       if :: rd = 1 :: mov = 0 fi;
       pins++; c = cur };
     atomic { o = off[c]; r = rdy[c]; if :: r > wtd[s] -> dwait(s,MV); wtd[s] = r :: else fi };
     atomic { if :: rd -> enqueue(s,READ,o,k) :: else -> enqueue(s,WRITE,o,0) fi };
     d_step { evt[s] = enq[s]; if :: rd -> rr[s] = 1 :: else -> wr[s] = 1 fi };
     atomic { pins--; if :: pins == 0 && dying -> dying = 0; live = 0; bury() :: else fi };
l_next:
     atomic { c = 0; o = 0; r = 0; rd = 0 }
  od;
  fin++
}
#define WAITS(READERS) if :: wr[0] || (READERS && rr[0]) -> dwait(MV,0) :: else fi; if :: wr[1] || (READERS && rr[1]) -> dwait(MV,1) :: else fi
proctype mover() {
  if :: atomic { pins == 0 && live && !dying -> mov = 1 }      /* (2) begin */
     :: atomic { !live || dying -> goto l_none } fi;
#if defined(B_WAITFIRST) || defined(B_NOFREEZE)
  atomic { WAITS(1) };
#endif
#ifndef B_NOFREEZE
  atomic { if :: pins == 0 && mov && live && !dying -> frozen = 1; mov = 0       /* freeze */
              :: else -> if :: live -> mov = 0 :: else fi; goto l_none fi };     /* nothing enqueued: nothing lost */
#endif
#if defined(B_NOREADERS)
  atomic { WAITS(0) };
#elif !defined(B_WAITFIRST)
  atomic { WAITS(1) };                                         /* (3), now that nobody can pin it */
#endif
  atomic { enqueue(MV,CELL,1,0) };                             /* (4) */
  atomic { enqueue(MV,CELL,2,0) };
  d_step { evt[MV] = enq[MV]; m++ };
  d_step { off[1-cur] = 0; rdy[1-cur] = m };                   /* (5) */
#ifndef B_NOFREEZE
  d_step { if :: live -> assert(pins == 0 && !dying) :: else fi; frozen = 0; cur = 1-cur };      /* (6) publish */
#else
  d_step { if :: pins == 0 && mov && live && !dying -> cur = 1-cur :: else fi; mov = 0 };
#endif
l_none:
  fin++
}
#ifdef FREE
proctype freer() {
  atomic {               /* snug_free: snug__entry_kill, and again once it has thawed */
#ifndef B_FREEFROZEN
    !frozen ->
#endif
    mov = 0;
    if :: pins -> dying = 1 :: else -> live = 0; bury() fi };
  fin++
}
#define NFIN 4
#else
#define NFIN 3
#endif
init {
  atomic { off[0] = 1; mem[0] = 200; run device(0); run device(1); run device(2); run client(0); run client(1); run mover();
#ifdef FREE
           run freer()
#endif
  };
  atomic { timeout -> assert(fin == NFIN); assert(done[0] == enq[0] && done[1] == enq[1] && done[2] == enq[2]);
           if :: live -> assert(pins == 0 && !mov && !frozen && mem[off[cur]] == k && mem[off[cur]+1] == k) :: else fi }
}
