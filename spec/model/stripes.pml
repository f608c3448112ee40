/* Stripes in small (docs/protocol.md, "Stripes"). Three sessions lock one path that has two documents. lock.pml shows
 * what one document does for one lock; this shows what two of them do together. Requests may arrive late or be
 * applied twice, sessions crash, a hold is raised or lowered, and what a dead job held is adopted.
 *
 * The script `check`, beside this file, explores every order of the steps. It shows that two incompatible locks are
 * never believed at the same time (the assertion in `believe`), that no live session waits for ever (there is no
 * invalid end state), and that who leaves in peace leaves nothing, nor of the job that it took over where no request
 * came late (the assertions at `closed`).
 *
 * Leases and deadlines are left out, which lock.pml has: who crashes believes in nothing from then on, and may be
 * proven dead at any time after. */
#define SESSIONS 3
#define STRIPES 2
#define NONE 0
#define IX 1
#define X 2
#define JOB 1 /* the session whose job an heir takes over: its stripe is not the heir's */
#define HEIR 2

/* What each of the sessions locks, and what the first converts its lock to. */
#ifndef ZERO
#define ZERO X
#endif
#ifndef THEN
#define THEN NONE
#endif
#ifndef ONE
#define ONE X
#endif
#ifndef TWO
#define TWO IX
#endif
#ifndef HEIRS
#define HEIRS 0
#endif
#ifndef COPIES
#define COPIES 1 /* a request gets no answer, and arrives later */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif

/* Bugs that can be planted with -DBUG=NAME. `check` must find each of them. */
#define X_TAKES_ITS_OWN 1   /* X takes one stripe, as IX does */
#define IX_TAKES_NONE 2
#define OTHER_ORDER 3       /* one session takes the stripes from the last to the first */
#define GIVES_ITS_OWN 4     /* a release gives back one stripe */
#define RAISES_ANEW 5       /* an upgrade gives its intention back before it has all stripes */
#define LOWERS_LATE 6       /* a downgrade relies on the stronger mode until all is done */
#define INTENDS_ELSEWHERE 7 /* an heir takes its intention in its own stripe, not where it adopted one */
#define ADOPTS_ITS_OWN 8    /* an heir adopts only what stands in its own stripe */
#define KEEPS_ADOPTED 9     /* an heir does not give back what it adopted beside its lock */
#ifndef BUG
#define BUG 0
#endif
#define bug(which) (BUG == which)

typedef lock { byte mode[SESSIONS]; byte number[SESSIONS] };
lock table[STRIPES];
bool live[SESSIONS] = true;
bool crashed[SESSIONS];
byte believed[SESSIONS];
byte unfinished; /* what the job relied on when it was cut off, until an heir has it */
byte copies = COPIES, crashes = CRASHES;

mtype = {set, release};
typedef request { mtype verb; byte from; byte stripe; byte mode; byte number };
request late;

#define NEXT(s) ((s + 1) % SESSIONS)
#define clash(a, b) ((a) != NONE && (b) != NONE && ((a) == X || (b) == X))
#define others_clash(modes, s, m) (clash(modes[NEXT(s)], m) || clash(modes[NEXT(s + 1)], m))
#define may_set(s, k, m, n) \
  (table[k].number[s] == n || (table[k].number[s] < n && !others_clash(table[k].mode, s, m)))
#define put(s, k, m, n) table[k].mode[s] = m; table[k].number[s] = n
#define remove(s, k, n) \
  if \
  :: table[k].number[s] <= n -> put(s, k, NONE, 0) \
  :: else \
  fi
#define guards(s) (HEIRS > 0 && ((s) == JOB || (s) == HEIR))
#define is_heir(s) (HEIRS > 0 && (s) == HEIR)
#define left(k, s) (!live[s] && table[k].mode[s] != NONE)
/* Who meets what a dead job's session left is told so, and gives up: nobody evicts it. The heir meets what came late,
 * and gives up at its time-out. */
#define orphan(k, s) (HEIRS > 0 && (left(k, JOB) || ((s) != HEIR && left(k, HEIR))))

/* A late request of the job may have put a guard into the last stripe while another holds the first. An heir that adopts
 * it waits for the first while that other waits for the last: this ends with its time-out. */
#define waits_for_earlier(s) (is_heir(s) && mode == X && at < STRIPES - 1 && adopted[STRIPES - 1])

inline hold_up(what, s) {
  copies--; late.verb = what; late.from = s; late.stripe = at; late.mode = mode; late.number = number
}

active proctype network() {
end:
  do
  :: d_step { late.verb != 0 ->
       if
       :: late.verb == release -> remove(late.from, late.stripe, late.number)
       :: late.verb == set && may_set(late.from, late.stripe, late.mode, late.number) ->
          put(late.from, late.stripe, late.mode, late.number)
       :: else
       fi;
       late.verb = 0; late.from = 0; late.stripe = 0; late.mode = 0; late.number = 0 }
  od
}

inline believe(s) {
  believed[s] = mode;
  assert(!others_clash(believed, s, mode));
  if
  :: is_heir(s) -> unfinished = NONE
  :: else -> assert(!clash(unfinished, mode))
  fi
}
inline clear() { at = 0; mode = 0; number = 0; own = 0; second = 0; i = 0; ghost = 0; all = 0; adopted[0] = 0; adopted[1] = 0 }

#define backwards(s) (bug(OTHER_ORDER) && (s) == 1)
#define needs(k) ((mode == X && !bug(X_TAKES_ITS_OWN)) || (k == own && !(mode == IX && bug(IX_TAKES_NONE))))
#define adopts(k) (!bug(ADOPTS_ITS_OWN) || k == s % STRIPES)

/* A session. `number` only grows; each grant of an acquisition has the same here, since each is at another place. */
proctype session(byte s; byte mode; byte second) {
  byte number = 1, at, i, own = s % STRIPES;
  bool ghost; /* a request got no answer, so that something may be left */
  bool all;   /* it was granted */
  bool adopted[STRIPES];
  {
    if
    :: is_heir(s) ->
       !live[JOB];
       do
       :: i < STRIPES ->
          atomic {
            if
            :: table[i].mode[JOB] != NONE && adopts(i) ->
               put(s, i, table[i].mode[JOB], number); put(JOB, i, NONE, 0);
               adopted[i] = true;
               if
               :: !bug(INTENDS_ELSEWHERE) -> own = i
               :: else
               fi
            :: else
            fi;
            i++
          }
       :: else -> break
       od;
       i = 0; number++
    :: else
    fi;
begin:
    i = 0;
ask:
    do
    :: i == STRIPES -> break
    :: i < STRIPES ->
       at = (backwards(s) -> STRIPES - 1 - i : i);
       atomic {
         if
         :: !needs(at) -> i++
         :: needs(at) && may_set(s, at, mode, number) -> put(s, at, mode, number); i++
         :: needs(at) && !may_set(s, at, mode, number) && (orphan(at, s) || waits_for_earlier(s)) -> goto leave
         :: needs(at) && copies > 0 -> hold_up(set, s); ghost = true;
            if
            :: true /* it asks again, with the same number */
            :: goto leave
            fi
         fi
       }
    od;
    atomic {
      believe(s);
      all = true; i = 0
    };
    do /* what was adopted where the lock has nothing */
    :: i < STRIPES ->
       atomic {
         if
         :: adopted[i] && !needs(i) && !bug(KEEPS_ADOPTED) -> remove(s, i, number)
         :: else
         fi;
         i++
       }
    :: else -> break
    od;
    i = 0;
    if
    :: atomic { second == X -> mode = X; second = NONE; number++;
         if
         :: bug(RAISES_ANEW) -> remove(s, own, number)
         :: else
         fi;
         goto begin }
    :: atomic { second == IX -> second = NONE; number++;
         believed[s] = (bug(LOWERS_LATE) -> X : IX); mode = IX }
       do /* one entry is lowered, the others are given back */
       :: i < STRIPES ->
          atomic {
            if
            :: i == own -> put(s, i, IX, number)
            :: else -> remove(s, i, number)
            fi;
            i++
          }
       :: else -> break
       od
    :: second == NONE
    fi;
leave:
    atomic {
      believed[s] = NONE; i = STRIPES;
      if
      :: is_heir(s) && !all -> ghost = true; goto closed /* what it adopted guards the job */
      :: else
      fi
    };
    do
    :: i > 0 ->
       at = i - 1;
       atomic {
         if
         :: (bug(GIVES_ITS_OWN) && at != own) || (bug(KEEPS_ADOPTED) && adopted[at] && !needs(at)) -> i--
         :: else ->
            if
            :: remove(s, at, number); i--
            :: copies > 0 -> hold_up(release, s) /* it asks again */
            fi
         fi
       }
    :: else -> break
    od;
closed:
    if
    :: d_step {
         assert(ghost || (table[0].mode[s] == NONE && table[1].mode[s] == NONE));
         assert(!is_heir(s) || !all || COPIES || (table[0].mode[JOB] == NONE && table[1].mode[JOB] == NONE));
         live[s] = false; clear() }
    fi
  } unless { d_step { crashed[s] -> clear() } }
}

proctype world(byte s) {
end:
  do
  :: d_step { crashes > 0 && live[s] && !crashed[s] -> crashes--; crashed[s] = true;
       if
       :: HEIRS > 0 && s == JOB -> unfinished = believed[s]
       :: else
       fi;
       believed[s] = NONE }
  :: d_step { crashed[s] && live[s] -> live[s] = false }
  :: d_step { !live[s] && !guards(s) && table[0].mode[s] != NONE -> put(s, 0, NONE, 0) }
  :: d_step { !live[s] && !guards(s) && table[1].mode[s] != NONE -> put(s, 1, NONE, 0) }
  od
}

init {
  atomic {
    run session(0, ZERO, THEN); run session(1, ONE, NONE); run session(2, TWO, NONE);
    run world(0); run world(1); run world(2)
  }
}
