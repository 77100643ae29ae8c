/* chain.pml: two moves of one plan, the second into the source of the first: h0 goes from cell 1 to 0, h1 from 2 to 1.
 * That is what a slide does: snug__move_slide publishes each step (step_over: begin, wait, copy, record, fill, publish) before it
 * begins the next, and stops where one doesn't come about, since the next one's target would still be its source.
 * -DBATCH, caught: both copies are enqueued before the first publish. snug__move_items does that, but only with items none of
 * which goes where another comes from: their targets were free when the plan was made.
 * Where the C code differs: what used a buffer is kept by location here, by entry there, and only says more so; clients write.
 */
#ifndef R
#define R 2
#endif
#define MV 2
chan q[3] = [5] of { byte, byte, byte, byte, byte, byte };
#define KERN 1
#define COPY 2
byte mem[3]; byte k[2]; bit mov[2]; bit cur[2]; byte pins[2]; byte off[4]; byte rdy[4]; byte u0[4]; byte u1[4];
byte enq[3]; byte evt[3]; byte done[3]; byte pw[9]; byte wtd[2]; byte m; byte fin;
inline dwait(s,x) { if :: done[x] < evt[x] && evt[x] > pw[(s)*3+x] -> pw[(s)*3+x] = evt[x] :: else fi }
inline enqueue(s,op,a,b) { q[s]!op,a,b,pw[(s)*3],pw[(s)*3+1],pw[(s)*3+2]; enq[s]++; pw[(s)*3] = 0; pw[(s)*3+1] = 0; pw[(s)*3+2] = 0 }
proctype device(byte me) {
  byte op, a, b, w0, w1, w2;
end: do
  :: atomic { q[me]?op,a,b,w0,w1,w2 ->
end1: (done[0] >= w0 && done[1] >= w1 && done[2] >= w2);
     if
     :: op == KERN -> assert(mem[a] == b*16 + k[b]); mem[a]++; k[b]++
     :: op == COPY -> mem[b] = mem[a]
     fi;
     done[me]++; op = 0; a = 0; b = 0; w0 = 0; w1 = 0; w2 = 0 }
  od
}
proctype client(byte s) {
  byte n, h, c, o, r;
  do
  :: n == R -> break
  :: n < R -> n++;
     if :: h = 0 :: h = 1 fi;
     atomic { pins[h]++; mov[h] = 0; c = 2*h+cur[h] };
     atomic { o = off[c]; r = rdy[c]; if :: r > wtd[s] -> dwait(s,MV); wtd[s] = r :: else fi };
     atomic { enqueue(s,KERN,o,h) };
     d_step { evt[s] = enq[s]; if :: s == 0 -> u0[c] = 1 :: else -> u1[c] = 1 fi };
     d_step { pins[h]--; c = 0; o = 0; r = 0; h = 0 }
  od;
  fin++
}
#define WAITS(h) if :: u0[2*h] -> dwait(MV,0) :: else fi; if :: u1[2*h] -> dwait(MV,1) :: else fi
proctype mover() {
  bit ok;
  atomic { if :: pins[0] == 0 -> mov[0] = 1 :: else -> goto out fi };
#ifdef BATCH
  atomic { if :: pins[1] == 0 -> mov[1] = 1 :: else -> goto out fi };
  atomic { WAITS(0); WAITS(1) };
  atomic { enqueue(MV,COPY,1,0) };
  atomic { enqueue(MV,COPY,2,1) };
  d_step { evt[MV] = enq[MV]; m++; off[1] = 0; rdy[1] = m; off[3] = 1; rdy[3] = m };
  d_step { if :: pins[0] == 0 && mov[0] -> mov[0] = 0; cur[0] = 1; ok = 1 :: else fi };
  d_step { if :: ok && pins[1] == 0 && mov[1] -> mov[1] = 0; cur[1] = 1 :: else -> mov[1] = 0 fi };
#else
  atomic { WAITS(0) };
  atomic { enqueue(MV,COPY,1,0) };
  d_step { evt[MV] = enq[MV]; m++; off[1] = 0; rdy[1] = m };
  d_step { if :: pins[0] == 0 && mov[0] -> mov[0] = 0; cur[0] = 1; ok = 1 :: else fi };
  if :: !ok -> goto out :: else fi;
  atomic { if :: pins[1] == 0 -> mov[1] = 1 :: else -> goto out fi };
  atomic { WAITS(1) };
  atomic { enqueue(MV,COPY,2,1) };
  d_step { evt[MV] = enq[MV]; m++; off[3] = 1; rdy[3] = m };
  d_step { if :: pins[1] == 0 && mov[1] -> mov[1] = 0; cur[1] = 1 :: else fi };
#endif
out:
  fin++
}
init {
  atomic { off[0] = 1; off[2] = 2; mem[0] = 200; mem[1] = 0; mem[2] = 16;
           run device(0); run device(1); run device(2); run client(0); run client(1); run mover() };
  atomic { timeout -> assert(fin == 3); assert(done[0] == enq[0] && done[1] == enq[1] && done[2] == enq[2]);
           assert(mem[off[cur[0]]] == k[0]); assert(mem[off[2+cur[1]]] == 16+k[1]) }
}
