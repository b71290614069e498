"""Domains: what nodes with one value of a label make up together."""

from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.cluster.columns import ABSENT
from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.fit.rejection import Mask, NodeIndices

TopologyDomains = NDArray[np.int32]
"""The number of each place's domain, `ABSENT` where it is in none."""


def find_domains(columns: NodeColumns, key: str) -> tuple[TopologyDomains, int]:
    """The domains of a label, and how many numbers there may be; each is smaller."""
    column = columns.find_label_column(key)
    if column is None:
        return np.full(columns.size, ABSENT, dtype=np.int32), 0
    return column.ids, len(column)


def list_counted_nodes(counts: Iterable[Mapping[int, int]]) -> NodeIndices:
    """The places at which something is counted, once for each mapping that has it."""
    return np.fromiter(chain.from_iterable(counts), dtype=np.intp)


def mask_shared_domains(columns: NodeColumns, key: str, occupied: NodeIndices) -> Mask:
    """Of each place, whether it is in one domain with one of those that are taken."""
    ids, id_count = find_domains(columns, key)
    is_occupied = np.zeros(id_count + 1, dtype=np.bool_)  # the last one is that of ABSENT
    is_occupied[ids[occupied]] = True
    is_occupied[ABSENT] = False
    shared: Mask = is_occupied[ids]
    return shared
