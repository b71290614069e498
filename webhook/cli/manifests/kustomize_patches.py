"""Patches of kustomizations: files that change objects, and are no objects themselves.

Source: sigs.k8s.io/kustomize/api v0.21.1, types/kustomization.go: `patches`, `patchesStrategicMerge` and
`patchesJson6902`.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tallygate.webhook.documents.reader import read_documents
from tallygate.webhook.documents.syntax_tree import DocumentError, Limits, Mapping, Node, Scalar, Sequence

_NAMES = frozenset({"kustomization.yaml", "kustomization.yml"})
_LISTS = ("patches", "patchesStrategicMerge", "patchesJson6902")
_PATH = "path"


def find_patch_files(files: Iterable[str], limits: Limits) -> frozenset[str]:
    """Return the real paths of the files that the kustomizations among the files name as patches.

    A kustomization that cannot be read names none: its own error is reported when it is read as a manifest.
    """
    found: set[str] = set()
    for name in files:
        if Path(name).name in _NAMES:
            folder = Path(name).parent
            found.update(os.path.realpath(folder / path) for path in _read_patch_paths(name, limits))
    return frozenset(found)


def _read_patch_paths(name: str, limits: Limits) -> Iterator[str]:
    try:
        with Path(name).open("rb") as file:
            text = file.read(limits.size).decode("utf-8", "replace")
        documents = list(read_documents(text, limits))
    except (OSError, DocumentError):
        return
    for document in documents:
        if isinstance(document.root, Mapping):
            for list_name in _LISTS:
                yield from _list_paths(document.root.get(list_name))


def _list_paths(node: Node | None) -> Iterator[str]:
    """Yield the paths in a list of patches; a patch may also be written in its place, as a text of several lines."""
    for item in node.items if isinstance(node, Sequence) else ():
        path = item.get(_PATH) if isinstance(item, Mapping) else item
        if isinstance(path, Scalar) and isinstance(path.value, str) and path.value and "\n" not in path.value:
            yield path.value
