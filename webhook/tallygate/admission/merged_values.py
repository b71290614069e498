"""Strategic merge patches of pods: mappings are merged by key, and lists of named items by their names.

Source: strategicpatch in k8s.io/apimachinery/pkg/util/strategicpatch, and the patch strategies of PodSpec in
k8s.io/api/core/v1, v1.36. A patch with directives, such as `$patch: delete`, is not applied.
"""

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DocumentError, Limits, Mapping
from tallygate.documents.to_json import to_json
from tallygate.errors import TallygateError

_NULL = b"null"
_PARAMETER = "{{"
_MAX_DEPTH = 12  # the resources of a container are five levels deep
_LIMITS = Limits(size=16 * 1024, depth=60, documents=1, nodes=2_000, expanded=2_000)
_MERGED_LISTS = frozenset({"containers", "initContainers", "ephemeralContainers", "sidecars", "resourceClaims"})
"""The lists whose items are merged by name; others are replaced, or decide nothing here."""

_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS_DECODER = msgspec.json.Decoder(list[msgspec.Raw])


class UnknownPatchError(TallygateError):
    """A patch that is not known before, or that has directives."""


class _Named(msgspec.Struct):
    name: str | None = None


_NAMED_DECODER = msgspec.json.Decoder(_Named)


def read_patch(text: str) -> msgspec.Raw:
    """Return the JSON of a patch, YAML or JSON.

    Raises:
        UnknownPatchError: if the patch has parameters, is too long, or is no mapping.
    """
    if _PARAMETER in text or len(text) > _LIMITS.size:
        raise UnknownPatchError("the patch is not known before")
    content = _parse_patch(text)
    if content is None:
        raise UnknownPatchError("the patch is no mapping")
    return content


@lru_cache(maxsize=64)  # all templates of a Workflow have the patch of its spec
def _parse_patch(text: str) -> msgspec.Raw | None:
    try:
        documents = list(read_documents(text, _LIMITS))
        if len(documents) == 1 and isinstance(documents[0].root, Mapping):
            return msgspec.Raw(to_json(documents[0].root, _LIMITS.expanded))
    except DocumentError:
        pass
    return None


def merge_values(base: msgspec.Raw, patch: msgspec.Raw) -> msgspec.Raw:
    """Return the JSON of a mapping with the values of a patch.

    Raises:
        UnknownPatchError: if the patch has directives.
        msgspec.DecodeError: if a value of the patch has another type than that of the base.
    """
    return _merge_mappings(base, patch, 0)


def _merge_mappings(base: msgspec.Raw, patch: msgspec.Raw, depth: int) -> msgspec.Raw:
    fields = _FIELDS_DECODER.decode(base)
    for name, value in _FIELDS_DECODER.decode(patch).items():
        if name.startswith("$"):
            raise UnknownPatchError(f"{name} is a directive")
        if bytes(value) == _NULL:
            fields.pop(name, None)
        elif name in fields and bytes(fields[name]) != _NULL:
            fields[name] = _merge(name, fields[name], value, depth + 1)
        else:
            fields[name] = value
    return _encode(fields)


def _merge(name: str, base: msgspec.Raw, patch: msgspec.Raw, depth: int) -> msgspec.Raw:
    is_mapping = bytes(patch).startswith(b"{") and bytes(base).startswith(b"{")
    if is_mapping and depth < _MAX_DEPTH:
        return _merge_mappings(base, patch, depth)
    if name in _MERGED_LISTS and bytes(base).startswith(b"["):
        return _encode(_merge_lists(_ITEMS_DECODER.decode(base), _ITEMS_DECODER.decode(patch), depth))
    return patch


def _merge_lists(base: Iterable[msgspec.Raw], patch: Iterable[msgspec.Raw], depth: int) -> list[msgspec.Raw]:
    """Return the items of a list, each with the changes of its name, and then the new ones."""
    changes = {_NAMED_DECODER.decode(each).name: each for each in patch}
    merged: list[msgspec.Raw] = []
    for item in base:
        change = changes.pop(_NAMED_DECODER.decode(item).name, None)
        merged.append(item if change is None else _merge_mappings(item, change, depth + 1))
    return [*merged, *(_merge_mappings(msgspec.Raw(b"{}"), change, depth + 1) for change in changes.values())]


def _encode(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
