/* resize.pml: a buffer grows over the free range behind it and shrinks again, where it stands: republish (src/resize.c) publishes
 * the same offset with another ready, so that whoever pins it from then on waits for what used the new bytes before.
 *
 * Cell 0 is the buffer's, and a move into it is still queued on the mover's stream; cell 1 is free, and a kernel of its former
 * owner is still queued on stream 1: its fence. NC clients on streams 0 and 1, R rounds each: pin, wait for ready, look at the
 * size (spans_check), use all of it, release. The resizer makes Q tries, each under the lock, as are the free and the alloc of
 * cell 1 by a third party, A times, which uses it on stream 2, with the pins of the others between any two steps:
 *   begin; freeze, so that the publish can't fail once the size is written; fill the other location; size; publish; the map.
 * Where the C code differs: a stamp is a set of streams here, each standing for its latest record, and never settles.
 * Ghosts: ten counts the owners of cell 1; the device must not execute a former one's operation after a later one's.
 * Planted bugs, each is caught:
 *   B_GROWNOFENCE   ready lacks the fence of the bytes behind           B_GROWREADYLOST  ready is that fence alone
 *   B_SHRINKNOUSERS the tail's fence lacks the users                    B_SHRINKNOREADY  lacks ready: freed before anybody waited
 *   B_INPLACE       ready is changed in the CURRENT location, no pin asked about
 *   B_SIZELATE      no freeze, the size is written after the publish: who pins between takes the tail for the buffer's
 */
#ifndef R
#define R 1
#endif
#ifndef Q
#define Q 2
#endif
#ifndef NC
#define NC 2
#endif
#ifndef A
#define A 1
#endif
#define BIT(x) (1<<(x))
chan q[3] = [6] of { byte, byte, byte, byte, byte, byte };   /* op, cells or count, owner of cell 1, w0, w1, w2 */
#define MOVE 1
#define USE 2
#define OTHER 3
bit mov, cur, frozen; byte pins; byte rdy[2]; byte users; byte size = 1;
bit mine;                  /* cell 1 is the buffer's */
bit taken;                 /* ... is the third party's */
byte fence, ten, last;     /* of cell 1 */
bit moved;                 /* the move into cell 0 has run */
byte enq[3]; byte evt[3]; byte done[3]; byte pw[9]; byte fin;
inline dwait(s,x) { if :: x != s && done[x] < evt[x] && evt[x] > pw[(s)*3+x] -> pw[(s)*3+x] = evt[x] :: else fi }
inline waits(s,m) {
  if :: (m) & 1 -> dwait(s,0) :: else fi; if :: (m) & 2 -> dwait(s,1) :: else fi; if :: (m) & 4 -> dwait(s,2) :: else fi }
inline enqueue(s,op,a,b) { q[s]!op,a,b,pw[(s)*3],pw[(s)*3+1],pw[(s)*3+2]; enq[s]++; pw[(s)*3] = 0; pw[(s)*3+1] = 0; pw[(s)*3+2] = 0 }

proctype device(byte me) {
  byte op, a, b, w0, w1, w2;
end: do
  :: atomic { q[me]?op,a,b,w0,w1,w2 ->
end1: (done[0] >= w0 && done[1] >= w1 && done[2] >= w2);
     if
     :: op == MOVE -> moved = 1
     :: op == USE -> assert(moved); if :: a == 2 -> assert(b >= last); last = b :: else fi
     :: op == OTHER -> assert(b >= last); last = b
     fi;
     done[me]++; op = 0; a = 0; b = 0; w0 = 0; w1 = 0; w2 = 0 }
  od
}
proctype client(byte s) {
  byte n, c, z, m;
  do
  :: n == R -> break
  :: n < R -> n++;
     atomic { !frozen -> if :: mov = 0 :: true fi; pins++; c = cur };       /* writes, or reads */
     atomic { m = rdy[c]; waits(s,m); m = 0 };
     z = size;
     atomic { assert(z == 1 || mine); enqueue(s,USE,z,ten) };
     d_step { evt[s] = enq[s]; users = users | BIT(s) };
     d_step { pins--; c = 0; z = 0 }
  od;
  fin++
}
bit lock;
proctype resizer() {
  byte n, ready;
  do
  :: n == Q -> break
  :: atomic { n < Q && !lock -> n++;
       if :: size == 1 && taken -> goto l_next :: else -> lock = 1 fi };
#ifdef B_INPLACE
     if
     :: size == 1 -> rdy[cur] = rdy[cur] | fence; d_step { mine = 1; ten++; fence = 0; size = 2 }; goto l_free
     :: else
     fi;
#endif
     atomic { if :: pins == 0 -> mov = 1 :: else -> goto l_free fi };                              /* begin */
#ifndef B_SIZELATE
     atomic { if :: pins == 0 && mov -> frozen = 1 :: else -> mov = 0; goto l_free fi };           /* freeze, or give_up */
#endif
     d_step {                                                                                      /* fill */
       ready = rdy[cur];
#ifndef B_GROWNOFENCE
       if :: size == 1 -> ready = ready | fence :: else fi;
#endif
#ifdef B_GROWREADYLOST
       if :: size == 1 -> ready = fence :: else fi;
#endif
       rdy[1-cur] = ready };
#ifndef B_SIZELATE
     if :: size == 2 -> size = 1; ready = 1 :: else -> ready = 2 fi;
#else
     ready = (size == 2 -> 1 : 2);
#endif
     atomic { if :: pins == 0 && mov -> mov = 0; frozen = 0; cur = 1-cur                           /* publish */
                 :: else -> mov = 0; goto l_free fi };
     if
     :: ready == 1 ->
        d_step { mine = 0; ten++;
#ifndef B_SHRINKNOREADY
                 fence = fence | rdy[1-cur];
#endif
#ifndef B_SHRINKNOUSERS
                 fence = fence | users
#endif
        };
        size = 1
     :: else -> d_step { mine = 1; ten++; fence = 0 }; size = 2     /* snug__range_extend, then the size */
     fi;
l_free:
     lock = 0;
l_next:
     ready = 0
  od;
  fin++
}
proctype party() {
  byte n;
  do
  :: n == A -> break
  :: atomic { n < A && !lock -> n++;
       if
       :: !mine -> taken = 1; ten++; waits(2,fence); enqueue(2,OTHER,0,ten)
       :: else -> goto l_next
       fi };
     evt[2] = enq[2];
     atomic { !lock -> taken = 0; ten++; fence = fence | BIT(2) };
l_next:
     skip
  od;
  fin++
}
init {
  atomic { rdy[0] = BIT(2); enqueue(2,MOVE,0,0); evt[2] = enq[2];
           fence = BIT(1); enqueue(1,OTHER,0,0); evt[1] = enq[1]; ten = 1;
           run device(0); run device(1); run device(2); run client(0);
#if NC > 1
           run client(1);
#endif
           run resizer(); run party() };
  atomic { timeout -> assert(fin == NC+2); assert(done[0] == enq[0] && done[1] == enq[1] && done[2] == enq[2]);
           assert(pins == 0 && !mov && !frozen && mine == (size == 2)) }
}
