"""One cycle of the scheduler for a PodGroup: its pods are let go at once, and the first result of each is recorded."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from e2e.errors import ClusterError
from e2e.scheduling.api import Api, Object, drop_managed_fields
from e2e.scheduling.device_allocations import create_group_claims, create_template_claims
from e2e.scheduling.draw.pod_groups import HOLD, RESERVED, DrawnGroup
from e2e.scheduling.scheduler_dumps import SchedulerDumps
from e2e.scheduling.stored_cluster import create_cluster, uid


@dataclass(frozen=True)
class MemberResult:
    """The node of a pod, or the message of the scheduler; both are empty if its group did not enter the queue."""

    node: str = ""
    message: str = ""


@dataclass(frozen=True)
class RecordedGroup:
    """A cluster as the API server returned it, the group, and its new pods with their results by name."""

    nodes: list[Object]
    pods: list[Object]
    objects: list[Object]
    group: Object
    members: list[Object]
    results: dict[str, MemberResult]


class GroupRunner:
    """A runner of groups on one control plane, one after the other."""

    def __init__(self, api: Api, dumps: SchedulerDumps) -> None:
        self._api, self._dumps = api, dumps

    def run(self, drawn: DrawnGroup) -> RecordedGroup:
        """Run the scheduler on a group and return its results; all objects are deleted afterwards.

        Raises:
            RejectedError: if the API server rejects an object.
            ClusterError: if the scheduler has no result in time.
        """
        with create_cluster(self._api, self._dumps, drawn.cluster) as cluster:
            group = self._api.make(drawn.group)
            members, objects = list[Object](), self._reserve(cluster.objects, group)
            objects += create_group_claims(self._api, group, cluster.objects)
            for each in drawn.members:
                member = self._api.make(each)
                objects += create_template_claims(self._api, member, cluster.objects, group)
                members.append(member)
            self._dumps.wait_until_waiting({uid(each) for each in members})
            log_position = self._dumps.get_log_position()
            first = self._api.get(members[0])
            first["spec"]["schedulingGates"] = [
                gate for gate in first["spec"]["schedulingGates"] if gate["name"] != HOLD
            ]
            members[0] = self._api.put(first)
            results = {_name(each): MemberResult() for each in members}
            if self._dumps.is_group_tried(log_position):
                results = {_name(each): self._read(each, log_position) for each in members}
            return RecordedGroup(
                cluster.nodes, cluster.pods, objects, drop_managed_fields(group), list(map(_clean, members)), results
            )

    def _reserve(self, objects: Sequence[Object], group: Object) -> list[Object]:
        """Reserve the claims with devices that a group names for it, as an earlier cycle does; return all."""
        entries = (
            group["spec"].get("resourceClaims", ()) if RESERVED in group["metadata"].get("annotations", {}) else ()
        )
        names = {each.get("resourceClaimName") for each in entries}
        consumer = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups"} | {
            key: group["metadata"][key] for key in ("name", "uid")
        }
        return [
            drop_managed_fields(self._api.put_status(each | {"status": each["status"] | {"reservedFor": [consumer]}}))
            if each["kind"] == "ResourceClaim" and _name(each) in names and "allocation" in each.get("status", {})
            else each
            for each in objects
        ]

    def _read(self, pod: Object, log_position: int) -> MemberResult:
        """Return the first result of a pod; where pods that share a claim had to try again, the last one.

        Raises:
            ClusterError: if it has none in time.
        """
        last = ""
        with suppress(ClusterError):  # no further change: it does not fit
            for now in self._api.changes(pod):
                if now["spec"].get("nodeName"):
                    return MemberResult(node=now["spec"]["nodeName"])
                last = _find_rejection(now) or last
                if last and not self._dumps.has_raced(log_position):
                    break
        if not last:
            raise ClusterError(f"the scheduler has no result for pod {_name(pod)}")
        return MemberResult(message=last)


def _find_rejection(pod: Object) -> str:
    """Return the message of the scheduler for a pod without a node; empty without one."""
    for condition in pod["status"].get("conditions", ()):
        is_gated = condition.get("reason") == "SchedulingGated"
        if condition["type"] == "PodScheduled" and condition["status"] == "False" and not is_gated:
            return str(condition["message"])
    return ""


def _clean(pod: Object) -> Any:
    status = {key: value for key, value in pod["status"].items() if key != "conditions"}
    return drop_managed_fields(pod | {"status": status})


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])
