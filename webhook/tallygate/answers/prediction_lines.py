"""Predictions as lines of text: the counts of each, and the reasons, the consumers and the remedies beneath it.

They are made from the records of an answer, so that no line has a name that the JSON hides from an asker.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.node_fit import format_unhealthy
from tallygate.accounting.scheduling.device_shortfalls import DeviceHolder, DeviceShortfall, PoolShortfall
from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.accounting.scheduling.released_claims import ReleasedClaim
from tallygate.answers.answer_records import (
    HIDDEN_DEVICE,
    HIDDEN_NODE,
    AmountRecord,
    BindErrorRecord,
    ConsumerRecord,
    CopiesRecord,
    DeviceShortfallRecord,
    DiagnosisRecord,
    EvictionRecord,
    HeadroomRecord,
    PoolShortfallRecord,
    PredictionRecord,
    RejectionRecord,
    ReleasedClaimRecord,
    RemedyRecord,
    ScatteredRecord,
)
from tallygate.answers.new_node_lines import format_capacities, format_new_nodes

MAX_NAMES = 5
"""The number of names in a line, and of remedies."""

_HIDDEN_HOLDER: Final = DeviceHolder("of another namespace", ())
_HIDDEN_CLAIM: Final = "of another namespace"


class ShortAmount(Protocol):
    """The shortfall of a resource on a node."""

    @property
    def resource(self) -> str:
        """Name of the resource."""
        ...

    @property
    def allocatable(self) -> int:
        """Allocatable amount of the node."""
        ...

    @property
    def used(self) -> int:
        """Amount that is used there."""
        ...

    @property
    def free(self) -> int:
        """Allocatable amount less the used one."""
        ...

    @property
    def short(self) -> int:
        """Free amount that is missing."""
        ...


def format_counts(prediction: PredictionRecord) -> str:
    """Return the number of copies that can run and their nodes, empty for a single pod that cannot run."""
    if prediction.verdict is Feasibility.REJECTED:
        return ""
    placed_on = f", {_format_nodes(prediction.on)}" if prediction.on else ""
    if prediction.one_per_node:
        return f": {prediction.placed} of {prediction.copies} eligible nodes are feasible"
    if _count_admitted(prediction) == 1 and prediction.of == "pods":
        feasible_nodes = f"; {prediction.feasible_nodes} feasible node{'s' * (prediction.feasible_nodes != 1)}"
        return f"{placed_on.replace(',', ':', 1)}{feasible_nodes}" if placed_on else ""
    return f": {prediction.placed} of {prediction.copies} {prediction.of}{placed_on}"


def drop_repeated(predictions: Iterable[PredictionRecord]) -> Iterator[PredictionRecord]:
    """Yield predictions, equal rejections once: pod sets of an object that is rejected as a whole have equal ones."""
    rejections: set[tuple[str, ...]] = set()
    for prediction in predictions:
        if prediction.verdict is Feasibility.REJECTED:
            text = (str(prediction.object), *format_details(prediction))
            if text in rejections:
                continue
            rejections.add(text)
        yield prediction


def format_headroom(headroom: HeadroomRecord) -> str:
    """Return the number of further copies that fit, and that of their nodes."""
    return f"{headroom.copies} more fit, on {len(headroom.nodes)} node{'s' * (len(headroom.nodes) != 1)}"


def format_headroom_details(headroom: HeadroomRecord) -> Iterator[str]:
    """Yield the lines beneath the number of further copies: why no more fit, and what is known of new nodes."""
    yield headroom.message
    yield from format_capacities(headroom.new_nodes)
    if headroom.unhealthy:
        yield format_unhealthy([each.to_devices() for each in headroom.unhealthy])
    yield from (f"not modelled: {question}" for question in headroom.unknown)


def _count_admitted(prediction: PredictionRecord) -> int:
    rejected = prediction.rejected
    return prediction.copies - ((rejected.pods or 0) if rejected is not None else 0)


def format_details(prediction: PredictionRecord) -> Iterator[str]:
    """Return the lines beneath a prediction, equal ones once: those of nodes whose names are hidden may be equal."""
    return iter(dict.fromkeys(_list_details(prediction)))


def _list_details(prediction: PredictionRecord) -> Iterator[str]:
    if prediction.rejected is not None:
        yield from _format_rejection(prediction.rejected, prediction.of)
    if prediction.hold_reason:
        yield f"kube-scheduler does not try the pod yet: {prediction.hold_reason}"
    elif prediction.message is not None:
        yield prediction.message
    if prediction.gates:
        yield f"would help: remove its scheduling gates: {format_names(prediction.gates)}"
    for diagnosis in prediction.closest_nodes:
        if diagnosis.shortfalls:
            yield format_shortfalls(diagnosis)
        yield from _format_device_shortfalls(diagnosis)
    yield from _format_scattered(prediction.scattered)
    suggestions = {each.resource: each.suggestion for each in prediction.suggestions}
    yield from _format_largest(_map_amounts(prediction.largest), suggestions)
    if prediction.unhealthy:
        yield format_unhealthy([each.to_devices() for each in prediction.unhealthy])
    preempts, remedies = prediction.preempts, prediction.remedies[:MAX_NAMES]
    if preempts is not None:
        yield f"the scheduler preempts pods on {preempts.node or HIDDEN_NODE}: {_format_pods(preempts)}"
    evictions = [
        each for each in prediction.evictions if preempts is None or each.node is None or each.node != preempts.node
    ]
    yield from (_format_remedy(remedy) for remedy in remedies if remedy.changes != "machine")
    yield from map(_format_eviction, evictions)
    yield from (_format_remedy(remedy) for remedy in remedies if remedy.changes == "machine")
    copies = prediction.of if _count_admitted(prediction) != 1 else ""
    yield from format_new_nodes(prediction.new_nodes, copies)
    yield from _format_bind_errors(prediction.bind_errors)
    yield from (f"not modelled: {question}" for question in prediction.unknown)


def _format_rejection(rejection: RejectionRecord, noun: str) -> Iterator[str]:
    """Yield a line for each finding that says why pods are rejected."""
    number = ""
    if rejection.happened:
        number = "1 pod was rejected: " if rejection.pods == 1 else f"{rejection.pods} pods were rejected: "
    elif rejection.pods is not None:
        number = (
            f"1 of the {noun} is rejected now: "
            if rejection.pods == 1
            else f"{rejection.pods} {noun} are rejected now: "
        )
    for reason in rejection.reasons[:MAX_NAMES]:
        place = f"{reason.field}: " if reason.field else ""
        code = f" ({reason.code}, {reason.reporter})" if reason.code else ""
        yield f"{number}{place}{reason.message}{code}"


def _format_remedy(remedy: RemedyRecord) -> str:
    then = format_names(remedy.nodes)
    if remedy.node_count and not then:
        then = f"{remedy.node_count} node{'s' * (remedy.node_count != 1)}"
    return f"would help: {remedy.change}{f' (then: {then})' if then else ''}"


def _format_scattered(scattered: Iterable[ScatteredRecord]) -> Iterator[str]:
    """Yield a line for each resource of which all nodes together have enough, and no single one."""
    for amount_on_nodes in scattered:
        free, most = (
            format_amount(amount_on_nodes.resource, amount) for amount in (amount_on_nodes.free, amount_on_nodes.most)
        )
        where = " on the nodes that the pod may use" if amount_on_nodes.restricted else ""
        yield f"{free} {amount_on_nodes.resource} are free in all{where}, at most {most} on one node"


def _format_bind_errors(errors: Sequence[BindErrorRecord]) -> Iterator[str]:
    """Yield a line for each message of a failed binding, with the nodes that kube-scheduler may choose all the same."""
    for message in dict.fromkeys(error.message for error in errors):
        nodes = format_names([error.node or HIDDEN_NODE for error in errors if error.message == message])
        yield f"if kube-scheduler chooses {nodes}, the binding fails, and it tries again later: {message}"


def format_shortfalls(diagnosis: DiagnosisRecord) -> str:
    """Return the shortfalls of a node in numbers, and the pods that use the resources."""
    shortfalls = "; ".join(format_shortfall(shortfall, shortfall.requests) for shortfall in diagnosis.shortfalls)
    consumer_counts = Counter(_format_consumer(consumer) for consumer in diagnosis.consumers)
    consumers = [
        consumer if pod_count == 1 else f"{pod_count} pods {consumer}"
        for consumer, pod_count in consumer_counts.items()
    ]
    listed: Counter[str] = Counter()
    for each in diagnosis.consumers:
        listed.update(_map_amounts(each.used))
    is_cut = any(0 < listed[shortfall.resource] < shortfall.used for shortfall in diagnosis.shortfalls)
    note = ", among others," if is_cut else ""
    users = _join_hidden(format_names(consumers), diagnosis.hidden_consumers)
    return f"{diagnosis.node or HIDDEN_NODE} lacks {shortfalls}{f'; used{note} by {users}' if users else ''}"


def _join_hidden(names: str, hidden: int) -> str:
    """Return names with the number of pods whose names are hidden."""
    counted = f"{hidden} pod{'s' * (hidden != 1)} of other namespaces" if hidden else ""
    return " and ".join(filter(None, (names, counted)))


def _format_device_shortfalls(diagnosis: DiagnosisRecord) -> Iterator[str]:
    """Yield a line for each request without devices on a node."""
    name, shortfalls = diagnosis.node or HIDDEN_NODE, list(map(_read_device_shortfall, diagnosis.device_shortfalls))
    for shortfall in shortfalls[:MAX_NAMES]:
        if shortfall.missing:
            yield f"{name} lacks {shortfall.missing} device{'s' * (shortfall.missing != 1)}: {shortfall}"
        else:
            yield f"{name} has enough devices for this request by itself: {shortfall}"
    if len(shortfalls) > MAX_NAMES:
        yield f"{name}: {len(shortfalls) - MAX_NAMES} more requests without devices"
    if shortfalls and not any(shortfall.missing for shortfall in shortfalls):
        yield f"{name} has no devices for all of it together: {_explain_together(shortfalls)}"


def _read_device_shortfall(record: DeviceShortfallRecord) -> DeviceShortfall:
    return DeviceShortfall(
        record.claim or "",
        record.request,
        record.device_class,
        record.requests if isinstance(record.requests, int) else None,
        record.missing,
        tuple(map(_read_pool_shortfall, record.pools)),
        record.resource or "",
        record.container or "",
        tuple(record.causes),
    )


def _read_pool_shortfall(record: PoolShortfallRecord) -> PoolShortfall:
    in_use = {DeviceHolder(each.claim or "", tuple(each.pods)): each.devices for each in record.allocated}
    if record.hidden_allocated:
        in_use[_HIDDEN_HOLDER] = record.hidden_allocated
    mismatches = {each.reason: each.devices for each in record.unsuitable}
    pool = record.pool or HIDDEN_DEVICE
    return PoolShortfall(pool, record.devices, record.free, in_use, mismatches, record.problem or "")


def _explain_together(shortfalls: Sequence[DeviceShortfall]) -> str:
    """Return what may keep requests from devices that each of them would have."""
    causes = dict.fromkeys(cause for shortfall in shortfalls for cause in shortfall.causes)
    competing = ["the requests compete for the same devices"] if len(shortfalls) > 1 else []
    return ", or ".join([*competing, *causes]) or "kube-scheduler finds no combination of the free devices"


def format_shortfall(shortfall: ShortAmount, requested: int) -> str:
    """Return the shortfall of a requested amount in numbers."""
    fields = (
        ("requests", requested),
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


def _map_amounts(amounts: Iterable[AmountRecord]) -> dict[str, int]:
    return {each.resource: each.amount for each in amounts}


def format_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    omitted_count = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {omitted_count} more" if omitted_count > 0 else "")


def _format_nodes(on: Sequence[CopiesRecord]) -> str:
    if all(each.node is None for each in on):
        return f"on {len(on)} node{'s' * (len(on) != 1)}"
    return f"on {format_names([f'{each.node}' if each.copies == 1 else f'{each.node} ({each.copies})' for each in on])}"


def _format_largest(maximums: Mapping[str, int], suggestions: Mapping[str, str]) -> Iterator[str]:
    available = {name: amount for name, amount in maximums.items() if amount}
    if available:
        yield f"largest amount on any node: {format_amounts(available)}"
    for name in maximums:
        if name not in available:
            yield f"no node advertises {name}{f': did you mean {suggestions[name]}?' if name in suggestions else ''}"


def _format_pods(eviction: EvictionRecord) -> str:
    return _join_hidden(format_names([f"{pod.namespace}/{pod.name}" for pod in eviction.pods]), eviction.hidden_pods)


def _format_eviction(option: EvictionRecord) -> str:
    node = option.node or HIDDEN_NODE
    if not option.claims:
        return f"would help: evict these from {node}: {_format_pods(option)}"
    claims = "; ".join(map(_format_claim, option.claims[:MAX_NAMES]))
    more = f"; {len(option.claims) - MAX_NAMES} more claims" if len(option.claims) > MAX_NAMES else ""
    return f"would help: end {_format_pods(option)}: {claims}{more} (then: {node})"


def _format_claim(claim: ReleasedClaimRecord) -> str:
    devices = {each.pool or HIDDEN_DEVICE: each.devices for each in claim.devices}
    return str(ReleasedClaim(claim.claim or _HIDDEN_CLAIM, devices))


def _format_consumer(consumer: ConsumerRecord) -> str:
    return f"{consumer.namespace}/{consumer.name} ({format_amounts(_map_amounts(consumer.used))})"
