/* Another number of stripes in small (docs/protocol.md, "Another number"). A table moves from one index to another,
 * with another number of stripes, while two sessions come and go, lock one path, and may fall silent or die in a job.
 *
 * The script `check`, beside this file, explores every order of the steps. It shows that two incompatible locks are
 * never believed at the same time (the assertion in `believe`), though each client takes the stripes of the number
 * that it knows, and though it believes a grant whichever index gave it. What one index does is in lock.pml and
 * stripes.pml. */
#define CLIENTS 2
#define STRIPES 2
#define NONE 0
#define IX 1
#define X 2

#ifndef OLD
#define OLD 1 /* the number of stripes before, */
#endif
#ifndef NEW
#define NEW 2 /* and after */
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* sessions of each client */
#endif
#ifndef TRIES
#define TRIES 2 /* of those who make tables, one after the other */
#endif

/* Bugs that can be planted with -DBUG=NAME. `check` must find each of them. */
#define COUNTS_NO_SESSIONS 1
#define COUNTS_NO_LOCKS 2
#define BLOCKS_NOTHING 3
#define BLOCK_DOES_NOT_WAIT 4  /* for the writes that are under way */
#define COUNTS_FIRST 5         /* and then keeps writes out */
#define VERIFIES_BEFORE 6      /* a client looks at the table before it opens its session, and not after */
#define FORGETS_THE_LIVING 7   /* a session that was silent is not counted, though its client still relies on it */
#ifndef BUG
#define BUG 0
#endif
#define bug(which) (BUG == which)

typedef index { byte mode[4]; byte sessions; byte flying; bool blocked; bool gone };
index table[2];
byte alias;
byte believed[CLIENTS]; /* or what its job needs, half-done */

#define number_of(i) ((i) == 0 -> OLD : NEW)
#define at_place(k, s) ((k) * CLIENTS + (s))
#define clash(a, b) ((a) != NONE && (b) != NONE && ((a) == X || (b) == X))
#define holds_any(i, s) (table[i].mode[at_place(0, s)] != NONE || table[i].mode[at_place(1, s)] != NONE)
#define locks(i) (holds_any(i, 0) || holds_any(i, 1))
#define in_use(i) \
  ((table[i].sessions > 0 && !bug(COUNTS_NO_SESSIONS)) || (locks(i) && !bug(COUNTS_NO_LOCKS)))

/* A write finds the index by the alias, and is applied there later: `begin`, then what it does. */
#define begin(refused) \
  atomic { \
    if \
    :: table[alias].blocked -> goto refused \
    :: else -> at = alias; table[at].flying++ \
    fi \
  }
#define land table[at].flying--

inline remove_all(i, s) {
  table[i].mode[at_place(0, s)] = NONE; table[i].mode[at_place(1, s)] = NONE
}

inline close_session() {
  if
  :: !table[mine].gone && table[mine].sessions > 0 -> table[mine].sessions--
  :: else
  fi
}

proctype client(byte s; byte want) {
  byte round, known, at, mine, k;
next:
  if
  :: round == ROUNDS -> goto over
  :: else -> round++
  fi;
  known = number_of(alias);
  begin(next);
  atomic {
    land;
    if
    :: table[at].gone -> goto next
    :: else -> table[at].sessions++; mine = at
    fi
  }
  if
  :: bug(VERIFIES_BEFORE)
  :: else -> known = number_of(alias)
  fi;
  k = (want == X -> 0 : s % known);
take:
  begin(leave);
  atomic {
    land;
    if
    :: table[at].gone || clash(table[at].mode[at_place(k, 1 - s)], want) -> goto leave
    :: else -> table[at].mode[at_place(k, s)] = want
    fi
  }
  if
  :: want == X && k + 1 < known -> k++; goto take
  :: else
  fi;
believe:
  atomic { believed[s] = want; assert(!clash(believed[0], believed[1])) }
  if
  :: bug(FORGETS_THE_LIVING) -> atomic { close_session(); remove_all(mine, s) } /* taken for dead */
  :: atomic { true -> close_session() } /* it dies in a job, whose guards go on excluding others */
     goto over
  :: true
  fi;
  believed[s] = NONE;
leave:
  if
  :: atomic { true -> close_session(); remove_all(mine, s) } /* it falls silent, and is cleared away */
     goto next
  :: true
  fi;
  begin(silent);
  atomic { land; remove_all(at, s) }
  begin(silent);
  atomic { land; close_session() }
  goto next;
silent: /* refused: it may as well be silent */
  atomic { close_session(); remove_all(mine, s) }
  goto next;
over:
  skip
}

proctype maker() {
  byte tries;
  bool used;
again:
  if
  :: tries == TRIES || alias == 1 -> goto over
  :: else -> tries++
  fi;
  table[0].blocked = false; /* what one that was cut off has left */
  used = in_use(0);
  if
  :: used -> goto again
  :: else
  fi;
  if
  :: bug(BLOCKS_NOTHING)
  :: else -> table[0].blocked = true
  fi;
  if
  :: bug(BLOCK_DOES_NOT_WAIT) || bug(BLOCKS_NOTHING)
  :: else -> table[0].flying == 0
  fi;
  if
  :: goto again /* it is cut off: the block stays, until the next one */
  :: bug(COUNTS_FIRST)
  :: !bug(COUNTS_FIRST) -> used = in_use(0)
  fi;
  if
  :: used -> table[0].blocked = false; goto again
  :: else
  fi;
  atomic { alias = 1; table[0].gone = true; remove_all(0, 0); remove_all(0, 1); table[0].sessions = 0 }
over:
  skip
}

init {
  atomic { run client(0, X); run client(1, IX); run maker() }
}
