"""The use of a cap that is enforced in some namespaces at a time, in which more may be used when that begins."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from e2e.stress.pod_usage import Limit, PodUsage


@dataclass(slots=True)
class EnforcedUsage:
    """The use of each namespace, and whether it ever rose above the cap where that is enforced.

    Where more than the cap is used when it begins to be enforced, this may only become less. One thread reports
    objects, another one may call the rest.
    """

    limit: Limit
    excess: dict[str, float] = field(default_factory=dict)
    """By namespace, the most by which it used more than allowed."""
    _allowed: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _usage: PodUsage = field(init=False)

    def __post_init__(self) -> None:
        """Count nothing yet."""
        self._usage = PodUsage(self.limit)

    @property
    def peak(self) -> float:
        """The limit and the largest excess."""
        return self.limit.hard + max(self.excess.values(), default=0.0)

    def enforce(self, namespaces: Collection[str]) -> None:
        """Allow in these namespaces no more than the limit, or what is used now; it stays enforced in no other."""
        with self._lock:
            self._allowed = {
                name: self._allowed.get(name, max(self.limit.hard, self._usage.now(name))) for name in namespaces
            }

    def release(self, namespaces: Collection[str]) -> None:
        """Allow anything in namespaces other than these."""
        with self._lock:
            self._allowed = {name: allowed for name, allowed in self._allowed.items() if name in namespaces}

    def now(self, scope: str) -> float:
        """Return the used amount of the namespace."""
        with self._lock:
            return self._usage.now(scope)

    def list_uids(self) -> frozenset[str]:
        """Return the pods that use something."""
        with self._lock:
            return self._usage.list_uids()

    def see(self, stored: Mapping[str, Any], *, is_deleted: bool = False) -> None:
        """Count the pod as it is now, or as it was when it was deleted."""
        with self._lock:
            self._usage.see(stored, is_deleted=is_deleted)
            self._compare()

    def forget(self, uid: str) -> None:
        """Count the pod no longer."""
        with self._lock:
            self._usage.forget(uid)
            self._compare()

    def _compare(self) -> None:
        for name, allowed in self._allowed.items():
            used = self._usage.now(name)
            if used > allowed:
                self.excess[name] = max(self.excess.get(name, 0.0), used - allowed)
            self._allowed[name] = max(self.limit.hard, min(allowed, used))
