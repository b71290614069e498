"""Bounds: how much of anything is read before it is called hostile or broken."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on one file.

    `size` in bytes; `depth` of nested values (the API server's own types nest less than 40 deep); `documents` and
    `nodes` in the file; `expanded` values of one document once its aliases are written out, so that a few lines
    cannot become a billion.
    """

    size: int = 64 * 1024 * 1024
    depth: int = 200
    documents: int = 50_000
    nodes: int = 5_000_000
    expanded: int = 1_000_000


DEFAULT = Bounds()
