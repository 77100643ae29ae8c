/* tso.pml: why event_record must be sequentially consistent (src/device.h): the record is a store, which may stay in the
 * processor's buffer for a while, and the release then reads the epoch. Without a fence between the two, whoever advances the
 * epoch meanwhile neither sees the record nor is seen:
 * -DPOLL  a poll advances the epoch, then asks the event, and settles what isn't done
 * -DWAIT  a stream's wait advances the epoch (wait_for_bit), then looks at the event, and waited says more than it waits for
 * default: both. -DFENCE: with the fence, or anything that acts as one: nothing goes wrong.
 */
#if !defined(POLL) && !defined(WAIT)
#define POLL
#define WAIT
#endif
byte epoch = 1, evt, exd, enq, dn, wtd, cap; bit sb; byte sbv; byte k, e;
active proctype buffer() { end: do :: atomic { sb -> evt = sbv; sb = 0 } od }
active proctype device() { end: do :: exd < enq -> exd++ od }
active proctype release() {
  atomic { enq++; k = enq };
  d_step { sbv = k; sb = 1 };          /* record */
#ifdef FENCE
  !sb;
#endif
  e = epoch;
  assert(e > dn || exd >= k);
  assert(e > wtd || exd >= k || cap >= k)
}
#ifdef POLL
active proctype poll() {
  byte c;
  d_step { c = epoch; epoch++ };
  if :: exd >= evt -> d_step { dn = c; assert(e == 0 || e > dn || exd >= k) } :: else fi
}
#endif
#ifdef WAIT
active proctype wait() {
  byte c;
  d_step { c = epoch; epoch++ };
  cap = evt;
  d_step { wtd = c; assert(e == 0 || e > wtd || exd >= k || cap >= k) }
}
#endif
