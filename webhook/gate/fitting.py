"""What rules say of newcomers by a cluster's nodes, and by the pods on them."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from webhook.accounting.fit.effort import count_scanned_groups, estimate_complexity
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.never import with_default_priority
from webhook.accounting.quantity_parser import QuantityError
from webhook.accounting.selectors import SelectorError
from webhook.admission.change import Change
from webhook.admission.decide import sorted_out
from webhook.admission.selection import Selection
from webhook.admission.verdict import ALLOWED, Verdict
from webhook.gate.newcomers import IncomingPods, TooComplexError, find_incoming_pods
from webhook.gate.placing import SnapshotProvider
from webhook.gate.prospect import SchedulabilityCheck
from webhook.policy.model import ResourceRule, Schedulable
from webhook.policy.resolve import matches_resource

_PODS_RESOURCE = "pods"
_MAX_COMPLEXITY = 1000  # of words about nodes
_MAX_SCANNED_GROUPS = 30_000  # over pods that are alike; together a tenth of a second, where there are 100,000 pods


def evaluate_schedulability(request: Change, selection: Selection, snapshots: SnapshotProvider) -> Verdict:
    """What those of the selected rules say that ask for nodes, of the pods which a change brings.

    Raises:
        ReviewError: an object is not of the kind it says it is.
    """
    try:
        incoming_pods = find_incoming_pods(request)
    except TooComplexError:
        return Verdict(unknown=tuple(map(_describe_too_complex, selection.places)))
    if incoming_pods is None:
        return ALLOWED
    labels = (incoming_pods.pod.metadata.labels if incoming_pods.pod.metadata else None) or {}
    rules = selection.narrowed(request.user, labels).places
    complexity = estimate_complexity(incoming_pods.pod, _MAX_COMPLEXITY) if rules else 0
    if complexity is None:
        return Verdict(unknown=tuple(map(_describe_too_complex, rules)))
    try:
        return _evaluate_rules(rules, incoming_pods, snapshots, complexity)
    except (QuantityError, SelectorError):
        return ALLOWED  # the API server refuses it


def _evaluate_rules(
    rules: Sequence[ResourceRule], incoming_pods: IncomingPods, snapshots: SnapshotProvider, complexity: int
) -> Verdict:
    """What these rules say of newcomers; the cluster is as before afterwards.

    Raises:
        QuantityError: a quantity that they ask for is none.
        SelectorError: a selector of theirs is none.
    """
    incoming = IncomingPod.from_pod(with_default_priority(incoming_pods.pod))
    selected = _select_rules(rules, incoming.requests)
    if not selected:
        return ALLOWED
    checks_free_room = not incoming_pods.is_deferred and any(map(_checks_free_room, selected))
    with snapshots.open_snapshot(pods=checks_free_room) as snapshot:
        if snapshot is None:
            return ALLOWED
        check = SchedulabilityCheck(incoming_pods, incoming, snapshot.cluster, complexity)
        if not snapshot.has_devices and check.unadvertised:
            return ALLOWED
        now = checks_free_room and snapshot.has_pods
        is_too_complex = now and count_scanned_groups(incoming, snapshot.cluster) > _MAX_SCANNED_GROUPS
        violations = list(check.find_violations(selected, now=now and not is_too_complex))
    unknown = (
        tuple(_describe_too_complex(rule) for rule in selected if _checks_free_room(rule)) if is_too_complex else ()
    )
    return replace(sorted_out(violations, unknown), age=snapshot.age_seconds) if violations or unknown else ALLOWED


def _select_rules(rules: Sequence[ResourceRule], requested: Collection[str]) -> Sequence[ResourceRule]:
    """Those of the rules that are about something that is asked for; every pod asks for room for a pod."""
    return [
        rule for rule in rules if any(matches_resource(rule.resources, name) for name in (_PODS_RESOURCE, *requested))
    ]


def _checks_free_room(rule: ResourceRule) -> bool:
    return rule.checks.schedulable is Schedulable.NOT_NOW


def _describe_too_complex(rule: ResourceRule) -> str:
    return f"rule {rule.name} was not judged: what the pod says of nodes and other pods is too much to go through"
