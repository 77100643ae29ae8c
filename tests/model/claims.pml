/* claims.pml: who holds a buffer: claims in the streams' lists and pins in the word, against one mover and one free, in every
 * order. The stamps and the device are protocol.pml's; there a resolve holds by a pin, which here is one of two ways.
 *
 * Step by step (src/launch.c, src/claim.h, src/handle.c):
 *   resolve    snug__claims_add: the handles, then the count (an exchange, the fence); claims_hold: a look at the word;
 *              if it doesn't hold: snug__claims_pop, look_for_dying, then resolve_pinning: snug__entry_pin
 *   release    the mark, then snug__claims_pop, or, out of order, snug__claims_drop, then a look for DYING; a pin: unpin_one
 *   detach     snug__launch_claims_to_pins: snug__entry_hold, then the list is emptied; later somebody unpins
 *   mover      snug__entry_begin_move: look at word and lists, set MOVING, look again, give up; snug__entry_publish
 *   free       snug__entry_kill: set DYING, clear MOVING, then end
 *   end        end() of handle.c: the word, the lists, then one CAS from the word that was seen
 * Lists are looked through as there: the count, then one handle after the other. A list has one changer at a time (busy), so
 * that its other positions don't change under it. The first client's list begins with a claim of another buffer, released
 * first or last.
 *
 * Properties: what is held stays live and in its place; a freed buffer ends exactly once, when nobody holds it; the mark of a
 * use is seen by whoever finds the buffer held by nobody.
 * Options: R rounds a client, MM moves, -DDETACH: the second client detaches while it holds.
 * Planted bugs, each is caught:
 *   B_NOFENCE     the word is looked at before the claim can be seen      B_ONELOOK    no look at the lists once MOVING is set
 *   B_KILLFIRST   a free looks at the lists before it sets DYING          B_POPMARK    the claim goes before the mark
 *   B_COMPACT     a claim released out of order lets later ones move up   B_ENDSTORE   the generation is ended by a store
 *   B_BACKDYING   a failed resolve doesn't look for DYING                 B_UNPINEND   the last unpin ends without a look at lists
 *   B_DETACHPOP   a detach empties the list before it pins                B_LOOKMOVING a claim holds though MOVING is set
 *   B_RELDYING    a release doesn't look for DYING                       B_HOLDMOVING a detach's pin leaves MOVING set */
#ifndef R
#define R 2
#endif
#ifndef MM
#define MM 2
#endif
#define LIVE 1
#define DYING 2
#define MOVING 4
#define CUR 8
#define PIN 16
#define H 1      /* the handle; other buffers' are OTHER */
#define OTHER 2

#ifdef B_LOOKMOVING
#define AWAY 0
#else
#define AWAY MOVING
#endif

short word = LIVE;
byte  count[2];
byte  list[4]; /* two positions a client */
byte  ended, held; /* held: so many hold it */
bool  written; /* since the copy began */

/* What it was before, in one step. */
inline cas(was, is, done) {
    atomic { done = (word == was); if :: done -> word = is :: else fi }
}

/* found: does a list name it? */
inline look(found) {
    found = false;
    k = 0;
    do
    :: k == 2 -> break
    :: else ->
        c = count[k]; i = 0;
        do
        :: i == c -> break
        :: else -> if :: list[2 * k + i] == H -> found = true :: else fi; i++
        od;
        k++
    od
}

/* Held by nobody any more? Then it ends. */
inline end() {
    do
    :: atomic { was = word; }
        if
        :: (was & LIVE) && (was & DYING) && was / PIN == 0 ->
            look(found);
            if
            :: found -> break
            :: else ->
#ifdef B_ENDSTORE
                word = was & CUR; done = true;
#else
                cas(was, was & CUR, done);
#endif
                if
                :: done ->
                    atomic {
                        ended++;
                        assert(ended == 1);
                        assert(held == 0);
                        break
                    }
                :: else
                fi
            fi
        :: else -> break
        fi
    od
}

inline unpin() {
    atomic { was = word; word = word - PIN; assert(was / PIN > 0 && (was & LIVE)); }
    if
    :: was / PIN == 1 && (was & DYING) ->
#ifdef B_UNPINEND
        cas((was - PIN), (was & CUR), done);
        if :: done -> atomic { ended++; assert(ended == 1); assert(held == 0) } :: else fi
#else
        end()
#endif
    :: else
    fi
}

/* Uses what it holds: the place is the one it has seen. */
inline use() {
    assert(word & LIVE);
    assert((word & CUR) == place);
    atomic { written = true; }
}

proctype client(byte s) {
    byte  k, c, i, r, base;
    short was, place;
    bool  found, done, claimed, pinned;
    do
    :: r == R -> break
    :: else ->
        r++;
        claimed = false; pinned = false; base = 0;
        if
        :: s == 0 -> list[0] = OTHER; count[0] = 1; base = 1
        :: else
        fi;
#ifdef B_NOFENCE
        was = word;
        list[2 * s + base] = H; count[s] = base + 1;
#else
        list[2 * s + base] = H;
        count[s] = base + 1;
        was = word;
#endif
        atomic {
            claimed = (was & LIVE) && !(was & DYING) && !(was & AWAY);
            if :: claimed -> held++; place = was & CUR :: else fi
        }
        if
        :: claimed
        :: else ->
            count[s] = base;
#ifndef B_BACKDYING
            was = word;
            if :: (was & LIVE) && (was & DYING) -> end() :: else fi;
#endif
            do
            :: atomic { was = word; }
                if
                :: !(was & LIVE) || (was & DYING) -> break
                :: else ->
                    atomic {
                        done = (word == was);
                        if
                        :: done -> word = (was + PIN) & ~MOVING; held++; place = was & CUR; pinned = true
                        :: else
                        fi
                    }
                    if :: done -> break :: else fi
                fi
            od
        fi;
        if
        :: claimed || pinned -> use()
        :: else
        fi;
        if
        :: claimed ->
#ifdef DETACH
            if
            :: s == 1 ->
#if defined B_DETACHPOP
                count[s] = 0;
                atomic { word = (word + PIN) & ~MOVING; }
#elif defined B_HOLDMOVING
                atomic { word = word + PIN; }
                count[s] = 0;
#else
                atomic { word = (word + PIN) & ~MOVING; }
                count[s] = 0;
#endif
                use();
                claimed = false; pinned = true
            :: else
            fi
#else
            skip
#endif
        :: else
        fi;
        if
        :: claimed && base == 1 -> /* the other one goes first */
#ifdef B_COMPACT
            list[0] = H; list[1] = 0; count[0] = 1
#else
            list[0] = 0
#endif
        :: true
        fi;
        if
        :: claimed ->
#ifndef B_POPMARK
            atomic { held--; }
#endif
            count[s] = 0;
#ifdef B_POPMARK
            atomic { held--; }
#endif
#ifndef B_RELDYING
            was = word;
            if :: (was & LIVE) && (was & DYING) -> end() :: else fi;
#endif
        :: pinned ->
            atomic { held--; }
            unpin()
        :: else
        fi;
        count[s] = 0
    od
}

proctype mover() {
    byte  k, c, i, m;
    short was;
    bool  found, done;
    do
    :: m == MM -> break
    :: else ->
        m++;
        atomic { was = word; }
        if
        :: (was & LIVE) && !(was & DYING) && was / PIN == 0 ->
            look(found);
            if :: !found -> cas(was, was | MOVING, done) :: else -> done = false fi;
            if
            :: done ->
#ifdef B_ONELOOK
                found = false;
#else
                look(found);
#endif
                if
                :: found -> atomic { word = word & ~MOVING; }
                :: else ->
                    written = false; /* the copy; then the publish, which fails if it was cancelled or freed */
                    atomic {
                        if
                        :: (word & LIVE) && !(word & DYING) && (word & MOVING) && word / PIN == 0 ->
                            assert(held == 0 && !written);
                            word = (word ^ CUR) & ~MOVING
                        :: else -> word = word & ~MOVING
                        fi
                    }
                fi
            :: else
            fi
        :: else
        fi
    od
}

proctype freer() {
    byte  k, c, i;
    short was;
    bool  found, done;
#ifdef B_KILLFIRST
    look(found);
    atomic { word = (word | DYING) & ~MOVING; }
    if
    :: !found && word / PIN == 0 ->
        atomic {
            if
            :: (word & LIVE) -> word = word & CUR; ended++; assert(ended == 1); assert(held == 0)
            :: else
            fi
        }
    :: else
    fi
#else
    atomic { word = (word | DYING) & ~MOVING; }
    end()
#endif
}

init {
    atomic { run client(0); run client(1); run mover(); run freer(); }
    _nr_pr == 1;
    assert(ended == 1 && held == 0 && word / PIN == 0)
}
