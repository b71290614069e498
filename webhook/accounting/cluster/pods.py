"""Pods on nodes: what is each pod's own, beside its shape."""

from typing import NamedTuple

from webhook.accounting.caps import has_ended
from webhook.accounting.cluster.shapes import Shape, Shapes
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import PlacedPod, PlacedSpec, Volume


class Placed(NamedTuple):
    """A pod that is on a node, or is promised one.

    `node` is where it is, `nominated` where it is to be once others have made room, if it is nowhere yet. `started` is
    `status.startTime`, as text: later is greater. `is_leaving` while it is being deleted. `volumes` are those that say
    something about nodes. `is_preempted` once the scheduler itself has asked it to leave.
    """

    uid: str
    name: str
    shape: Shape
    node: str = ""
    nominated: str = ""
    started: str = ""
    is_leaving: bool = False
    volumes: tuple[Volume, ...] = ()
    is_preempted: bool = False

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.shape.namespace


def placed(pod: PlacedPod, shapes: Shapes) -> Placed | None:
    """A stored pod as a scheduler counts it; None when it has ended, or no node is in sight for it.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
    """
    meta, spec, status = pod.metadata or ObjectMeta(), pod.spec or PlacedSpec(), pod.status
    nominated = (status.nominated_node_name if status else None) or ""
    node = spec.node_name or ""
    if has_ended(pod) or not (node or nominated):
        return None
    return Placed(
        meta.uid or f"{meta.namespace}/{meta.name}",
        meta.name or "",
        shapes.of(pod),
        node,
        "" if node else nominated,
        (status.start_time if status else None) or "",
        meta.deletion_timestamp is not None,
        weighty_volumes(spec),
        _is_preempted(pod),
    )


def _is_preempted(pod: PlacedPod) -> bool:
    """Whether the scheduler made it leave (podTerminatingByPreemption in default_preemption.go, v1.36)."""
    conditions = (pod.status.conditions if pod.status else None) or ()
    targeted = next((each for each in conditions if each.type == "DisruptionTarget"), None)
    return targeted is not None and (targeted.status, targeted.reason) == ("True", "PreemptionByScheduler")


def weighty_volumes(spec: PlacedSpec) -> tuple[Volume, ...]:
    """The volumes of a pod that say something about nodes."""
    return tuple([volume for volume in spec.volumes or () if volume != Volume(volume.name)])
