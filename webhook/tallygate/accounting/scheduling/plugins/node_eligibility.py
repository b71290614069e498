"""The plugins on fixed properties of nodes: names, cordons, taints, labels and declared features.

They are NodeName, NodeUnschedulable, TaintToleration, NodeAffinity and NodeDeclaredFeatures.

Source of selectors and affinity: component-helpers scheduling/corev1/nodeaffinity/nodeaffinity.go, apimachinery
pkg/labels/selector.go, and the plugin nodeaffinity, v1.36.

Source of the tolerations: ToleratesTaint in k8s.io/api core/v1/toleration.go; plugins tainttoleration and
nodeunschedulable, v1.36. The comparison operators of tolerations (Lt, Gt) are off by default there, and match nothing
here.

Source of the features, which only nodes of some versions declare: plugins/nodedeclaredfeatures/nodedeclaredfeatures.go
and component-helpers nodedeclaredfeatures/features, v1.36.

Preferred node affinity may be invalid; the scheduler fails on it when it scores more than one feasible node. Source:
PreScore in plugins/nodeaffinity/node_affinity.go, NewPreferredSchedulingTerms in component-helpers
scheduling/corev1/nodeaffinity/nodeaffinity.go, NewRequirement in apimachinery pkg/labels/selector.go, v1.36. The API
server accepts such terms on purpose ("they can success when cluster has only one node").
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import Mask, NodeIndices
from tallygate.accounting.cluster.node_columns import NodeColumns
from tallygate.accounting.problem import encode_go_json
from tallygate.accounting.scheduling.diagnosis import FilterStatus, mark_unresolvable
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.selectors import find_label_value_errors, is_valid_term, join_errors, parse_int64
from tallygate.objects.meta import NodeSelector, NodeSelectorTerm, SelectorRequirement
from tallygate.objects.scheduling import SchedulingPodSpec, Taint, Toleration

_NAME = "metadata.name"
_NOT_AN_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"

BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
"""The taint effects that exclude pods."""
_AVOIDED_EFFECT = "PreferNoSchedule"

_CORDON_TAINT = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")


def filter_node_unschedulable(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject cordoned nodes (`kubectl cordon`)."""
    if not is_tolerated(pod.spec.tolerations or (), _CORDON_TAINT):
        yield mark_unresolvable("node(s) were unschedulable", cluster.nodes.unschedulable[nodes])


def filter_taint_toleration(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes with a taint that the pod does not tolerate."""
    yield mark_unresolvable("node(s) had untolerated taint(s)", mask_untolerated_taints(pod, cluster)[nodes])


def mask_untolerated_taints(pod: IncomingPod, cluster: Cluster) -> Mask:
    """Return a mask of the nodes with an untolerated taint. Each distinct set of taints is tested once."""
    toleration_index = _TolerationIndex(pod.spec.tolerations or ())
    return cluster.nodes.taints.mask_matching(
        lambda taints: (
            not all(map(toleration_index.has_match, (taint for taint in taints if taint.effect in BLOCKING_EFFECTS)))
        )
    )


def has_avoided_taints(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> bool:
    """Return whether some nodes have a taint that a pod avoids if it can, and does not tolerate."""
    toleration_index = _TolerationIndex(pod.spec.tolerations or ())
    avoided = cluster.nodes.taints.mask_matching(
        lambda taints: any(
            taint.effect == _AVOIDED_EFFECT and not toleration_index.has_match(taint) for taint in taints
        )
    )
    return bool(avoided[nodes].any())


def is_tolerated(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return _TolerationIndex(tolerations).has_match(taint)


class _TolerationIndex:
    """Tolerations, indexed for lookup: a pod may have thousands of them, and nodes may have thousands of taints."""

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._equal: set[tuple[str, str, str]] = set()
        self._exists: set[tuple[str, str]] = set()
        for toleration in tolerations:
            match toleration.operator or "Equal":
                case "Equal":
                    self._equal.add((toleration.key or "", toleration.effect or "", toleration.value or ""))
                case "Exists":
                    self._exists.add((toleration.key or "", toleration.effect or ""))

    def has_match(self, taint: Taint) -> bool:
        """Return whether a toleration matches a taint. An empty key matches every key, an empty effect every effect."""
        return any(
            (key, effect) in self._exists or (key, effect, taint.value or "") in self._equal
            for key in {taint.key, ""}
            for effect in {taint.effect, ""}
        )


def filter_node_declared_features(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes that do not declare every feature that the pod requires."""
    required = frozenset(_list_required_features(pod.spec))
    if required:
        is_capable = cluster.nodes.features.mask_matching(lambda declared: required <= declared)
        yield mark_unresolvable("node(s) didn't match Pod's required features", ~is_capable[nodes])


def _list_required_features(spec: SchedulingPodSpec) -> Iterator[str]:
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    if any(
        rule.action == "RestartAllContainers"
        for container in containers
        for rule in container.restart_policy_rules or ()
    ):
        yield "RestartAllContainersOnContainerExits"
    if spec.host_network and spec.host_users is False:
        yield "UserNamespacesHostNetworkSupport"


def filter_node_affinity(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject nodes that the pod does not select."""
    matched = match_pod(pod, cluster.nodes)
    if matched is not None:
        yield mark_unresolvable("node(s) didn't match Pod's node affinity/selector", ~matched[nodes])


def filter_node_name(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[FilterStatus]:
    """Reject all nodes but the one that the pod names itself (plugins/nodename)."""
    if pod.spec.node_name:
        node_index = cluster.nodes.find_index(pod.spec.node_name)
        yield mark_unresolvable(
            "node(s) didn't match the requested node name", nodes != (-1 if node_index is None else node_index)
        )


def match_pod(pod: IncomingPod, columns: NodeColumns) -> Mask | None:
    """Return a mask of the nodes that match the pod's selector and affinity; None when it has neither."""
    affinity = get_required_affinity(pod)
    if not pod.spec.node_selector and affinity is None:
        return None
    matched = np.ones(columns.size, dtype=np.bool_)
    for key, value in (pod.spec.node_selector or {}).items():
        matched &= _match_values(columns, key, [value])
    return matched if affinity is None else matched & match_selector(affinity, columns)


def get_required_affinity(pod: IncomingPod) -> NodeSelector | None:
    """Return the required node affinity."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def match_selector(selector: NodeSelector, columns: NodeColumns) -> Mask:
    """Return a mask of the nodes that match a term. An empty or invalid term matches no node."""
    matched = np.zeros(columns.size, dtype=np.bool_)
    for term in selector.node_selector_terms or ():
        if is_valid_term(term):
            matched |= _match_term(term, columns)
    return matched


def list_named_nodes(pod: IncomingPod) -> frozenset[str] | None:
    """Return the names of the only nodes that the affinity can match; None without names, empty if they conflict.

    (PreFilter of the plugin.)
    """
    affinity = get_required_affinity(pod)
    terms = (affinity.node_selector_terms if affinity else None) or ()
    node_names: frozenset[str] = frozenset()
    for term in terms:
        name_sets = [
            frozenset(field.values or ())
            for field in term.match_fields or ()
            if field.key == _NAME and field.operator == "In"
        ]
        if not name_sets:
            return None
        node_names |= frozenset.intersection(*name_sets)
    return node_names if terms else None


def pre_filter_node_affinity(pod: IncomingPod, _cluster: Cluster) -> str | None:
    """Return the reason why a pod fits no node if the names in its affinity conflict; else None."""
    node_names = list_named_nodes(pod)
    return "pod affinity terms conflict" if node_names is not None and not node_names else None


def _match_term(term: NodeSelectorTerm, columns: NodeColumns) -> Mask:
    matched = np.ones(columns.size, dtype=np.bool_)
    for requirement in term.match_expressions or ():
        matched &= _match_expression(requirement, columns)
    for field in term.match_fields or ():
        matched &= _match_field(field, columns)
    return matched


def _match_expression(requirement: SelectorRequirement, columns: NodeColumns) -> Mask:
    match requirement.operator:
        case "In":
            return _match_values(columns, requirement.key, requirement.values or ())
        case "NotIn":
            return ~_match_values(columns, requirement.key, requirement.values or ())
        case "Exists":
            return _match_existing(columns, requirement.key)
        case "DoesNotExist":
            return ~_match_existing(columns, requirement.key)
        case _:
            return _match_comparison(requirement, columns)


def _match_comparison(requirement: SelectorRequirement, columns: NodeColumns) -> Mask:
    """Compare labels by Gt or Lt: no node matches unless both sides are integers of 64 bits."""
    (text,) = requirement.values or ("",)
    limit, column = parse_int64(text), columns.find_label_column(requirement.key)
    if column is None or limit is None:
        return np.zeros(columns.size, dtype=np.bool_)
    if requirement.operator == "Gt":
        return column.mask_matching(lambda value: (number := parse_int64(value)) is not None and number > limit)
    return column.mask_matching(lambda value: (number := parse_int64(value)) is not None and number < limit)


def _match_field(field: SelectorRequirement, columns: NodeColumns) -> Mask:
    """Return a mask of the nodes that match a requirement on `metadata.name`, the only field that nodes have."""
    (value,) = field.values or ("",)
    matched = np.zeros(columns.size, dtype=np.bool_)
    if field.key == _NAME and (node_index := columns.find_index(value)) is not None:
        matched[node_index] = True
    elif field.key != _NAME:  # a field that no node has equals an empty one (fields.Set.Get)
        matched[:] = not value
    return matched if field.operator == "In" else ~matched


def _match_values(columns: NodeColumns, key: str, values: Sequence[str] | Iterable[str]) -> Mask:
    column = columns.find_label_column(key)
    return np.zeros(columns.size, dtype=np.bool_) if column is None else column.mask_values(values)


def _match_existing(columns: NodeColumns, key: str) -> Mask:
    column = columns.find_label_column(key)
    return np.zeros(columns.size, dtype=np.bool_) if column is None else column.ids >= 0


def find_pre_score_error(pod: IncomingPod) -> str:
    """Return the scheduler's error for a pod whose preferred node affinity is invalid; empty if valid."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    preferred = (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
    errors = [
        error
        for index, term in enumerate(preferred)
        if term.weight
        for error in _find_term_errors(f"[{index}]", term.preference or NodeSelectorTerm())
    ]
    return f'running PreScore plugin "NodeAffinity": {join_errors(errors)}' if errors else ""


def _find_term_errors(path: str, term: NodeSelectorTerm) -> Iterator[str]:
    for index, requirement in enumerate(term.match_expressions or ()):
        yield from _find_value_errors(f"{path}.matchExpressions[{index}].values", requirement)


def _find_value_errors(path: str, requirement: SelectorRequirement) -> Iterator[str]:
    values = list(enumerate(requirement.values or ()))
    if requirement.operator in ("Gt", "Lt"):
        for index, value in values:
            if parse_int64(value) is None:
                yield f"{path}[{index}]: Invalid value: {encode_go_json(value)}: {_NOT_AN_INTEGER}"
    for index, value in values:
        if errors := find_label_value_errors(value):
            yield f"{path}[{index}][{requirement.key}]: Invalid value: {encode_go_json(value)}: {'; '.join(errors)}"
