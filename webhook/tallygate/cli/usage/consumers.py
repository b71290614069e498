"""The pods, claims for devices and reserving workloads behind a number: the amount of each, and its calculation."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.claim_charge import DeviceSources, compute_claim_charge, compute_requested_devices
from tallygate.accounting.devices.device_meter import DeviceFinder, DeviceMeter
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.cap_index import ActiveCap
from tallygate.answers.columns import Column, Columns, escape_control
from tallygate.answers.usage_columns import SCOPE, format_scope
from tallygate.answers.usage_report import ChosenLedger, SurgeUsage, find_surge
from tallygate.cli.pod_charge import ExplainedAmount, explain_charge
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.consumers import ConsumerAmounts, ConsumerState, CountedClaim, CountedDevices
from tallygate.objects.devices import ResourceClaim
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.pod_records import ChargeGroup
from tallygate.state.ledger.ledger import Ledger, Reservation


class _Share(NamedTuple):
    """The amount of one resource that a consumer uses or has reserved, and its calculation."""

    consumer: ConsumerAmounts
    amount: int
    calculation: str

    @property
    def namespace(self) -> str:
        """The namespace of the consumer."""
        return self.consumer.namespace

    @property
    def node(self) -> str:
        """The node of a pod."""
        return self.consumer.origin.node if isinstance(self.consumer.origin, StoredConsumer) else ""

    @property
    def workload_kind(self) -> str:
        """The kind of a workload that has reserved the amount for its pods."""
        origin = self.consumer.origin
        return origin.workload_kind.rpartition("/")[2] if isinstance(origin, Reservation) else ""


@dataclass(frozen=True, slots=True)
class ResourceConsumers:
    """The consumers of one resource of a ledger; `ledger_used` is the amount in the ledger, None without one.

    `chosen_namespace` is the one member namespace of a shared ledger whose consumers are shown, empty for all.
    `limit` is the hard limit as text where an override changes it at any time, else empty.
    """

    cap: str
    namespace: str
    members: int
    name: str
    ledger_used: int | None
    consumers: tuple[_Share, ...]
    chosen_namespace: str = ""
    group: str = ""
    limit: str = ""
    surge: SurgeUsage | None = None

    @property
    def shown(self) -> tuple[_Share, ...]:
        """The consumers to show."""
        return tuple(consumer for consumer in self.consumers if self.chosen_namespace in ("", consumer.namespace))

    @property
    def used_in_namespace(self) -> int | None:
        """The amount that the chosen namespace uses, None for all namespaces."""
        return _sum_used(self.shown) if self.chosen_namespace else None

    @property
    def used(self) -> int:
        """The amount that the stored pods and claims use."""
        return _sum_used(self.consumers)


def _sum_used(shares: Iterable[_Share]) -> int:
    return sum(share.amount for share in shares if share.consumer.state is not ConsumerState.RESERVED)


def list_consumers(cluster: ClusterState, chosen: ChosenLedger, namespace: str | None) -> Iterator[ResourceConsumers]:
    """Yield the consumers of each resource of a ledger, to show those of one namespace, or all."""
    active_cap, key, members = chosen
    ledger = cluster.find_ledger(key)
    shares, explainer = dict[str, list[_Share]](), _Explainer(cluster, active_cap, ledger)
    for consumer in sorted(cluster.list_consumers(active_cap, members, ledger, by_pod=True), key=_get_order):
        for name, amount, calculation in explainer.explain(consumer):
            shares.setdefault(name, []).append(_Share(consumer, amount, calculation))
    for name in sorted(active_cap.resources):
        ledger_used, consumers = None if ledger is None else ledger.used.get(name, 0), tuple(shares.get(name, ()))
        identity = active_cap.definition.name, key.namespace, len(members), name
        chosen_namespace = "" if key.namespace else namespace or ""
        limits = active_cap.limits
        limit = limits.describe(name) if name in limits.periods or name in limits.shares else ""
        surge = find_surge(active_cap, ledger, name)
        yield ResourceConsumers(*identity, ledger_used, consumers, chosen_namespace, active_cap.group, limit, surge)


def format_title(consumers: ResourceConsumers) -> str:
    """Return the title of the list: cap, scope, resource and used amount."""
    ledger_text = (
        ""
        if consumers.ledger_used is None
        else (f", in the ledger {format_amount(consumers.name, consumers.ledger_used)}")
    )
    in_namespace = consumers.used_in_namespace
    namespace_text = (
        ""
        if in_namespace is None
        else f", in namespace {consumers.chosen_namespace} {format_amount(consumers.name, in_namespace)}"
    )
    limit_text = f", hard {consumers.limit}" if consumers.limit else ""
    surge_text = consumers.surge.describe(consumers.name) if consumers.surge is not None else ""
    used_text = f"used {format_amount(consumers.name, consumers.used)}{ledger_text}{namespace_text}{limit_text}"
    used_text += f", {surge_text}" if surge_text else ""
    return escape_control(
        f"{consumers.cap}  {format_scope(consumers.namespace, consumers.members, consumers.group)}  "
        f"{consumers.name}: {used_text}"
    )


def format_shares(consumers: ResourceConsumers) -> str:
    """Return one line per pod, claim and workload."""
    columns = Columns[_Share](
        Column("CONSUMER", "", lambda share: f"{_get_prefix(share)}{share.namespace}/{share.consumer.name}"),
        Column("NODE", "node"),
        Column("STATE", "", lambda share: share.consumer.state.value),
        Column("AMOUNT", "", text=lambda share: format_amount(consumers.name, share.amount)),
        Column("CALCULATION", "calculation"),
    )
    return columns.align(consumers.shown) if consumers.shown else "no consumer"


def _get_prefix(share: _Share) -> str:
    prefixes = {ConsumerKind.POD: "", ConsumerKind.CLAIM: "resourceclaim "}
    return prefixes.get(share.consumer.kind, f"{share.workload_kind.lower()} ")


def convert_consumers(consumers: ResourceConsumers) -> dict[str, Any]:
    """Return the consumers as plain data; amounts are milli-cpu for cpu and whole units otherwise."""
    return {
        **SCOPE.to_dict(consumers),
        "used": consumers.used,
        "ledgerUsed": consumers.ledger_used,
        "usedInNamespace": consumers.used_in_namespace,
        **{
            f"{kind}s": [_convert_share(share) for share in consumers.shown if share.consumer.kind is kind]
            for kind in ConsumerKind
        },
    }


def _convert_share(share: _Share) -> dict[str, Any]:
    consumer = share.consumer
    return {
        "namespace": consumer.namespace,
        consumer.kind.value: consumer.name,
        "uid": consumer.uid,
        **({"node": share.node} if consumer.kind is ConsumerKind.POD else {}),
        **({"kind": share.workload_kind} if share.workload_kind else {}),
        "state": consumer.state.value,
        "amount": share.amount,
        "calculation": share.calculation,
    }


_RESERVED, _CLAIM = ConsumerState.RESERVED, ConsumerKind.CLAIM  # an enum looks its members up, here for each consumer


def _get_order(consumer: ConsumerAmounts) -> tuple[int, str, str]:
    """Return pods, claims and reservations in this order, each by name."""
    rank = 2 if consumer.state is _RESERVED else consumer.kind is _CLAIM
    return rank, consumer.namespace, consumer.name


class _Explainer:
    """An explainer of the amounts of consumers under a cap; equal pods are explained once."""

    def __init__(self, cluster: ClusterState, cap: ActiveCap, ledger: Ledger | None) -> None:
        self._find_device = cluster.devices.find_device
        self._cap = cap
        self._ledger = ledger
        self._pods: dict[ChargeGroup, Sequence[ExplainedAmount]] = {}

    def explain(self, consumer: ConsumerAmounts) -> Iterable[ExplainedAmount]:
        """Return the amounts of a consumer with their calculations; nothing for a pod that has ended.

        A claim that kube-scheduler made for a pod is absent while the pod counts for it.
        """
        origin = consumer.origin
        if isinstance(origin, StoredConsumer):
            return () if origin.has_ended else self._explain_pods(origin.group)
        return [
            ExplainedAmount(name, amount, self._explain_amount(origin, consumer.uid, name))
            for name, amount in consumer.amounts.items()
        ]

    def _explain_pods(self, group: ChargeGroup) -> Sequence[ExplainedAmount]:
        if group not in self._pods:
            try:
                self._pods[group] = tuple(explain_charge(self._cap, group.to_pod()))
            except QuantityError as error:
                text = f"cannot be read: {error}"
                self._pods[group] = [ExplainedAmount(name, 0, text) for name in self._cap.resources]
        return self._pods[group]

    def _explain_amount(self, origin: object, uid: str, name: str) -> str:
        match origin:
            case CountedClaim():
                return self._explain_claim(origin, name)
            case Reservation() if self._ledger is not None:
                return _explain_reservation(origin, name, self._ledger.count_attempts(uid))
            case _:
                return ""

    def _explain_claim(self, claim: CountedClaim, name: str) -> str:
        if name in self._cap.device_meters:
            text = _explain_allocated(claim.allocated, name, self._cap.device_meters[name], self._find_device)
        else:
            text = _explain_devices(claim.decode(), name, self._cap.device_sources[name])
            if claim.is_confirmed:
                text += f", of which {claim.counted[name]} more than its pod counts"
        if not claim.pod_uid:
            return text
        return f"{text}, {'' if claim.is_confirmed else 'marked as '}made for pod {_format_pod(claim)}"


def _explain_allocated(counted: CountedDevices, name: str, meter: DeviceMeter, find_device: DeviceFinder) -> str:
    """Return the sum of the amounts of allocated devices, or the amount that the ledger keeps for unpublished ones."""
    total = format_amount(name, counted.amounts[name])
    amounts = [(device.id, meter.compute_amount(device, find_device(device.id))) for device in counted.devices]
    if sum(amount or 0 for _, amount in amounts) != counted.amounts[name]:
        return f"{total} as in the ledger"
    terms = " + ".join(f"{device} {format_amount(name, amount)}" for device, amount in amounts if amount)
    return f"{terms} = {total}"


def _explain_devices(claim: ResourceClaim, name: str, sources: DeviceSources) -> str:
    """Return the sum of the devices that a claim counts."""
    by_name = {name: sources}
    total = compute_claim_charge(claim, by_name).get(name, 0)
    if claim.status is not None and claim.status.allocation is not None:
        return f"allocated {total} = {total}"
    requests = (claim.spec.devices.requests if claim.spec and claim.spec.devices else None) or ()
    amounts = [(request.name, compute_requested_devices([request], by_name).get(name, 0)) for request in requests]
    terms = " + ".join(f'request "{request}" {amount}' for request, amount in amounts if amount)
    return f"{terms} = {total}"


def _format_pod(claim: CountedClaim) -> str:
    pod = claim.pod
    return (
        f"{claim.pod_uid}, which is not stored" if pod is None else f"{pod.name}{', which has ended' * pod.has_ended}"
    )


def _explain_reservation(reservation: Reservation, name: str, attempts: int) -> str:
    """Return the reason of an amount; of several attempts of one name, the largest one is reserved (rule 13)."""
    if attempts > 1:
        return f"the largest of {attempts} attempts of this name: not counted yet"
    if reservation.kind is ConsumerKind.WORKLOAD:
        taken, requested = reservation.counted.get(name, 0), reservation.requested[name]
        text = f"for its pods: {format_amount(name, requested)}"
        return f"{text}, of which they have taken over {format_amount(name, taken)}" if taken else text
    if name in reservation.counted:
        return (
            f"to {reservation.operation}: {format_amount(name, reservation.requested[name])}, of which "
            f"{format_amount(name, reservation.counted[name])} "
            "are counted"
        )
    return f"to {reservation.operation}: not counted yet"
