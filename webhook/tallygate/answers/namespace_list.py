"""The names of all namespaces, and those of them that a cap counts: what may be offered to someone who names none."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from tallygate.admission.cap_index import CapIndex
from tallygate.answers.usage_report import LedgerChoice
from tallygate.cluster.cluster_state import ClusterState


class NamespaceNames(NamedTuple):
    """The names of all namespaces in their order, and of those that a cap counts."""

    names: tuple[str, ...]
    capped: frozenset[str]


class OfferedNamespace(msgspec.Struct, frozen=True):
    """A namespace in which the asker may `list` pods, or `create` them alone; `capped` if a cap counts it."""

    namespace: str
    right: Literal["list", "create"]
    capped: bool


class AskNamespaces(msgspec.Struct, frozen=True, rename="camel"):
    """The namespaces that are offered to an asker, those with a cap first; `unknown` says which are not looked at."""

    api_version: Literal["tallygate.dev/v1"]
    kind: Literal["AskNamespaces"]
    namespaces: Sequence[OfferedNamespace]
    unknown: Sequence[str]


def list_namespaces(state: ClusterState, caps: CapIndex) -> NamespaceNames:
    """Return the namespaces of a state."""
    names = tuple(sorted(record.name for record in state.namespaces.list_records()))
    ledgers = LedgerChoice().list_ledgers(state, caps)
    return NamespaceNames(names, frozenset().union(*(ledger.members for ledger in ledgers)))
