#!/usr/bin/env python3
"""The protocol of a group as a model that Z3 proves.

The model has any number of epochs, units, generations, maps and messages.  It is proved by
induction: a list of invariants holds at the beginning, each action keeps each of them, and together
they imply what is promised:

  safety   two handlers that exclude each other never both run before their deadlines
           (the same unit, or units of two generations, in whatever processes);
  tokens   a new term's token is greater than that of each earlier term that it excludes.

Run it (needs `pip install z3-solver`, tested with 5.4):

  group.py prove        the proof
  group.py need         drops each invariant in turn: the proof must fail
  group.py wrong        breaks each rule in turn: the proof must fail
  group.py schedules    runs from the beginning to two handlers, one for each broken rule, and shows
                        that the true rules refuse the same run
  group.py fire         shows that each action can happen

Assumptions:

  clocks     a clock measures a length wrongly by at most 1 percent;
  server     a compare-and-set is one step; sequences grow and never come back (NATS does not lose a
             confirmed write, and no backup is restored);
  ids        nobody writes under the key of an epoch before that epoch's own claim was stored: its
             name is drawn at random;
  trust      members follow the protocol, people make mistakes: they delete, purge and overwrite keys
             and put old values back, but no value with a forged condition header;
  emptied    a read finds each key under which anything stands, a delete marker included.  If a key
             was emptied (nothing stands there, not even a marker), a collect may miss its epoch.
             Each such epoch must then have lost its lease for good, or be known to the collector, or
             own units only by maps that some epoch which is found has said that it follows.  A name
             that enters needs more of an emptied key: its epoch was never that name's owner.

Not in the model: liveness, lost writes and a bucket made anew, the bound of `from`, how maps are
encoded.
"""
import sys
import time
from z3 import (And, Bool, BoolSort, BoolVal, Const, DeclareSort, EnumSort, ForAll, Function, If,
                Implies, Int, IntSort, IntVal, Not, Or, Q, Real, RealSort, SimpleSolver, Solver,
                sat, unknown, unsat)

# A member gives its lease up after 98 percent of the ttl by its own clock, which may be slow; who
# watches waits for the whole ttl by a clock that may be fast.
HOLD, WATCH = Q(98, 99), Q(100, 101)

E, U, M, B, W = 'Epoch', 'Unit', 'Map', 'Beat', 'Watch'
BOOL, INT, REAL = 'bool', 'int', 'real'

STATE = dict(
    now=(REAL,),                     # the one real time
    last=(INT,),                     # the stream's last sequence
    map_last=(INT,),                 # the sequence that stands under the map's key, 0: nothing
    # an epoch, as its own process knows it
    born=(E, BOOL),                  # its claim was sent
    stopped=(E, BOOL),               # its member has written, or is about to write, `ended`
    deadline=(E, REAL),              # until when its lease holds
    follows=(E, M),                  # the newest map that it was shown
    # an epoch's key
    claim=(E, INT),                  # the sequence of its claim, 0: not stored yet
    key_last=(E, INT),               # the sequence that stands under its key, 0: nothing
    key_time=(E, REAL),              # when that changed last
    emptied=(E, BOOL),               # once there was nothing, by a hand or as its `ended` expired
    says=(E, INT),                   # the map that the value there says it follows, 0: none
    over=(E, BOOL),                  # `ended` was stored there
    lapsed=(E, BOOL),                # (for the proof only) its lease can never be valid again
    # a term: a handler of a unit, begun by an epoch
    runs=(E, U, BOOL),
    acts_by=(E, U, M),               # the map by which it acts
    token=(E, U, INT),               # the sequence of the map by which it began
    told=(E, U, BOOL),               # its handler was told to end ...
    frozen=(E, U, REAL),             # ... and its deadline stands still since
    cleared=(E, U, INT),             # the newest map acknowledged without this unit as an exception
    # a member's record on its way (1) or stored (2)
    beat_state=(B, INT), beat_of=(B, E), beat_sent=(B, REAL), beat_over=(B, INT),
    beat_seq=(B, INT), beat_says=(B, INT),
    # somebody watches a key: it waits (1), or its `ended` is on its way (2)
    watch_state=(W, INT), watch_of=(W, E), watch_seq=(W, INT), watch_since=(W, REAL),
    watch_length=(W, REAL),
    # a value of the map's key: on its way (1) or stored (2); a map, or foreign
    map_state=(M, INT), is_map=(M, BOOL), seq=(M, INT), made_over=(M, INT), generation=(M, INT),
    lists=(M, U, BOOL), owner=(M, U, E), began=(M, U, BOOL),
    waits=(M, U, E, BOOL), since=(M, U, E, INT),   # `from`: who is waited for, and since which map
)


class World:
    """Sorts and quantifiers: open ones for the proof, finite ones for runs."""

    made = 0

    def __init__(self, sizes=None):
        World.made += 1
        self.sizes, self.depth, tag = sizes, 0, World.made
        self.elements = {}
        self.sort = {BOOL: BoolSort(), INT: IntSort(), REAL: RealSort()}
        for name in (E, U, M, B, W):
            if sizes is None:
                self.sort[name] = DeclareSort(name)
            else:
                self.sort[name], self.elements[name] = EnumSort(
                    f'{name}_{tag}', [f'{name[0]}{i}_{tag}' for i in range(sizes[name])])
        self.ttl = Function(f'ttl_{tag}', self.sort[E], RealSort())
        self.gen = Function(f'gen_{tag}', self.sort[U], IntSort())
        self.longest = Real(f'longest_{tag}')
        if sizes is None:
            self.nobody, self.nothing = Const('nobody', self.sort[E]), Const('nothing', self.sort[M])
        else:
            self.nobody, self.nothing = self.elements[E][0], self.elements[M][0]

    def all(self, sorts, body):
        """For all values of these sorts."""
        if self.sizes is None:
            names = [Const(f'{s.lower()}_{self.depth}_{i}', self.sort[s]) for i, s in enumerate(sorts)]
            self.depth += 1
            formula = body(*names)
            self.depth -= 1
            return ForAll(names, formula)
        found = []

        def fill(chosen):
            if len(chosen) == len(sorts):
                found.append(body(*chosen))
            else:
                for x in self.elements[sorts[len(chosen)]]:
                    fill(chosen + [x])
        fill([])
        return And(*found)

    def state(self, prefix):
        made = {}
        for name, kinds in STATE.items():
            sorts = [self.sort[k] for k in kinds]
            made[name] = Const(prefix + name, sorts[0]) if len(sorts) == 1 else Function(prefix + name, *sorts)
        return State(made)

    def axioms(self):
        return [self.all([E], lambda e: And(self.ttl(e) > 0, self.ttl(e) <= self.longest))]

    # ---- words of the rules

    def exclude(self, u, v):
        """A unit is a generation and a name; units of two generations exclude each other."""
        return Or(u == v, self.gen(u) != self.gen(v))

    def stored_map(self, s, m):
        return And(s.map_state(m) == 2, s.is_map(m))

    def since(self, s, m, u, e):
        """0 in `from` means this map's own sequence."""
        return If(s.since(m, u, e) == 0, s.seq(m), s.since(m, u, e))

    def clear(self, s, e, u, number, broken=()):
        """Epoch e is over, or its records have followed `number` or later and excepted neither u nor
        a unit of another generation."""
        if 'exceptions of another generation are ignored' in broken:
            return Or(s.over(e), s.cleared(e, u) >= number)
        return Or(s.over(e), self.all([U], lambda v: Implies(self.exclude(u, v), s.cleared(e, v) >= number)))

    def from_clear(self, s, m, u, owner, broken=()):
        """Each other epoch in `from` is clear.  The owner's own entries are ignored."""
        def number(f):
            return s.since(m, u, f) if 'since 0 counts as no sequence' in broken else self.since(s, m, u, f)
        return self.all([E], lambda f: Implies(And(s.waits(m, u, f), f != owner),
                                               self.clear(s, f, u, number(f), broken)))

    def lease(self, s, e):
        return And(s.now < s.deadline(e), Not(s.stopped(e)))

    def acts(self, s, e, u, broken=()):
        """A handler runs before its deadline: its epoch's, or the frozen one once it was told to end."""
        frozen = BoolVal(True) if 'the deadline of a handler told to end moves on' in broken else \
            Implies(s.told(e, u), s.now < s.frozen(e, u))
        return And(s.runs(e, u), s.now < s.deadline(e), frozen)

    def excepted(self, s, e, u, broken=()):
        """An exception: the handler runs, acts by an older map than the one followed, and its frozen
        deadline has not passed."""
        if 'an exception ends when the handler is told to end' in broken:
            return And(s.runs(e, u), s.acts_by(e, u) != s.follows(e), Not(s.told(e, u)))
        if 'no exceptions' in broken:
            return BoolVal(False)
        return And(s.runs(e, u), s.acts_by(e, u) != s.follows(e),
                   Not(And(s.told(e, u), s.now >= s.frozen(e, u))))

    def powerless(self, s, e):
        """The lease of e is past, and neither a stored record nor one on its way can renew it."""
        return And(s.claim(e) > 0, s.deadline(e) <= s.now, self.all([B], lambda b: Implies(
            s.beat_of(b) == e, And(
                Implies(s.beat_state(b) == 2, And(s.beat_sent(b) + HOLD * self.ttl(e) <= s.now,
                                                  s.beat_seq(b) != s.key_last(e))),
                Implies(s.beat_state(b) == 1, And(s.beat_over(b) > 0, s.beat_over(b) != s.key_last(e)))))))

    # ---- what is promised

    def safety(self, s, broken=()):
        return self.all([E, E, U, U], lambda e, f, u, v: Implies(
            And(self.acts(s, e, u, broken), self.acts(s, f, v, broken), self.exclude(u, v)),
            And(e == f, u == v)))

    def tokens_grow(self, s, new):
        """Of a step in which epoch new.epoch begins new.unit."""
        return self.all([M, U], lambda m, v: Implies(And(s.began(m, v), self.exclude(new.unit, v)),
                                                     s.seq(m) < s.seq(s.follows(new.epoch))))


class State(dict):
    __getattr__ = dict.__getitem__

    def after(self, changes):
        return State({**self, **changes})


class Choice:
    """What an action chooses: who, which unit, which message, what a new map contains."""

    def __init__(self, w, prefix=''):
        for name, kind in dict(epoch=E, other=E, unit=U, twin=U, map=M, base=M, foreign=M, beat=B, former=B,
                               watch=W).items():
            setattr(self, name, Const(prefix + 'c_' + name, w.sort[kind]))
        self.length, self.number, self.flag = Real(prefix + 'c_length'), Int(prefix + 'c_number'), Bool(prefix + 'c_flag')
        self.new_generation = Int(prefix + 'c_new_generation')
        self.new_lists = Function(prefix + 'c_new_lists', w.sort[U], BoolSort())
        self.new_owner = Function(prefix + 'c_new_owner', w.sort[U], w.sort[E])
        self.new_waits = Function(prefix + 'c_new_waits', w.sort[U], w.sort[E], BoolSort())
        self.new_since = Function(prefix + 'c_new_since', w.sort[U], w.sort[E], IntSort())


def put(function, *args):
    """put(f, x, value): f, but `value` at x."""
    *at, value = args
    return lambda *xs: If(And(*[x == a for x, a in zip(xs, at)]), value, function(*xs))


YES, NO = BoolVal(True), BoolVal(False)
ACTIONS, ONLY_WRONG = {}, {}


def action(function):
    ACTIONS[function.__name__] = function
    return function


def only_if(broken):
    def keep(function):
        ONLY_WRONG[function.__name__] = (function, broken)
        return function
    return keep


# ------------------------------------------------------------------------------------------------
# Time, leases, keys.  Each action gives its condition and what it changes.

@action
def time_passes(w, s, c, broken):
    """Nothing happens for a while."""
    return c.length >= 0, dict(now=s.now + c.length)


@action
def claim_sent(w, s, c, broken):
    """An epoch is one key and one claim, which expects that nothing stands there."""
    return (And(Not(s.born(c.epoch)), c.epoch != w.nobody, s.beat_state(c.beat) == 0),
            dict(born=put(s.born, c.epoch, YES), beat_state=put(s.beat_state, c.beat, IntVal(1)),
                 beat_of=put(s.beat_of, c.beat, c.epoch), beat_sent=put(s.beat_sent, c.beat, s.now),
                 beat_over=put(s.beat_over, c.beat, IntVal(0)), beat_says=put(s.beat_says, c.beat, IntVal(0))))


@action
def heartbeat_sent(w, s, c, broken):
    """A heartbeat expects an earlier record of its epoch.  It says which map is followed, and which
    units are excepted; whoever reads it may act on that from now on."""
    e = c.epoch
    seq = s.seq(s.follows(e))
    return (And(Not(s.stopped(e)), s.beat_state(c.beat) == 0, s.beat_state(c.former) == 2, s.beat_of(c.former) == e),
            dict(beat_state=put(s.beat_state, c.beat, IntVal(1)), beat_of=put(s.beat_of, c.beat, e),
                 beat_sent=put(s.beat_sent, c.beat, s.now), beat_over=put(s.beat_over, c.beat, s.beat_seq(c.former)),
                 beat_says=put(s.beat_says, c.beat, seq),
                 cleared=lambda x, u: If(And(x == e, Not(w.excepted(s, x, u, broken)), seq > s.cleared(x, u)),
                                         seq, s.cleared(x, u))))


@action
def record_stored(w, s, c, broken):
    """The server stores a claim or a heartbeat if what it expects stands there."""
    e, new = s.beat_of(c.beat), s.last + 1
    expected = YES if 'a heartbeat is no compare-and-set' in broken else s.beat_over(c.beat) == s.key_last(e)
    return (And(s.beat_state(c.beat) == 1, expected),
            dict(last=new, beat_state=put(s.beat_state, c.beat, IntVal(2)), beat_seq=put(s.beat_seq, c.beat, new),
                 key_last=put(s.key_last, e, new), key_time=put(s.key_time, e, s.now),
                 says=put(s.says, e, s.beat_says(c.beat)),
                 claim=put(s.claim, e, If(s.claim(e) == 0, new, s.claim(e)))))


@action
def lease_extended(w, s, c, broken):
    """A member learns that its record was stored: its lease counts from the sending."""
    e = c.epoch
    start = s.now if 'a lease counts from the answer' in broken else s.beat_sent(c.beat)
    new = start + HOLD * w.ttl(e)
    return (And(s.beat_state(c.beat) == 2, s.beat_of(c.beat) == e, Not(s.stopped(e))),
            dict(deadline=put(s.deadline, e, If(new > s.deadline(e), new, s.deadline(e)))))


@action
def hand_on_a_member(w, s, c, broken):
    """Somebody overwrites a member's key, puts an older value of it back, deletes it (a marker stands
    there) or empties it (nothing stands there).  A record names its epoch, so one that was copied
    from another key says nothing."""
    e, new = c.epoch, s.last + 1
    known = YES if 'a hand writes under an id before its claim' in broken else s.claim(e) > 0
    return (And(known, c.number >= 0, c.number <= s.says(e)),
            dict(last=new, key_last=put(s.key_last, e, If(c.flag, IntVal(0), new)), key_time=put(s.key_time, e, s.now),
                 says=put(s.says, e, c.number), emptied=put(s.emptied, e, Or(s.emptied(e), c.flag))))


@action
def member_ends(w, s, c, broken):
    """A member gives its epoch up, claimed or not: each handler has ended, or its deadline has passed."""
    e = c.epoch
    ended = YES if 'a member ends its epoch while a handler runs' in broken else w.all([U], lambda u: Or(
        Not(s.runs(e, u)), s.deadline(e) <= s.now, And(s.told(e, u), s.frozen(e, u) <= s.now)))
    return And(s.born(e), ended), dict(stopped=put(s.stopped, e, YES))


@action
def ended_stored_for_the_member(w, s, c, broken):
    """The member's own `ended` goes over whatever stands there, nothing included."""
    e, new = c.epoch, s.last + 1
    return s.stopped(e), dict(last=new, key_last=put(s.key_last, e, new), key_time=put(s.key_time, e, s.now),
                              says=put(s.says, e, IntVal(0)), over=put(s.over, e, YES))


@action
def watch_begins(w, s, c, broken):
    """Anybody is shown a value of a member's key: a record tells the ttl, for any other value one
    waits for the longest lease."""
    e = c.epoch
    length = WATCH * If(c.flag, w.ttl(e), w.longest)
    if 'a watcher waits too short' in broken:
        length = Q(9, 10) * w.ttl(e)
    return (And(s.watch_state(c.watch) == 0, s.key_last(e) > 0, 0 < c.number, c.number <= s.key_last(e)),
            dict(watch_state=put(s.watch_state, c.watch, IntVal(1)), watch_of=put(s.watch_of, c.watch, e),
                 watch_seq=put(s.watch_seq, c.watch, c.number), watch_since=put(s.watch_since, c.watch, s.now),
                 watch_length=put(s.watch_length, c.watch, length)))


@action
def watcher_sends_ended(w, s, c, broken):
    """It was not shown another value for that long."""
    return (And(s.watch_state(c.watch) == 1, s.now >= s.watch_since(c.watch) + s.watch_length(c.watch)),
            dict(watch_state=put(s.watch_state, c.watch, IntVal(2))))


@action
def ended_stored_for_a_watcher(w, s, c, broken):
    """The server stores that `ended` if exactly the value that was watched stands there."""
    e, new = s.watch_of(c.watch), s.last + 1
    expected = YES if '`ended` of a watcher is no compare-and-set' in broken else s.watch_seq(c.watch) == s.key_last(e)
    return (And(s.watch_state(c.watch) == 2, expected),
            dict(last=new, key_last=put(s.key_last, e, new), key_time=put(s.key_time, e, s.now),
                 says=put(s.says, e, IntVal(0)), over=put(s.over, e, YES)))


@action
def ended_expires(w, s, c, broken):
    """The server removes what stands under the key of an epoch that is over, whoever still names it."""
    e = c.epoch
    return s.over(e), dict(key_last=put(s.key_last, e, IntVal(0)), key_time=put(s.key_time, e, s.now),
                           says=put(s.says, e, IntVal(0)), emptied=put(s.emptied, e, YES))


@action
def lease_lapses(w, s, c, broken):
    """(For the proof only.)  An epoch whose lease can never be valid again is remembered as such."""
    return w.powerless(s, c.epoch), dict(lapsed=put(s.lapsed, c.epoch, YES))


# ------------------------------------------------------------------------------------------------
# Members: follow, begin, go on, end.

@action
def map_shown(w, s, c, broken):
    """A member is shown a newer map and follows it: handlers of units that it no longer owns there
    are told to end, and their deadlines stand still."""
    e, m = c.epoch, c.map
    newer = YES if 'an older map is followed' in broken else s.seq(m) > s.seq(s.follows(e))

    def told_now(x, u):
        still = s.owner(m, c.twin) == e if 'a unit is told by its name alone' in broken else NO
        return And(x == e, s.runs(x, u), Not(s.told(x, u)), s.owner(m, u) != e, Not(still))
    return (And(s.born(e), w.stored_map(s, m), newer),
            dict(follows=put(s.follows, e, m),
                 told=lambda x, u: Or(s.told(x, u), told_now(x, u)),
                 frozen=lambda x, u: If(told_now(x, u), s.deadline(x), s.frozen(x, u))))


@action
def term_begins(w, s, c, broken):
    """The owner by the map that it follows begins, with a valid lease, once each other epoch in `from`
    is clear: one term for each unit and map, and none beside a handler of its own of the same unit or
    of another generation."""
    e, u, m = c.epoch, c.unit, s.follows(c.epoch)
    once = YES if 'two terms by one map' in broken else s.token(e, u) < s.seq(m)
    if 'a term begins beside an own handler of another generation' in broken:
        alone = Not(s.runs(e, u))
    else:
        alone = w.all([U], lambda v: Implies(w.exclude(u, v), Not(s.runs(e, v))))
    waited = YES if 'a term begins before `from` is clear' in broken else w.from_clear(s, m, u, e, broken)
    return (And(s.born(e), w.lease(s, e), w.stored_map(s, m), s.owner(m, u) == e, once, alone, waited),
            dict(runs=put(s.runs, e, u, YES), acts_by=put(s.acts_by, e, u, m), token=put(s.token, e, u, s.seq(m)),
                 told=put(s.told, e, u, NO), began=put(s.began, m, u, YES)))


@action
def term_goes_on(w, s, c, broken):
    """A handler that was not told to end acts by the newer map once each other epoch in that map's
    `from` is clear; until then it acts by the older one and is an exception."""
    e, u, m = c.epoch, c.unit, s.follows(c.epoch)
    waited = YES if 'a term goes on before `from` is clear' in broken else w.from_clear(s, m, u, e, broken)
    owns = Or(s.owner(m, u) == e, s.owner(m, c.twin) == e) if 'a unit is told by its name alone' in broken else s.owner(m, u) == e
    return (And(s.runs(e, u), Not(s.told(e, u)), w.stored_map(s, m), owns, waited),
            dict(acts_by=put(s.acts_by, e, u, m)))


@action
def told_to_end(w, s, c, broken):
    """A handler is told to end for another reason: its member leaves or cannot run the unit."""
    e, u = c.epoch, c.unit
    return (And(s.runs(e, u), Not(s.told(e, u))),
            dict(told=put(s.told, e, u, YES), frozen=put(s.frozen, e, u, s.deadline(e))))


@action
def handler_ends(w, s, c, broken):
    """A handler returns."""
    return s.runs(c.epoch, c.unit), dict(runs=put(s.runs, c.epoch, c.unit, NO))


# ------------------------------------------------------------------------------------------------
# Maps.  Who writes does not matter: a compare-and-set over exactly the value that it was made from.

def sends(w, s, c, over):
    """What changes when the new map is sent."""
    m = c.map
    return dict(map_state=put(s.map_state, m, IntVal(1)), is_map=put(s.is_map, m, YES), made_over=put(s.made_over, m, over),
                generation=put(s.generation, m, c.new_generation),
                lists=lambda x, u: If(x == m, c.new_lists(u), s.lists(x, u)),
                owner=lambda x, u: If(x == m, c.new_owner(u), s.owner(x, u)),
                began=lambda x, u: And(x != m, s.began(x, u)),
                waits=lambda x, u, f: If(x == m, c.new_waits(u, f), s.waits(x, u, f)),
                since=lambda x, u, f: If(x == m, c.new_since(u, f), s.since(x, u, f)))


def well_formed(w, s, c):
    """A map lists units of one generation, and gives only those, to epochs that were claimed."""
    return And(s.map_state(c.map) == 0,
               w.all([U], lambda u: And(
                   Implies(c.new_lists(u), w.gen(u) == c.new_generation),
                   Or(c.new_owner(u) == w.nobody, And(c.new_lists(u), s.claim(c.new_owner(u)) > 0)))),
               w.all([U, E], lambda u, f: c.new_since(u, f) >= 0))


def must_wait(s, c, u, f, number):
    """`f` stands in the new map's `from` of u, with this sequence, a later one, or its own (0)."""
    return And(c.new_waits(u, f), Or(c.new_since(u, f) == 0, And(number != 0, c.new_since(u, f) >= number)))


def keeps_from(w, s, c, u, v, broken):
    """Unit u of the new map waits for whom unit v of the old map waits, less what is clear, and for
    v's former owner, unless that is over.  The new owner needs no entry of its own."""
    b = c.base

    def one(f):
        number = w.since(s, b, v, f)
        kept = YES if '`from` is not kept' in broken else Implies(
            And(s.waits(b, v, f), f != c.new_owner(u), Not(w.clear(s, f, u, number, broken))), must_wait(s, c, u, f, number))
        former = YES if 'the former owner is not waited for' in broken else Implies(
            And(f == s.owner(b, v), f != w.nobody, f != c.new_owner(u), Not(s.over(f))), must_wait(s, c, u, f, 0))
        return And(kept, former)
    return w.all([E], one)


@action
def map_sent(w, s, c, broken):
    """A map of the same generation: owners may change, and names may be dropped."""
    b = c.base
    return (And(well_formed(w, s, c), w.stored_map(s, b), c.new_generation == s.generation(b),
                w.all([U], lambda u: Implies(c.new_lists(u), And(s.lists(b, u), keeps_from(w, s, c, u, u, broken))))),
            sends(w, s, c, s.seq(b)))


@action
def map_with_new_names_sent(w, s, c, broken):
    """Names that the former map lacks enter with every other living epoch in `from`: all that reads,
    begun after that map was shown, find, or that it names.  Of an emptied key see `emptied` above."""
    b = c.base

    def waits_for_all(u):
        return w.all([E], lambda y: Implies(
            And(0 < s.claim(y), s.claim(y) < s.seq(b), y != c.new_owner(u), Not(s.over(y)), Not(s.lapsed(y))),
            Or(must_wait(s, c, u, y, 0),
               And(s.emptied(y), YES if 'an emptied key hides the owner of a name' in broken else w.all([M, U], lambda m, v: Implies(
                   And(w.stored_map(s, m), w.exclude(u, v)), s.owner(m, v) != y))))))
    if 'a new name waits for nobody' in broken:
        def waits_for_all(u):
            return YES
    return (And(well_formed(w, s, c), w.stored_map(s, b), c.new_generation == s.generation(b),
                w.all([U], lambda u: Implies(c.new_lists(u), If(
                    s.lists(b, u), keeps_from(w, s, c, u, u, broken), waits_for_all(u))))),
            sends(w, s, c, s.seq(b)))


@action
def map_of_another_generation_sent(w, s, c, broken):
    """Growth of a sharded group, whose map lists all its units: each new unit waits for all whom any
    old unit waits for, and for all former owners."""
    b = c.base
    waited = YES if 'another generation waits for nobody' in broken else w.all([U, U], lambda u, v: Implies(
        And(c.new_lists(u), s.lists(b, v)), keeps_from(w, s, c, u, v, broken)))
    return (And(well_formed(w, s, c), w.stored_map(s, b), c.new_generation != s.generation(b), s.lists(b, c.unit),
                w.all([U], lambda v: Implies(w.gen(v) == s.generation(b), s.lists(b, v))), waited),
            sends(w, s, c, s.seq(b)))


@action
def map_stored(w, s, c, broken):
    """The server stores a map if the value that it was made over stands there."""
    new = s.last + 1
    expected = YES if 'a map is no compare-and-set' in broken else s.made_over(c.map) == s.map_last
    return (And(s.map_state(c.map) == 1, expected),
            dict(last=new, map_last=new, map_state=put(s.map_state, c.map, IntVal(2)), seq=put(s.seq, c.map, new)))


@action
def hand_on_the_map(w, s, c, broken):
    """Somebody deletes, purges or overwrites the map, or writes a blank where nothing stands: the
    value, if any, is foreign.  An old map that is put back is foreign too: its header does not name
    the value that it says it was written over."""
    new = s.last + 1
    return (s.map_state(c.map) == 0,
            dict(last=new, map_last=If(c.flag, IntVal(0), new), seq=put(s.seq, c.map, new),
                 map_state=put(s.map_state, c.map, If(c.flag, IntVal(0), IntVal(2))),
                 is_map=put(s.is_map, c.map, NO),
                 began=lambda x, u: And(x != c.map, s.began(x, u))))


@action
def collect_sent(w, s, c, broken):
    """Over a foreign value goes a collect: owners as far as they are known, and in `from` every other
    epoch, not over, that the reads find or that the collector's own map names.  It is sent only if no
    epoch that is found, and not over, says that it follows a later map than the collector's.  Of an
    emptied key (see `emptied` above), c.other is the epoch that is found and says enough."""
    e, mine, value, z = c.epoch, s.follows(c.epoch), c.foreign, c.other
    read_at = c.number if 'a collect reads before it is shown the foreign value' in broken else s.seq(value)

    def found(y):
        return And(0 < s.claim(y), s.claim(y) < read_at, Not(s.emptied(y)))

    clause = YES if 'somebody behind collects' in broken else w.all([E], lambda y: Implies(
        And(found(y), Not(s.over(y))), s.says(y) <= s.seq(mine)))

    def missed(y):
        """An epoch with an emptied key that nothing tells the collector of."""
        if 'an emptied key hides any epoch' in broken:
            return s.emptied(y)
        return And(s.emptied(y), found(z), Not(s.over(z)),
                   w.all([M, U], lambda m, v: Implies(And(w.stored_map(s, m), s.owner(m, v) == y), s.seq(m) <= s.says(z))),
                   w.all([U], lambda v: And(s.owner(mine, v) != y, Not(s.waits(mine, v, y)))))

    def waited(u, y):
        extra = y == z if 'a collect omits one epoch' in broken else NO
        return Implies(And(0 < s.claim(y), s.claim(y) < read_at, y != c.new_owner(u), Not(s.over(y)), Not(s.lapsed(y))),
                       Or(And(c.new_waits(u, y), c.new_since(u, y) == 0), missed(y), extra))
    return (And(well_formed(w, s, c), s.born(e), s.map_state(value) == 2, Not(s.is_map(value)), clause,
                Implies(mine != w.nothing, And(c.new_generation == s.generation(mine),
                                               w.all([U], lambda u: Implies(c.new_lists(u), s.lists(mine, u))))),
                w.all([U, E], lambda u, y: Implies(c.new_lists(u), waited(u, y)))),
            sends(w, s, c, s.seq(value)))


# ------------------------------------------------------------------------------------------------
# Actions that exist only where a rule is broken.

@only_if('a claim is sent twice')
def claim_sent_again(w, s, c, broken):
    e = c.epoch
    return (And(s.born(e), s.beat_state(c.beat) == 0),
            dict(beat_state=put(s.beat_state, c.beat, IntVal(1)), beat_of=put(s.beat_of, c.beat, e),
                 beat_sent=put(s.beat_sent, c.beat, s.now), beat_over=put(s.beat_over, c.beat, IntVal(0)),
                 beat_says=put(s.beat_says, c.beat, IntVal(0))))


@only_if('a watched length alone is over')
def over_by_length(w, s, c, broken):
    return (And(s.watch_state(c.watch) == 1, s.now >= s.watch_since(c.watch) + s.watch_length(c.watch)),
            dict(over=put(s.over, s.watch_of(c.watch), YES)))


@only_if('a record is believed under another key')
def record_copied(w, s, c, broken):
    e, new = c.epoch, s.last + 1
    return (And(s.claim(e) > 0, s.claim(c.other) > 0),
            dict(last=new, key_last=put(s.key_last, e, new), key_time=put(s.key_time, e, s.now),
                 cleared=lambda x, u: If(And(x == e, s.says(c.other) > s.cleared(x, u)), s.says(c.other), s.cleared(x, u))))


@only_if('a collect over nothing')
def collect_over_nothing(w, s, c, broken):
    return (And(well_formed(w, s, c), s.born(c.epoch),
                w.all([U, E], lambda u, y: Implies(And(c.new_lists(u), 0 < s.claim(y), y != c.new_owner(u), Not(s.over(y))),
                                                   And(c.new_waits(u, y), c.new_since(u, y) == 0)))),
            sends(w, s, c, IntVal(0)))


WRONG = ['somebody behind collects', 'an emptied key hides any epoch', 'a collect omits one epoch',
         'an emptied key hides the owner of a name', 'a hand writes under an id before its claim',
         'a unit is told by its name alone', 'a collect reads before it is shown the foreign value', 'a collect over nothing',
         'the deadline of a handler told to end moves on', 'an exception ends when the handler is told to end',
         'no exceptions', 'exceptions of another generation are ignored',
         'a term begins before `from` is clear', 'a term goes on before `from` is clear',
         'a term begins beside an own handler of another generation', 'two terms by one map',
         'an older map is followed', 'since 0 counts as no sequence', 'the former owner is not waited for',
         '`from` is not kept', 'another generation waits for nobody', 'a new name waits for nobody',
         'a map is no compare-and-set', 'a heartbeat is no compare-and-set',
         '`ended` of a watcher is no compare-and-set', 'a watcher waits too short', 'a watched length alone is over',
         'a member ends its epoch while a handler runs', 'a lease counts from the answer',
         'a claim is sent twice', 'a record is believed under another key']


def actions(broken=()):
    """The actions of the protocol, and those that a broken rule adds."""
    found = dict(ACTIONS)
    found.update({name: f for name, (f, why) in ONLY_WRONG.items() if why in broken})
    return found


# ------------------------------------------------------------------------------------------------

def beginning(w, s):
    """Nothing has happened yet."""
    return [
        s.map_last == 0, s.last >= 0,
        w.all([E], lambda e: And(
            Not(s.born(e)), Not(s.stopped(e)), Not(s.over(e)), Not(s.lapsed(e)), Not(s.emptied(e)), s.claim(e) == 0,
            s.key_last(e) == 0, s.key_time(e) <= s.now, s.deadline(e) <= s.key_time(e), s.says(e) == 0,
            s.follows(e) == w.nothing)),
        w.all([E, U], lambda e, u: And(Not(s.runs(e, u)), s.token(e, u) == 0, s.cleared(e, u) == 0, Not(s.told(e, u)),
                                       s.frozen(e, u) <= s.deadline(e))),
        w.all([B], lambda b: s.beat_state(b) == 0), w.all([W], lambda x: s.watch_state(x) == 0),
        w.all([M], lambda m: s.map_state(m) == If(m == w.nothing, IntVal(3), IntVal(0))),
        w.all([M, U], lambda m, u: Not(s.began(m, u))),
        s.seq(w.nothing) == 0, s.made_over(w.nothing) == -1, Not(s.is_map(w.nothing)),
        w.all([U], lambda u: And(s.owner(w.nothing, u) == w.nobody, Not(s.lists(w.nothing, u)))),
        w.all([U, E], lambda u, e: Not(s.waits(w.nothing, u, e))),
    ]


def invariants(w, s, broken=()):
    """Each with a name."""
    def a_map(m):
        return w.stored_map(s, m)

    def gone(e):
        return Or(s.over(e), s.lapsed(e))

    def accounted(m1, m, v, u, e, flight):
        """The owner e of v in the earlier map m1, seen from unit u of the later map m."""
        later = Or(s.since(m, u, e) == 0, s.since(m, u, e) > s.seq(m1)) if flight else w.since(s, m, u, e) > s.seq(m1)
        return Or(s.owner(m, u) == e, And(s.waits(m, u, e), later), s.cleared(e, v) > s.seq(m1))

    i = {}
    i['sequences are in range'] = And(0 <= s.map_last, s.map_last <= s.last, w.all([E], lambda e: And(
        0 <= s.key_last(e), s.key_last(e) <= s.last, s.key_time(e) <= s.now, 0 <= s.claim(e), s.claim(e) <= s.last,
        Implies(s.claim(e) > 0, s.born(e)))))
    i['nobody and nothing'] = And(
        Not(s.born(w.nobody)), s.map_state(w.nothing) == 3, s.seq(w.nothing) == 0, s.made_over(w.nothing) == -1,
        Not(s.is_map(w.nothing)), w.all([U], lambda u: And(
            s.owner(w.nothing, u) == w.nobody, Not(s.lists(w.nothing, u)), Not(s.began(w.nothing, u)))))
    i['a record is of a born epoch'] = w.all([B], lambda b: And(
        Or(s.beat_state(b) == 0, s.beat_state(b) == 1, s.beat_state(b) == 2),
        Implies(s.beat_state(b) >= 1, And(s.born(s.beat_of(b)), s.beat_sent(b) <= s.now, 0 <= s.beat_over(b), s.beat_over(b) <= s.last))))
    i['a stored record is not newer than its key'] = w.all([B], lambda b: Implies(s.beat_state(b) == 2, And(
        0 < s.beat_seq(b), s.beat_seq(b) <= s.last, 0 < s.claim(s.beat_of(b)),
        Or(s.beat_seq(b) <= s.key_last(s.beat_of(b)), s.key_last(s.beat_of(b)) == 0),
        s.beat_sent(b) <= s.key_time(s.beat_of(b)))))
    i['only a claim expects nothing'] = w.all([B], lambda b: Implies(
        And(s.beat_state(b) == 1, s.beat_over(b) == 0), s.claim(s.beat_of(b)) == 0))
    i['one claim'] = w.all([B, B], lambda b, d: Implies(
        And(s.beat_state(b) >= 1, s.beat_state(d) >= 1, s.beat_of(b) == s.beat_of(d), s.claim(s.beat_of(b)) == 0), b == d))
    i['a lease counts from the key'] = w.all([E], lambda e: s.deadline(e) <= s.key_time(e) + HOLD * w.ttl(e))
    i['who watches saw what stands there, or older'] = w.all([W], lambda x: And(
        Or(s.watch_state(x) == 0, s.watch_state(x) == 1, s.watch_state(x) == 2), Implies(s.watch_state(x) >= 1, And(
            0 < s.watch_seq(x), s.watch_seq(x) <= s.last, Or(s.claim(s.watch_of(x)) > 0, s.stopped(s.watch_of(x))),
            Implies(s.watch_seq(x) == s.key_last(s.watch_of(x)), s.watch_since(x) >= s.key_time(s.watch_of(x)))))))
    i['who watches waits long enough'] = w.all([W], lambda x: Implies(s.watch_state(x) >= 1, And(
        s.watch_length(x) >= WATCH * w.ttl(s.watch_of(x)),
        Implies(s.watch_state(x) == 2, s.now >= s.watch_since(x) + s.watch_length(x)))))
    i['a value under a key comes after its claim or its end'] = w.all([E], lambda e: Implies(
        s.key_last(e) > 0, Or(s.claim(e) > 0, s.stopped(e))))
    i['who stopped acts no more'] = w.all([E, U], lambda e, u: Implies(
        And(s.stopped(e), s.runs(e, u)), Or(s.deadline(e) <= s.now, And(s.told(e, u), s.frozen(e, u) <= s.now))))
    i['over means powerless'] = w.all([E], lambda e: Implies(And(s.over(e), Not(s.stopped(e))), w.powerless(s, e)))
    i['lapsed means powerless'] = w.all([E], lambda e: Implies(s.lapsed(e), w.powerless(s, e)))
    i['maps are in order'] = w.all([M], lambda m: And(
        Or(s.map_state(m) == 0, s.map_state(m) == 1, s.map_state(m) == 2, m == w.nothing),
        Implies(s.map_state(m) == 2, And(0 < s.seq(m), s.seq(m) <= s.last, Or(s.seq(m) <= s.map_last, s.map_last == 0))),
        Implies(s.map_state(m) == 1, And(s.is_map(m), 0 < s.made_over(m), s.made_over(m) <= s.last))))
    i['a sequence is one value'] = w.all([M, M], lambda m, n: Implies(
        And(s.map_state(m) == 2, s.map_state(n) == 2, s.seq(m) == s.seq(n)), m == n))
    i['an owner was claimed before, in the map\'s generation'] = w.all([M, U], lambda m, u: Implies(
        And(Or(a_map(m), s.map_state(m) == 1), s.owner(m, u) != w.nobody),
        And(s.lists(m, u), w.gen(u) == s.generation(m), 0 < s.claim(s.owner(m, u)),
            Implies(a_map(m), s.claim(s.owner(m, u)) < s.seq(m)))))
    i['units of a map are of its generation'] = w.all([M, U], lambda m, u: Implies(
        And(Or(a_map(m), s.map_state(m) == 1), s.lists(m, u)), w.gen(u) == s.generation(m)))
    i['a former owner is accounted for'] = w.all([M, M, U, U], lambda m1, m, v, u: Implies(
        And(a_map(m1), a_map(m), s.seq(m1) < s.seq(m), s.owner(m1, v) != w.nobody, Not(gone(s.owner(m1, v))),
            s.lists(m, u), w.exclude(u, v)), accounted(m1, m, v, u, s.owner(m1, v), False)))
    i['also by a map on its way'] = w.all([M, M, U, U], lambda m1, m, v, u: Implies(
        And(a_map(m1), s.map_state(m) == 1, s.seq(m1) <= s.made_over(m), s.owner(m1, v) != w.nobody, Not(gone(s.owner(m1, v))),
            s.lists(m, u), w.exclude(u, v)), accounted(m1, m, v, u, s.owner(m1, v), True)))
    i['an epoch follows a map'] = w.all([E], lambda e: Or(s.follows(e) == w.nothing, a_map(s.follows(e))))
    i['nothing is acknowledged ahead'] = w.all([E, U], lambda e, u: And(
        0 <= s.cleared(e, u), s.cleared(e, u) <= s.seq(s.follows(e)), 0 <= s.token(e, u), s.token(e, u) <= s.seq(s.follows(e))))
    i['a term has its map'] = w.all([E, U], lambda e, u: Implies(s.runs(e, u), And(
        s.born(e), a_map(s.acts_by(e, u)), s.owner(s.acts_by(e, u), u) == e, s.seq(s.acts_by(e, u)) <= s.seq(s.follows(e)),
        s.token(e, u) <= s.seq(s.acts_by(e, u)))))
    i['a term is an exception until its frozen deadline'] = w.all([E, U], lambda e, u: Implies(s.runs(e, u), Or(
        s.cleared(e, u) <= s.seq(s.acts_by(e, u)), And(s.told(e, u), s.frozen(e, u) <= s.now))))
    i['what a term waited for is clear'] = w.all([E, U, E], lambda e, u, f: Implies(
        And(s.runs(e, u), s.waits(s.acts_by(e, u), u, f), f != e), w.clear(s, f, u, w.since(s, s.acts_by(e, u), u, f))))
    i['one process, one generation'] = w.all([E, U, U], lambda e, u, v: Implies(
        And(s.runs(e, u), s.runs(e, v), w.exclude(u, v)), u == v))
    i['a begun map has its token'] = w.all([M, U], lambda m, u: Implies(s.began(m, u), And(
        a_map(m), s.owner(m, u) != w.nobody, s.token(s.owner(m, u), u) >= s.seq(m))))
    i['what a begun map waited for is clear'] = w.all([M, U, E], lambda m, u, f: Implies(
        And(s.began(m, u), s.waits(m, u, f), f != s.owner(m, u)), w.clear(s, f, u, w.since(s, m, u, f))))
    return i


# ------------------------------------------------------------------------------------------------

def check(w, hypotheses, goal, limit):
    """Does the goal follow?  First Z3's default, then pattern matching alone, then another seed."""
    result = unknown
    for mode in (0, 1, 2) if w.sizes is None else (0,):
        solver = SimpleSolver() if mode == 1 else Solver()
        solver.set('timeout', limit if mode == 2 or w.sizes is not None else min(limit, 4000))
        if mode == 1:
            solver.set('auto_config', False)
            solver.set('mbqi', False)
        if mode == 2:
            solver.set('random_seed', 7)
        solver.add(*w.axioms(), *hypotheses, Not(goal))
        result = solver.check()
        if result == unsat or (result == sat and mode != 1):
            break
    return result


def prove(broken=(), without=None, limit=20000, say=True, stop=False, sizes=None, only=None):
    """All queries of the proof.  Gives their number, and the failed ones with Z3's answer."""
    w = World(sizes)
    s, c = w.state('s_'), Choice(w)
    before = {k: f for k, f in invariants(w, s, broken).items() if k != without}
    failed, number, untouched = [], 0, 0

    def query(label, hypotheses, goal):
        nonlocal number
        if only and label not in only:
            return False
        number += 1
        start = time.time()
        result = check(w, hypotheses, goal, limit)
        if result != unsat:
            failed.append((label, str(result)))
        if say and (result != unsat or time.time() - start > 5):
            print(f'  {label}: {result} after {time.time() - start:.1f} s', flush=True)
        return result != unsat and stop

    for k, f in before.items():
        if query(('beginning', k), beginning(w, s), f):
            return number, untouched, failed
    if query(('safety', ''), before.values(), w.safety(s, broken)):
        return number, untouched, failed
    for name, step in actions(broken).items():
        condition, changes = step(w, s, c, broken)
        t = s.after(changes)
        after = invariants(w, t, broken)
        if name == 'term_begins' and query((name, 'tokens'), [*before.values(), condition], w.tokens_grow(s, c)):
            return number, untouched, failed
        for k in before:
            if after[k].eq(before[k]):
                untouched += 1
            elif query((name, k), [*before.values(), condition], after[k]):
                return number, untouched, failed
    return number, untouched, failed



SMALL = {E: 3, U: 2, M: 4, B: 3, W: 1}


def queries(w, broken=(), without=None):
    """Each query of the induction step: its label, its hypotheses, its goal."""
    s, c = w.state('s_'), Choice(w)
    before = {k: f for k, f in invariants(w, s).items() if k != without}
    yield ('safety', ''), list(before.values()), w.safety(s, broken)
    for name, step in actions(broken).items():
        condition, changes = step(w, s, c, broken)
        after = invariants(w, s.after(changes))
        if name == 'term_begins':
            yield (name, 'tokens'), [*before.values(), condition], w.tokens_grow(s, c)
        for k in before:
            if not after[k].eq(before[k]):
                yield (name, k), [*before.values(), condition], after[k]


def notice(title, broken=(), without=None):
    """A broken proof: the first query that fails in a small finite world, which is no mere weakness of
    the prover.  Those that the prover does not prove in open worlds are tried first."""
    start = time.time()
    w = World()
    proved = {} if without else {label: (hypotheses[-1], goal) for label, hypotheses, goal in queries(w)}
    suspects = []
    for label, hypotheses, goal in queries(w, broken, without):
        if label in proved and hypotheses[-1].eq(proved[label][0]) and goal.eq(proved[label][1]):
            continue                       # the broken rule does not touch this query
        solver = Solver()
        solver.set('timeout', 1500)
        solver.add(*w.axioms(), *hypotheses, Not(goal))
        if solver.check() != unsat:
            suspects.append(label)
            if len(suspects) == 6:
                break
    w, found = World(SMALL), None
    for label, hypotheses, goal in queries(w, broken, without):
        if label in suspects and check(w, hypotheses, goal, 30000) == sat:
            found = label
            break
    what = f'fails: {found[0]}, {found[1]}' if found else f'NOT NOTICED (of {suspects})'
    print(f'{title:72s} {what} ({time.time() - start:.1f} s)', flush=True)
    return found is not None


# ------------------------------------------------------------------------------------------------
# Runs: a list of actions with their choices, from the beginning, in a finite world.

class Run:
    """Epochs 1, 2, 3 (0 is nobody), maps from 1 (0 is nothing)."""

    def __init__(self, generations=(0,)):
        self.generations, self.steps, self.beats, self.newest = list(generations), [], 0, {}

    def do(self, name, **choice):
        self.steps.append((name, choice))
        return self

    def join(self, *epochs):
        for e in epochs:
            self.do('claim_sent', epoch=e, beat=self.beats).do('record_stored', beat=self.beats)
            self.do('lease_extended', epoch=e, beat=self.beats)
            self.newest[e] = self.beats
            self.beats += 1
        return self

    def send(self, e):
        """A heartbeat is sent; the answer is its number."""
        self.do('heartbeat_sent', epoch=e, beat=self.beats, former=self.newest[e])
        self.beats += 1
        return self.beats - 1

    def heartbeat(self, *epochs):
        for e in epochs:
            b = self.send(e)
            self.do('record_stored', beat=b).do('lease_extended', epoch=e, beat=b)
            self.newest[e] = b
        return self

    def shown(self, m, *epochs):
        for e in epochs:
            self.do('map_shown', epoch=e, map=m)
        return self

    def begin(self, e, u=0):
        return self.do('term_begins', epoch=e, unit=u)

    def end(self, e, u=0):
        return self.do('handler_ends', epoch=e, unit=u)

    def content(self, name, m, owners, waits, generation, **choice):
        return self.do(name, map=m, content=(owners, waits, generation), **choice)

    def map(self, m, base, owners, waits=None, generation=0, name='map_sent', stored=True, **choice):
        self.content(name, m, owners, waits or {}, generation, base=base, **choice)
        return self.do('map_stored', map=m) if stored else self

    def hand(self, m, nothing=False):
        return self.do('hand_on_the_map', map=m, flag=nothing)

    def collect(self, m, foreign, by, owners, waits, generation=0, name='collect_sent', stored=True, **choice):
        self.content(name, m, owners, waits, generation, foreign=foreign, epoch=by, **choice)
        return self.do('map_stored', map=m) if stored else self

    def later(self, length=None):
        return self.do('time_passes', **({} if length is None else dict(length=length)))

    def started(self, *epochs, units=(0,)):
        """Those have claimed; the first has collected (map 2), and all have acknowledged that."""
        self.join(*epochs).hand(1)
        self.collect(2, 1, epochs[0], {u: 0 for u in units}, {u: list(epochs) for u in units})
        return self.shown(2, *epochs).heartbeat(*epochs)


def unroll(run, broken):
    """A solver with the run's states, the condition of each step behind a switch, and how it may end."""
    steps = run.steps
    maps = 1 + max([c.get('map', 0) for _, c in steps] + [0])
    w = World({E: 4 if any(c.get('epoch') == 3 for _, c in steps) else 3, U: len(run.generations), M: maps, B: max(run.beats, 1), W: 1})
    solver = Solver()
    solver.set('timeout', 60000)
    solver.add(*w.axioms(), *[w.gen(u) == g for u, g in zip(w.elements[U], run.generations)])
    tag = f'r{World.made}_'
    s = w.state(tag + '0_')
    solver.add(*beginning(w, s))
    known = {**ACTIONS, **{name: f for name, (f, _) in ONLY_WRONG.items()}}
    switches, tokens = [], YES
    for k, (name, choice) in enumerate(steps):
        c = Choice(w, f'{tag}{k}_')
        for key, value in choice.items():
            if key == 'content':
                owners, waits, generation = value
                solver.add(c.new_generation == generation)
                for iu, u in enumerate(w.elements[U]):
                    solver.add(c.new_lists(u) == (iu in owners), c.new_owner(u) == w.elements[E][owners.get(iu, 0)])
                    for ie, e in enumerate(w.elements[E]):
                        solver.add(c.new_waits(u, e) == (ie in waits.get(iu, [])), c.new_since(u, e) == 0)
            elif key == 'after':      # a number: the sequence of this epoch's claim
                solver.add(c.number == s.claim(w.elements[E][value]))
            else:
                x = getattr(c, key)
                kind = next((k2 for k2 in (E, U, M, B, W) if w.sort[k2] == x.sort()), None)
                solver.add(x == (w.elements[kind][value] if kind else value))
        condition, changes = known[name](w, s, c, broken)
        switches.append(Bool(f'{tag}{k}_happens'))
        solver.add(Implies(switches[-1], condition if name in actions(broken) else NO))
        new, changed = w.state(f'{tag}{k + 1}_'), s.after(changes)
        for key, kinds in STATE.items():
            if key not in changes:     # what no step changes keeps its name
                new[key] = s[key]
                continue
            places = [()]
            for kind in kinds[:-1]:
                places = [p + (x,) for p in places for x in w.elements[kind]]
            for p in places:
                solver.add((new[key](*p) == changed[key](*p)) if p else new[key] == changed[key])
        if name == 'term_begins':
            tokens = w.tokens_grow(s, c)
        s = new
    ends = {None: YES, 'two handlers': Not(w.safety(s, broken)), 'tokens': Not(tokens)}
    for end, formula in ends.items():
        switch = Bool(f'{tag}ends_{end}')
        solver.add(Implies(switch, formula))
        ends[end] = switch
    return solver, switches, ends


def play(run, broken=(), final=None):
    """Is this a run of the model that ends as wanted?"""
    solver, switches, ends = unroll(run, broken)
    return solver.check(*switches, ends[final])


def possible_steps(run, broken=()):
    """How many steps of the run are possible, and whether it is then safe."""
    solver, switches, ends = unroll(run, broken)
    low, high = 0, len(switches)
    while low < high:
        middle = (low + high + 1) // 2
        if solver.check(*switches[:middle]) == sat:
            low = middle
        else:
            high = middle - 1
    return low, all(solver.check(*switches, ends[end]) == unsat for end in ('two handlers', 'tokens'))


def schedules():
    """(what is broken, the run, how it ends)"""
    found = []

    def add(broken, run, final='two handlers'):
        found.append((broken if isinstance(broken, tuple) else (broken,), run, final))

    def two(u=0):
        """2 owns the unit and acts by map 3, which all follow."""
        return Run().started(1, 2).map(3, 2, {0: 2}).shown(3, 1, 2).begin(2)

    def taken(run=None):
        """Map 4 gives the unit from 2 to 1; 2 is shown that."""
        return (run or two()).map(4, 3, {0: 1}, {0: [2]}).shown(4, 2)

    add('somebody behind collects',
        Run().started(1, 2, 3).map(3, 2, {0: 3}).shown(3, 1, 3).map(4, 3, {0: 2}, {0: [3]}).shown(4, 3, 2).heartbeat(3)
        .begin(2).hand(5).do('hand_on_a_member', epoch=2, flag=True)
        .collect(6, 5, 1, {0: 3}, {0: [1]}, other=3).shown(6, 1, 3).heartbeat(1).begin(3))
    add('an emptied key hides any epoch',
        Run().started(1, 2).map(3, 2, {0: 0}).shown(3, 1, 2).map(4, 3, {0: 2}).shown(4, 2).begin(2)
        .hand(5).do('hand_on_a_member', epoch=2, flag=True)
        .collect(6, 5, 1, {0: 0}, {0: [1]}).shown(6, 1).heartbeat(1).map(7, 6, {0: 1}).shown(7, 1).begin(1))
    add('a collect omits one epoch',
        Run().started(1, 2).map(3, 2, {0: 0}).shown(3, 1, 2).map(4, 3, {0: 2}).shown(4, 2).begin(2)
        .hand(5).collect(6, 5, 1, {0: 0}, {0: [1]}, other=2).shown(6, 1).heartbeat(1).map(7, 6, {0: 1}).shown(7, 1).begin(1))
    add('a collect reads before it is shown the foreign value',
        Run().started(1).map(3, 2, {0: 0}).shown(3, 1).join(2).map(4, 3, {0: 2}).shown(4, 2).begin(2)
        .hand(5).collect(6, 5, 1, {0: 0}, {0: [1]}, after=2).shown(6, 1).heartbeat(1).map(7, 6, {0: 1}).shown(7, 1).begin(1))
    late = Run().join(1).collect(1, 0, 1, {0: 0}, {0: [1]}, name='collect_over_nothing', stored=False).join(2).hand(2)
    late.collect(3, 2, 2, {0: 0}, {0: [1, 2]}).shown(3, 1, 2).heartbeat(1, 2).map(4, 3, {0: 2}).shown(4, 2).begin(2).hand(5, True)
    add('a collect over nothing', late.do('map_stored', map=1).shown(1, 1).heartbeat(1).map(6, 1, {0: 1}).shown(6, 1).begin(1))

    run = two().later().heartbeat(1)
    b = run.send(2)
    taken(run).do('record_stored', beat=b).do('lease_extended', epoch=2, beat=b).later()
    run.newest[2] = b
    add('the deadline of a handler told to end moves on', run.heartbeat(2).shown(4, 1).begin(1))
    add('an exception ends when the handler is told to end', taken().heartbeat(2).shown(4, 1).begin(1))
    add('no exceptions', taken().heartbeat(2).shown(4, 1).begin(1))

    def grown(owner, waits):
        """Unit 0 of generation 0, unit 1 of generation 1; 2 acts on unit 0 and is shown map 4, which opens 1."""
        return (Run([0, 1]).started(1, 2).map(3, 2, {0: 2}).shown(3, 1, 2).begin(2)
                .map(4, 3, {1: owner}, {1: waits}, 1, 'map_of_another_generation_sent', unit=0).shown(4, 1, 2))
    add('exceptions of another generation are ignored', grown(1, [2]).heartbeat(2).begin(1, 1))
    add('another generation waits for nobody', grown(1, []).begin(1, 1))
    add('a term begins beside an own handler of another generation', grown(2, []).begin(2, 1))

    add('a term begins before `from` is clear', taken().shown(4, 1).begin(1))
    add('since 0 counts as no sequence', taken().shown(4, 1).begin(1))
    add('a term goes on before `from` is clear',
        two().map(4, 3, {0: 1}, {0: [2]}).shown(4, 1).map(5, 4, {0: 2}, {0: [1, 2]}).shown(5, 2)
        .do('term_goes_on', epoch=2, unit=0).heartbeat(2).begin(1))
    add('two terms by one map', two().end(2).begin(2), 'tokens')
    add('an older map is followed',
        Run().started(1, 2).map(3, 2, {0: 2}).map(4, 3, {0: 1}, {0: [2]}).shown(4, 1, 2).heartbeat(2).begin(1).shown(3, 2).begin(2))
    add('the former owner is not waited for', two().map(4, 3, {0: 1}).shown(4, 1).begin(1))
    add('`from` is not kept', two().map(4, 3, {0: 0}, {0: [2]}).map(5, 4, {0: 1}).shown(5, 1).begin(1))
    names = Run([0, 0]).started(1, 2).map(3, 2, {0: 0}).shown(3, 1, 2)
    names.map(4, 3, {0: 0, 1: 2}, {}, 0, 'map_with_new_names_sent').shown(4, 2).begin(2, 1).hand(5)
    names.collect(6, 5, 1, {0: 0}, {0: [1, 2]}).shown(6, 1)
    add('a new name waits for nobody', names.map(7, 6, {0: 0, 1: 1}, {0: [1, 2]}, 0, 'map_with_new_names_sent').shown(7, 1).begin(1, 1))
    add('a map is no compare-and-set',
        Run().started(1, 2).map(3, 2, {0: 1}, stored=False).map(4, 2, {0: 2}, stored=False).do('map_stored', map=3).shown(3, 1).begin(1)
        .do('map_stored', map=4).shown(4, 2).begin(2))

    def watched(run):
        return run.do('watch_begins', watch=0, epoch=2, flag=True).later()

    def believed(run):
        """2 is believed over; 1, with a new lease, is given the unit."""
        return run.heartbeat(1).map(4, 3, {0: 1}, {}).shown(4, 1).begin(1)
    run = watched(two())
    b = run.send(2)
    run.later().do('watcher_sends_ended', watch=0).do('ended_stored_for_a_watcher', watch=0).do('record_stored', beat=b)
    add('a heartbeat is no compare-and-set', believed(run.do('lease_extended', epoch=2, beat=b)))
    add('`ended` of a watcher is no compare-and-set', believed(
        watched(two()).heartbeat(2).later().do('watcher_sends_ended', watch=0).do('ended_stored_for_a_watcher', watch=0)))
    add('a watched length alone is over', believed(watched(two()).heartbeat(2).later().do('over_by_length', watch=0)))
    add('a watcher waits too short', believed(
        watched(two()).do('watcher_sends_ended', watch=0).do('ended_stored_for_a_watcher', watch=0)))
    add('a member ends its epoch while a handler runs', believed(
        two().do('member_ends', epoch=2).do('ended_stored_for_the_member', epoch=2)))
    run = two()
    b = run.send(2)
    run.do('record_stored', beat=b)
    run.newest[2] = b
    add('a lease counts from the answer', believed(
        watched(run).do('watcher_sends_ended', watch=0).do('ended_stored_for_a_watcher', watch=0).do('lease_extended', epoch=2, beat=b)))
    run = Run().join(1).do('claim_sent', epoch=2, beat=1).do('record_stored', beat=1).do('watch_begins', watch=0, epoch=2, flag=True)
    run.later().do('claim_sent_again', epoch=2, beat=2).later()
    run.do('watcher_sends_ended', watch=0).do('ended_stored_for_a_watcher', watch=0).do('hand_on_a_member', epoch=2, flag=True)
    run.do('record_stored', beat=2).do('lease_extended', epoch=2, beat=2)
    run.beats = 3
    run.heartbeat(1).hand(1).collect(2, 1, 1, {0: 2}, {0: [1]}).shown(2, 1, 2).heartbeat(1).begin(2)
    add('a claim is sent twice', run.map(3, 2, {0: 1}).shown(3, 1).begin(1))
    run = Run().join(1).do('claim_sent', epoch=2, beat=1).do('hand_on_a_member', epoch=2, flag=False).do('watch_begins', watch=0, epoch=2, flag=True)
    run.later().do('watcher_sends_ended', watch=0).do('ended_stored_for_a_watcher', watch=0).do('hand_on_a_member', epoch=2, flag=True)
    run.beats = 2
    b = run.beats
    run.do('record_stored', beat=1).do('lease_extended', epoch=2, beat=1).heartbeat(1)
    run.newest[2] = 1
    run.heartbeat(2).hand(1).collect(2, 1, 1, {0: 2}, {0: [1]}).shown(2, 1, 2).heartbeat(1).begin(2)
    add('a hand writes under an id before its claim', run.map(3, 2, {0: 1}).shown(3, 1).begin(1))
    hidden = Run([0, 0]).started(1, 2).map(3, 2, {0: 0}).shown(3, 1, 2).map(4, 3, {0: 0, 1: 2}, {1: [1]}, 0, 'map_with_new_names_sent')
    hidden.shown(4, 1, 2).heartbeat(1).begin(2, 1).map(5, 4, {0: 0}).shown(5, 1).do('hand_on_a_member', epoch=2, flag=True)
    add('an emptied key hides the owner of a name', hidden.map(6, 5, {0: 0, 1: 1}, {}, 0, 'map_with_new_names_sent').shown(6, 1).begin(1, 1))
    add('a unit is told by its name alone',
        Run([0, 1, 1]).started(1, 2).map(3, 2, {0: 2}).shown(3, 1, 2).begin(2)
        .map(4, 3, {1: 2, 2: 1}, {2: [2]}, 1, 'map_of_another_generation_sent', unit=0).do('map_shown', epoch=2, map=4, twin=1)
        .do('term_goes_on', epoch=2, unit=0, twin=1).heartbeat(2).shown(4, 1).begin(1, 2))
    add('a record is believed under another key',
        two().map(4, 3, {0: 1}, {0: [2]}).shown(4, 1).heartbeat(1).do('record_copied', epoch=2, other=1).begin(1))

    # A collector behind a growth (units 0 and 1 of generation 0, unit 2 of generation 1): it names owners
    # of the former generation, and one of them acts in the new one.
    def behind():
        run = Run([0, 0, 1]).started(1, 2, 3, units=(0, 1)).map(3, 2, {0: 2, 1: 3}).shown(3, 1, 2, 3).begin(2, 0).begin(3, 1)
        run.map(4, 3, {0: 0, 1: 0}, {0: [2, 3], 1: [2, 3]}).shown(4, 2, 3).end(2, 0).end(3, 1).heartbeat(2, 3)
        run.map(5, 4, {2: 3}, {}, 1, 'map_of_another_generation_sent', unit=0).shown(5, 3).begin(3, 2).hand(6)
        run.collect(7, 6, 1, {0: 2, 1: 3}, {0: [1, 3], 1: [1, 2]}).shown(7, 1, 2).heartbeat(1, 2).shown(7, 3)
        return run.begin(3, 1)
    add(('somebody behind collects', 'a term begins beside an own handler of another generation'), behind())
    return found


def good_runs():
    """Runs of the true rules that together take every action."""
    move = Run().started(1, 2).map(3, 2, {0: 2}).shown(3, 1, 2).begin(2).map(4, 3, {0: 1}, {0: [2]}).shown(4, 1, 2)
    move.end(2).heartbeat(2).begin(1).do('told_to_end', epoch=1, unit=0).end(1).do('member_ends', epoch=1)
    move.do('ended_stored_for_the_member', epoch=1)
    crash = Run().started(1, 2).map(3, 2, {0: 2}).shown(3, 1, 2).begin(2).do('watch_begins', watch=0, epoch=2, flag=True).later()
    crash.do('watcher_sends_ended', watch=0).do('ended_stored_for_a_watcher', watch=0).do('ended_expires', epoch=2).heartbeat(1).map(4, 3, {0: 1}).shown(4, 1).begin(1)
    hands = Run().started(1, 2).map(3, 2, {0: 2}).shown(3, 1, 2).begin(2).hand(4).collect(5, 4, 1, {0: 2}, {0: [1]})
    hands.shown(5, 1, 2).heartbeat(1, 2).do('term_goes_on', epoch=2, unit=0).heartbeat(2)
    emptied = Run().started(1, 2).do('hand_on_a_member', epoch=2, flag=True).later().do('lease_lapses', epoch=2)
    emptied.heartbeat(1).map(3, 2, {0: 0}).shown(3, 1).hand(4).collect(5, 4, 1, {0: 1}, {0: []}).shown(5, 1).begin(1)
    overrun = Run().started(1, 2).map(3, 2, {0: 2}).shown(3, 1, 2).begin(2).later().heartbeat(1)
    b = overrun.send(2)
    overrun.do('record_stored', beat=b).map(4, 3, {0: 1}, {0: [2]}).shown(4, 1, 2).do('lease_extended', epoch=2, beat=b).later()
    overrun.newest[2] = b
    overrun.heartbeat(2).begin(1)
    grow = Run([0, 1]).started(1, 2).map(3, 2, {0: 2}).shown(3, 1, 2).begin(2)
    grow.map(4, 3, {1: 1}, {1: [2]}, 1, 'map_of_another_generation_sent', unit=0).shown(4, 1, 2).end(2).heartbeat(2).begin(1, 1)
    names = Run([0, 0]).started(1, 2).map(3, 2, {0: 2}).shown(3, 1, 2).begin(2)
    names.map(4, 3, {0: 2, 1: 1}, {1: [2]}, 0, 'map_with_new_names_sent').shown(4, 1, 2).do('term_goes_on', epoch=2, unit=0)
    names.heartbeat(2).begin(1, 1)
    return {'a move, and an end': move, 'a crash': crash, 'a hand on the map: the handler goes on': hands,
            'a hand empties the key of an epoch whose lease lapses': emptied,
            'a handler that does not end: the next begins by its frozen deadline': overrun,
            'a growth in one map': grow, 'a new name': names}


def main():
    what = sys.argv[1] if len(sys.argv) > 1 else 'prove'
    start, good = time.time(), True
    if what == 'prove':
        number, untouched, failed = prove()
        w = World()
        print(f'{number} queries, {len(failed)} not proved; {len(ACTIONS)} actions, '
              f'{len(invariants(w, w.state("x_")))} invariants, {untouched} times an action touches nothing of an invariant')
        good = not failed
    elif what == 'need':
        w = World()
        for k in invariants(w, w.state('x_')):
            good &= notice('without: ' + k, without=k)
    elif what == 'wrong':
        for name in WRONG[int(sys.argv[2]) if len(sys.argv) > 2 else 0:]:
            good &= notice(name, (name,))
    elif what == 'schedules':
        for broken, run, final in schedules():
            if len(sys.argv) > 2 and sys.argv[2] not in ' + '.join(broken):
                continue
            result = play(run, broken, final)
            end = 'later tokens are not greater' if final == 'tokens' else final
            at, safe = possible_steps(run)
            refusal = f'the true rules refuse step {at + 1}, {run.steps[at][0]}' if at < len(run.steps) else \
                'by the true rules the same run is safe' if safe else 'NOT REFUSED'
            print(f'{" + ".join(broken):72s} {len(run.steps)} steps to {end}: {result}; {refusal}', flush=True)
            if result != sat:
                n, _ = possible_steps(run, broken)
                print(f'   it runs for {n} steps; then {run.steps[n] if n < len(run.steps) else "the end"}')
            good &= result == sat and 'NOT' not in refusal
        # The same schedule with one of the two rules is refused.
        broken, run, final = schedules()[-1]
        for one in broken:
            result = play(run, (one,), final)
            print(f'  the last one with only "{one}" broken: {result}')
            good &= result == unsat
    elif what == 'fire':
        fired = set()
        for name, run in good_runs().items():
            result = play(run)
            print(f'{name:72s} {len(run.steps)} steps: {result}', flush=True)
            if result == sat:
                fired |= {n for n, _ in run.steps}
        print('actions that did not happen:', sorted(set(ACTIONS) - fired) or 'none')
        good = fired >= set(ACTIONS)
    print(f'{"good" if good else "BAD"}, {time.time() - start:.0f} s')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
