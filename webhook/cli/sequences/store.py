"""What an API server has stored: objects with uid and revision, and who is told of each change."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from webhook.cli.sequences.model import JsonObject

CLUSTER_SCOPED = frozenset({"Namespace", "Node"})
_CREATION_TIMESTAMP = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """One object: its kind, namespace (empty for a cluster-scoped one) and name.

    A kind that means nothing here has its group behind it, so that nobody takes it for another of that name.
    """

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """`pod team-a/trainer`."""
        return f"{self.kind.lower()} {self.namespace}/{self.name}".replace(" /", " ")


WatchListener = Callable[[str, ObjectKey, JsonObject], None]
"""Is told that an object was ADDED, MODIFIED or DELETED, as a watch would be."""


class ApiServerStore:
    """Objects by key. `told` hears of every change at once."""

    def __init__(self, listener: WatchListener) -> None:
        self._listener = listener
        self._objects: dict[ObjectKey, JsonObject] = {}
        self._revision = 0
        self._uid_count = 0
        self._suffix_count = 0

    @property
    def revision(self) -> int:
        """That of the last change."""
        return self._revision

    def __contains__(self, key: ObjectKey) -> bool:
        """Whether there is such an object."""
        return key in self._objects

    def find(self, key: ObjectKey) -> JsonObject | None:
        """A copy of what is stored."""
        return copy.deepcopy(self._objects.get(key))

    def list_objects(self, kind: str) -> Iterator[tuple[ObjectKey, JsonObject]]:
        """All objects of a kind, in the order in which they came; not to be changed."""
        yield from [(key, body) for key, body in self._objects.items() if key.kind == kind]

    def create_uid(self) -> str:
        """A uid that nothing else has, ever."""
        self._uid_count += 1
        return f"00000000-0000-4000-8000-{self._uid_count:012}"

    def create_name_suffix(self) -> str:
        """What the API server puts behind `generateName`."""
        self._suffix_count += 1
        return str(self._suffix_count)

    def put(self, key: ObjectKey, body: JsonObject) -> None:
        """Store an object that has its uid, with the next revision."""
        event = "MODIFIED" if key in self._objects else "ADDED"
        self._revision += 1
        stored = copy.deepcopy(body)
        stored["metadata"] |= {"resourceVersion": str(self._revision)}
        stored["metadata"].setdefault("creationTimestamp", _CREATION_TIMESTAMP)
        self._objects[key] = stored
        self._listener(event, key, stored)

    def remove(self, key: ObjectKey) -> None:
        """Take an object away; its deletion has a revision as well."""
        removed = self._objects.pop(key)
        self._revision += 1
        removed["metadata"]["resourceVersion"] = str(self._revision)
        self._listener("DELETED", key, removed)
