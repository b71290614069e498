"""What would let a pod run that fits nowhere: changes to it, or to nodes, each of them tried.

One change at a time, and two together where no single one helps.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from webhook.accounting.amounts import Amounts, format_amount
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit import resources, taints
from webhook.accounting.fit.filtering import filtered
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Places
from webhook.objects.scheduling import Taint, Toleration

_CLOSED = "node.kubernetes.io/unschedulable"
_MOST = 2
"""Changes that are tried together."""

Word = Callable[[Incoming, Cluster, int], str]
"""What a change comes to at one place."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something to change, in words, and the nodes that would then take the pod."""

    change: str
    nodes: tuple[str, ...]


class _Change(NamedTuple):
    """`made` is the pod as if the change were made; None when there is nothing to change."""

    made: Callable[[Incoming, Cluster], Incoming | None]
    word: Word


def remedies(pod: Incoming, cluster: Cluster, places: Places) -> tuple[Remedy, ...]:
    """What would help, each on those of these nodes that would then take the pod; nothing when it takes more than two.

    Of the resources of nodes those come first that lack least.

    Raises:
        QuantityError: the size of a claim or volume that it needs is none.
    """
    for together in range(1, _MOST + 1):
        found: dict[str, list[str]] = {}
        for changes in combinations(_CHANGES, together):
            for change, node in _tried(pod, cluster, places, changes):
                found.setdefault(change, []).append(node)
        if found:
            return tuple(Remedy(change, tuple(sorted(nodes))) for change, nodes in found.items())
    return ()


def _tried(pod: Incoming, cluster: Cluster, places: Places, changes: Sequence[_Change]) -> Iterator[tuple[str, str]]:
    """What these changes come to at each node that takes the pod once they are made, and the node."""
    changed = pod
    for each in changes:
        made = each.made(changed, cluster)
        if made is None:
            return
        changed = made
    fitting = filtered(changed, cluster, places).fitting.tolist()
    for place in sorted(fitting, key=lambda each: resources.shortness(pod, cluster, each)):
        words = [each.word(pod, cluster, place) for each in changes]
        if all(words):
            yield " and ".join(words), cluster.nodes.get_name(place)


def _respecified(pod: Incoming, **fields: object) -> Incoming:
    return replace(pod, spec=msgspec.structs.replace(pod.spec, **fields))


def _tolerating(pod: Incoming, tolerations: Sequence[Toleration]) -> Incoming:
    return _respecified(pod, tolerations=[*(pod.spec.tolerations or ()), *tolerations])


def _opened(pod: Incoming, _cluster: Cluster) -> Incoming:
    return _tolerating(pod, [Toleration(_CLOSED, "Exists")])


def _open(_pod: Incoming, cluster: Cluster, place: int) -> str:
    return "uncordon the node" if cluster.nodes.unschedulable[place] or _taints(cluster, place, closed=True) else ""


def _tolerated(pod: Incoming, cluster: Cluster) -> Incoming:
    every = [each for there in cluster.nodes.taints.numbers() for each in there if each.key != _CLOSED]
    return _tolerating(pod, [Toleration(each.key, "Exists", effect=each.effect) for each in every])


def _tolerate(pod: Incoming, cluster: Cluster, place: int) -> str:
    mine = pod.spec.tolerations or ()
    kept_out = [each for each in _taints(cluster, place, closed=False) if not taints.tolerates(mine, each)]
    return f"tolerate {', '.join(map(_written, kept_out))}" if kept_out else ""


def _taints(cluster: Cluster, place: int, *, closed: bool) -> tuple[Taint, ...]:
    """The taints at a place that keep pods out: those of closed nodes, or the others."""
    there = cluster.nodes.taints.value(place) or ()
    return tuple(each for each in there if each.effect in taints.KEEPING_OUT and (each.key == _CLOSED) is closed)


def _written(taint: Taint) -> str:
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _unselected(pod: Incoming, _cluster: Cluster) -> Incoming | None:
    return _respecified(pod, node_selector=None) if pod.spec.node_selector else None


def _label(pod: Incoming, cluster: Cluster, place: int) -> str:
    wanted, has = pod.spec.node_selector or {}, cluster.nodes.get_labels(place)
    missing = [f"{key}={value}" for key, value in sorted(wanted.items()) if has.get(key) != value]
    return f"label the node {', '.join(missing)}" if missing else ""


def _free_of_nodes(pod: Incoming, _cluster: Cluster) -> Incoming | None:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return _respecified(pod, affinity=msgspec.structs.replace(affinity, node_affinity=None))


def _unspread(pod: Incoming, _cluster: Cluster) -> Incoming | None:
    return replace(pod, company=pod.company._replace(spread=())) if pod.company.spread else None


def _alone(pod: Incoming, _cluster: Cluster) -> Incoming | None:
    company = pod.company
    if not (company.affinity or company.anti_affinity):
        return None
    return replace(pod, company=company._replace(affinity=(), anti_affinity=()))


def _portless(pod: Incoming, _cluster: Cluster) -> Incoming | None:
    return replace(pod, ports=()) if pod.ports else None


def _modest(pod: Incoming, _cluster: Cluster) -> Incoming | None:
    return replace(pod, requests=Amounts()) if pod.requests else None


def _more(pod: Incoming, cluster: Cluster, place: int) -> str:
    """How much of each the node lacks."""
    lacking = resources.shortfalls(pod, cluster, place)
    more = [f"{format_amount(each.resource, each.short)} more {each.resource}" for each in lacking]
    return f"{' and '.join(more)} on the node" if more else ""


def _always(word: str) -> Word:
    return lambda _pod, _cluster, _place: word


_CHANGES: Sequence[_Change] = (
    _Change(_modest, _more),
    _Change(_tolerated, _tolerate),
    _Change(_opened, _open),
    _Change(_unselected, _label),
    _Change(_free_of_nodes, _always("leave its node affinity out")),
    _Change(_unspread, _always("leave its spread constraints out")),
    _Change(_alone, _always("leave its affinity to pods out")),
    _Change(_portless, _always("leave its host ports out")),
)
