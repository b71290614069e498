"""Shapes: what decides how a pod stands in others' way, kept once for all pods alike.

A hundred thousand pods have some thousand shapes, so that selectors and anti-affinity look at shapes, not at pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.accounting.cluster.terms import Term, required_terms, stored, terms
from webhook.accounting.node_fit import counted_on_node
from webhook.accounting.selectors import SelectorError
from webhook.accounting.weight import weight
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import Affinity, PlacedPod, PlacedSpec, PlacedStatus

ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # nothing is bound to it: it is what Kubernetes writes for every address
_ENCODER = msgspec.json.Encoder(order="deterministic")
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Port(NamedTuple):
    """A port of the node that a pod takes; `0.0.0.0` is every address."""

    protocol: str
    number: int
    address: str

    def meets(self, address: str) -> bool:
        """Whether it and the same port at another address cannot both be taken."""
        return self.address == address or ANY_ADDRESS in (self.address, address)

    def at(self, address: str) -> Port:
        """The same port at another address."""
        return self._replace(address=address)


class Shape:
    """One shape; compared by identity, since there is only one of each.

    `requests` are amounts that the scheduler counts, those above zero, `weight` what it
    weighs when nodes are compared; `on` says how many pods of the shape are at
    each place of a node, `leaving` how many of these are being deleted.
    """

    __slots__ = (
        "__weakref__",
        "anti_affinity",
        "labels",
        "leaving",
        "namespace",
        "on",
        "ports",
        "priority",
        "requests",
        "weight",
    )

    def __init__(self, pod: PlacedPod) -> None:
        meta, spec = pod.metadata or ObjectMeta(), pod.spec or PlacedSpec()
        self.namespace = meta.namespace or "default"
        self.labels = meta.labels or _NO_LABELS
        self.requests = Amounts({name: asked for name, asked in counted_on_node(pod).items() if asked > 0})
        self.weight = weight(pod)
        self.ports = host_ports(spec)
        self.priority = spec.priority or 0
        self.anti_affinity = _anti_affinity(spec, self.namespace)
        self.on: dict[int, int] = {}
        self.leaving: dict[int, int] = {}


class Shapes:
    """Hands out the one shape for pods that are alike, as long as somebody keeps it."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()

    def of(self, pod: PlacedPod) -> Shape:
        """The shape of a pod.

        Raises:
            QuantityError: a quantity that the pod asks for is none.
        """
        substance = _substance(stored(pod))
        content = _ENCODER.encode(substance)
        shape = self._known.get(content)
        if shape is None:
            shape = self._known[content] = Shape(substance)
        return shape

    def __len__(self) -> int:
        return len(self._known)


def host_ports(spec: PlacedSpec) -> tuple[Port, ...]:
    """The ports of its node that a pod takes: those of containers and sidecars.

    Source: GetHostPorts in pkg/scheduler/util/utils.go and HostPortInfo in kube-scheduler framework/types.go, v1.36.
    """
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    return tuple(
        Port(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in (*(spec.containers or ()), *sidecars)
        for port in container.ports or ()
        if port.host_port is not None and port.host_port > 0
    )


def _anti_affinity(spec: PlacedSpec, namespace: str) -> tuple[Term, ...]:
    """What a pod on a node keeps away; nothing if any of it is no selector (NodeInfo.AddPod drops the error)."""
    try:
        return terms(required_terms(spec.affinity.pod_anti_affinity if spec.affinity else None), namespace)
    except SelectorError:
        return ()


def _substance(pod: PlacedPod) -> PlacedPod:
    """All of a pod that its shape is made from."""
    meta, spec = pod.metadata or ObjectMeta(), pod.spec or PlacedSpec()
    terms = spec.affinity.pod_anti_affinity if spec.affinity else None
    return PlacedPod(
        metadata=ObjectMeta(namespace=meta.namespace, labels=meta.labels),
        spec=PlacedSpec(
            containers=spec.containers,
            init_containers=spec.init_containers,
            overhead=spec.overhead,
            resources=spec.resources,
            affinity=Affinity(pod_anti_affinity=terms) if terms else None,
            priority=spec.priority,
        ),
        status=_granted(pod.status),
    )


def _granted(status: PlacedStatus | None) -> PlacedStatus | None:
    """What a status says that a pod has, if it says so."""
    if status is None:
        return None
    return PlacedStatus(
        conditions=[each for each in status.conditions or () if each.type == "PodResizePending"] or None,
        container_statuses=status.container_statuses,
        init_container_statuses=status.init_container_statuses,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
    )
