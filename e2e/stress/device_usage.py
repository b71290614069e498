"""The use of devices under a limit, by pods and by claims: an arithmetic of its own, beside that of the gate.

Two watches report at their own times. The revision of each event gives one order to both, that of etcd, so the peak is
exact. The arithmetic knows requests of one class only.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

from e2e.stress.pod_usage import THOUSANDTHS, Limit, count_thousandths
from tallygate.objects.devices import EXTENDED_RESOURCE_CLAIM_ANNOTATION


class _Part(NamedTuple):
    """The amount of one object; of the objects of one owner only the largest amount counts."""

    scope: str
    owner: str
    amount: int


class _Event(NamedTuple):
    revision: int
    uid: str
    part: _Part


@dataclass(slots=True)
class DeviceUsage:
    """The devices of each scope, in whole units.

    A claim counts the most that it may get until it is allocated, and then its devices. One that has lost its devices
    counts nothing if it may get more or fewer the next time: its next allocation is decided again. A claim of the
    scheduler and its pod count once.
    """

    limit: Limit
    _events: list[_Event] = field(default_factory=list)
    _parts: dict[str, _Part] = field(default_factory=dict)
    _allocated: set[str] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    @property
    def peak(self) -> float:
        """The largest number of devices that a scope used at any moment."""
        return max(self._replay(), default=0)

    @property
    def is_over(self) -> bool:
        """Whether a scope ever used more than the limit."""
        return self.peak > self.limit.hard

    def now(self, scope: str) -> float:
        """Return the used devices of the scope."""
        largest: dict[str, int] = {}
        with self._lock:
            for each in self._parts.values():
                if each.scope == scope:
                    largest[each.owner] = max(largest.get(each.owner, 0), each.amount)
        return sum(largest.values())

    def list_uids(self) -> frozenset[str]:
        """Return the stored objects under the limit."""
        with self._lock:
            return frozenset(self._parts)

    def see(self, stored: Mapping[str, Any], *, is_deleted: bool = False) -> None:
        """Count the object as it is now, or as it was when it was deleted."""
        meta = stored["metadata"]
        scope = self.limit.scope(meta["namespace"], meta.get("labels", {}))
        if scope is None:
            return
        with self._lock:
            part = _Part(scope, _find_owner(meta), 0 if is_deleted else self._count(stored))
            self._events.append(_Event(int(meta["resourceVersion"]), meta["uid"], part))
            if is_deleted:
                self._parts.pop(meta["uid"], None)
            else:
                self._parts[meta["uid"]] = part

    def forget(self, uid: str) -> None:
        """Count the object no longer; its last event was missed."""
        with self._lock:
            part = self._parts.pop(uid, _Part("", uid, 0))
            newest = max((each.revision for each in self._events), default=0)
            self._events.append(_Event(newest, uid, part._replace(amount=0)))

    def _count(self, stored: Mapping[str, Any]) -> int:
        uid = stored["metadata"]["uid"]
        if "containers" in stored["spec"]:
            return count_thousandths(stored, self.limit.resource) // THOUSANDTHS
        allocation = stored.get("status", {}).get("allocation")
        if allocation:
            self._allocated.add(uid)
            return len(allocation["devices"]["results"])
        requests = stored["spec"]["devices"]["requests"]
        return sum(_count_request(each, was_allocated=uid in self._allocated) for each in requests)

    def _replay(self) -> Iterator[int]:
        """Yield the used devices of the scope that each event changes."""
        with self._lock:
            events = sorted(self._events)
        used, amounts = Counter[str](), dict[str, dict[str, int]]()
        for _, uid, part in events:
            of_owner = amounts.setdefault(part.owner, {})
            before = max(of_owner.values(), default=0)
            of_owner[uid] = part.amount
            used[part.scope] += max(of_owner.values()) - before
            yield used[part.scope]


def _find_owner(meta: Mapping[str, Any]) -> str:
    """Return the UID of the pod for which a claim was made as by the scheduler, or the object's own UID."""
    if EXTENDED_RESOURCE_CLAIM_ANNOTATION in meta.get("annotations", {}):
        return str(meta["ownerReferences"][0]["uid"])
    return str(meta["uid"])


def _count_request(request: Mapping[str, Any], *, was_allocated: bool) -> int:
    if "exactly" in request:
        return int(request["exactly"].get("count", 1))
    return 0 if was_allocated else max(each.get("count", 1) for each in request["firstAvailable"])
