"""What is held under a limit, counted from the events of pods: the arithmetic that the gate's is held against.

It knows the requests of plain containers only, in whole units and thousandths, which is all that the storms ask for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_ENDED = ("Succeeded", "Failed")
_THOUSANDTHS = 1000


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `hard` of a resource, in whole units, in each scope.

    `scope` names the scope that a pod of this namespace with these labels is in; None is none.
    """

    hard: int
    resource: str
    scope: Callable[[str, Mapping[str, str]], str | None]


@dataclass(slots=True)
class Holding:
    """How much each scope holds, and what one held at most at any moment, in whole units."""

    limit: Limit
    most: float = 0
    _held: dict[str, int] = field(default_factory=dict)
    _pods: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether a scope ever held more than the limit."""
        return self.most > self.limit.hard

    def now(self, scope: str) -> float:
        """What the scope holds."""
        return self._held.get(scope, 0) / _THOUSANDTHS

    def uids(self) -> frozenset[str]:
        """The pods that hold something."""
        return frozenset(self._pods)

    def see(self, pod: Mapping[str, Any], *, gone: bool = False) -> None:
        """The pod is like that now, or was when it was deleted."""
        uid = pod["metadata"]["uid"]
        self.forget(uid)
        scope = self.limit.scope(pod["metadata"]["namespace"], pod["metadata"].get("labels", {}))
        if gone or scope is None or pod.get("status", {}).get("phase") in _ENDED:
            return
        amount = sum(_thousandths(each, self.limit.resource) for each in pod["spec"]["containers"])
        self._pods[uid] = (scope, amount)
        self._held[scope] = held = self._held.get(scope, 0) + amount
        self.most = max(self.most, held / _THOUSANDTHS)

    def forget(self, uid: str) -> None:
        """The pod holds nothing."""
        scope, amount = self._pods.pop(uid, ("", 0))
        if scope:
            self._held[scope] -= amount


def _thousandths(container: Mapping[str, Any], resource: str) -> int:
    text = str(container.get("resources", {}).get("requests", {}).get(resource, "0"))
    return int(text[:-1]) if text.endswith("m") else int(text) * _THOUSANDTHS
