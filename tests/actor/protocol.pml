/* Req, Ack, credits and Stop of actors, for every order in which they may act: the protocol of actor/README.md without
 * fences, checked whole by spin. tests/actor/protocol_model_test.py runs it, as it is and with each of the bugs below.
 *
 *   actors and edges:  0 -> 1, 0 -> 2, 1 -> 2, 2 -> 3
 *
 * An act is two moments: it begins (inputs readable, a credit taken, the buffer is written from then on) and ends (Ack to
 * whom it read, Req to who reads it). In between others act. What must hold:
 *   - a buffer with readers is not written; an input holds the content that is due when the act ends,
 *   - Reqs and Acks of an edge come 0, 1, 2, ...; credits are never more than registers,
 *   - nobody waits for ever; at the end every actor has acted ITEMS times, every credit is back and no message is left. */
#ifndef REGISTERS
#define REGISTERS 2
#endif
#ifndef ITEMS
#define ITEMS 3
#endif
#define ACTORS 4
#define EDGES 4

#define FROM(e) (e == 2 -> 1 : (e == 3 -> 2 : 0))
#define TO(e) (e == 0 -> 1 : (e == 3 -> 3 : 2))

mtype = { Req, Stop };
chan forward[EDGES] = [ITEMS + 2] of { mtype, byte };
chan back[EDGES] = [ITEMS + 2] of { byte };

byte written[ACTORS * REGISTERS];   /* content of each buffer, and one more */
byte readers[ACTORS * REGISTERS];   /* that have not acked it */
byte ended;

#define BUFFER(a, k) ((a) * REGISTERS + (k) % REGISTERS)

proctype actor(byte me) {
  byte acts, stops, inputs, consumers;
  byte heard[EDGES], got[EDGES], acked[EDGES];
  byte e, k;
#ifdef WRONG_CREDIT
  byte credits = REGISTERS + (me == 1 -> 1 : 0);
#else
  byte credits = REGISTERS;
#endif
  bool acting, stopped;

  d_step {
    e = 0;
    do
    :: e < EDGES ->
       if :: TO(e) == me -> inputs++ :: else fi;
       if :: FROM(e) == me -> consumers++ :: else fi;
       e++
    :: else -> break
    od;
    e = 0
  }

  do
  /* A Req or a Stop has come. */
  :: atomic {
       if
       :: TO(0) == me && nempty(forward[0]) -> e = 0
       :: TO(1) == me && nempty(forward[1]) -> e = 1
       :: TO(2) == me && nempty(forward[2]) -> e = 2
       :: TO(3) == me && nempty(forward[3]) -> e = 3
       fi;
       if
       :: forward[e]?Req(k) ->
          assert(k == heard[e]);                            /* Reqs come in order */
          heard[e]++;
          got[e]++
       :: forward[e]?Stop(k) -> stops++
       fi;
       e = 0;
       k = 0
     }

  /* An Ack has come. */
  :: atomic {
       if
       :: FROM(0) == me && nempty(back[0]) -> e = 0
       :: FROM(1) == me && nempty(back[1]) -> e = 1
       :: FROM(2) == me && nempty(back[2]) -> e = 2
       :: FROM(3) == me && nempty(back[3]) -> e = 3
       fi;
       back[e]?k;
       assert(k == acked[e]);                               /* Acks come in order */
       acked[e]++;
       assert(readers[BUFFER(me, k)] > 0);                  /* of a content that is out */
       readers[BUFFER(me, k)]--;
#ifdef CREDIT_OF_ONE_READER
       if :: e == 0 || me != 0 -> credits++ :: else fi;
#else
       if :: readers[BUFFER(me, k)] == 0 -> credits++ :: else fi;
#endif
       assert(credits <= REGISTERS);
       e = 0;
       k = 0
     }

  /* An act begins: takes a credit, writes. */
  :: d_step {
       !acting && !stopped && acts < ITEMS && (consumers == 0 || credits > 0) &&
#ifndef NO_INPUT
       (TO(0) != me || got[0] > 0) &&
#endif
       (TO(1) != me || got[1] > 0) && (TO(2) != me || got[2] > 0) && (TO(3) != me || got[3] > 0) ->
       acting = true;
       if
       :: consumers > 0 ->
          credits--;
          assert(readers[BUFFER(me, acts)] == 0);           /* nobody reads what is written now */
          written[BUFFER(me, acts)] = acts + 1
       :: else
       fi;
       e = 0;
       do
       :: e < EDGES ->
          if
          :: TO(e) == me && got[e] > 0 -> got[e]--
          :: else
          fi;
#ifdef EARLY_ACK
          if :: TO(e) == me && e == 3 -> back[e]!acts :: else fi;
#endif
          e++
       :: else -> break
       od;
       e = 0
     }

  /* It ends: Ack to whom it read, Req to who reads it. */
  :: d_step {
       acting ->
       e = 0;
       do
       :: e < EDGES ->
          if
          :: TO(e) == me ->
             assert(written[BUFFER(FROM(e), acts)] == acts + 1);   /* the content that is due */
#ifdef LOST_ACK
             if :: e == 1 && acts == 1 :: else -> back[e]!acts fi
#else
#ifdef EARLY_ACK
             if :: e != 3 -> back[e]!acts :: else fi
#else
             back[e]!acts
#endif
#endif
#ifdef DOUBLE_ACK
             if :: e == 3 && acts == 0 -> back[e]!acts :: else fi
#endif
          :: FROM(e) == me ->
             readers[BUFFER(me, acts)]++;
#ifdef LOST_REQ
             if :: e == 0 && acts == 1 :: else -> forward[e]!Req(acts) fi
#else
             forward[e]!Req(acts)
#endif
          :: else
          fi;
          e++
       :: else -> break
       od;
       acts++;
       acting = false;
       e = 0
     }

  /* Stop travels behind the last Req: the source has made all, the others have heard all their producers. */
  :: d_step {
       !acting && !stopped &&
#ifdef EARLY_STOP
       ((inputs == 0 && acts >= ITEMS - 1) || (inputs > 0 && stops > 0)) ->
#else
       ((inputs == 0 && acts == ITEMS) ||
        (inputs > 0 && stops == inputs && got[0] + got[1] + got[2] + got[3] == 0)) ->
#endif
       stopped = true;
       e = 0;
       do
       :: e < EDGES ->
#ifdef LOST_STOP
          if :: FROM(e) == me && e != 2 -> forward[e]!Stop(0) :: else fi;
#else
          if :: FROM(e) == me -> forward[e]!Stop(0) :: else fi;
#endif
          e++
       :: else -> break
       od;
       e = 0
     }

  /* It drains: every credit has come back. */
  :: atomic {
#ifdef NO_DRAIN
       stopped ->
#else
       stopped && credits == REGISTERS ->
#endif
       assert(acts == ITEMS);
       ended++;
       break
     }
  od
}

init {
  byte e;
  atomic { run actor(0); run actor(1); run actor(2); run actor(3) }
  atomic {
    ended == ACTORS ->
    e = 0;
    do
    :: e < EDGES -> assert(empty(forward[e]) && empty(back[e])); e++
    :: else -> break
    od
  }
}
