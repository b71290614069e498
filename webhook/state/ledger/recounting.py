"""Rule 4, recount: the only way from promise to tally."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Kind, Ledger, Row

_NOTHING = Amounts()


class View(msgspec.Struct, frozen=True):
    """What one observer's watches show of the pods under one cap: one consistent state, of one moment.

    `revision` and `ns_revision` are those of pods and namespaces, `members` the hash of the namespaces that the cap
    holds in it. `counted` is what each pod under the cap holds of `names`, by UID, ended pods with nothing, and `total`
    the sum of it. `gone` are UIDs whose deletion this very watch has shown; who forgets some is right, and slower.
    A list that was continued inconsistently after a 410 is no view.
    """

    revision: int
    ns_revision: int
    members: str
    names: frozenset[str]
    counted: Mapping[str, Amounts]
    total: Amounts
    gone: Collection[str] = frozenset()


class Lacks(StrEnum):
    """Why a view cannot replace what a ledger was counted from."""

    PODS = "the ledger was counted from newer pods"
    NAMESPACES = "the ledger was counted from other and newer namespaces"
    NAMES = "the ledger counts names that this view does not"


@dataclass(frozen=True, slots=True)
class Behind:
    """The view is of no use to this ledger."""

    lacks: Lacks


def recount(ledger: Ledger, view: View) -> Ledger | Behind:
    """Count anew from one view, and settle the promises that it shows (rule 4).

    A row whose pod was deleted goes. So does one of a creation that is there: nothing else was promised to it. A change
    stays, with what the pod is counted with now, since it may still be stored; so does what is not there (yet).

    Older namespaces that are the same ones count the same: who watches what nobody touches is often behind by a minute.
    """
    if view.revision < ledger.as_of:
        return Behind(Lacks.PODS)
    if view.ns_revision < ledger.ns_as_of and view.members != ledger.members:
        return Behind(Lacks.NAMESPACES)
    if not view.names >= ledger.counts:
        return Behind(Lacks.NAMES)
    counted = replace(
        ledger,
        tally=view.total,
        counts=view.names,
        as_of=view.revision,
        ns_as_of=max(view.ns_revision, ledger.ns_as_of),
        members=view.members,
    )
    return counted.with_rows(_kept(ledger.rows, view))


def _kept(rows: Mapping[str, Row], view: View) -> Iterator[tuple[str, Row]]:
    for uid, row in rows.items():
        if uid in view.gone:
            continue
        base = view.counted.get(uid)
        if base is None:
            yield uid, replace(row, base=_NOTHING) if row.base else row
        elif row.kind is Kind.CHANGE:
            yield uid, replace(row, base=base)
