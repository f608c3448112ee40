#!/usr/bin/env python3
"""Searches all states of one shard that is copied into another index while others write to it, and plants bugs.

  copies.py           prints a line for each configuration and each bug; fails if one is not as it must be


The argument is in docs/migrate.md (How it works, Why nothing is lost).


The model

One shard, a primary and a replica; two documents, which may as well be one id under two routings; segments of two
numbers. Writers index, delete and create again. Operations come to the replica in any order; it may become primary,
and what it does not have vanishes, which leaves gaps. A search shows either of the two as of the refresh or as it is.
The process may die at each step, and what it had sent is carried out, or in part, or late, or never; another goes on
from what is kept. Whatever was sent may come again at any time.

Following an index back into the old one is the same, but that it does not begin with nothing: the target has all of the
source already, in versions of its own, and the journals list it as answered.
"""
import gc
import sys
from collections import namedtuple

DOCS, WIDTH = 2, 2  # documents; numbers in a segment
TERM = 16  # a version is term * TERM + number

# What may happen: operations of writers, fail-overs, deaths of the process, blocks that it lifts by itself.
May = namedtuple("May", "write fail die lift")
RIGHT = (May(2, 1, 1, 0), May(2, 0, 1, 1), May(1, 2, 2, 1))
RIGHT_BACK = (May(2, 1, 1, 0), May(1, 1, 1, 1))

# Each bug, and what must happen for it to do harm.
BUGS = {
    "the journal is written after the bulk": May(1, 0, 1, 0),
    "a repeat writes a segment's journal anew": May(1, 0, 1, 0),
    "a late journal of the dead is not refused": May(1, 0, 1, 0),
    "what the journal lists counts as answered": May(1, 1, 1, 1),
    "a read is over before its bulk is answered": May(1, 0, 1, 0),
    "documents above the checkpoint are read": May(1, 1, 0, 0),
    "the last refresh was before the block": May(1, 0, 0, 0),
    "segments are compared by counts": May(2, 1, 0, 0),
    "only segments with fewer than were copied are looked at": May(1, 1, 0, 0),
    "what a search finds elsewhere is taken off": May(2, 0, 1, 0),
    "a deletion does not wait for the checkpoint": May(1, 1, 0, 0),
    "the number noted is older than the search": May(1, 1, 0, 0),
    "a deletion waits for any primary's checkpoint": May(2, 1, 0, 0),
    "a real-time get tells what is deleted": May(2, 1, 0, 0),
    "a deletion has the copy's version": May(1, 0, 1, 0),
    "only what is in the target is deleted": May(1, 0, 1, 0),
    "a deletion is taken off before it is answered": May(1, 0, 1, 0),
    "routing is ignored": May(0, 0, 0, 0),
    "the source's own versions are used": May(2, 0, 0, 0),
    "the block does not wait for writes under way": May(1, 0, 0, 0),
    "no round is made under the block": May(1, 0, 0, 0),
    "the mark is not removed before the block is lifted": May(0, 0, 1, 0),
    "the mark is removed after the block is lifted": May(0, 0, 1, 0),
    "a block is set while a request that lifts it is late": May(0, 0, 1, 1),
    "gc_deletes ends with the swap": May(0, 0, 0, 0),
    "a copy is forgotten before the newer one is in a journal": May(2, 0, 1, 0),
    "what the target has of a document above the checkpoint is forgotten": May(2, 1, 0, 0),
    "a segment is fine when one of its parts is": May(1, 0, 0, 0),
}
# The same of following back.
BUGS_BACK = {
    "the old index has an older state than is listed": May(0, 0, 0, 0),
    "what the old index has is not listed": May(1, 0, 0, 0),
    "the old index's own versions are above the copies'": May(1, 0, 0, 0),
}
bug = None  # the planted one


def planted(*names):
    return bug in names


# What the primary has done, by number from 1. doc: None where a fail-over left a gap. own: the source's _version.
Op = namedtuple("Op", "doc live term replicated own")

# deposed: what a former primary shows. seen: what primary and replica showed after the last refresh. target: (version,
# content) of each document, content 0 where there is none. A copy is (doc, version). journal: of each segment, the
# copies that may have been sent; answered: those that count as answered. sent: requests that may come again. block:
# (set, the mark that is there or 0, marks given).
State = namedtuple("State", "ops term deposed seen target done journal answered sent block proc may")

# step: the next one. last: in a round under the block. upto: the round's checkpoint. term: its primary's. segment: in
# work. found: copies to be sent. copied: those answered in this round. gone: (copy, term, number) to be deleted.
# clean: nothing differed. moved: copies that the target had when newer ones were listed; they stay in their journals
# until those are written again, and are not compared.
Proc = namedtuple("Proc", "step last upto term segment found copied gone clean moved")
NONE = frozenset()
BEGIN = Proc("read_checkpoint", False, 0, 0, 0, NONE, NONE, NONE, True, NONE)
SWAPPED = "swapped"


def number(version):
    return version % TERM


def segment(version):
    return (number(version) - 1) // WIDTH


def shows(ops, all_of_them=True):
    """The version of each document, or 0, in a copy that has all operations, or those that are replicated."""
    last = [0] * DOCS
    for at, op in enumerate(ops):
        if op.doc is not None and (all_of_them or op.replicated):
            last[op.doc] = op.term * TERM + at + 1 if op.live else 0
    return tuple(last)


def checkpoint(ops):
    return next((at for at, op in enumerate(ops) if not op.replicated), len(ops))


def search(state):
    """What a search may show: either copy, as of the refresh or as it is."""
    return {*state.seen, shows(state.ops), shows(state.ops, False)}


def within(shown, which, low, high):
    return frozenset((doc, version) for doc, version in enumerate(shown)
                     if version and segment(version) == which and low < number(version) <= high)


# Requests to the target are (doc, version, content), content 0 in a deletion.

def apply(target, request):
    doc, version, content = request
    if version < target[doc][0]:
        return target
    return target[:doc] + ((version, content),) + target[doc + 1:]


def carry_out(state, requests):
    target = state.target
    for request in requests:
        target = apply(target, request)
    return state._replace(target=target, sent=state.sent | frozenset(requests))


def request_for(state, copy, deletion=False):
    doc, content = copy
    version = state.ops[number(content) - 1].own if planted("the source's own versions are used") else content
    if deletion:
        version, content = version + (not planted("a deletion has the copy's version")), 0
    return 0 if planted("routing is ignored") else doc, version, content


def with_journal(state, which, copies):
    return state._replace(journal=state.journal[:which] + (copies,) + state.journal[which + 1:])


# The world: writers, replication, fail-over, what comes late.

def writes(state):
    if not state.may.write or state.block[0] and not planted("the block does not wait for writes under way"):
        return
    now, may = shows(state.ops), state.may._replace(write=state.may.write - 1)
    counted = planted("the source's own versions are used")
    for doc in range(DOCS):
        own = state.ops[number(now[doc]) - 1].own + 1 if now[doc] and counted else 1
        for live in (True, False) if now[doc] else (True,):
            op = Op(doc, live, state.term, False, own)
            yield state._replace(ops=state.ops + (op,), may=may)


def replications(state):
    for at, op in enumerate(state.ops):
        if not op.replicated:
            yield state._replace(ops=state.ops[:at] + (op._replace(replicated=True),) + state.ops[at + 1:])


def fail_over(state):
    """The replica is the primary, and a new replica has got from it all it has."""
    if not state.may.fail:
        return
    ops = [op if op.replicated else Op(None, False, 0, True, 0) for op in state.ops]
    while ops[-1].doc is None:
        ops.pop()
    yield state._replace(
        ops=tuple(ops), term=state.term + 1, seen=state.seen and (state.seen[1], shows(ops)),
        deposed=shows(state.ops) if planted("a real-time get tells what is deleted") else (),
        may=state.may._replace(fail=state.may.fail - 1))


def late(state):
    for request in state.sent:
        if request[0] == "swap":
            if request[1] == state.block[1]:
                yield state._replace(proc=SWAPPED)
        elif request[0] == "lift":
            yield state._replace(block=(False,) + state.block[1:], sent=state.sent - {request})
        elif request[0] == "journal":
            yield with_journal(state, *request[1:])._replace(sent=state.sent - {request})
        else:
            yield state._replace(target=apply(state.target, request))


def may_come(state, request):
    """Could it still do anything? Versions and marks only grow."""
    if request[0] == "swap":
        return request[1] == state.block[1]
    if isinstance(request[0], str):
        return True
    doc, version, content = request
    return version >= state.target[doc][0] and ((version, content) != state.target[doc] or content)


# The process that copies: each function is one step of it, and yields the states that may come of it.

def read_checkpoint(state, proc):
    upto = len(state.ops) if planted("documents above the checkpoint are read") else checkpoint(state.ops)
    yield state._replace(proc=proc._replace(step="read_term", upto=upto, clean=True))


def read_term(state, proc):
    gone = frozenset(each for each in proc.gone
                     if each[1] == state.term or planted("a deletion waits for any primary's checkpoint"))
    yield state._replace(proc=proc._replace(step="refresh", term=state.term, gone=gone))


def refresh(state, proc):
    if not (proc.last and planted("the last refresh was before the block")):
        state = state._replace(seen=(shows(state.ops), shows(state.ops, False)))
    if proc.upto > state.done:
        yield to_read(state, proc, state.done // WIDTH)
    else:
        yield to_delete(state, proc)


def to_read(state, proc, which):
    if which * WIDTH < proc.upto:
        return state._replace(proc=proc._replace(step="read", segment=which, found=NONE))
    return to_delete(state._replace(done=proc.upto, answered=state.answered | proc.copied),
                     proc._replace(segment=0, found=NONE, copied=NONE))


def read(state, proc):
    for shown in search(state):
        found = within(shown, proc.segment, state.done, proc.upto)
        if planted("what the target has of a document above the checkpoint is forgotten"):
            above = ((doc, version) for doc, version in enumerate(shown) if number(version) > proc.upto)
            now = proc._replace(moved=proc.moved | replaced(state, above))
        else:
            now = proc
        if found:
            step = "bulk" if planted("the journal is written after the bulk") else "write"
            after = state._replace(proc=now._replace(step=step, found=found))
            if planted("a copy is forgotten before the newer one is in a journal"):
                after = take_off(after, replaced(state, found))
            yield after
        else:
            yield to_read(state, now, proc.segment + 1)


def replaced(state, copies):
    """What the target has of these documents."""
    there = ((doc, state.target[doc][0], version) for doc, version in copies if state.target[doc][1])
    return frozenset((doc, before) for doc, before, version in there if TERM < before < version)


def without_moved(state, proc):
    """The journal of the segment in work is about to be written."""
    return take_off(state, frozenset(each for each in proc.moved if segment(each[1]) == proc.segment))


def written(state, proc):
    if planted("a repeat writes a segment's journal anew"):
        return proc.found
    return state.journal[proc.segment] | proc.found


def write(state, proc):
    moved = proc.moved | replaced(state, proc.found) if state.done else NONE
    state = without_moved(state, proc)
    proc = proc._replace(moved=moved)
    after = with_journal(state, proc.segment, written(state, proc))._replace(proc=proc)
    if planted("the journal is written after the bulk"):
        yield to_read(after, proc, proc.segment + 1)
        return
    if planted("a read is over before its bulk is answered"):
        after = after._replace(done=min(proc.upto, (proc.segment + 1) * WIDTH),
                               answered=state.answered | proc.found)
    yield after._replace(proc=proc._replace(step="bulk"))


def bulk(state, proc):
    after = carry_out(state, [request_for(state, each) for each in proc.found])
    proc = proc._replace(copied=proc.copied | proc.found)
    if planted("the journal is written after the bulk"):
        yield after._replace(proc=proc._replace(step="write"))
    else:
        yield to_read(after, proc, proc.segment + 1)


def certain(proc):
    """The first deletion that is certain, or None."""
    return min((each for each in proc.gone if each[2] <= proc.upto), default=None)


def to_delete(state, proc):
    return state._replace(proc=proc._replace(step="delete")) if certain(proc) else to_compare(state, proc, 0)


def deletions(state, proc):
    request = request_for(state, certain(proc)[0], deletion=True)
    missing = not state.target[request[0]][1]
    return [] if missing and planted("only what is in the target is deleted") else [request]


def take_off(state, copies):
    return state._replace(journal=tuple(each - copies for each in state.journal), answered=state.answered - copies)


def delete(state, proc):
    if planted("a deletion is taken off before it is answered"):
        yield take_off(state, {certain(proc)[0]})._replace(proc=proc._replace(step="deleted"))
    else:
        yield carry_out(state, deletions(state, proc))._replace(proc=proc._replace(step="deleted"))


def deleted(state, proc):
    if planted("a deletion is taken off before it is answered"):
        after = carry_out(state, deletions(state, proc))
    else:
        after = take_off(state, {certain(proc)[0]})
    yield to_delete(after, proc._replace(gone=proc.gone - {certain(proc)}))


def to_compare(state, proc, which):
    if which * WIDTH < state.done:
        return state._replace(proc=proc._replace(step="compare", segment=which, found=NONE))
    return state._replace(proc=proc._replace(step="end", segment=0, found=NONE, upto=0, term=0))


def compare(state, proc):
    listed = state.journal[proc.segment] - proc.moved
    answered = listed if planted("what the journal lists counts as answered") else listed & state.answered
    for shown in search(state):
        there = within(shown, proc.segment, 0, state.done)
        if equal(there, listed, answered):
            yield to_compare(state, proc, proc.segment + 1)
            continue
        for found in looks(state):
            for part in parts(there, listed, answered):
                yield settle(state, proc, there, answered, found, part)


def parts(there, listed, answered):
    """The sets of numbers that may be looked at: other searches may have shown that others are fine."""
    differing = frozenset(number(version) for _, version in (there | listed) - (there & listed & answered))
    return {differing, *(frozenset((each,)) for each in differing)}


def equal(there, listed, answered):
    if planted("a segment is fine when one of its parts is"):
        return there == listed == answered or bool(there & listed & answered)
    if planted("segments are compared by counts"):
        return len(there) == len(answered) == len(listed)
    if planted("only segments with fewer than were copied are looked at"):
        return len(there) >= len(listed)
    return there == listed == answered


def looks(state):
    """What a look for single documents may show."""
    if planted("a real-time get tells what is deleted"):
        return {shows(state.ops), state.deposed or shows(state.ops)}
    return search(state)


def settle(state, proc, there, answered, found, part):
    state = without_moved(state, proc)
    listed = state.journal[proc.segment]
    gone, moved = set(proc.gone), set()
    for copy in listed - there:
        doc, version = copy
        if number(version) not in part:
            continue
        if found[doc] > version and is_known(state, (doc, found[doc])):
            moved.add(copy)
        if not found[doc] and copy not in (each[0] for each in gone):
            gone.add((copy, proc.term, noted(state, proc)))
    state = take_off(state, moved)
    proc = proc._replace(gone=frozenset(gone), clean=False)
    if all(each in answered for each in there if number(each[1]) in part):
        return to_compare(state, proc, proc.segment + 1)
    state = with_journal(state, proc.segment, state.journal[proc.segment] | there)
    return state._replace(proc=proc._replace(step="bulk_again", found=there - answered))


def noted(state, proc):
    if planted("a deletion does not wait for the checkpoint"):
        return 0
    return proc.upto if planted("the number noted is older than the search") else len(state.ops)


def is_known(state, copy):
    return copy in state.journal[segment(copy[1])] or planted("what a search finds elsewhere is taken off")


def bulk_again(state, proc):
    after = carry_out(state, [request_for(state, each) for each in proc.found])
    yield to_compare(after._replace(answered=state.answered | proc.found), proc, proc.segment + 1)


def end(state, proc):
    again = state._replace(proc=proc._replace(step="read_checkpoint", clean=True))
    if not proc.last:
        yield again
        yield from blocked(state, proc)
        return
    over = proc.clean and not proc.gone
    yield state._replace(proc=BEGIN._replace(step="swap", last=True)) if over else again
    if state.may.lift:
        yield state._replace(proc=BEGIN._replace(step=first_to_lift()),
                             may=state.may._replace(lift=state.may.lift - 1))


def blocked(state, proc):
    if all(op.replicated for op in state.ops) or planted("the block does not wait for writes under way"):
        mark = state.block[2] + 1
        step = "swap" if planted("no round is made under the block") else "read_checkpoint"
        yield state._replace(proc=proc._replace(step=step, last=True, clean=True),
                             block=(True, mark, mark))


def swap(state, _):
    if state.block[1] == state.block[2]:
        yield state._replace(proc=SWAPPED)


def first_to_lift():
    return "lift" if planted("the mark is not removed before the block is lifted",
                             "the mark is removed after the block is lifted") else "revoke"


def revoke(state, _):
    after = BEGIN if planted("the mark is removed after the block is lifted") else BEGIN._replace(step="lift")
    yield state._replace(block=(state.block[0], 0, state.block[2]), proc=after)


def lift(state, _):
    after = BEGIN._replace(step="revoke") if planted("the mark is removed after the block is lifted") else BEGIN
    yield state._replace(block=(False,) + state.block[1:], proc=after)


STEPS = {step.__name__: step for step in (read_checkpoint, read_term, refresh, read, write, bulk, delete, deleted,
                                          compare, bulk_again, end, swap, revoke, lift)}


def under_way(state, proc):
    """-> the requests that may be carried out after the process died at this step."""
    if proc.step in ("bulk", "bulk_again"):
        return [request_for(state, each) for each in proc.found]
    if proc.step == "delete":
        return deletions(state, proc)
    if proc.step == "swap":
        return [("swap", state.block[2])]
    if proc.step == "write" and planted("a late journal of the dead is not refused"):
        return [("journal", proc.segment, written(state, proc))]
    if proc.step == "lift" and planted("a block is set while a request that lifts it is late"):
        return [("lift",)]
    return []


def process(state):
    yield from STEPS[state.proc.step](state, state.proc)
    if state.may.die:  # and another goes on with what is kept
        yield state._replace(proc=BEGIN._replace(step=first_to_lift()) if any(state.block[:2]) else BEGIN,
                             may=state.may._replace(die=state.may.die - 1),
                             sent=state.sent | frozenset(under_way(state, state.proc)))


# The search.

SEARCHES = "read", "write", "bulk", "delete", "deleted", "compare", "bulk_again"


def same_for_all_that_comes(state):
    """Forgets what can't make a difference any more."""
    sent = frozenset(each for each in state.sent if may_come(state, each))
    searches = state.proc != SWAPPED and state.proc.step in SEARCHES
    if searches or planted("the last refresh was before the block"):
        return state if sent == state.sent else state._replace(sent=sent)
    return state._replace(sent=sent, seen=())


def successors(state):
    for several in (writes, replications, fail_over, late, process):
        for after in several(state):
            yield same_for_all_that_comes(after)


def changed_late(state):
    """Does a request that comes after the swap change the target, also where a client has written or deleted?"""
    for doc, *request in (each for each in state.sent if not isinstance(each[0], str)):
        version, content = state.target[doc]
        for there in (version, content), (version + 1, "a client's"), (version + 1, 0):
            if planted("gc_deletes ends with the swap") and not there[1]:
                there = 0, 0
            if apply((there,), (0, *request))[0][1] != there[1]:
                return True
    return False


def wrong(state):
    """Why this swap must not be, or None."""
    if not state.block[0]:
        return "swapped while writers write to the source"
    if tuple(content for _, content in state.target) != shows(state.ops):
        return "the source has %s, the target %s" % (shows(state.ops), state.target)
    return "what came late has changed the target" if changed_late(state) else None


def beginning(may):
    """Two documents, and an empty target."""
    ops = Op(0, True, 1, True, 1), Op(1, True, 1, True, 1)
    segments = (len(ops) + may.write - 1) // WIDTH + 1
    return State(ops=ops, term=1, deposed=(), seen=(shows(ops),) * 2, target=((0, 0),) * DOCS, done=0,
                 journal=(NONE,) * segments, answered=NONE, sent=NONE, block=(False, 0, 0), proc=BEGIN, may=may)


def in_step(may):
    """The same, and a target that has both already."""
    state = beginning(may)
    listed = frozenset(enumerate(shows(state.ops)))
    own = 5 * TERM if planted("the old index's own versions are above the copies'") else 0
    target = [(own, version) for _, version in sorted(listed)]
    if planted("the old index has an older state than is listed"):
        target[0] = own, 1
    if planted("what the old index has is not listed"):
        listed = NONE
    return state._replace(target=tuple(target), done=len(state.ops), journal=(listed,) + state.journal[1:],
                          answered=listed)


def explore(first):
    """-> how many states there are, and what is wrong or None."""
    before, todo, ended = {first: []}, [first], []
    for state in todo:
        if state.proc == SWAPPED:
            why = wrong(state)
            if why:
                return len(before), why
            ended.append(state)
            continue
        for after in successors(state):
            if after not in before:
                before[after] = []
                todo.append(after)
            before[after].append(state)
    return len(before), lost(before, ended)


def lost(before, ended):
    """Is there a state without a way to an end?"""
    good = set(ended)
    while ended:
        more = [state for state in before[ended.pop()] if state not in good]
        good.update(more)
        ended.extend(more)
    return None if len(good) == len(before) else "%d states without a way to the end" % (len(before) - len(good))


def main():
    global bug
    bad = False
    gc.disable()  # there are no cycles
    for begin, name, all_may in (beginning, "", RIGHT), (in_step, "back: ", RIGHT_BACK):
        for may in all_may:
            states, why = explore(begin(may))
            bad |= why is not None
            print("%s - %s%d writes, %d fail-overs, %d deaths, %d blocks lifted: %d states%s"
                  % ("not ok" if why else "ok", name, *may, states, ": " + why if why else ""), flush=True)
    for begin, bugs in (beginning, BUGS), (in_step, BUGS_BACK):
        for bug, may in bugs.items():
            _, why = explore(begin(may))
            bad |= why is None
            print("%s - %s: %s" % ("ok" if why else "not ok", bug, why or "not found"), flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
