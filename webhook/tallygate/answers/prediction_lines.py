"""Predictions as lines of text: the counts of each, and the reasons, the consumers and the remedies beneath it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.cluster.pod_info import PodInfo
from tallygate.accounting.node_fit import Shortfall, format_unhealthy
from tallygate.accounting.scheduling.device_shortfalls import DeviceShortfall
from tallygate.accounting.scheduling.evictions import EvictionOption
from tallygate.accounting.scheduling.node_diagnosis import NodeConsumer, NodeDiagnosis, ScatteredAmount
from tallygate.accounting.scheduling.prediction import Feasibility, Prediction
from tallygate.accounting.scheduling.remedies import Remedy, RemedyCost
from tallygate.answers.new_node_lines import format_new_nodes
from tallygate.answers.pods_to_place import PodsToPlace
from tallygate.answers.prediction_details import PredictionDetails
from tallygate.answers.review_pods import Rejection

MAX_NAMES = 5
"""The number of names in a line, and of remedies."""


def format_counts(details: PredictionDetails) -> str:
    """Return the number of copies that can run and their nodes, empty for a single pod that cannot run."""
    count, pods = details.count, details.pods
    if details.feasibility is Feasibility.REJECTED:
        return ""
    placed_on = f", {_format_nodes(details.copies_by_node)}" if details.copies_by_node else ""
    if pods.count is None:
        return f": {details.prediction.placed_count} of {count} eligible nodes are feasible"
    if pods.count == 1 and pods.noun == "pods":
        feasible_nodes = f"; {details.feasible_count} feasible node{'s' * (details.feasible_count != 1)}"
        return f"{placed_on.replace(',', ':', 1)}{feasible_nodes}" if placed_on else ""
    return f": {details.prediction.placed_count} of {count} {pods.noun}{placed_on}"


def format_details(details: PredictionDetails) -> Iterator[str]:
    """Yield the lines beneath a prediction."""
    if details.rejection is not None:
        yield from _format_rejection(details.rejection, details.pods.noun)
    result = details.prediction.next_result
    if result is not None:
        yield f"kube-scheduler does not try the pod yet: {result.hold_reason}" if result.hold_reason else result.message
    yield from _format_gates(details.pods)
    for diagnosis in details.closest_nodes:
        if diagnosis.shortfalls:
            yield format_shortfalls(diagnosis)
        yield from _format_device_shortfalls(diagnosis)
    yield from _format_scattered(details.scattered)
    yield from _format_largest(details.prediction.largest_amounts, details.suggestions)
    if details.unhealthy:
        yield format_unhealthy(details.unhealthy)
    if details.preemption:
        yield (f"the scheduler preempts pods on {details.preemption.node}: {_format_pods(details.preemption.pods)}")
    evictions = [
        eviction
        for eviction in details.evictions
        if details.preemption is None or eviction.node != details.preemption.node
    ]
    remedies = details.remedies[:MAX_NAMES]
    yield from (_format_remedy(remedy) for remedy in remedies if remedy.cost < RemedyCost.MACHINE)
    yield from map(_format_eviction, evictions)
    yield from (_format_remedy(remedy) for remedy in remedies if remedy.cost >= RemedyCost.MACHINE)
    if details.new_nodes:
        yield from format_new_nodes(details)
    yield from _format_bind_errors(details.prediction)
    yield from (f"not modelled: {question}" for question in details.prediction.unmodelled)


def _format_rejection(rejection: Rejection, noun: str) -> Iterator[str]:
    """Yield a line for each finding that says why pods are rejected."""
    number = ""
    if rejection.has_happened:
        number = "1 pod was rejected: " if rejection.count == 1 else f"{rejection.count} pods were rejected: "
    elif rejection.count is not None:
        number = (
            f"1 of the {noun} is rejected now: "
            if rejection.count == 1
            else f"{rejection.count} {noun} are rejected now: "
        )
    for finding in rejection.findings[:MAX_NAMES]:
        place = f"{finding.field}: " if finding.field else ""
        code = f" ({finding.code}, {finding.reporter})" if finding.code else ""
        yield f"{number}{place}{finding.message}{code}"


def _format_remedy(remedy: Remedy) -> str:
    then = f" (then: {format_names(remedy.nodes)})" if remedy.nodes else ""
    return f"would help: {remedy.change}{then}"


def _format_scattered(scattered: Iterable[ScatteredAmount]) -> Iterator[str]:
    """Yield a line for each resource of which all nodes together have enough, and no single one."""
    for amount_on_nodes in scattered:
        free, most = (
            format_amount(amount_on_nodes.resource, amount) for amount in (amount_on_nodes.free, amount_on_nodes.most)
        )
        where = " on the nodes that the pod may use" if amount_on_nodes.is_restricted else ""
        yield f"{free} {amount_on_nodes.resource} are free in all{where}, at most {most} on one node"


def _format_bind_errors(prediction: Prediction) -> Iterator[str]:
    """Yield a line for each message of a failed binding, with the nodes that kube-scheduler may choose all the same."""
    errors = prediction.bind_errors
    for message in dict.fromkeys(errors.values()):
        nodes = format_names([name for name, error in errors.items() if error == message])
        yield f"if kube-scheduler chooses {nodes}, the binding fails, and it tries again later: {message}"


def format_shortfalls(diagnosis: NodeDiagnosis) -> str:
    """Return the shortfalls of a node in numbers, and the pods that use the resources."""
    shortfalls = "; ".join(format_shortfall(shortfall) for shortfall in diagnosis.shortfalls)
    consumer_counts = Counter(_format_consumer(consumer) for consumer in diagnosis.consumers)
    consumers = [
        consumer if pod_count == 1 else f"{pod_count} pods {consumer}"
        for consumer, pod_count in consumer_counts.items()
    ]
    listed: Counter[str] = Counter()
    for each in diagnosis.consumers:
        listed.update(each.amounts)
    is_cut = any(0 < listed[shortfall.resource] < shortfall.used for shortfall in diagnosis.shortfalls)
    note = ", among others," if is_cut else ""
    used_by = f"; used{note} by {format_names(consumers)}" if consumers else ""
    return f"{diagnosis.name} lacks {shortfalls}{used_by}"


def _format_device_shortfalls(diagnosis: NodeDiagnosis) -> Iterator[str]:
    """Yield a line for each request without devices on a node."""
    shortfalls = diagnosis.device_shortfalls
    for shortfall in shortfalls[:MAX_NAMES]:
        if shortfall.missing:
            yield f"{diagnosis.name} lacks {shortfall.missing} device{'s' * (shortfall.missing != 1)}: {shortfall}"
        else:
            yield f"{diagnosis.name} has enough devices for this request by itself: {shortfall}"
    if len(shortfalls) > MAX_NAMES:
        yield f"{diagnosis.name}: {len(shortfalls) - MAX_NAMES} more requests without devices"
    if shortfalls and not any(shortfall.missing for shortfall in shortfalls):
        yield f"{diagnosis.name} has no devices for all of it together: {_explain_together(shortfalls)}"


def _explain_together(shortfalls: Sequence[DeviceShortfall]) -> str:
    """Return what may keep requests from devices that each of them would have."""
    causes = dict.fromkeys(cause for shortfall in shortfalls for cause in shortfall.causes)
    competing = ["the requests compete for the same devices"] if len(shortfalls) > 1 else []
    return ", or ".join([*competing, *causes]) or "kube-scheduler finds no combination of the free devices"


def format_shortfall(shortfall: Shortfall) -> str:
    """Return a shortfall in numbers."""
    fields = (
        ("requests", shortfall.requested),
        ("allocatable", shortfall.allocatable),
        ("used", shortfall.used),
        ("free", shortfall.free),
        ("short", shortfall.short),
    )
    return (
        f"{shortfall.resource} "
        f"({', '.join(f'{label} {format_amount(shortfall.resource, amount)}' for label, amount in fields)})"
    )


def format_amounts(amounts: Mapping[str, int]) -> str:
    """Return the amounts of several resources as text."""
    return ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in amounts.items())


def format_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    omitted_count = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {omitted_count} more" if omitted_count > 0 else "")


def _format_nodes(copies_by_node: Mapping[str, int]) -> str:
    return (
        f"on {format_names([name if copies == 1 else f'{name} ({copies})' for name, copies in copies_by_node.items()])}"
    )


def _format_largest(maximums: Mapping[str, int], suggestions: Mapping[str, str]) -> Iterator[str]:
    available = {name: amount for name, amount in maximums.items() if amount}
    if available:
        yield f"largest amount on any node: {format_amounts(available)}"
    for name in maximums:
        if name not in available:
            yield f"no node advertises {name}{f': did you mean {suggestions[name]}?' if name in suggestions else ''}"


def _format_pods(pods: Iterable[PodInfo]) -> str:
    return format_names([f"{pod.namespace}/{pod.name}" for pod in pods])


def _format_eviction(option: EvictionOption) -> str:
    if not option.claims:
        return f"would help: evict these from {option.node}: {_format_pods(option.pods)}"
    claims = option.claims[:MAX_NAMES]
    more = f"; {len(option.claims) - len(claims)} more claims" if len(option.claims) > len(claims) else ""
    return f"would help: end {_format_pods(option.pods)}: {'; '.join(map(str, claims))}{more} (then: {option.node})"


def _format_consumer(consumer: NodeConsumer) -> str:
    return f"{consumer.pod.namespace}/{consumer.pod.name} ({format_amounts(consumer.amounts)})"


def _format_gates(pods: PodsToPlace) -> Iterator[str]:
    gates = (pods.pod.spec.scheduling_gates if pods.pod.spec else None) or ()
    if gates:
        yield (f"would help: remove its scheduling gates: {format_names([gate.name for gate in gates])}")
