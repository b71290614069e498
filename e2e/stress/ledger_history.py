"""The versions of a ledger and the pods that it counts, as watches report them: by what a refusal was decided.

A gate decides by a version of the ledger. Before it refuses, it counts the pods again, at the newest revision that it
has seen; a pod that is counted needs its reservation no longer. Revisions are those of etcd, so that each count can be
repeated exactly, with the part of one namespace.
"""

import json
import time
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from e2e.stress.pod_usage import THOUSANDTHS
from tallygate.state.kubernetes.cap_ledger import decode_ledger
from tallygate.state.ports import LedgerKey

_CPU = "cpu"


class PodCount(NamedTuple):
    """The processors of all pods at a revision, and those of the owner's pods; in thousandths."""

    revision: int
    total: int
    own: int


class CountedParts(NamedTuple):
    """What a ledger counts and what it reserves, and what of both is the owner's; in thousandths."""

    used: int
    reserved: int
    own: int


@dataclass(slots=True)
class PodHistory:
    """The pods of these namespaces, of one processor each, at each revision; some of them are the owner's.

    `is_whole` is False once the watch has missed something.
    """

    owner: str
    namespaces: Collection[str]
    is_whole: bool = True
    _stored_at: dict[str, int] = field(default_factory=dict)  # the first revision of each pod, by UID
    _deleted: set[str] = field(default_factory=set)
    _counts: list[PodCount] = field(default_factory=lambda: [PodCount(0, 0, 0)])
    _seen_at: list[float] = field(default_factory=lambda: [0.0])

    def see(self, stored: Mapping[str, Any], *, is_deleted: bool = False) -> None:
        """Count a pod that is new, or deleted; all its versions in between count the same."""
        meta = stored["metadata"]
        uid, revision = meta["uid"], int(meta["resourceVersion"])
        if meta["namespace"] not in self.namespaces or uid in (self._deleted if is_deleted else self._stored_at):
            return
        self._stored_at.setdefault(uid, revision)
        if is_deleted:
            self._deleted.add(uid)
        change = -THOUSANDTHS if is_deleted else THOUSANDTHS
        last = self._counts[-1]
        self.is_whole &= last.revision < revision
        own = last.own + change * (meta["namespace"] == self.owner)
        self._counts.append(PodCount(revision, last.total + change, own))
        self._seen_at.append(time.monotonic())

    def forget(self, uid: str) -> None:
        """Note that a pod was deleted at an unknown revision."""
        self.is_whole &= uid not in self._stored_at

    def is_stored(self, uid: str, revision: int) -> bool:
        """Return whether a pod was stored at a revision or before."""
        return self._stored_at.get(uid, revision + 1) <= revision

    def list_counts(self, revision: int, seen_by: float) -> Iterator[PodCount]:
        """Yield the count at a revision, and those of later revisions that the watch has seen by a time."""
        first = bisect_right(self._counts, revision, key=lambda each: each.revision) - 1
        yield self._counts[first]._replace(revision=revision)
        yield from self._counts[first + 1 : bisect_right(self._seen_at, seen_by)]


class _Reservation(NamedTuple):
    uid: str
    amount: int
    is_own: bool


class _LedgerVersion(NamedTuple):
    seen_at: float
    pods_revision: int
    used: int
    own_used: int | None
    reservations: tuple[_Reservation, ...]


@dataclass(slots=True)
class LedgerHistory:
    """The versions of the ledger of one cap of processors, in their order, and the pods that they count."""

    pods: PodHistory
    _versions: list[_LedgerVersion] = field(default_factory=list)

    def see(self, stored: Mapping[str, Any], *, is_deleted: bool = False) -> None:
        """Take a version."""
        if is_deleted:
            return
        key = LedgerKey(stored["spec"]["cap"], stored["spec"].get("namespace", ""))
        ledger = decode_ledger(json.dumps(stored).encode(), key).ledger
        own = ledger.guarantees.used.get(self.pods.owner)
        reservations = tuple(
            _Reservation(uid, amounts.get(_CPU, 0), ledger.reservations[uid].namespace == self.pods.owner)
            for uid, amounts in ledger.list_reserved()
        )
        self._versions.append(
            _LedgerVersion(
                time.monotonic(),
                ledger.pods_revision,
                ledger.used.get(_CPU, 0),
                None if own is None else own.get(_CPU, 0),
                reservations,
            )
        )

    def forget(self, uid: str) -> None:
        """Do nothing: no version is lost with a ledger that is deleted."""

    def list_miscounted(self) -> list[str]:
        """Return the versions that do not count the pods as they were at the revision that the version names."""
        found = []
        for version in self._versions:
            count = next(self.pods.list_counts(version.pods_revision, 0.0))
            if version.used != count.total or version.own_used not in (None, count.own):
                used = f"{version.used}m are used, {version.own_used}m by the owner"
                found.append(f"at revision {version.pods_revision} {used}, and pods have {count.total}m, {count.own}m")
        return found

    def list_parts(self, begun: float, ended: float) -> Iterator[CountedParts]:
        """Yield what a decision between these times may have been made by, as far as watches saw it by then."""
        first = max(bisect_left(self._versions, begun, key=lambda each: each.seen_at) - 1, 0)
        for version in self._versions[first:]:
            if version.seen_at > ended:
                return
            for count in self.pods.list_counts(version.pods_revision, ended):
                left = [each for each in version.reservations if not self.pods.is_stored(each.uid, count.revision)]
                own = count.own + sum(each.amount for each in left if each.is_own)
                yield CountedParts(count.total, sum(each.amount for each in left), own)
