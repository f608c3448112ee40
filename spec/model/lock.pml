/* The lock protocol (docs/protocol.md) in small: three sessions, a directory and a file in it, requests
 * that are late or applied twice, answers that are another request's, beats, crashes, deadlines that pass,
 * taking over from the dead, breaking by hand, and adopting what guards a job.
 * `check`, beside this file, explores all of it: no two incompatible holds are ever believed at once
 * (the assertion in `believe`), no session that lives is left waiting (no invalid end state), and no
 * state comes back (no cycle), so every session comes to its end.
 *
 * Left out: the queue, which only orders who is granted next (a denial changes nothing, so asking
 * again and again is waiting until there is none); S, IS and SIX, which add rows to the matrix;
 * `create`, a set that is denied more often. What is over is set
 * to zero, so that states which differ in nothing are one. */
#define SESSIONS 3
#define DIR 0
#define FILE 1
#define NONE 0
#define IX 1
#define X 2

/* Session 0 takes the directory twice, in two modes; with KEEP it changes the mode of its hold instead
 * of giving it back first. Session 1 takes it in X. Who has it in IX then takes the file, in X. */
#ifndef FIRST
#define FIRST IX
#define SECOND X
#define KEEP false
#define THIRD IX /* session 2 */
#endif

/* What may go wrong, and how often in a run. */
#ifndef COPIES
#define COPIES 1 /* a set or a release without an answer, which arrives later */
#define BEATS 1
#define CRASHES 1
#define PAUSES 1 /* deadlines that pass while their session lives */
#endif
#ifndef BREAKS
#define BREAKS 0 /* sessions that are broken by hand */
#endif

#ifndef HEIRS
#define HEIRS 0 /* session 0 works for a job, which so many of the last sessions recover by adoption */
#endif

#ifndef ANSWERS
#define ANSWERS 0 /* answers that come twice, where nothing says whose they are */
#endif

/* The planted bugs: -DBUG=NAME. */
#define NO_MATRIX 1
#define SET_IGNORES_NUMBER 2
#define RELEASE_IGNORES_NUMBER 3
#define COUNTS 4           /* a release takes away one of those in this mode, its own or not */
#define TRUST_NO_ANSWER 5  /* a set without an answer is believed in */
#define BELIEVE_TOO_LONG 6 /* a grant whose answer came past the deadline */
#define DISBELIEVE_LATE 7  /* after the release, not before it */
#define IMPATIENT 8        /* a watcher does not wait for the whole lease */
#define EXPIRE_BLINDLY 9   /* without compare-and-set */
#define EVICT_THE_LIVING 10
#define NO_TAKE_OVER 11
#define GHOSTS_GO_ON 12 /* a session goes on after a set without an answer */
#define BREAK_AT_ONCE 13 /* who breaks does not wait after its mark */
#define BEAT_WHEN_BROKEN 14
#define TRUST_OLD_ANSWERS 15 /* that a write is older than what is known is not seen */
#define KEEP_CONNECTION 16   /* after an answer that proves nothing */
#define EVICT_GUARDS 17      /* what guards a job is evicted like all else */
#define ADOPT_THE_LIVING 18  /* from a session that is not proven dead */
#define TRUST_ADOPT 19       /* an adoption without an answer is believed in */
#define GIVE_GUARDS_BACK 20  /* an heir that is not granted all gives back what it has adopted */
#ifndef BUG
#define BUG 0
#endif
#define bug(which) (BUG == which)

/* The table: a document for each path, with a set of entries, and one for each session. */
typedef lock { byte mode[SESSIONS]; byte number[SESSIONS] };
lock table[2];
bool live[SESSIONS] = true; /* not closed, not expired: these two differ in nothing here */
bool broken[SESSIONS];      /* marked by hand: no beat is taken any more */
byte version[SESSIONS];

/* The sessions. One that crashed, or whose deadline is past, believes nothing. */
mtype = {set, release, adopting, well, past, crashed};
mtype life[SESSIONS] = well;
byte acked[SESSIONS]; /* the version that its last acknowledged open or beat made */
typedef holds { byte mode[SESSIONS] };
holds believed[2];

/* One watcher for each session stands for all of them. Only its compare-and-set changes anything, and
 * of several watchers one is first. It watches from the opening: to watch from later on only delays. */
byte saw[SESSIONS];     /* the version it read */
bool elapsed[SESSIONS]; /* lease and margin have passed since that answer arrived */

/* Who breaks a session counts from its own mark. It compares nothing when it expires: the mark alone
 * must do, for no beat came after it. (In truth it compares too.) */
byte marked[SESSIONS]; /* the version that it made */
bool waited[SESSIONS]; /* lease and margin have passed since its answer arrived */

/* What session 0 believed in when it was cut off: its job is unfinished there, until an heir holds it. */
byte unfinished[2];

typedef request { mtype verb; byte from; byte path; byte mode; byte number };
request late; /* what the network holds up: one at a time */

/* What session `whose` - 1 reads as the answer to its next set: to one at this path, which was granted or
 * denied. A write that it has heard of is old: all it asks for from then on has a larger fence. */
typedef answer { byte whose; byte path; bool grants; bool old };
answer next;
byte answers = ANSWERS;
byte copies = COPIES, beats = BEATS, crashes = CRASHES, pauses = PAUSES, breaks = BREAKS;

#define DENIED 0
#define GRANTED 1
#define OLD 2
#define NEXT(s) ((s + 1) % SESSIONS)
#define clash(a, b) ((a) != NONE && (b) != NONE && ((a) == X || (b) == X))
#define others_clash(doc, s, m) (clash(doc.mode[NEXT(s)], m) || clash(doc.mode[NEXT(s + 1)], m))
#define may_set(s, p, m, n) \
  (table[p].number[s] == n || ((table[p].number[s] < n || bug(SET_IGNORES_NUMBER)) && \
                               (!others_clash(table[p], s, m) || bug(NO_MATRIX))))
#define put(s, p, m, n) table[p].mode[s] = m; table[p].number[s] = n
#define remove(s, p, m, n) \
  if \
  :: bug(COUNTS) && table[p].mode[s] == NONE && table[p].mode[NEXT(s)] == m -> \
     put(NEXT(s), p, NONE, 0) \
  :: table[p].number[s] <= n || bug(RELEASE_IGNORES_NUMBER) -> put(s, p, NONE, 0) \
  :: else \
  fi

#define heir(s) ((s) + HEIRS >= SESSIONS)
#define guards(s) (HEIRS > 0 && ((s) == 0 || heir(s)))
/* Somebody who is dead holds something here for the job, and nobody takes it away. */
#define orphan(p, s) \
  (HEIRS > 0 && (((s) != 0 && guards(0) && !live[0] && table[p].mode[0] != NONE) || \
                 ((s) != 1 && guards(1) && !live[1] && table[p].mode[1] != NONE) || \
                 ((s) != 2 && guards(2) && !live[2] && table[p].mode[2] != NONE)))
#define may_release(s) !(guards(s) && life[s] == past) /* its guard is another's to recover */
#define more(a, b) ((a) > (b) -> (a) : (b))
#define adopt(s, p, n) \
  put(s, p, more(table[p].mode[0], table[p].mode[s]), n); put(0, p, NONE, 0)

inline hold_up(what, s) {
  copies--; late.verb = what; late.from = s;
  late.path = path; late.mode = mode; late.number = number
}

/* What was held up arrives. When that is at once, only the acknowledgement was lost; when the sender
 * asked again and was answered, it is a duplicate. */
active proctype network() {
end:
  do
  :: d_step { late.verb != 0 ->
       if
       :: late.verb == release -> remove(late.from, late.path, late.mode, late.number)
       :: late.verb == set && may_set(late.from, late.path, late.mode, late.number) ->
          put(late.from, late.path, late.mode, late.number)
       :: late.verb == adopting && table[late.path].mode[0] != NONE &&
          table[late.path].number[late.from] <= late.number ->
          adopt(late.from, late.path, late.number)
       :: else
       fi;
       late.verb = 0; late.from = 0; late.path = 0; late.mode = 0; late.number = 0 }
  od
}

inline believe(s) {
  believed[path].mode[s] = mode;
  assert(!others_clash(believed[path], s, mode));
  if
  :: guards(s) -> unfinished[path] = NONE
  :: else -> assert(!clash(unfinished[path], mode))
  fi
}
inline cut_off(s) {
  if
  :: guards(s) && s == 0 ->
     unfinished[DIR] = more(unfinished[DIR], believed[DIR].mode[0]);
     unfinished[FILE] = more(unfinished[FILE], believed[FILE].mode[0])
  :: else
  fi;
  disbelieve(s)
}
inline disbelieve(s) { believed[DIR].mode[s] = NONE; believed[FILE].mode[s] = NONE }
inline end_session(s) {
  live[s] = false; version[s] = 0; acked[s] = 0; saw[s] = 0; elapsed[s] = false;
  broken[s] = false; marked[s] = 0; waited[s] = false
}
inline clear() {
  path = 0; mode = 0; number = 0; ghost = 0; first = 0; second = 0; keep = 0; seen = 0; all = 0
}

inline no_answer_left() { next.whose = 0; next.path = 0; next.grants = false; next.old = false }
inline leave_answer(s, is_grant, is_old) {
  next.whose = s + 1; next.path = path; next.grants = is_grant; next.old = is_old
}
#define forget_answers(s) if :: next.whose == s + 1 -> no_answer_left() :: else fi
/* The request is carried out or denied all the same. Only while its connection is used, what is said of
 * it comes next. */
inline read_anothers(s) {
  seems = (next.path == path && next.grants -> (next.old && !bug(TRUST_OLD_ANSWERS) -> OLD : GRANTED) : DENIED);
  if
  :: may_set(s, path, mode, number) -> put(s, path, mode, number); granted = true
  :: else -> granted = false
  fi;
  no_answer_left();
  if
  :: seems == GRANTED || bug(KEEP_CONNECTION) -> leave_answer(s, granted, false)
  :: else
  fi;
  granted = false
}

/* `number` only grows; a release is sent with the last one, which no other hold on that path had. */
proctype session(byte s; byte first; byte second; bool keep) {
  byte path, mode = first, number = 1;
  bool ghost; /* a set had no answer: not another round */
  byte seems;
  bool granted;
  bool seen; /* an heir: something to adopt */
  bool all;  /* an heir: it was granted all */
  {
    if
    :: heir(s) -> goto recover
    :: else -> goto ask
    fi;
recover:
    atomic { /* it waits until session 0 is proven dead */
      (!live[0] || bug(ADOPT_THE_LIVING)) -> seen = (table[path].mode[0] != NONE)
    };
take_over:
    atomic {
      if
      :: !seen || table[path].number[s] == number -> skip
      :: seen && table[path].number[s] != number && table[path].mode[0] != NONE ->
         adopt(s, path, number)
      :: seen && table[path].number[s] != number && table[path].mode[0] == NONE -> goto closed
      :: seen && copies > 0 -> hold_up(adopting, s);
         if
         :: goto take_over /* with the same number */
         :: goto closed
         :: bug(TRUST_ADOPT) -> mode = (path == DIR -> IX : X); believe(s)
         fi
      fi;
      seen = false; number++;
      if
      :: path == DIR -> path = FILE; goto recover
      :: else -> path = DIR; mode = first
      fi
    };
ask:
    atomic {
      if
      :: may_set(s, path, mode, number) -> put(s, path, mode, number);
         if
         :: answers > 0 -> answers--; leave_answer(s, true, true)
         :: true
         fi
      :: answers > 0 && !may_set(s, path, mode, number) ->
         answers--; leave_answer(s, false, true); goto ask
      :: next.whose == s + 1 -> read_anothers(s);
         if
         :: seems == GRANTED -> seems = 0
         :: seems == DENIED -> goto ask /* with the same number */
         :: seems == DENIED -> goto leave
         :: seems == OLD -> seems = 0; ghost = true; goto ask
         :: seems == OLD -> seems = 0; ghost = true; goto leave
         fi
      /* It learns whose guard it is; two heirs who are in each other's way come to their time-outs. */
      :: (orphan(path, s) || heir(s)) && !may_set(s, path, mode, number) -> goto leave
      :: copies > 0 -> hold_up(set, s); ghost = !bug(GHOSTS_GO_ON);
         if
         :: goto ask
         :: goto leave
         :: bug(TRUST_NO_ANSWER)
         fi
      fi
    };
    atomic { /* the answer arrived; the clock is looked at */
      if
      :: life[s] == well || bug(BELIEVE_TOO_LONG) -> believe(s)
      :: else -> goto leave
      fi;
      if
      :: mode == IX -> path = FILE; mode = X; number++; goto ask
      :: else -> all = heir(s)
      fi
    };
leave:
    atomic {
      if
      :: heir(s) && !all && !bug(GIVE_GUARDS_BACK) -> goto closed
      :: else
      fi;
      if
      :: keep && path == DIR && second != NONE && believed[DIR].mode[s] != NONE ->
         believed[DIR].mode[s] = IX; /* what both modes allow, until there is an answer */
         mode = second; second = NONE; number++; goto ask
      :: else
      fi;
      believed[path].mode[s] = (bug(DISBELIEVE_LATE) -> believed[path].mode[s] : NONE);
      if
      :: may_release(s) -> remove(s, path, mode, number)
      :: may_release(s) && copies > 0 -> hold_up(release, s); goto leave
      :: life[s] == past /* no more use */
      fi;
      if
      :: path == FILE -> path = DIR; mode = IX; goto leave
      :: path == DIR && !keep && second != NONE && life[s] == well && !ghost ->
         mode = second; second = NONE; number++; goto ask
      :: else
      fi
    };
closed:
    if
    :: d_step { end_session(s); cut_off(s); life[s] = well; clear(); forget_answers(s) } /* closed */
    fi
  } unless { d_step { life[s] == crashed -> clear(); forget_answers(s) } }
}

/* What befalls session s from outside. */
#define may_beat(s) (live[s] && (!broken[s] || bug(BEAT_WHEN_BROKEN)))
#define may_evict(s) (!bug(NO_TAKE_OVER) && (!guards(s) || bug(EVICT_GUARDS)) && (!live[s] || (bug(EVICT_THE_LIVING) && elapsed[s])))
proctype world(byte s) {
end:
  do
  :: d_step { crashes > 0 && live[s] ->
       crashes--; life[s] = crashed; cut_off(s); acked[s] = 0; elapsed[s] = false }
  :: d_step { beats > 0 && may_beat(s) -> beats--; version[s]++ } /* its answer is lost, or too late */
  :: d_step { beats > 0 && may_beat(s) && life[s] == well ->
       beats--; version[s]++; acked[s] = version[s] }
  :: d_step { live[s] && saw[s] != version[s] -> saw[s] = version[s]; elapsed[s] = false }
  /* Whoever had no acknowledgement since the version that was read sent its last before that. */
  :: d_step { live[s] && !elapsed[s] && life[s] == well && acked[s] <= saw[s] && pauses > 0 ->
       pauses--; elapsed[s] = true; life[s] = past; cut_off(s); acked[s] = 0 }
  :: d_step { live[s] && !elapsed[s] && (life[s] == past || acked[s] > saw[s] || bug(IMPATIENT)) ->
       elapsed[s] = true }
  :: d_step { live[s] && (elapsed[s] || life[s] == crashed) && /* the process is seen to be gone */
       (saw[s] == version[s] || bug(EXPIRE_BLINDLY)) -> end_session(s) }
  /* Breaking: the mark, the beat that is refused, the wait, the end. */
  :: d_step { breaks > 0 && live[s] && !broken[s] ->
       breaks--; broken[s] = true; version[s]++; marked[s] = version[s] }
  :: d_step { live[s] && broken[s] && life[s] == well && !bug(BEAT_WHEN_BROKEN) ->
       life[s] = past; cut_off(s); acked[s] = 0 }
  :: d_step { broken[s] && !waited[s] && life[s] == well && acked[s] <= marked[s] && pauses > 0 ->
       pauses--; waited[s] = true; life[s] = past; cut_off(s); acked[s] = 0 }
  :: d_step { broken[s] && !waited[s] &&
       (life[s] == past || acked[s] > marked[s] || bug(BREAK_AT_ONCE)) -> waited[s] = true }
  :: d_step { broken[s] && waited[s] -> end_session(s) }
  :: d_step { may_evict(s) && table[DIR].mode[s] != NONE -> put(s, DIR, NONE, 0) }
  :: d_step { may_evict(s) && table[FILE].mode[s] != NONE -> put(s, FILE, NONE, 0) }
  od
}

init {
  atomic {
    run session(0, FIRST, SECOND, KEEP);
    run session(1, X, NONE, false); run session(2, THIRD, NONE, false);
    run world(0); run world(1); run world(2)
  }
}
