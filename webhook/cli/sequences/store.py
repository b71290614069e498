"""What an API server has stored: objects with uid and revision, and who is told of each change."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from webhook.cli.sequences.model import Body

CLUSTER_SCOPED = frozenset({"Namespace", "Node"})
_BEGUN = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Key:
    """One object: its kind, namespace (empty for a cluster-scoped one) and name.

    A kind that means nothing here has its group behind it, so that nobody takes it for another of that name.
    """

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """`pod team-a/trainer`."""
        return f"{self.kind.lower()} {self.namespace}/{self.name}".replace(" /", " ")


Told = Callable[[str, Key, Body], None]
"""Is told that an object was ADDED, MODIFIED or DELETED, as a watch would be."""


class Store:
    """Objects by key. `told` hears of every change at once."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._objects: dict[Key, Body] = {}
        self._revision = 0
        self._uids = 0
        self._names = 0

    @property
    def revision(self) -> int:
        """That of the last change."""
        return self._revision

    def __contains__(self, key: Key) -> bool:
        """Whether there is such an object."""
        return key in self._objects

    def find(self, key: Key) -> Body | None:
        """A copy of what is stored."""
        return copy.deepcopy(self._objects.get(key))

    def every(self, kind: str) -> Iterator[tuple[Key, Body]]:
        """All objects of a kind, in the order in which they came; not to be changed."""
        yield from [(key, body) for key, body in self._objects.items() if key.kind == kind]

    def uid(self) -> str:
        """A uid that nothing else has, ever."""
        self._uids += 1
        return f"00000000-0000-4000-8000-{self._uids:012}"

    def suffix(self) -> str:
        """What the API server puts behind `generateName`."""
        self._names += 1
        return str(self._names)

    def put(self, key: Key, body: Body) -> None:
        """Store an object that has its uid, with the next revision."""
        event = "MODIFIED" if key in self._objects else "ADDED"
        self._revision += 1
        stored = copy.deepcopy(body)
        stored["metadata"] |= {"resourceVersion": str(self._revision)}
        stored["metadata"].setdefault("creationTimestamp", _BEGUN)
        self._objects[key] = stored
        self._told(event, key, stored)

    def remove(self, key: Key) -> None:
        """Take an object away; its deletion has a revision as well."""
        gone = self._objects.pop(key)
        self._revision += 1
        gone["metadata"]["resourceVersion"] = str(self._revision)
        self._told("DELETED", key, gone)
