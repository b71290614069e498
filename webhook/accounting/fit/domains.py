"""Domains: what nodes with one value of a label make up together."""

from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.cluster.columns import ABSENT
from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.fit.rejection import Mask, Places

Domains = NDArray[np.int32]
"""The number of each place's domain, `ABSENT` where it is in none."""


def domains(nodes: NodeColumns, key: str) -> tuple[Domains, int]:
    """The domains of a label, and how many numbers there may be; each is smaller."""
    column = nodes.find_label_column(key)
    if column is None:
        return np.full(nodes.size, ABSENT, dtype=np.int32), 0
    return column.ids, len(column)


def places_of(counted: Iterable[Mapping[int, int]]) -> Places:
    """The places at which something is counted, once for each mapping that has it."""
    return np.fromiter(chain.from_iterable(counted), dtype=np.intp)


def sharing(nodes: NodeColumns, key: str, taken: Places) -> Mask:
    """Of each place, whether it is in one domain with one of those that are taken."""
    ids, numbers = domains(nodes, key)
    table = np.zeros(numbers + 1, dtype=np.bool_)  # the last one is that of ABSENT
    table[ids[taken]] = True
    table[ABSENT] = False
    shared: Mask = table[ids]
    return shared
