/* protocol.pml: handles, moves, frees and fences together: clients that resolve, launch and release, one mover, a poller, and a
 * device that executes what was enqueued in order per stream, as late as it likes.
 *
 * The names and the numbers (1) to (6) are those of src/move.h. Step by step:
 *   resolve    snug_resolve, by a pin (a claim is as good: claims.pml), snug__entry_pin: one CAS of the word, then the location that it names, then snug__order_wait
 *   release    snug_release: snug__order_record, then the epoch, then snug__atomic_stamp_add, then snug__entry_unpin
 *   pin, unpin snug_pin, snug_unpin: as a writer, but the host waits, and on nobody's stream
 *   alloc      snug_alloc: settle_in, snug__handles_live       free      snug_free: snug__entry_kill
 *   bury       snug__pool_bury: the range back, or ORPHAN while a mover is copying it
 *   (1) plan   (2) begin: motion_begin   (3) motion_wait   (4) copy_granules, copies_record
 *   (5) fill and (6) publish: motion_publish; give_up and item_undo with source_release where it doesn't come to that
 *   late       snug__late_begin, snug__late_step, late_end: MOVING spans several steps, a piece is copied in each
 *   poll       snug__order_poll, poll_slot: done[] as there; the markers' states are IDLE, RECORDING, RECORDED
 * One variable per part of the word; whatever changes several of them in one atomic {} is one CAS there, or has the lock.
 *
 * Where the C code differs, and why that changes nothing:
 *   - a range is one cell and a bit has one stream; floor, the least of done, isn't here: it only saves looks at done;
 *   - the copy is recorded and published singly; move_items records once for a batch, whose ranges are disjoint (chain.pml);
 *   - begin tells CURRENT along with the CAS; motion_begin reads it after: nobody but the mover changes it;
 *   - begin tries once; motion_begin again while the pins last: here the mover may as well be late;
 *   - a discarded copy's stamp replaces the target's fence, which the copy has waited for; snug__range_free unites them;
 *   - stamps don't dissolve when they are united; snug__order_unite leaves out what has settled;
 *   - give_up shares the lock and here the step with the publish that failed;
 *   - a release may use any idle marker, whether a poll has asked for it (marker_wanted) or not.
 * Not here: FROZEN (slide.pml), chains (chain.pml), resizes (resize.pml), returning memory, failing device calls.
 *
 * Sizes: NH entries (NLIVE live at start), NR ranges, RA/RB rounds of the two clients, MM moves, NP polls, GMAX generations.
 * Options:
 *   -DREADS    each use is a read or a write       -DFREES    free and alloc          -DXALLOC  first use on the other client's stream
 *   -DSAME     both clients on one stream          -DMARKER   a second event          -DNP=n    a poller, n polls of any stream
 *   -DPINS     each use is a write or a long pin   -DLATE     moves are late: in two pieces, given up between them at will
 *   -DNOCACHE  without waited[], so that epochs advance by polls only: far fewer states
 *   -DCOARSE   a client's record, epoch and stamp in one step, waits in one step (only without SAME, NP, MARKER)
 *   -DSPLIT    a stamp's mask and epoch are raised in two steps      -DTEN  a read also checks that no copy came into its range meanwhile
 *   -DNOGIVEUP the mover only ever tries again; default: while readers hold pins it may give up
 * Other readings:
 *   -DW_GENTEST     a failed publish adds the move to the entry's readers only if its generation is the same and live: wrong
 *   -DW_RANGEFENCE  ... or to the range's own fence: right too
 *   -DW_READYLESS   the mover doesn't wait for ready: wrong
 * Planted bugs, each is caught; run.sh has the sizes:
 *   B_RESETFILL B_RESETPUB    the entry's stamps are reset when the location is filled, or after the publish
 *   B_RESETLATE               the stamps are reset after the entry went live
 *   B_PUBREADER   publish ignores pins                        B_SRCNOREADERS  the fence of what was left lacks the readers
 *   B_STAMPEARLY  stamps read before the publish              B_NOCLEAR     a writer leaves MOVING set
 *   B_NOWRITERS   (3) without the writers                     B_TGTNOFENCE  (3) without the target's fence
 *   B_ORPHANFREE  bury returns a range that is being copied   B_ORPHANNOM   an orphan is returned without the move's stamp
 *   B_ORPHANLEAK  an orphan is never returned                 B_PLANLEAK    nor when begin fails
 *   B_CANCELNOM   a discarded copy is put on no stamp         B_TGTNOMOVE   nor on the target's fence
 *   B_SRCNOMOVE   the fence of what was left lacks the move   B_ALLOCNOFENCE  alloc forgets the range's fence
 *   B_FREENOREADY B_FREENOREADERS  bury's fence without ready, without readers      B_NOREADY  resolve doesn't wait for ready
 *   B_POLLNOADV   a poll reads the epoch without advancing it B_COVNOADV    waited: covers the epoch, not advanced
 *   B_EFIRST      the epoch is read before the record         B_CACHEFIRST  waited is raised before the wait is enqueued
 *   B_NOMKRULE    main alone settles, whatever the marker     B_STBEFORE    marker_state is read before the epoch is advanced
 *   B_MKE0        marker_epoch is the epoch, not one less     B_EVFIRST     the marker is asked before its state is read
 *   B_WAITMAIN    a wait looks at main only                  B_UNPINFIRST  a release drops its pin before it adds the stamp
 *   B_BEGINPINS   begin ignores pins                         B_PUBCANCELLED  publish ignores that MOVING is gone
 *   B_CURLOST     a free sets CURRENT to 0
 *   B_PINNOWAIT   a long pin doesn't wait for ready           B_PINNOCLEAR  a long pin leaves MOVING set
 *   B_LATEBEGIN   each late step begins anew, setting MOVING  B_LATERECORD  a late move is recorded before its last piece
 *
 * Device: evt[s]/mkv[s] = operations enqueued on s when main/marker was last recorded; a wait captures them at the call and
 * holds back the waiting stream's next operation until exd[x] reaches it.
 * Kernels: a write checks owner and exact count of its range and adds one; a read checks the owner, and that the count is at
 * least what had been executed when it was launched (and by its own stream before it), at most what has been executed.
 * With LATE a range has a second half, mem2, of which writes check and add the same.
 * Ghosts lc/olc: the last copy enqueued that reads a range, and its value when the range got its present owner: each kernel of
 * that owner asserts that this copy has been executed (no kernel of a reused range runs while a copy, discarded or not, still
 * reads it for the former owner).
 */
#ifndef NH
#define NH 1
#endif
#ifndef NR
#define NR 2
#endif
#ifndef NLIVE
#define NLIVE NH
#endif
#ifndef QC
#define QC 5
#endif
#ifndef RA
#define RA 2
#endif
#ifndef RB
#define RB 2
#endif
#ifndef MM
#define MM 2
#endif
#ifndef NP
#define NP 0
#endif
#ifndef GMAX
#define GMAX 2          /* an entry retires at GMAX */
#endif
#define MV 2            /* the copy stream */
#define NONE 255
#ifdef SAME
#define S_B 0
#else
#define S_B 1
#endif
#define BIT(x) (1<<(x))
#define NID (NH*(GMAX+1))
#define ID(h,g) ((h)+NH*(g))
#define MAXI(v,e) if :: (e) > v -> v = (e) :: else fi

#define KERN 1
#define INIT 2
#define READ 3
#define COPY 4
#define COPY2 5

#define FREE   0
#define LIVE   1
#define FLIGHT 2
#define ORPHAN 3

#define IDLE 0
#define RECORDING 1
#define RECORDED 2

chan q[3] = [QC] of { byte, byte, byte, byte, byte, byte, byte };  /* op, a, b, c, and what exd[0..2] must reach first */

/* the handle word */
bit  live[NH]; bit mov[NH]; bit cur[NH]; bit dying[NH];
byte gen[NH];  byte pins[NH];
/* location slots 2*h+c: offset, ready stamp */
byte loff[2*NH]; byte lrm[2*NH]; byte lre[2*NH];
/* per entry: writers, readers */
byte uwm[NH]; byte uwe[NH]; byte urm[NH]; byte ure[NH];
bit efree[NH];
/* the map, with fences; cpy = COPYING */
byte rst[NR]; byte rown[NR]; byte fm[NR]; byte fe[NR]; bit cpy[NR];
/* streams */
byte enq[3]; byte exd[3]; byte evt[3]; byte pw[9];
byte epoch = 1; byte dn[3];
#ifndef NOCACHE
byte wtd[9];
#endif
#ifdef MARKER
byte mks[3]; byte mkv[3]; byte mke[3];
#endif
/* ghosts */
byte mem[NR]; byte kcnt[NID]; bit inited[NID]; bit first[NID]; byte rdc[2*NH]; byte fin; byte hk[2*NH];
byte lc[NR]; byte olc[NR];
#ifdef LATE
byte mem2[NR];
#define BOTH(x) (mem2[x] == mem[x])
#define TWICE(x) mem2[x] = mem[x]
#else
#define BOTH(x) 1
#define TWICE(x) skip
#endif
#ifdef READS
byte lastw[2*NID];
#ifdef TEN
byte tenq[NR]; byte tex[NR];
#define TENQ(r) tenq[r]
#else
#define TENQ(r) 0
#endif
#endif

#if defined(NOSYM) || NLIVE < NH
#define SYMOK 1
#else
#define SYMOK (me == 1 || n > 1)   /* entries and ranges 0, 1 are interchangeable: client 0's first pick may be called 0 */
#endif

#ifdef MARKER
#define MKCAP(s,x) if :: mks[x] != IDLE && exd[x] < mkv[x] && mkv[x] > pw[(s)*3+x] -> pw[(s)*3+x] = mkv[x] :: else fi
#else
#define MKCAP(s,x) skip
#endif
inline dwait(s,x) { if :: exd[x] < evt[x] && evt[x] > pw[(s)*3+x] -> pw[(s)*3+x] = evt[x] :: else fi }
inline enqueue(s,op,a,b,c) {
  q[s]!op,a,b,c,pw[(s)*3],pw[(s)*3+1],pw[(s)*3+2];
  enq[s]++; pw[(s)*3] = 0; pw[(s)*3+1] = 0; pw[(s)*3+2] = 0 }

#ifdef NOCACHE
#define NEED(s,x,m,e) (((m) & BIT(x)) && (x) != (s) && (e) > dn[x])
inline await1(s,x,m,e) {
  if :: NEED(s,x,m,e) -> dwait(s,x);
#if defined(MARKER) && !defined(B_WAITMAIN)
     MKCAP(s,x)
#endif
     :: else fi }
inline awaits(s,m,e) { atomic { await1(s,0,m,e);
#ifndef SAME
     await1(s,1,m,e);
#endif
     await1(s,MV,m,e) } }
#else
#define NEED(s,x,m,e) (((m) & BIT(x)) && (x) != (s) && (e) > dn[x] && (e) > wtd[(s)*3+(x)])
/* c = epoch; covered = e < c ? c-1 : fetch_add; then the wait; then the cache */
inline await1(s,x,e) {
#ifdef B_COVNOADV
    skip;
#else
    d_step { if :: (e) < cc -> cc = cc-1 :: else -> cc = epoch; epoch++ fi };
#endif
#ifdef B_CACHEFIRST
    d_step { MAXI(wtd[(s)*3+(x)], cc) };
#endif
    d_step { dwait(s,x) };
#if defined(MARKER) && !defined(B_WAITMAIN)
    d_step { MKCAP(s,x) };
#endif
    d_step { MAXI(wtd[(s)*3+(x)], cc); cc = 0 }
}
#ifdef COARSE
#define AB atomic {
#define AE }
#else
#define AB
#define AE
#endif
inline awaits(s,m,e) {
  AB
  do
  :: atomic { NEED(s,0,m,e) -> cc = epoch }; await1(s,0,e)
#ifndef SAME
  :: atomic { !NEED(s,0,m,e) && NEED(s,1,m,e) -> cc = epoch }; await1(s,1,e)
#endif
  :: atomic { !NEED(s,0,m,e) &&
#ifndef SAME
              !NEED(s,1,m,e) &&
#endif
              NEED(s,MV,m,e) -> cc = epoch }; await1(s,MV,e)
  :: else -> break
  od
  AE
}
#endif

/* the host waits for what an event says at the call */
#ifdef MARKER
#define LATER(x) (mkv[x] > evt[x] -> mkv[x] : evt[x])
#else
#define LATER(x) evt[x]
#endif
inline hostwait(x,m,e) {
  if :: ((m) & BIT(x)) && (e) > dn[x] -> w = LATER(x); (exd[x] >= w) :: else fi }

#ifdef B_CURLOST
#define LOSECUR cur[h] = 0
#else
#define LOSECUR skip
#endif
#define NOCOPY assert(exd[MV] >= c/16)

inline bury(hh,sl) {     /* under the lock */
  r = loff[sl];
  assert(rst[r] == LIVE && rown[r] == hh);   /* double ownership */
  fm[r] = fm[r] | uwm[hh]; MAXI(fe[r], uwe[hh]);
#ifndef B_FREENOREADERS
  fm[r] = fm[r] | urm[hh]; MAXI(fe[r], ure[hh]);
#endif
#ifndef B_FREENOREADY
  fm[r] = fm[r] | lrm[sl]; MAXI(fe[r], lre[sl]);
#endif
  rown[r] = NONE;
  if
#ifndef B_ORPHANFREE
  :: cpy[r] -> rst[r] = ORPHAN
#endif
  :: else -> rst[r] = FREE
  fi;
  if :: gen[hh] < GMAX -> efree[hh] = 1 :: else fi;
  r = 0
}

proctype device(byte me) {
  byte op, a, b, c, w0, w1, w2;
end:
  do
  :: atomic { q[me]?op,a,b,c,w0,w1,w2 ->
end1:
     (exd[0] >= w0 && exd[1] >= w1 && exd[2] >= w2);
     if
     :: op == KERN -> assert(inited[b] && mem[a] == b*16 + kcnt[b] && BOTH(a)); NOCOPY; mem[a]++; TWICE(a); kcnt[b]++;
#ifdef READS
          lastw[me*NID+b] = kcnt[b]
#endif
     :: op == INIT -> assert(!inited[b]); NOCOPY; mem[a] = b*16; TWICE(a); inited[b] = 1
     :: op == COPY -> mem[b] = mem[a]
#ifdef TEN
          ; tex[b]++
#endif
#ifdef LATE
     :: op == COPY2 -> mem2[b] = mem2[a]
#endif
#ifdef READS
     :: op == READ -> NOCOPY; w0 = b/16; b = b%16;
          assert(inited[b] && BOTH(a) && mem[a]/16 == b && mem[a]%16 <= kcnt[b] && mem[a]%16 >= c%16 && mem[a]%16 >= lastw[me*NID+b]);
#ifdef TEN
          assert(tex[a] == w0)
#endif
#endif
     fi;
     exd[me]++;
     op = 0; a = 0; b = 0; c = 0; w0 = 0; w1 = 0; w2 = 0 }
  od
}

proctype client(byte s; byte me; byte rounds) {
  byte n, h, g, sl, off, m, e, r;
#ifndef NOCACHE
  byte cc;
#endif
#ifdef MARKER
  byte e0;
#endif
  bit last, rd;
#ifdef PINS
  bit lp; byte w;
#endif
  do
  :: n == rounds -> break
  :: atomic { n < rounds -> n++;
     if
     :: hk[me*NH+0] != NONE -> h = 0
#if NH > 1
     :: hk[me*NH+1] != NONE && SYMOK -> h = 1
#endif
#if NH > 2
     :: hk[me*NH+2] != NONE -> h = 2
#endif
#ifdef FREES
     :: goto l_alloc
#else
     :: else -> goto l_next
#endif
     fi;
     g = hk[me*NH+h];
     if
     :: goto l_use
#ifdef FREES
     :: goto l_free
#endif
     fi };

#ifdef FREES
l_alloc:
     atomic {   /* alloc, under the lock: snug__handles_take, and a free range, whose fence becomes ready: no wait */
       if
       :: rst[0] == FREE -> r = 0
       :: rst[1] == FREE -> r = 1
#if NR > 2
       :: rst[2] == FREE -> r = 2
#endif
#if NR > 3
       :: rst[3] == FREE -> r = 3
#endif
       :: else -> n = rounds; goto l_next            /* nothing to take: end here (other choices cover waiting) */
       fi;
       if
       :: efree[0] -> h = 0
#if NH > 1
       :: efree[1] -> h = 1
#endif
#if NH > 2
       :: efree[2] -> h = 2
#endif
       :: else -> r = 0; n = rounds; goto l_next
       fi;
       efree[h] = 0; rst[r] = FLIGHT; rown[r] = h;
       m = fm[r]; e = fe[r]; fm[r] = 0; fe[r] = 0; };
     atomic {   /* settle_in fills the location that is CURRENT; then live */
       sl = 2*h+cur[h];
       assert(rdc[sl] == 0);
       loff[sl] = r; lrm[sl] = m; lre[sl] = e;
#ifdef B_ALLOCNOFENCE
       lrm[sl] = 0;
#endif
#ifndef B_RESETLATE
       uwm[h] = 0; uwe[h] = 0; urm[h] = 0; ure[h] = 0;
#endif
       g = gen[h]; live[h] = 1; assert(pins[h] == 0 && !mov[h]);
       rst[r] = LIVE; olc[r] = lc[r];
       r = 0; m = 0; e = 0; sl = 0;
       /* the first use is one's own, or on the other client's stream, which nothing orders after this one */
       if
       :: hk[me*NH+h] = g
#ifdef XALLOC
       :: hk[(1-me)*NH+h] = g
#endif
       fi
     };
#ifdef B_RESETLATE
     d_step { uwm[h] = 0; uwe[h] = 0; urm[h] = 0; ure[h] = 0 };
#endif
     goto l_next;
l_free:
     atomic {   /* under the lock: kill, and bury or DYING */
       if
       :: live[h] && gen[h] == g && !dying[h] ->
          mov[h] = 0;
          if
          :: pins[h] == 0 -> sl = 2*h+cur[h]; live[h] = 0; gen[h]++; LOSECUR; bury(h,sl)
          :: else -> dying[h] = 1
          fi
       :: else        /* STALE */
       fi;
       hk[me*NH+h] = NONE };
     goto l_next;
#endif

l_use:
     /* ---- resolve, or a long pin ---- */
     atomic {   /* snug__entry_pin */
       if
       :: live[h] && gen[h] == g && !dying[h] ->
          if
#ifdef PINS
          :: lp = 1;
#ifndef B_PINNOCLEAR
             mov[h] = 0
#endif
#endif
#ifdef READS
          :: first[ID(h,g)] -> rd = 1
#endif
          :: true ->
#ifndef B_NOCLEAR
             mov[h] = 0
#endif
          fi;
          pins[h]++;
          sl = 2*h+cur[h]; rdc[sl]++
       :: else -> goto l_stale
       fi };
     atomic { off = loff[sl]; m = lrm[sl]; e = lre[sl]; rdc[sl]--;
#if !defined(NOCACHE) && !defined(COARSE)
     };
#endif
#ifndef B_NOREADY
#ifdef PINS
     if
     :: lp ->   /* snug__order_host_wait, here for every stream in turn */
#ifndef B_PINNOWAIT
        hostwait(0,m,e);
#ifndef SAME
        hostwait(1,m,e);
#endif
        hostwait(MV,m,e);
#endif
        w = 0
     :: else -> awaits(s,m,e)
     fi;
#else
     awaits(s,m,e);
#endif
#endif
#if !defined(NOCACHE) && !defined(COARSE)
     atomic {
#endif
     m = 0; e = 0 };
     /* ---- the launch ---- */
     atomic {
       if
#ifdef READS
       :: rd -> enqueue(s,READ,off,TENQ(off)*16+ID(h,g),olc[off]*16+kcnt[ID(h,g)])
#endif
       :: !rd && !first[ID(h,g)] -> first[ID(h,g)] = 1; enqueue(s,INIT,off,ID(h,g),olc[off]*16)
       :: !rd && first[ID(h,g)] -> enqueue(s,KERN,off,ID(h,g),olc[off]*16)
       fi;
       off = 0 };
     /* ---- release, or unpin: record, then the epoch, then the stamp, then the pin ---- */
#ifdef B_EFIRST
     e = epoch;
#endif
#ifdef MARKER
     if
     :: atomic { mks[s] == IDLE -> mks[s] = RECORDING };   /* marker_take */
        e0 = epoch;
        mkv[s] = enq[s];
#ifdef B_MKE0
        mke[s] = e0;
#else
        mke[s] = e0-1;
#endif
        d_step { mks[s] = RECORDED; e0 = 0 }
     :: evt[s] = enq[s]
     fi;
#else
#ifdef COARSE
     atomic {
#endif
     evt[s] = enq[s];
#endif
#ifndef B_EFIRST
     e = epoch;
#endif
#ifdef B_UNPINFIRST
     atomic { if :: pins[h] > 1 || !dying[h] -> pins[h]--; last = 1 :: else fi };
#endif
#ifdef SPLIT
     d_step { if :: rd -> urm[h] = urm[h] | BIT(s) :: else -> uwm[h] = uwm[h] | BIT(s) fi };
     d_step { if :: rd -> MAXI(ure[h], e) :: else -> MAXI(uwe[h], e) fi; e = 0; rd = 0 };
#else
     d_step { if :: rd -> MAXI(ure[h], e); urm[h] = urm[h] | BIT(s)
                 :: else -> MAXI(uwe[h], e); uwm[h] = uwm[h] | BIT(s) fi; e = 0; rd = 0 };
#endif
#ifdef COARSE
     };
#endif
#ifdef B_UNPINFIRST
     if :: last -> last = 0; goto l_next :: else fi;
#endif
     atomic {   /* snug__entry_unpin */
       assert(pins[h] > 0 && live[h] && gen[h] == g);
       if
       :: pins[h] == 1 && dying[h] -> pins[h] = 0; dying[h] = 0; live[h] = 0; gen[h]++; last = 1; sl = 2*h+cur[h]; LOSECUR
       :: else -> pins[h]--; goto l_next
       fi;
     };
     atomic { bury(h,sl); last = 0 };    /* from the dead list, by whoever has the lock next */
     goto l_next;
l_stale:
     hk[me*NH+h] = NONE;
l_next:
     atomic { h = 0; g = 0; sl = 0; off = 0; m = 0; e = 0; rd = 0; r = 0;
#ifdef PINS
     lp = 0
#endif
     }
  od;
  fin++
}

#define OURS (live[h] && gen[h] == g && !dying[h])
#ifdef LATE
#define NOQUIT !quit
#else
#define NOQUIT 1
#endif
proctype mover(byte moves) {
  byte n, h, g, c, src, tgt, m, e, b, d, sl;
#ifndef NOCACHE
  byte cc;
#endif
#ifdef B_STAMPEARLY
  byte xm, xe;
#endif
  bit ok;
#ifdef LATE
  bit quit;
#endif
  do
  :: n == moves -> break
  :: n < moves -> n++;
     atomic {   /* (1) plan, under the lock: the target is the mover's, the source is marked copying */
       if
       :: rst[0] == LIVE -> src = 0
       :: rst[1] == LIVE -> src = 1
#if NR > 2
       :: rst[2] == LIVE -> src = 2
#endif
#if NR > 3
       :: rst[3] == LIVE -> src = 3
#endif
       :: else -> n = moves; goto l_none
       fi;
       if
       :: rst[0] == FREE -> tgt = 0
       :: rst[1] == FREE -> tgt = 1
#if NR > 2
       :: rst[2] == FREE -> tgt = 2
#endif
#if NR > 3
       :: rst[3] == FREE -> tgt = 3
#endif
       :: else -> n = moves; goto l_none
       fi;
       h = rown[src]; g = gen[h]; cpy[src] = 1;
       rst[tgt] = FLIGHT; b = fm[tgt]; d = fe[tgt]; fm[tgt] = 0; fe[tgt] = 0 };
     atomic {   /* (2) begin: pins 0 -> MOVING */
       if
#ifdef B_BEGINPINS
       :: live[h] && gen[h] == g && !dying[h] ->
#else
       :: live[h] && gen[h] == g && pins[h] == 0 && !dying[h] ->
#endif
          assert(!mov[h] && loff[2*h+cur[h]] == src);      /* that the generation is the plan's says so */
          mov[h] = 1; c = cur[h]
       :: else -> goto l_undo
       fi };
     /* (3) the mover's stream waits: the source's ready and writers, the target's fence; not the readers */
#ifdef B_NOWRITERS
     d_step { m = lrm[2*h+c]; e = lre[2*h+c] };
#else
#ifdef W_READYLESS
     d_step { m = uwm[h]; e = uwe[h] };
#else
     d_step { m = uwm[h] | lrm[2*h+c]; e = uwe[h]; MAXI(e, lre[2*h+c]) };
#endif
#endif
#ifdef B_TGTNOFENCE
     d_step { b = 0; d = 0 };
#endif
#if defined(NOCACHE) || defined(COARSE)
     atomic {
#endif
     awaits(MV,m,e);
     awaits(MV,b,d);
     m = 0; e = 0
#ifndef LATE
     ; b = 0; d = 0
#endif
#if defined(NOCACHE) || defined(COARSE)
     }
#endif
     ;
     /* (4) copy, record, then the epoch for the stamp */
#ifdef LATE
     /* a step: goes on only if it is MOVING still; or somebody cancels it */
#ifdef B_LATEBEGIN
     atomic { if :: OURS && pins[h] == 0 -> mov[h] = 1 :: else -> goto l_undo fi };
#endif
     if :: OURS && mov[h] :: else -> goto l_undo fi;
     atomic { enqueue(MV,COPY,src,tgt,0); lc[src] = enq[MV]; b = 0; d = 0 };
#ifdef B_LATERECORD
     evt[MV] = enq[MV];
     e = epoch;
#endif
#ifdef B_LATEBEGIN
     atomic { if :: OURS && pins[h] == 0 -> mov[h] = 1 :: else fi };
#endif
     if
     :: OURS && mov[h] -> atomic { enqueue(MV,COPY2,src,tgt,0); lc[src] = enq[MV] }
     :: else -> quit = 1
     :: quit = 1                                     /* snug__late_cancel */
     fi;
#ifndef B_LATERECORD
     evt[MV] = enq[MV];
     e = epoch;
#endif
#else
     atomic { enqueue(MV,COPY,src,tgt,0); lc[src] = enq[MV]
#ifdef TEN
       ; tenq[tgt]++
#endif
     };
     evt[MV] = enq[MV];
     e = epoch;
#endif
l_pub:
#ifdef B_STAMPEARLY
     atomic { xm = uwm[h] | urm[h]; xe = uwe[h]; MAXI(xe, ure[h]) };
#endif
     atomic {   /* under the lock: (5) fills the other location, at each try; (6) publishes, or gives up */
       sl = 2*h+1-c; assert(rdc[sl] == 0);
       loff[sl] = tgt; lrm[sl] = BIT(MV); lre[sl] = e; sl = 0;
#ifdef B_RESETFILL
       uwm[h] = 0; uwe[h] = 0; urm[h] = 0; ure[h] = 0;
#endif
       if
#ifdef LATE
       :: quit -> quit = 0; if :: OURS -> mov[h] = 0 :: else fi; goto l_fail
#endif
#ifdef B_PUBREADER
       :: NOQUIT && OURS && mov[h] && cur[h] == c ->
#else
#ifdef B_PUBCANCELLED
       :: NOQUIT && OURS && cur[h] == c && pins[h] == 0 ->
#else
       :: NOQUIT && OURS && mov[h] && cur[h] == c && pins[h] == 0 ->
#endif
#endif
          mov[h] = 0; cur[h] = 1-c; ok = 1;
          rst[tgt] = LIVE; rown[tgt] = h; olc[tgt] = lc[tgt];
          assert(rst[src] == LIVE && rown[src] == h && cpy[src]);
          rst[src] = FREE; rown[src] = NONE; cpy[src] = 0;
#ifdef B_STAMPEARLY
          fm[src] = fm[src] | xm | BIT(MV); MAXI(fe[src], xe); MAXI(fe[src], e); xm = 0; xe = 0
#else
#ifdef B_SRCNOMOVE
          fm[src] = fm[src] | uwm[h]; MAXI(fe[src], uwe[h]);
#else
          fm[src] = fm[src] | uwm[h] | BIT(MV); MAXI(fe[src], uwe[h]); MAXI(fe[src], e);
#endif
#ifndef B_SRCNOREADERS
          fm[src] = fm[src] | urm[h]; MAXI(fe[src], ure[h])
#endif
#endif
#ifndef B_PUBREADER
       :: NOQUIT && OURS && mov[h] && cur[h] == c && pins[h] > 0 ->     /* BUSY: readers only */
#ifdef NOGIVEUP
          goto l_retry
#else
          if
          :: goto l_retry
          :: mov[h] = 0; goto l_fail               /* give_up */
          fi
#endif
#endif
       :: else ->
l_fail:   /* item_undo */
          rst[tgt] = FREE; rown[tgt] = NONE;
#ifndef B_TGTNOMOVE
          fm[tgt] = BIT(MV); fe[tgt] = e;
#endif
          cpy[src] = 0;
          if
#ifndef B_ORPHANLEAK
          :: rst[src] == ORPHAN -> rst[src] = FREE;
#ifndef B_ORPHANNOM
             fm[src] = fm[src] | BIT(MV); MAXI(fe[src], e)
#endif
#endif
          :: else ->
#ifndef B_CANCELNOM
#ifdef W_GENTEST
             if :: live[h] && gen[h] == g -> urm[h] = urm[h] | BIT(MV); MAXI(ure[h], e) :: else fi
#else
#ifdef W_RANGEFENCE
             fm[src] = fm[src] | BIT(MV); MAXI(fe[src], e)
#else
             urm[h] = urm[h] | BIT(MV); MAXI(ure[h], e)    /* not an orphan, so not buried: nobody else's stamps yet */
#endif
#endif
#endif
          fi
       fi };
#ifdef B_RESETPUB
     if :: ok -> d_step { uwm[h] = 0; uwe[h] = 0; urm[h] = 0; ure[h] = 0 } :: else fi;
#endif
     goto l_none;
l_undo:
     atomic {   /* not begun, or nothing copied yet: item_undo, under the lock */
#ifdef LATE
       if :: OURS -> mov[h] = 0 :: else fi;           /* give_up */
#endif
       rst[tgt] = FREE; fm[tgt] = b; fe[tgt] = d;
#ifndef B_PLANLEAK
       if :: rst[src] == ORPHAN -> rst[src] = FREE :: else fi;
#endif
       cpy[src] = 0 };
     goto l_none;
#ifndef B_PUBREADER
l_retry:
     (pins[h] == 0 || !mov[h] || gen[h] != g || !live[h]);
     goto l_pub;
#endif
l_none:
     atomic { h = 0; g = 0; c = 0; src = 0; tgt = 0; m = 0; e = 0; b = 0; d = 0; ok = 0; sl = 0 }
  od;
  fin++
}

#if NP > 0
proctype poller(byte polls) {     /* one at a time: under order's mutex */
  byte n, x, c, v, st; bit mainok, mkok;
  do
  :: n == polls -> break
  :: atomic { n < polls -> n++;
#ifdef SAME
     if :: x = 0 :: x = MV fi
#else
     if :: x = 0 :: x = 1 :: x = MV fi
#endif
     };
#ifdef B_STBEFORE
     st = mks[x];
#endif
#ifdef B_POLLNOADV
     c = epoch;
#else
     d_step { c = epoch; epoch++ };
#endif
     mkok = 1;
#ifdef MARKER
#ifdef B_EVFIRST
     v = (exd[x] >= mkv[x]);
#endif
#ifndef B_STBEFORE
     st = mks[x];
#endif
     if
     :: st == RECORDED ->
#ifndef B_EVFIRST
        v = (exd[x] >= mkv[x]);
#endif
        if
        :: v -> d_step { v = mke[x]; MAXI(dn[x], v); v = 0 }; mks[x] = IDLE
        :: else -> mkok = 0
        fi
     :: else    /* IDLE; or RECORDING: then what it will stamp is later than c */
     fi;
#ifdef B_NOMKRULE
     mkok = 1;
#endif
#endif
     mainok = (exd[x] >= evt[x]);
     d_step { if :: mainok && mkok -> MAXI(dn[x], c) :: else fi; x = 0; c = 0; v = 0; mainok = 0; mkok = 0; st = 0 }
  od;
  fin++
}
#define NFIN 4
#else
#define NFIN 3
#endif

init {
  byte i, nl, nr;
  atomic {
    i = 0;
    do
    :: i < NH -> hk[i] = NONE; hk[NH+i] = NONE;
       if
       :: i < NLIVE -> live[i] = 1; loff[2*i] = i; rst[i] = LIVE; rown[i] = i; mem[i] = ID(i,0)*16; TWICE(i); inited[ID(i,0)] = 1; first[ID(i,0)] = 1; hk[i] = 0; hk[NH+i] = 0
       :: else -> efree[i] = 1
       fi; i++
    :: else -> break
    od;
    i = NLIVE;
    do :: i < NR -> rown[i] = NONE; mem[i] = 255; i++ :: else -> break od;
    i = 0;
    run device(0);
#ifndef SAME
    run device(1);
#endif
    run device(MV);
    run client(0,0,RA); run client(S_B,1,RB); run mover(MM);
#if NP > 0
    run poller(NP)
#endif
  };
  atomic { timeout ->
    assert(fin == NFIN);                                   /* nobody is stuck */
    assert(exd[0] == enq[0] && exd[1] == enq[1] && exd[2] == enq[2]);
    i = 0;
    do
    :: i < NH ->
       assert(pins[i] == 0 && !dying[i] && !mov[i]);
       if
       :: live[i] -> nl++; assert(rst[loff[2*i+cur[i]]] == LIVE && rown[loff[2*i+cur[i]]] == i);
          if :: inited[ID(i,gen[i])] -> assert(mem[loff[2*i+cur[i]]] == ID(i,gen[i])*16 + kcnt[ID(i,gen[i])] && BOTH(loff[2*i+cur[i]])) :: else fi
       :: else
       fi; i++
    :: else -> break
    od;
    i = 0;
    do :: i < NR -> assert(rst[i] != FLIGHT && rst[i] != ORPHAN && !cpy[i]); if :: rst[i] == LIVE -> nr++ :: else fi; i++ :: else -> break od;
    assert(nl == nr) }
}
