"""The uses of opaque names in one object of any kind: keys of mappings, items of lists, and other texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

from tallygate.accounting.names import OPAQUE_PREFIX
from tallygate.cli.migrate.renames import OPAQUE_NAME
from tallygate.documents.syntax_tree import join_path

Path = tuple[str | int, ...]

POLICY_GROUP = "tallygate.dev"
_GLOB_CHARACTERS = frozenset("*?")
_LAST_APPLIED = ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
_FAMILY, _OTHER_FAMILY = "opaque", "extended"


class MigrationStep(IntEnum):
    """The steps of the migration, in their order."""

    ACCEPT = 1
    ADVERTISE = 2
    REQUEST_BOTH = 3
    REQUEST_NEW = 4
    WITHDRAW = 5


class UseForm(StrEnum):
    """The forms of a use; only keys and items are edited."""

    KEY = "key"
    ITEM = "item"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class StepPair:
    """The step that adds the new name next to the old one, and the step that removes the old one.

    Without the first, the old name is renamed at once.
    """

    add: MigrationStep | None
    remove: MigrationStep


_ACCEPTED = StepPair(MigrationStep.ACCEPT, MigrationStep.WITHDRAW)
_ADVERTISED = StepPair(MigrationStep.ADVERTISE, MigrationStep.WITHDRAW)
_REQUESTED = StepPair(MigrationStep.REQUEST_BOTH, MigrationStep.REQUEST_NEW)
_RENAMED = StepPair(None, MigrationStep.REQUEST_NEW)
_STEPS_BY_KIND: Mapping[tuple[str, str], StepPair] = {
    ("", "Node"): _ADVERTISED,
    ("", "ResourceQuota"): _ACCEPTED,
    ("", "LimitRange"): _RENAMED,
    (POLICY_GROUP, "ResourceRule"): _ACCEPTED,
    (POLICY_GROUP, "NamespaceCap"): _ACCEPTED,
    (POLICY_GROUP, "ImpliedRequest"): _REQUESTED,
    (POLICY_GROUP, "NodeResource"): _ADVERTISED,
    (POLICY_GROUP, "NodeShape"): _ADVERTISED,
}


@dataclass(frozen=True, slots=True)
class OldNameUse:
    """A use of an opaque name at a path, which ends with the key or the index; `old` is the whole key, item or text."""

    path: Path
    form: UseForm
    old: str
    value: Any
    steps: StepPair

    @property
    def old_names(self) -> tuple[str, ...]:
        """The opaque names in the text."""
        return tuple(OPAQUE_NAME.findall(self.old))

    @property
    def field_path(self) -> str:
        """The path as Kubernetes writes it."""
        path = ""
        for step in self.path:
            path = join_path(path, step)
        return path


def get_group_kind(content: Mapping[str, Any]) -> tuple[str, str]:
    """Return the API group and the kind of an object."""
    return str(content.get("apiVersion") or "").rpartition("/")[0], str(content.get("kind") or "")


def list_uses(content: Mapping[str, Any]) -> list[OldNameUse]:
    """Return the uses in an object.

    Status is skipped except the resources of nodes, and so are managed fields and the copy of the object that kubectl
    keeps in an annotation.
    """
    key = get_group_kind(content)
    found: list[OldNameUse] = []
    for name, value in content.items():
        if name == "status":
            if key == ("", "Node") and isinstance(value, Mapping):
                for field in ("capacity", "allocatable"):
                    found += _walk(value.get(field), ("status", field), key)
        else:
            found += _walk(value, (name,), key)
    return found


def _walk(value: Any, path: Path, kind: tuple[str, str]) -> Iterator[OldNameUse]:
    if path in {("metadata", "managedFields"), _LAST_APPLIED}:
        return
    if isinstance(value, Mapping):
        for name, child in value.items():
            if OPAQUE_PREFIX in name and path != ("metadata", "annotations"):
                yield OldNameUse((*path, name), UseForm.KEY, name, child, _choose_steps(path, kind))
            yield from _walk(child, (*path, name), kind)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, child in enumerate(value):
            if kind[0] == POLICY_GROUP and isinstance(child, str):
                yield from _read_item(child, (*path, index), value, kind)
            else:
                yield from _walk(child, (*path, index), kind)
    elif isinstance(value, str) and OPAQUE_PREFIX in value:
        yield OldNameUse(path, UseForm.TEXT, value, value, _choose_steps(path, kind))


def _read_item(item: str, path: Path, items: Sequence[Any], kind: tuple[str, str]) -> Iterator[OldNameUse]:
    """Yield the use in an item of a list of a policy; a glob, and the family `opaque` alone, are edited by hand."""
    steps = _choose_steps(path, kind)
    if OPAQUE_PREFIX in item:
        form = UseForm.TEXT if _GLOB_CHARACTERS & {*item} else UseForm.ITEM
        yield OldNameUse(path, form, item, item, steps)
    elif path[:2] == ("spec", "resources") and item == _FAMILY and _OTHER_FAMILY not in items:
        yield OldNameUse(path, UseForm.TEXT, item, item, steps)


def _choose_steps(path: Path, kind: tuple[str, str]) -> StepPair:
    """Return the steps of a use.

    The amounts of `counts` are sums and products, in which a pod with both names would count twice.
    """
    if kind == (POLICY_GROUP, "NamespaceCap") and path[:2] == ("spec", "counts"):
        return _RENAMED
    return _STEPS_BY_KIND.get(kind, _REQUESTED)
