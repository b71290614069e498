"""The values of an object by their places, decoded on the way to them; everything else of it stays undecoded."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tallygate.admission.pod_view import PodView
from tallygate.errors import TallygateError
from tallygate.objects.core import Pod
from tallygate.policy.workload_kinds import FieldPath, PathStep, Wildcard

_NULL = b"null"
_MAPPING_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST_DECODER = msgspec.json.Decoder(list[msgspec.Raw])
_SCALAR_DECODER = msgspec.json.Decoder(int | str | bool | None)
_NAME_FIELDS = ("name", "groupName")

Place = tuple[str | int, ...]
"""The keys and indices from the top of an object to a value."""


MAX_ITEMS = 2_000
"""Items of lists and mappings on the way to the templates of an object; each takes some time to read."""


class TooManyItemsError(TallygateError, ValueError):
    """An object has more items on the way to its pod templates than are read; the text names them."""


class ObjectValues:
    """The values of one object; each mapping and list is decoded once."""

    def __init__(self, content: bytes | msgspec.Raw) -> None:
        self._root = msgspec.Raw(bytes(content))
        self._item_count = 0
        self._children: dict[Place, Mapping[str, msgspec.Raw] | Sequence[msgspec.Raw]] = {}

    def find(self, place: Place) -> msgspec.Raw | None:
        """Return the value at a place; None if it is absent or null."""
        if not place:
            return self._root
        children, key = self._list_children(place[:-1], place[-1]), place[-1]
        if isinstance(children, Mapping):
            value = children.get(str(key))
        else:
            value = children[key] if isinstance(key, int) and key < len(children) else None
        return None if value is None or bytes(value) == _NULL else value

    def _list_children(self, place: Place, key: str | int) -> Mapping[str, msgspec.Raw] | Sequence[msgspec.Raw]:
        """Return the values of a mapping, or of a list if the key is an index; none if the value is absent.

        Raises:
            msgspec.ValidationError: if the value has another type.
        """
        children = self._children.get(place)
        if children is None:
            content = self.find(place)
            decoder = _LIST_DECODER if isinstance(key, int) else _MAPPING_DECODER
            try:
                children = {} if content is None else decoder.decode(content)
            except msgspec.ValidationError as error:
                raise locate_error(error, format_place(place), {}) from error
            self._children[place] = children
        return children

    def expand(self, steps: Sequence[PathStep], place: Place) -> Iterator[Place]:
        """Yield the places that the steps below a place stand for."""
        for index, step in enumerate(steps):
            if step is Wildcard.ITEMS:
                items = self._list_children(place, 0)
                self._count_items(place, len(items))
                for number in range(len(items)):
                    yield from self.expand(steps[index + 1 :], (*place, number))
                return
            if step is Wildcard.VALUES:
                children = self._list_children(place, "")
                self._count_items(place, len(children))
                for key in children if isinstance(children, Mapping) else ():
                    yield from self.expand(steps[index + 1 :], (*place, key))
                return
            place = (*place, step)
        yield place

    def _count_items(self, place: Place, count: int) -> None:
        self._item_count += count
        if self._item_count > MAX_ITEMS:
            text = f"{format_place(place)} has {count:,} items; at most {MAX_ITEMS:,} are read of an object"
            raise TooManyItemsError(text)

    def is_set(self, path: FieldPath, bound: Place) -> bool:
        """Return whether a field is true, a text that is neither empty nor `false`, or a mapping with keys."""
        content = self.find(bind(path, bound))
        if content is not None and bytes(content).startswith(b"{"):
            return bool(_MAPPING_DECODER.decode(content))
        value = self.read_scalar(bind(path, bound))
        return value is True or (isinstance(value, str) and value not in {"", "false"})

    def read_scalar(self, place: Place) -> int | str | bool | None:
        """Return a number, text or boolean; None if it is absent or something else."""
        content = self.find(place)
        try:
            return None if content is None else _SCALAR_DECODER.decode(content)
        except msgspec.DecodeError:
            return None

    def identify(self, place: Place) -> str:
        """Return the place with names in the place of indices: an item keeps its name when others come before it."""
        parts: list[str] = []
        for length, step in enumerate(place, 1):
            names = (
                [self.read_scalar((*place[:length], field)) for field in _NAME_FIELDS] if isinstance(step, int) else []
            )
            parts.append(next((name for name in names if isinstance(name, str) and name), str(step)))
        return "/".join(parts)


def list_bound(path: FieldPath, place: Place) -> Place:
    """Return the part of a place up to the value of the last wildcard of its path."""
    last = max((index for index, step in enumerate(path.steps) if isinstance(step, Wildcard)), default=-1)
    return place[: last + 1]


def bind(path: FieldPath, bound: Place) -> Place:
    """Return the place of a path whose wildcards stand for the same items as those of a template."""
    return tuple(bound[index] if isinstance(step, Wildcard) else str(step) for index, step in enumerate(path.steps))


def format_place(place: Place) -> str:
    """Return a place as a field path of Kubernetes: `spec.replicatedJobs[0].template`."""
    text = ""
    for step in place:
        if isinstance(step, int) or "/" in step or "." in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def locate_error(error: msgspec.ValidationError, path: str, places: Mapping[str, str]) -> msgspec.ValidationError:
    text, _, inner = str(error).partition(" - at `$")
    field = inner.rstrip("`").removeprefix(".")
    if field or path:
        separator = "" if field.startswith("[") or not field else "."
        pod_view = PodView(f"{path}{separator}", Pod(), is_template=True, places=places)
        text += f" - at `$.{pod_view.locate(field)}`"
    return msgspec.ValidationError(text)
