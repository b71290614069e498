"""What following a resource tells: plain values, in the order in which they must be applied."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar


class ResourceRecord(Protocol):
    """What every kept object says of itself; `revision` is that of its last change."""

    @property
    def uid(self) -> str:
        """What it is known by for as long as it lives, and nothing else ever."""
        ...

    @property
    def namespace(self) -> str:
        """Its namespace, or nothing."""
        ...

    @property
    def name(self) -> str:
        """Its name, which another may bear later."""
        ...

    @property
    def revision(self) -> int:
        """When it last changed."""
        ...


R_co = TypeVar("R_co", bound=ResourceRecord, covariant=True)


class Replaced(NamedTuple, Generic[R_co]):
    """A whole list at one revision: what is not in it is not there. Whether it was deleted, or when, is not said."""

    items: Sequence[R_co]
    revision: int


class Changed(NamedTuple, Generic[R_co]):
    """An object was created or changed."""

    item: R_co
    revision: int


class Deleted(NamedTuple, Generic[R_co]):
    """An object's deletion was seen: `item` is its last state, `revision` that of the deletion."""

    item: R_co
    revision: int


class Bookmark(NamedTuple):
    """Nothing else has changed up to this revision."""

    revision: int


WatchEvent = Replaced[R_co] | Changed[R_co] | Deleted[R_co] | Bookmark
