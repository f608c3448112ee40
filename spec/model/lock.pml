/* A small model of the lock protocol (docs/protocol.md). Three sessions lock a directory and a file in it.
 * Requests may arrive late or be applied twice, an answer may belong to another request, sessions beat,
 * crash and miss their deadlines. Dead sessions are taken over, a session may be broken by hand, and the
 * locks that guard a job are adopted.
 *
 * The script `check`, beside this file, explores every order of the steps. It shows three things. Two
 * incompatible holds are never believed at the same time (the assertion in `believe`). No live session
 * waits for ever (there is no invalid end state). No state is reached twice in one run (there is no
 * cycle), so every session comes to its end.
 *
 * The model leaves out the queue, because it only decides who is granted next: a denial changes nothing,
 * so a session that waits is modelled as one that asks again. It leaves out the modes S, IS and SIX, which
 * only add rows to the matrix, and `create`, which is a set that is denied more often. A variable that is
 * no longer needed is set to zero, so that the explorer sees equal states as one. */
#define SESSIONS 3
#define DIR 0
#define FILE 1
#define NONE 0
#define IX 1
#define X 2

/* Session 0 locks the directory twice, first in mode FIRST and then in mode SECOND. With KEEP it converts
 * its lock; without KEEP it releases it and locks again. Session 1 locks the directory in X, and session 2
 * in THIRD. A session that has the directory in IX then locks the file in X. */
#ifndef FIRST
#define FIRST IX
#define SECOND X
#define KEEP false
#define THIRD IX
#endif

/* How often each of these may happen in one run. */
#ifndef COPIES
#define COPIES 1 /* a set or a release gets no answer, and arrives later */
#define BEATS 1
#define CRASHES 1
#define PAUSES 1 /* a live session is so slow that its deadline passes */
#endif
#ifndef BREAKS
#define BREAKS 0 /* a session is broken by hand */
#endif

#ifndef HEIRS
#define HEIRS 0 /* how many of the last sessions recover session 0's job by adopting its locks */
#endif

#ifndef ANSWERS
#define ANSWERS 0 /* an answer comes twice, and nothing in it says which request it belongs to */
#endif

/* Bugs that can be planted with -DBUG=NAME. `check` must find each of them. */
#define NO_MATRIX 1
#define SET_IGNORES_NUMBER 2
#define RELEASE_IGNORES_NUMBER 3
#define COUNTS 4           /* a release removes any entry in its mode, even another session's */
#define TRUST_NO_ANSWER 5  /* a set that got no answer is believed to be granted */
#define BELIEVE_TOO_LONG 6 /* a grant is believed though its answer came after the deadline */
#define DISBELIEVE_LATE 7  /* a hold is believed until its release is done */
#define IMPATIENT 8        /* a watcher expires a session before the whole lease has passed */
#define EXPIRE_BLINDLY 9   /* a session is expired without compare-and-set */
#define EVICT_THE_LIVING 10
#define NO_TAKE_OVER 11
#define GHOSTS_GO_ON 12 /* a session locks again after a set got no answer */
#define BREAK_AT_ONCE 13 /* a marked session is ended at once, without waiting for its lease */
#define BEAT_WHEN_BROKEN 14
#define TRUST_OLD_ANSWERS 15 /* an answer about an older write is taken for a new one */
#define KEEP_CONNECTION 16   /* a connection is used again after an answer that proves nothing */
#define EVICT_GUARDS 17      /* the locks that guard a job are evicted like all others */
#define ADOPT_THE_LIVING 18  /* locks are adopted from a session that is not proven dead */
#define TRUST_ADOPT 19       /* an adoption that got no answer is believed to be granted */
#define GIVE_GUARDS_BACK 20  /* an heir that did not get all locks releases those it adopted */
#ifndef BUG
#define BUG 0
#endif
#define bug(which) (BUG == which)

/* The lock table. It has a document for each path, which lists one entry for each session, and a document
 * for each session. */
typedef lock { byte mode[SESSIONS]; byte number[SESSIONS] };
lock table[2];
bool live[SESSIONS] = true; /* it is neither closed nor expired; the model need not tell these apart */
bool broken[SESSIONS];      /* it is marked by hand, and the table refuses its beats */
byte version[SESSIONS];

/* What the sessions know. A session that has crashed, or whose deadline is past, believes in no hold. */
mtype = {set, release, adopting, well, past, crashed};
mtype life[SESSIONS] = well;
byte acked[SESSIONS]; /* the version after its last open or beat that was acknowledged */
typedef holds { byte mode[SESSIONS] };
holds believed[2];

/* In truth every session watches the others. Here each session has one watcher, because only the watcher
 * whose compare-and-set comes first changes anything. It watches from the opening of the session, because
 * a later beginning would only delay it. */
byte saw[SESSIONS];     /* the version that the watcher has read */
bool elapsed[SESSIONS]; /* the lease and the margin have passed since it read that version */

/* Whoever breaks a session waits for the lease and the margin after it has marked the session. In truth it
 * then expires the session by compare-and-set. The model expires it without comparing, to show that the
 * mark alone is enough, since the table accepts no beat after it. */
byte marked[SESSIONS]; /* the version after the mark */
bool waited[SESSIONS]; /* the lease and the margin have passed since the mark was acknowledged */

/* The holds that session 0 believed in when it was cut off. Its job is unfinished there until an heir holds
 * the same lock, so nobody else may be granted an incompatible one. */
byte unfinished[2];

typedef request { mtype verb; byte from; byte path; byte mode; byte number };
request late; /* the one request that the network delays */

/* A stray answer, which session `whose` - 1 will read in place of the answer to its next set. It says that
 * a set at `path` was granted or denied. It is old if the session has heard of that write before, because
 * whatever the session asks for later gets a larger fence. */
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
/* A dead session still has an entry here that guards the job, and nobody may evict it. */
#define orphan(p, s) \
  (HEIRS > 0 && (((s) != 0 && guards(0) && !live[0] && table[p].mode[0] != NONE) || \
                 ((s) != 1 && guards(1) && !live[1] && table[p].mode[1] != NONE) || \
                 ((s) != 2 && guards(2) && !live[2] && table[p].mode[2] != NONE)))
/* A job's session that is past its deadline leaves its locks to its heir. */
#define may_release(s) !(guards(s) && life[s] == past)
#define more(a, b) ((a) > (b) -> (a) : (b))
#define adopt(s, p, n) \
  put(s, p, more(table[p].mode[0], table[p].mode[s]), n); put(0, p, NONE, 0)

inline hold_up(what, s) {
  copies--; late.verb = what; late.from = s;
  late.path = path; late.mode = mode; late.number = number
}

/* The network delivers the delayed request at any time. If it does so at once, only the acknowledgement was
 * lost. If the sender has meanwhile asked again and got its answer, the request is a duplicate. */
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
/* The session reads the stray answer, and the table carries out or denies its request all the same. The
 * true answer becomes the next stray one, if the session goes on using the connection. */
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

/* A session. `number` only grows. A release is sent with the last number, which no other hold of the session
 * on that path had. */
proctype session(byte s; byte first; byte second; bool keep) {
  byte path, mode = first, number = 1;
  bool ghost; /* a set got no answer, so the session does not lock once more */
  byte seems;
  bool granted;
  bool seen; /* the heir has found an entry to adopt */
  bool all;  /* the heir was granted all locks */
  {
    if
    :: heir(s) -> goto recover
    :: else -> goto ask
    fi;
recover:
    atomic { /* the heir waits until session 0 is proven dead */
      (!live[0] || bug(ADOPT_THE_LIVING)) -> seen = (table[path].mode[0] != NONE)
    };
take_over:
    atomic {
      if
      :: !seen || table[path].number[s] == number -> skip
      :: seen && table[path].number[s] != number && table[path].mode[0] != NONE ->
         adopt(s, path, number)
      :: seen && table[path].number[s] != number && table[path].mode[0] == NONE ->
         goto recover /* another one was quicker */
      :: seen && copies > 0 -> hold_up(adopting, s);
         if
         :: goto take_over /* it asks again, with the same number */
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
         :: seems == DENIED -> goto ask /* it asks again, with the same number */
         :: seems == DENIED -> goto leave
         :: seems == OLD -> seems = 0; ghost = true; goto ask
         :: seems == OLD -> seems = 0; ghost = true; goto leave
         fi
      /* A session that meets the lock of a dead job is told so, and gives up. An heir that waits for another
       * heir gives up at its time-out. */
      :: (orphan(path, s) || heir(s)) && !may_set(s, path, mode, number) -> goto leave
      :: copies > 0 -> hold_up(set, s); ghost = !bug(GHOSTS_GO_ON);
         if
         :: goto ask
         :: goto leave
         :: bug(TRUST_NO_ANSWER)
         fi
      fi
    };
    atomic { /* the answer has arrived, and the session compares its deadline with the clock */
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
         believed[DIR].mode[s] = IX; /* until there is an answer, it relies only on what both modes allow */
         mode = second; second = NONE; number++; goto ask
      :: else
      fi;
      believed[path].mode[s] = (bug(DISBELIEVE_LATE) -> believed[path].mode[s] : NONE);
      if
      :: may_release(s) -> remove(s, path, mode, number)
      :: may_release(s) && copies > 0 -> hold_up(release, s); goto leave
      :: life[s] == past /* a release would be of no use any more */
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
    :: d_step { end_session(s); cut_off(s); life[s] = well; clear(); forget_answers(s) }
    fi
  } unless { d_step { life[s] == crashed -> clear(); forget_answers(s) } }
}

/* Everything that happens to session s from outside: crashes, beats, watching, breaking, evictions. Whoever
 * watches, ends and evicts it need not want its locks: this is a waiter's take-over, and the clearing away of
 * what nobody wants as well. */
#define may_beat(s) (live[s] && (!broken[s] || bug(BEAT_WHEN_BROKEN)))
#define may_evict(s) (!bug(NO_TAKE_OVER) && (!guards(s) || bug(EVICT_GUARDS)) && (!live[s] || (bug(EVICT_THE_LIVING) && elapsed[s])))
proctype world(byte s) {
end:
  do
  :: d_step { crashes > 0 && live[s] ->
       crashes--; life[s] = crashed; cut_off(s); acked[s] = 0; elapsed[s] = false }
  /* The answer to this beat is lost, or comes too late. */
  :: d_step { beats > 0 && may_beat(s) -> beats--; version[s]++ }
  :: d_step { beats > 0 && may_beat(s) && life[s] == well ->
       beats--; version[s]++; acked[s] = version[s] }
  :: d_step { live[s] && saw[s] != version[s] -> saw[s] = version[s]; elapsed[s] = false }
  /* If nothing after the version that the watcher read was acknowledged, the session sent its last
   * acknowledged beat before that reading, so its own deadline passes first. */
  :: d_step { live[s] && !elapsed[s] && life[s] == well && acked[s] <= saw[s] && pauses > 0 ->
       pauses--; elapsed[s] = true; life[s] = past; cut_off(s); acked[s] = 0 }
  :: d_step { live[s] && !elapsed[s] && (life[s] == past || acked[s] > saw[s] || bug(IMPATIENT)) ->
       elapsed[s] = true }
  :: d_step { live[s] && (elapsed[s] || life[s] == crashed) && /* or others see that its process is gone */
       (saw[s] == version[s] || bug(EXPIRE_BLINDLY)) -> end_session(s) }
  /* Breaking by hand has four steps: the session is marked, its next beat is refused, the lease passes, and
   * the session is ended. */
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
