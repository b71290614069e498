"""The ledger of one name, and its transitions; `wrong` names variants that stand in the place of a rule."""

from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import NamedTuple

Wrong = frozenset[str]
Attempt = tuple[int, int]
"""Which request, and its how manieth attempt."""


class Row(NamedTuple):
    """A promise. `born` is when every observer has met it: earlier than any real one, which is the worst."""

    uid: str
    base: int
    to: int
    by: Attempt
    sole: bool
    creates: bool
    born: int


class Ledger(NamedTuple):
    """What is counted, as of which revision, and what is promised; rows by UID."""

    tally: int
    as_of: int
    rows: tuple[Row, ...] = ()

    @property
    def charged(self) -> int:
        """What counts against the cap."""
        return self.tally + sum(max(0, row.to - row.base) for row in self.rows)

    def row(self, uid: str) -> Row | None:
        """A pod's promise."""
        return next((row for row in self.rows if row.uid == uid), None)

    def without(self, uid: str) -> "Ledger":
        """The same, with no promise to a pod."""
        return self._replace(rows=tuple(row for row in self.rows if row.uid != uid))

    def having(self, row: Row) -> "Ledger":
        """The same, with this promise in the place of the pod's."""
        return self._replace(rows=tuple(sorted([*self.without(row.uid).rows, row])))


class Answer(Enum):
    """What is said to an attempt."""

    FREE = auto()
    WRITE = auto()
    REFUSE = auto()


class Ask(NamedTuple):
    """What one attempt wants."""

    uid: str
    old: int
    new: int
    by: Attempt
    creates: bool


def reserve(ledger: Ledger, ask: Ask, hard: int, now: int, wrong: Wrong) -> tuple[Answer, Ledger]:
    """Rule 2."""
    row = ledger.row(ask.uid)
    if row is None and ask.new <= ask.old:
        return Answer.FREE, ledger
    if row is not None and _is_thought_done(row, ask, wrong):
        return Answer.FREE, ledger
    after = ledger.having(_written(row, ask, now, wrong))
    looks = after.charged > ledger.charged if "guards_growth" in wrong else ask.new > ask.old
    if looks and after.charged > hard:
        return Answer.REFUSE, ledger
    return Answer.WRITE, after


def _is_thought_done(row: Row, ask: Ask, wrong: Wrong) -> bool:
    if "retry_without_write" in wrong and row.to >= ask.new:
        return True
    return "change_first_wins" in wrong and not ask.creates


def _written(row: Row | None, ask: Ask, now: int, wrong: Wrong) -> Row:
    if row is None or ("change_replaces" in wrong and not ask.creates):
        return Row(ask.uid, ask.old, ask.new, ask.by, sole=True, creates=ask.creates, born=now)
    return Row(
        ask.uid,
        row.base if "merge_keeps_base" in wrong else min(row.base, ask.old),
        max(row.to, ask.new),
        ask.by,
        sole="release_by_last" in wrong,
        creates=row.creates and ask.creates,
        born=row.born if "age_by_uid" in wrong else now,
    )


def release(ledger: Ledger, uid: str, by: Attempt, wrong: Wrong) -> Ledger:
    """Rule 3."""
    row = ledger.row(uid)
    if row is None:
        return ledger
    mine = "release_by_uid" in wrong or (row.by == by and row.sole)
    return ledger.without(uid) if mine else ledger


class View(NamedTuple):
    """What a watch shows: what each pod that is there holds, and whose deletion it has seen."""

    revision: int
    held: Mapping[str, int]
    gone: Collection[str] = ()


def recount(ledger: Ledger, view: View, wrong: Wrong) -> Ledger:
    """Rule 4."""
    if view.revision < ledger.as_of and "no_as_of" not in wrong:
        return ledger
    rows = tuple(kept for row in ledger.rows if (kept := _kept(row, view, wrong)) is not None)
    as_of = view.revision if "no_as_of" in wrong else max(view.revision, ledger.as_of)
    return Ledger(sum(view.held.values()), as_of, rows)


def _kept(row: Row, view: View, wrong: Wrong) -> Row | None:
    if row.uid in view.gone:
        return None
    held = view.held.get(row.uid)
    if held is None:
        return row._replace(base=0)
    if row.creates or "settle_on_sight" in wrong or ("settle_by_size" in wrong and held >= row.to):
        return None
    return row if "no_rebase" in wrong else row._replace(base=held)
