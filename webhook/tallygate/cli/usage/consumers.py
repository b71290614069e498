"""The pods, claims for devices and reserving workloads behind a number: the amount of each, and its calculation."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.claim_charge import DeviceSources, compute_claim_charge, compute_requested_devices
from tallygate.accounting.devices.device_meter import DeviceFinder, DeviceMeter
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.cap_index import ActiveCap
from tallygate.cli.output.tables import align_rows, escape_control
from tallygate.cli.pod_charge import ExplainedAmount, explain_charge
from tallygate.cli.usage.surge_usage import SurgeUsage, find_surge
from tallygate.cli.usage.usage_report import ChosenLedger
from tallygate.cli.usage.usage_table import format_scope
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.counted_claims import CountedClaim, CountedDevices
from tallygate.objects.core import Pod
from tallygate.objects.devices import ResourceClaim
from tallygate.state.informers.pod_records import ChargeGroup
from tallygate.state.ledger.ledger import Ledger, Reservation


class _Share(NamedTuple):
    """The amount of one resource that a pod or claim uses or has reserved, and its calculation.

    A workload has reserved it for its pods; `workload_kind` is its kind.
    """

    namespace: str
    name: str
    uid: str
    node: str
    state: str
    amount: int
    calculation: str
    kind: ConsumerKind = ConsumerKind.POD
    workload_kind: str = ""


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
    return sum(share.amount for share in shares if share.state != _RESERVED)


_USED, _TERMINATING, _RESERVED = "counted", "terminating", "reserved"


def list_consumers(cluster: ClusterState, chosen: ChosenLedger, namespace: str | None) -> Iterator[ResourceConsumers]:
    """Yield the consumers of each resource of a ledger, to show those of one namespace, or all."""
    active_cap, key, members = chosen
    ledger = cluster.find_ledger(key)
    shares = [
        *_list_pod_shares(cluster, active_cap, members),
        *_list_claim_shares(cluster, active_cap, members, ledger),
        *(_list_reservations(ledger) if ledger else ()),
    ]
    for name in sorted(active_cap.resources):
        ledger_used = None if ledger is None else ledger.used.get(name, 0)
        consumers = tuple(share for each, share in shares if each == name)
        identity = active_cap.definition.name, key.namespace, len(members), name
        chosen_namespace = "" if key.namespace else namespace or ""
        limits = active_cap.limits
        limit = limits.describe(name) if name in limits.periods else ""
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


def format_rows(consumers: ResourceConsumers) -> list[str]:
    """Return one line per pod, claim and workload."""
    cells = [
        (
            f"{_KIND_PREFIXES.get(share.kind, share.workload_kind.lower() + ' ')}{share.namespace}/{share.name}",
            share.node,
            share.state,
            format_amount(consumers.name, share.amount),
            share.calculation,
        )
        for share in consumers.shown
    ]
    return align_rows(("CONSUMER", "NODE", "STATE", "AMOUNT", "CALCULATION"), cells) if cells else ["no consumer"]


_KIND_PREFIXES = {ConsumerKind.POD: "", ConsumerKind.CLAIM: "resourceclaim "}


def convert_consumers(consumers: ResourceConsumers) -> dict[str, Any]:
    """Return the consumers as plain data; amounts are milli-cpu for cpu and whole units otherwise."""
    return {
        "cap": consumers.cap,
        "group": consumers.group or None,
        "namespace": consumers.namespace or None,
        "namespaces": consumers.members,
        "resource": consumers.name,
        "used": consumers.used,
        "ledgerUsed": consumers.ledger_used,
        "usedInNamespace": consumers.used_in_namespace,
        "pods": [_convert_share(share) for share in consumers.shown if share.kind is ConsumerKind.POD],
        "claims": [_convert_share(share) for share in consumers.shown if share.kind is ConsumerKind.CLAIM],
        "workloads": [_convert_share(share) for share in consumers.shown if share.kind is ConsumerKind.WORKLOAD],
    }


def _convert_share(share: _Share) -> dict[str, Any]:
    return {
        "namespace": share.namespace,
        share.kind.value: share.name,
        "uid": share.uid,
        **({"node": share.node} if share.kind is ConsumerKind.POD else {}),
        **({"kind": share.workload_kind} if share.workload_kind else {}),
        "state": share.state,
        "amount": share.amount,
        "calculation": share.calculation,
    }


def _list_pod_shares(
    cluster: ClusterState, active_cap: ActiveCap, members: frozenset[str]
) -> Iterator[tuple[str, _Share]]:
    """Yield the shares of the pods with their resource, the pods in the order of their names."""
    usage_by_group: dict[ChargeGroup, list[ExplainedAmount]] = {}
    for namespace in sorted(members):
        for pod in sorted(cluster.pods.list_all(namespace), key=lambda pod: pod.name):
            if pod.has_ended:
                continue
            if pod.group not in usage_by_group:
                usage_by_group[pod.group] = list(_compute_usage(active_cap, pod.group.to_pod()))
            state = _TERMINATING if pod.is_terminating else _USED
            for usage in usage_by_group[pod.group]:
                identity = pod.namespace, pod.name, pod.uid, pod.node
                yield usage.name, _Share(*identity, state, usage.amount, usage.calculation)


def _compute_usage(active_cap: ActiveCap, pod: Pod) -> Iterator[ExplainedAmount]:
    try:
        yield from explain_charge(active_cap, pod)
    except QuantityError as error:
        yield from (ExplainedAmount(name, 0, f"cannot be read: {error}") for name in active_cap.resources)


def _list_claim_shares(
    cluster: ClusterState, active_cap: ActiveCap, members: frozenset[str], ledger: Ledger | None
) -> Iterator[tuple[str, _Share]]:
    """Yield the shares of the claims with their resource, the claims in the order of their names.

    A claim that kube-scheduler made for a pod is absent while the pod counts for it.
    """
    claims, find_device = cluster.list_claims(active_cap, members, ledger), cluster.devices.find_device
    for other_claim in sorted(claims, key=lambda each: (each.claim.namespace, each.claim.name)):
        claim = other_claim.claim
        state = _TERMINATING if claim.is_terminating else _USED
        for name, amount in other_claim.counted.items():
            if name in active_cap.device_meters:
                calculation = _explain_allocated(
                    other_claim.allocated, name, active_cap.device_meters[name], find_device
                )
            else:
                calculation = _explain_claim(other_claim.decode(), name, active_cap.device_sources[name])
                if other_claim.is_confirmed:
                    calculation += f", of which {amount} more than its pod counts"
            if other_claim.pod_uid:
                calculation += (
                    f", {'' if other_claim.is_confirmed else 'marked as '}made for pod {_format_pod(other_claim)}"
                )
            identity = claim.namespace, claim.name, claim.uid, ""
            yield name, _Share(*identity, state, amount, calculation, ConsumerKind.CLAIM)


def _explain_allocated(counted: CountedDevices, name: str, meter: DeviceMeter, find_device: DeviceFinder) -> str:
    """Return the sum of the amounts of allocated devices, or the amount that the ledger keeps for unpublished ones."""
    total = format_amount(name, counted.amounts[name])
    amounts = [(device.id, meter.compute_amount(device, find_device(device.id))) for device in counted.devices]
    if sum(amount or 0 for _, amount in amounts) != counted.amounts[name]:
        return f"{total} as in the ledger"
    terms = " + ".join(f"{device} {format_amount(name, amount)}" for device, amount in amounts if amount)
    return f"{terms} = {total}"


def _explain_claim(claim: ResourceClaim, name: str, sources: DeviceSources) -> str:
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


def _list_reservations(ledger: Ledger) -> Iterator[tuple[str, _Share]]:
    listed = [(ledger.reservations[uid], uid, reserved) for uid, reserved in ledger.list_reserved()]
    for reservation, uid, reserved in sorted(listed, key=lambda each: (each[0].namespace, each[0].name)):
        for name, amount in reserved.items():
            yield (
                name,
                _Share(
                    reservation.namespace,
                    reservation.name,
                    uid,
                    "",
                    _RESERVED,
                    amount,
                    _explain_reservation(reservation, name, ledger.count_attempts(uid)),
                    reservation.kind,
                    reservation.workload_kind.rpartition("/")[2],
                ),
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
