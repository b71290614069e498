"""The rules by which the annotation of a namespace sets the limit of a cap until a time (rule 8)."""

from typing import NamedTuple


class Override(NamedTuple):
    """Another limit of a cap in units, until a time in ticks."""

    cap: int
    hard: int
    end: int


Annotations = tuple[Override | None, ...]
"""For each namespace, the limit that its annotation sets."""


def find_annotation(annotations: Annotations, cap: int, namespace: int, time: int) -> Override | None:
    """Rule 8: return what the annotation of a ledger's namespace sets at a time; a shared ledger has no namespace."""
    override = annotations[namespace] if namespace >= 0 else None
    return override if override is not None and override.cap == cap and time < override.end else None


def see_annotations(_before: Annotations, now: Annotations) -> Annotations:
    """Rule 8: return the annotations in the view of a replica after a change of namespaces: those of now."""
    return now
