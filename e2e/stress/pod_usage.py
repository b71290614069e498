"""The use of a limit, counted from the events of objects: an arithmetic of its own, beside that of the gate.

It knows the requests of plain containers only, in whole units and thousandths; the stress tests use no others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

_ENDED = ("Succeeded", "Failed")
THOUSANDTHS = 1000
"""The parts of a unit."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A maximum of `hard` of a resource, in whole units, in each scope.

    `scope` returns the scope of a pod of this namespace with these labels, or None.
    """

    hard: int
    resource: str
    scope: Callable[[str, Mapping[str, str]], str | None]


class Observer(Protocol):
    """Something that sees stored objects, as a watch reports them."""

    def see(self, stored: Mapping[str, Any], *, is_deleted: bool = False) -> None:
        """Take the object as it is now, or as it was when it was deleted."""
        ...

    def forget(self, uid: str) -> None:
        """Note that the object is deleted."""
        ...


class Usage(Observer, Protocol):
    """The use of a limit by stored objects, as a watch reports them."""

    limit: Limit

    @property
    def peak(self) -> float:
        """The largest amount that a scope used at any moment, in whole units."""
        ...

    def now(self, scope: str) -> float:
        """Return the used amount of the scope."""
        ...

    def list_uids(self) -> frozenset[str]:
        """Return the objects that use something."""
        ...


@dataclass(slots=True)
class PodUsage:
    """The used amount of each scope, and the peak of any scope at any moment, in whole units."""

    limit: Limit
    peak: float = 0
    _used: dict[str, int] = field(default_factory=dict)
    _pods: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether a scope ever used more than the limit."""
        return self.peak > self.limit.hard

    def now(self, scope: str) -> float:
        """Return the used amount of the scope."""
        return self._used.get(scope, 0) / THOUSANDTHS

    def list_uids(self) -> frozenset[str]:
        """Return the pods that use something."""
        return frozenset(self._pods)

    def see(self, stored: Mapping[str, Any], *, is_deleted: bool = False) -> None:
        """Count the pod as it is now, or as it was when it was deleted."""
        uid = stored["metadata"]["uid"]
        self.forget(uid)
        scope = self.limit.scope(stored["metadata"]["namespace"], stored["metadata"].get("labels", {}))
        amount = 0 if is_deleted else count_thousandths(stored, self.limit.resource)
        if scope is None or not amount:
            return
        self._pods[uid] = (scope, amount)
        self._used[scope] = used = self._used.get(scope, 0) + amount
        self.peak = max(self.peak, used / THOUSANDTHS)

    def forget(self, uid: str) -> None:
        """Count the pod no longer."""
        scope, amount = self._pods.pop(uid, ("", 0))
        if scope:
            self._used[scope] -= amount


def count_thousandths(pod: Mapping[str, Any], resource: str) -> int:
    """Return what a pod uses of a resource; an ended pod uses nothing."""
    if pod.get("status", {}).get("phase") in _ENDED:
        return 0
    return sum(_thousandths(each, resource) for each in pod["spec"]["containers"])


def _thousandths(container: Mapping[str, Any], resource: str) -> int:
    text = str(container.get("resources", {}).get("requests", {}).get(resource, "0"))
    return int(text[:-1]) if text.endswith("m") else int(text) * THOUSANDTHS
