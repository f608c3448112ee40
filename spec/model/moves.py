#!/usr/bin/env python3
"""Searches all states of one document that gets another id (core/job/moved.h): an owner creates it at the new id
and then deletes the old one; it dies anywhere; others resume or undo its job and die anywhere; every request that
was ever sent may be carried out again, at any time and any number of times; one stranger without a lock does one
thing. It looks for a state in which the document is lost, is there twice, or a stranger's writing is gone; then
it plants bugs and looks whether it finds them.

  moves.py            prints two lines for the protocol and one for each bug; fails if one is not as it must be

An id is (content, version, seq). A version stays when a document is deleted, as a server keeps it for a while; this
model never forgets one. `old` is what was there, `mine` the same at the new id; `theirs` a stranger's.
"""
import sys

OLD, NEW = 0, 1
ROUNDS, TAKERS = 3, 4
BUGS = ("no version in a create", "no seal", "no version in a delete", "deleted before it is created",
        "undone without writing the old one again", "undone by deleting first", "another's document is deleted")


def apply(ids, request, bug):
    """-> the ids after it, and whether it was carried out."""
    what, at, content, number = request
    there, version, seq = ids[at]
    if what == "create" and (there if bug == BUGS[0] else version >= number):
        return ids, False
    if what == "seal" and version >= number:
        return ids, False
    if what in ("index", "delete") and (not there or seq != number and not (bug == BUGS[2] and what == "delete")):
        return ids, False
    version = number if what in ("create", "seal") and bug != BUGS[0] else version + 1
    after = list(ids)
    after[at] = (content if what in ("create", "index") else None, version, seq + 1)
    return tuple(after), True


def may_come(ids, request, bug):
    """Could it still do anything, now or later? Versions and numbers only grow."""
    what, at, _, number = request
    there, version, seq = ids[at]
    if bug == BUGS[0] and what == "create" or bug == BUGS[2] and what == "delete":
        return True
    return version < number if what in ("create", "seal") else seq <= number


def mine_at(at):
    return "old" if at == OLD else "mine"


def again(at, seen):
    return ("index", at, seen[at][0], seen[at][2])


def remove(at, seen):
    return ("delete", at, None, seen[at][2])


def create(at):
    return ("create", at, mine_at(at), 1)


SEAL = ("seal", NEW, None, 1)


def plan(role, seen, bug):
    """-> (the requests, one after the other; whether the document is then where the role wants it)"""
    if role == "run":
        todo = create(NEW), ("delete", OLD, None, 1)
        return (todo[::-1] if bug == BUGS[3] else todo), True
    old, new = seen[OLD][0], seen[NEW][0]
    seal = () if bug == BUGS[1] else (SEAL,)
    if role == "resume":
        if not old:
            return ((again(NEW, seen),), True) if new == "mine" else ((), False)
        if old != "old":
            return (seal if not new else ()), False
        if new and new != "mine":
            return (again(OLD, seen),), False
        return (again(NEW, seen) if new else create(NEW), remove(OLD, seen)), True
    if old not in ("old", None) or not old and new != "mine":
        return (seal if not new else ()), False
    if new and new != "mine":
        return ((again(OLD, seen), remove(NEW, seen)) if bug == BUGS[6] else (again(OLD, seen),)), False
    give = create(OLD) if not old else again(OLD, seen)
    take = (remove(NEW, seen),) if new else seal
    if old and bug == BUGS[4]:
        return take, True
    return (take + (give,) if bug == BUGS[5] else (give,) + take), True


# A process: (role, phase ("look", "do", "ask", "end" or "dead"), what it has seen, requests to do, how it ends if they are done, rounds)
def born(role):
    return (role, "look", (), (), False, 0)


def step(process, ids, bug):
    """-> (the process after its next step, the ids, the request that it has sent or None)"""
    role, phase, seen, todo, good, rounds = process
    if phase == "look":  # one id after the other
        if role != "run":
            seen = seen + (ids[len(seen)],)
        if len(seen) < 2 and role != "run":
            return (role, phase, seen, (), False, rounds), ids, None
        todo, good = plan(role, seen, bug)
        return (role, "do" if todo else "end", (), todo, good, rounds), ids, None
    if phase == "do":
        request = todo[0]
        after, done = apply(ids, request, bug)
        if done:
            return (role, "do" if todo[1:] else "end", (), todo[1:], good, rounds), after, request
        return (role, "ask", (ids[request[1]][1],), todo, good, rounds), ids, request
    # It was refused, perhaps because a copy of it came first; the writer looks (core/write/items.c). A create or a seal goes on with the next version where there is no document.
    what, at, content, number = todo[0]
    there, version, seq = ids[at]
    if what in ("create", "seal") and not there:
        todo = ((what, at, content, max(number, seen[0] + 1)),) + todo[1:]
        return (role, "do", (), todo, good, rounds), ids, None
    if what == "delete" and not there:
        return (role, "do" if todo[1:] else "end", (), todo[1:], good, rounds), ids, None
    if what in ("create", "index") and there == content:
        return (role, "do", (), (("index", at, content, seq),) + todo[1:], good, rounds), ids, None
    if role == "run" or rounds == ROUNDS:
        return (role, "end", (), (), False, rounds), ids, None
    return (role, "look", (), (), False, rounds + 1), ids, None


DEEDS = (("index", OLD), ("delete", OLD), ("create", NEW), ("index", NEW), ("delete", NEW))


def deeds_of(ids):
    for what, at in DEEDS:
        there, version, seq = ids[at]
        if (what == "create") != (there is None):
            continue
        after = list(ids)
        after[at] = (None if what == "delete" else "theirs", version + 1, seq + 1)
        yield (what, at, there), tuple(after)


def wrong(ids, deed, process):
    """Why this state must not be, or None."""
    old, new = ids[OLD][0], ids[NEW][0]
    if deed:
        what, at, replaced = deed
        if what != "delete" and ids[at][0] != "theirs":
            return "a stranger's document is gone"
        if replaced in (None, "theirs") and old != "old" and new != "mine":
            return "the document is lost"
        return None
    if not old and not new:
        return "the document is lost"
    role, phase, _, _, good, _ = process
    if phase != "end":
        return None
    if not good:
        return "%s ends, and says that somebody was there" % role
    if (old, new) != (("old", None) if role == "undo" else (None, "mine")):
        return "%s is over, and there is %s and %s" % (role, old, new)
    return None


def successors(state, bug):
    ids, sent, process, takers, deed = state
    if process[1] not in ("end", "dead"):
        after, now, request = step(process, ids, bug)
        yield now, sent | {request} if request else sent, after, takers, deed
    for request in sent:
        now, done = apply(ids, request, bug)
        if done:
            yield now, sent, process, takers, deed
    if process[1] == "do":  # it is sent, and the process dies before it is answered
        yield ids, sent | {process[3][0]}, (process[0], "dead", (), (), False, 0), takers, deed
    if takers:
        for role in ("resume", "undo") if process[0] != "undo" else ("undo",):
            if process[1] != "end" or role == "undo":
                yield ids, sent, born(role), takers - 1, deed
    if deed is None:
        for did, now in deeds_of(ids):
            yield now, sent, process, takers, did


def search(bug, stranger):
    first = ((("old", 1, 1), (None, 0, 0)), frozenset(), born("run"), TAKERS, None if stranger else ())
    seen, todo = {first}, [first]
    while todo:
        state = todo.pop()
        why = wrong(state[0], state[4], state[2])
        if why:
            return len(seen), why
        for ids, sent, process, takers, deed in successors(state, bug):
            sent = frozenset(request for request in sent if may_come(ids, request, bug))
            after = ids, sent, process, takers, deed
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return len(seen), None


def main():
    bad = False
    for stranger in (False, True):
        states, why = search(None, stranger)
        bad |= why is not None
        print("%s - %s: %d states%s" % ("not ok" if why else "ok", "with a stranger" if stranger else "alone", states,
                                        ": " + why if why else ""), flush=True)
    for bug in BUGS:
        why = search(bug, False)[1] or search(bug, True)[1]
        bad |= why is None
        print("%s - %s: %s" % ("ok" if why else "not ok", bug, why or "not found"), flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
