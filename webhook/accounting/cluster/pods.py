"""Pods on nodes: what is each pod's own, beside its shape."""

from typing import NamedTuple

from webhook.accounting.caps import has_ended
from webhook.accounting.cluster.shapes import SchedulingGroup, SchedulingGroupInterner
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import SchedulingPod, SchedulingPodSpec, Volume


class PodInfo(NamedTuple):
    """A pod that is on a node, or is promised one.

    `node` is where it is, `nominated` where it is to be once others have made room, if it is nowhere yet. `started` is
    `status.startTime`, as text: later is greater. `is_leaving` while it is being deleted. `volumes` are those that say
    something about nodes. `is_preempted` once the scheduler itself has asked it to leave.
    """

    uid: str
    name: str
    group: SchedulingGroup
    node: str = ""
    nominated_node: str = ""
    start_time: str = ""
    is_terminating: bool = False
    volumes: tuple[Volume, ...] = ()
    is_preempted: bool = False

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.group.namespace


def create_pod_info(pod: SchedulingPod, groups: SchedulingGroupInterner) -> PodInfo | None:
    """A stored pod as a scheduler counts it; None when it has ended, or no node is in sight for it.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
    """
    meta, spec, status = pod.metadata or ObjectMeta(), pod.spec or SchedulingPodSpec(), pod.status
    nominated_node = (status.nominated_node_name if status else None) or ""
    node = spec.node_name or ""
    if has_ended(pod) or not (node or nominated_node):
        return None
    return PodInfo(
        meta.uid or f"{meta.namespace}/{meta.name}",
        meta.name or "",
        groups.intern(pod),
        node,
        "" if node else nominated_node,
        (status.start_time if status else None) or "",
        meta.deletion_timestamp is not None,
        list_scheduling_volumes(spec),
        _is_preempted(pod),
    )


def _is_preempted(pod: SchedulingPod) -> bool:
    """Whether the scheduler made it leave (podTerminatingByPreemption in default_preemption.go, v1.36)."""
    conditions = (pod.status.conditions if pod.status else None) or ()
    disruption = next((each for each in conditions if each.type == "DisruptionTarget"), None)
    return disruption is not None and (disruption.status, disruption.reason) == ("True", "PreemptionByScheduler")


def list_scheduling_volumes(spec: SchedulingPodSpec) -> tuple[Volume, ...]:
    """The volumes of a pod that say something about nodes."""
    return tuple([volume for volume in spec.volumes or () if volume != Volume(volume.name)])
