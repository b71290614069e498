"""The shape of nodes that may come: such a node, and the number of those that can be added.

A new node has the name of its shape and a number, with a character that the name of no object has: no pod can name it.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tallygate.accounting.node_fit import parse_allocatable
from tallygate.objects.core import ResourceList
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import NodeSpec, SchedulingNode, SchedulingNodeStatus, Taint

HOSTNAME = "kubernetes.io/hostname"
"""The label with the name of the node; its value differs on each node."""

ZONE = "topology.kubernetes.io/zone"
"""The label with the zone of the node."""

DEFAULT_MAX_PODS = msgspec.Raw(b'"110"')
"""The kubelet's default limit of pods (maxPods in pkg/kubelet/apis/config/v1beta1/defaults.go)."""

_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_NO_CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class KnownSize(NamedTuple):
    """The amounts of a node with these labels, and how many more of it can be added; None without a limit."""

    labels: Mapping[str, str]
    allocatable: ResourceList
    most: int | None


class NodeShape(msgspec.Struct, frozen=True, dict=True):
    """The labels, taints and allocatable amounts of a node that may come; at most `most` can, None without a limit.

    `open_labels` are the keys of labels whose value on a new node is not known. If `is_example`, other new nodes may
    have more of what it has. If `is_found`, the shape is that of a pool, and was not written by anyone. If
    `is_unsized`, no node of the pool is known, and so no amount.

    `choices` are the possible values of some open labels. A shape for one value of each has them in `chosen`, and its
    amounts from `sizes`, the newest first.
    """

    name: str
    labels: Mapping[str, str]
    allocatable: ResourceList
    taints: Sequence[Taint] = ()
    most: int | None = None
    open_labels: frozenset[str] = frozenset()
    is_example: bool = False
    is_found: bool = False
    is_unsized: bool = False
    choices: Mapping[str, tuple[str, ...]] = _NO_CHOICES
    sizes: Sequence[KnownSize] = ()
    chosen: Mapping[str, str] = _NO_LABELS

    def __str__(self) -> str:
        """Return the name, the number of nodes that can be added, and the chosen values of labels."""
        return format_shape(self.name, self.most, self.chosen)

    def create_node(self, number: int) -> SchedulingNode:
        """Return a new node of the shape; each number gives a node of its own name."""
        name = f"{self.name}/new-{number}"
        return SchedulingNode(
            metadata=ObjectMeta(name=name, labels={HOSTNAME: name, **self.labels}),
            spec=NodeSpec(taints=list(self.taints) or None),
            status=SchedulingNodeStatus(allocatable={"pods": DEFAULT_MAX_PODS, **self.allocatable}),
        )

    def advertises(self, resource: str) -> bool:
        return self.get_amount(resource) > 0

    def get_amount(self, resource: str) -> int:
        """Return the allocatable amount of a resource, 0 without any."""
        return self._amounts.get(resource, 0)

    @property
    def resources(self) -> Sequence[str]:
        """The names of the resources that a node of the shape has some of, in order."""
        return sorted(name for name, amount in self._amounts.items() if amount > 0)

    @cached_property
    def _amounts(self) -> Mapping[str, int]:
        return parse_allocatable(self.create_node(0))


def format_shape(name: str, most: int | None, chosen: Mapping[str, str]) -> str:
    """Return a shape as text: its name, the number of nodes that can be added, and the chosen values of labels."""
    text = name if most is None else f"{name} (at most {most} more)"
    return f"{text} {format_chosen(chosen)}" if chosen else text


def format_chosen(labels: Mapping[str, str]) -> str:
    """Return the words on the chosen values of labels, such as `in zone a`."""
    others = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()) if key != ZONE)
    zone = f"in zone {labels[ZONE]}" if ZONE in labels else ""
    return " ".join(filter(None, (zone, f"with {others}" if others else "")))
