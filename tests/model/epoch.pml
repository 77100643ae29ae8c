/* epoch.pml: epochs, polls, the marker event and waited[] alone: one busy stream X, whose operations the device executes in order.
 *
 * NC releasing threads share X, RR rounds each: launch; snug__order_record (main or marker); read the epoch; stamp (X, e).
 * NPL polling threads, NP polls each: snug__order_poll with poll_slot, under the one mutex; dn is done[].
 * NW threads share a stream Y and its waited[]: each takes WW times somebody's stamp, does what snug__order_wait and wait_for_bit
 * do, and then "launches": the stamped operation has been executed, or Y's queue holds a wait that covers it. That what dn says
 * has been executed is asserted wherever it is raised.
 *
 * Where the C code differs: a bit has one stream here, so that done[] is the stream's own done and floor isn't needed; and a
 * release may use any idle marker, whether a poll has asked for it or not (-DWANT: only then, as marker_take does).
 *
 * -DMARKER     a second event per stream; a release records either the marker or main.
 * Other readings, right too:
 *  W_MAINSTATE   the poll reads marker_state again after it has asked main       W_STATEMAIN    ... before it asks main
 *  W_STRICT      RECORDING keeps a poll from settling, as RECORDED does (nothing needs that: what it stamps comes after the poll)
 *  W_EARLYSTATE  RECORDED is stored before marker_epoch (an old marker_epoch only says less)
 *  W_WAITRECORDED  a wait looks at the marker only when it is RECORDED
 *  W_PNOLOCK     two polls at once: marker_epoch read first, then RECORDED -> IDLE by one CAS on {state, sequence number}
 * Planted bugs, each is caught; run.sh has the sizes:
 *  B_NOADV        the poll reads the epoch without advancing it          B_POSTADV     ... asks first and advances afterwards
 *  B_NEWVAL       the poll settles the epoch that it has advanced to     B_EFIRST      a release reads its epoch before it records
 *  B_COVNOADV     waited covers the epoch, not advanced                  B_COVC        ... the epoch where the stamp is earlier, not one less
 *  B_COVLATE      covered is read after the wait was enqueued            B_CACHEFIRST  waited is raised before the wait is enqueued
 *  B_MKE0         marker_epoch is the epoch, not one less                B_MKELATE     ... is read after the marker's record
 *  B_NOMKRULE     main alone settles, whatever the marker                B_STBEFORE    marker_state is read before the epoch is advanced
 *  B_MAINBEFORE   main is asked before the epoch is advanced             B_EVFIRST     the marker is asked before its state is read
 *  B_IDLEFIRST    IDLE is stored before marker_epoch is read             B_WAITMAIN    a wait looks at main only
 *  B_NORECORDING  no state RECORDING: IDLE until the record was made     B_RECORDED_EARLY  RECORDED is stored before the record is made
 *  B_PNOLOCK      two polls at once
 */
#ifndef NC
#define NC 2
#endif
#ifndef RR
#define RR 2
#endif
#ifndef NPL
#define NPL 1
#endif
#ifndef NP
#define NP 2
#endif
#ifndef NW
#define NW 2
#endif
#ifndef WW
#define WW 1
#endif
#ifndef EM
#define EM 14               /* epochs at most */
#endif
#define IDLE 0
#define RECORDING 1
#define RECORDED 2
#define MAXI(v,e) if :: (e) > v -> v = (e) :: else fi
byte epoch = 1; byte dn;               /* settled */
byte enq, exd, evt, mkv;               /* X: enqueued, executed; its main and its marker event */
byte mks, mke;                         /* marker state, marker_epoch */
#ifdef W_PNOLOCK
byte mkq;                              /* sequence number, in one word with the state */
#endif
bit wanted = 0;
#if NW > 0
byte pe[NC], pk[NC];                   /* stamps given out, and the operation each stands for */
#endif
byte wtd, cap;                         /* Y: wait cache for X; highest operation of X for which Y's queue waits */
bit plock;

active proctype device() {
end: do :: exd < enq -> exd++ od
}

hidden byte i_;
byte hk[EM];                           /* ghost: the last operation that was stamped with this epoch */
inline settled_ok() { i_ = 1; do :: i_ <= dn && i_ < EM -> assert(exd >= hk[i_]); i_++ :: else -> break od; i_ = 0 }


active [NC] proctype client() {   /* snug_release, snug__order_record */
  byte n, k, e, e0; byte me = _pid-1;
  do
  :: n == RR -> break
  :: atomic { n < RR -> n++; enq++; k = enq };
#ifdef B_EFIRST
     e = epoch;
#endif
#ifdef MARKER
     if
#ifdef WANT
     :: atomic { mks == IDLE && wanted ->
#else
     :: atomic { mks == IDLE ->
#endif
#ifndef B_NORECORDING
        mks = RECORDING
#endif
#ifdef W_PNOLOCK
        ; mkq++
#endif
        };
#ifndef B_MKELATE
        e0 = epoch;
#endif
#ifdef WANT
#define UNWANT wanted = 0
#else
#define UNWANT skip
#endif
#ifdef B_RECORDED_EARLY
        mke = e0-1; mks = RECORDED; mkv = enq;
#else
        mkv = enq;
#ifdef B_MKELATE
        e0 = epoch;
#endif
#ifdef W_EARLYSTATE
        mks = RECORDED; mke = e0-1;
#else
#ifdef B_MKE0
        mke = e0;
#else
        mke = e0-1;
#endif
        UNWANT;
        mks = RECORDED;
#endif
#endif
        e0 = 0
#ifdef WANT
     :: else -> evt = enq
#else
     :: evt = enq
#endif
     fi;
#else
     evt = enq;
#endif
#ifndef B_EFIRST
     e = epoch;
#endif
     d_step { assert(e < EM); assert(e > dn || exd >= k); if :: k > hk[e] -> hk[e] = k :: else fi;
#if NW > 0
              pe[me] = e; pk[me] = k;
#endif
              e = 0; k = 0 }
  od
}

active [NPL] proctype poller() {   /* snug__order_poll, poll_slot */
  byte n, c, st, v, q; bit mainok, mk, mkok;
  do
  :: n == NP -> break
  :: n < NP -> n++;
#ifndef B_PNOLOCK
#ifndef W_PNOLOCK
     atomic { !plock -> plock = 1 };
#endif
#endif
#ifdef B_STBEFORE
     st = mks;
#endif
#if defined(B_MAINBEFORE) || defined(B_POSTADV)
     mainok = (exd >= evt);
#endif
#ifdef B_NOADV
     c = epoch;
#else
     d_step { c = epoch; epoch++ };
#endif
#ifdef B_NEWVAL
     c = c+1;
#endif
     mkok = 1;
#ifdef MARKER
#ifdef B_EVFIRST
     mk = (exd >= mkv);
#endif
#ifndef B_STBEFORE
#ifdef W_PNOLOCK
     d_step { st = mks; q = mkq };
#else
     st = mks;
#endif
#endif
     if
     :: st == RECORDED ->
#ifndef B_EVFIRST
        mk = (exd >= mkv);
#endif
        if
        :: mk ->
#ifdef W_PNOLOCK
           v = mke;
           atomic { if :: mks == RECORDED && mkq == q -> mks = IDLE :: else -> v = 0; mkok = 0 fi };
           d_step { MAXI(dn, v); settled_ok() }
#else
#ifdef B_IDLEFIRST
           mks = IDLE; v = mke;
#else
           v = mke;
#endif
           d_step { MAXI(dn, v); settled_ok() };
           v = 0; mks = IDLE
#endif
        :: else -> mkok = 0
        fi
     :: else           /* IDLE; or RECORDING: then what it will stamp is later than c */
     fi;
#ifdef W_STRICT
     if :: st == RECORDING -> mkok = 0 :: else fi;
#endif
#ifdef W_STATEMAIN
     mkok = (mks == IDLE);
#endif
#endif
#if !defined(B_MAINBEFORE) && !defined(B_POSTADV)
     mainok = (exd >= evt);
#endif
#ifdef MARKER
#ifdef W_MAINSTATE
     mkok = (mks == IDLE);
#endif
#ifdef B_NOMKRULE
     mkok = 1;
#endif
#ifdef WANT
     if :: !(mainok && mkok) -> wanted = 1 :: else fi;
#endif
#endif
     if
     :: mainok && mkok -> d_step { MAXI(dn, c); settled_ok() }
     :: else
     fi;
     atomic { c = 0; st = 0; v = 0; q = 0; mainok = 0; mk = 0; mkok = 0; plock = 0 }
  od
}

#if NW > 0
active [NW] proctype waiter() {   /* wait_for_bit, wait_for_slot */
  byte n, e, k, c, v;
  do
  :: n == WW -> break
  :: atomic { n < WW -> n++;
     if :: pe[0] -> e = pe[0]; k = pk[0]
#if NC > 1
        :: pe[1] -> e = pe[1]; k = pk[1]
#endif
#if NC > 2
        :: pe[2] -> e = pe[2]; k = pk[2]
#endif
     fi };
     if
     :: e <= dn
     :: e <= wtd
     :: else ->
#if defined(B_COVNOADV)
        c = epoch;
#elif !defined(B_COVLATE)
        c = epoch;
        if
#ifdef B_COVC
        :: e < c
#else
        :: e < c -> c = c-1
#endif
        :: else -> d_step { c = epoch; epoch++ }
        fi;
#endif
#ifdef B_CACHEFIRST
        d_step { MAXI(wtd, c) };
#endif
        v = evt;                      /* the wait on main captures */
        d_step { MAXI(cap, v) };      /* and is in the queue */
#if defined(MARKER) && !defined(B_WAITMAIN)
        if
#ifdef W_WAITRECORDED
        :: mks == RECORDED -> v = mkv; d_step { MAXI(cap, v) }
#else
        :: mks != IDLE -> v = mkv; d_step { MAXI(cap, v) }
#endif
        :: else
        fi;
#endif
#ifdef B_COVLATE
        d_step { c = epoch; epoch++ };
#endif
        d_step { MAXI(wtd, c) }
     fi;
     d_step { assert(exd >= k || cap >= k); e = 0; k = 0; c = 0; v = 0 }    /* the launch on Y */
  od
}
#endif
