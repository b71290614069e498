"""One run of the scheduler: the pod is created once the cluster is cached, and the first result is recorded."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

from e2e.errors import ClusterError
from e2e.scheduling.api import Api, Object, drop_managed_fields
from e2e.scheduling.base_objects import create_base_objects
from e2e.scheduling.device_allocations import create_template_claims, list_allocations, waits_for_driver
from e2e.scheduling.draw.cluster_parts import DrawnCase
from e2e.scheduling.plane import Plane
from e2e.scheduling.recorded_case import RecordedCase, Result
from e2e.scheduling.scheduler_dumps import SchedulerDumps
from e2e.scheduling.stored_cluster import create_cluster, has_ended, uid

_PAUSE = 0.02  # seconds between polls; victims are deleted one by one
_QUIET_POLLS = 250  # without a change, where the scheduler logs no end: all victims were being deleted before


class CaseRunner:
    """A runner of cases on one control plane, one after the other."""

    def __init__(self, api: Api, dumps: SchedulerDumps) -> None:
        self._api = api
        self._dumps = dumps

    def run(self, case: DrawnCase) -> RecordedCase:
        """Run the scheduler on a case and return its result; all objects of the case are deleted afterwards.

        Raises:
            RejectedError: if the API server rejects the pod.
            ClusterError: if the scheduler does not cache the cluster, or has no result in time.
        """
        with create_cluster(self._api, self._dumps, case) as cluster:
            log_position = self._dumps.get_log_position()
            pod = self._api.make(case.pod)
            objects = [*cluster.objects, *create_template_claims(self._api, pod, cluster.objects)]
            result = self._result(pod, cluster.pods, log_position)
            if result.scheduled and any(each["kind"] == "DeviceClass" for each in objects) and result.claims is None:
                result = replace(result, claims=list_allocations(self._api, pod, objects))
            return RecordedCase(cluster.nodes, cluster.pods, objects, _drop_result(pod), result)

    def _result(self, pod: Object, before: list[Object], log_position: int) -> Result:
        """Return the first result: a gated pod has it at once, another pod in its first change with a result.

        A pod whose claims are not ready has the reason that keeps it out of the queue.
        """
        if _has_settled_claims(pod):
            hold_reason = self._dumps.find_hold_reason(_full_name(pod), log_position)
            if hold_reason:
                return Result(scheduled=False, hold_reason=hold_reason)
        for now in chain((pod,), self._api.changes(pod)):
            node, nominated = now["spec"].get("nodeName", ""), now["status"].get("nominatedNodeName", "")
            rejection = next((each for each in now["status"].get("conditions", ()) if _is_rejection(each)), None)
            if rejection is not None:
                victims = self._victims(before, _full_name(pod), log_position) if nominated else ()
                return Result(scheduled=False, nominated=nominated, message=rejection["message"], victims=victims)
            if node:
                feasible = self._dumps.find_feasible_count(_full_name(pod), node, log_position)
                return Result(scheduled=True, node=node, feasible=feasible)
            # A pod with unbound volumes, or without devices yet, gets its nominated node first
            # (NominatedNodeNameForExpectation).
            if nominated and ("volumes" in pod["spec"] or waits_for_driver(self._api, now)):
                return Result(scheduled=True, node=nominated)
        raise ClusterError("the watch of the pod ended without a result")

    def _victims(self, before: list[Object], preemptor: str, log_position: int) -> tuple[str, ...]:
        """Return the pods that are deleted or have a deletion timestamp, once the scheduler has deleted all victims."""
        last, quiet, is_over = set[str](), 0, False
        while not is_over and quiet < _QUIET_POLLS:
            time.sleep(_PAUSE)
            is_over = self._dumps.has_preempted(preemptor, log_position)
            remaining = {
                uid(each) for each in self._api.list_objects("Pod") if "deletionTimestamp" not in each["metadata"]
            }
            now = {_full_name(each) for each in before if _is_live(each) and uid(each) not in remaining}
            quiet = quiet + 1 if now == last else 0
            last = now
        return tuple(sorted(last))


@contextmanager
def create_case_runner(plane: Plane) -> Iterator[CaseRunner]:
    """Yield a runner of cases on a control plane."""
    api = Api(plane.access)
    try:
        create_base_objects(api)
        yield CaseRunner(api, SchedulerDumps(plane))
    finally:
        api.close()


def _is_rejection(condition: Object) -> bool:
    return bool(condition["type"] == "PodScheduled" and condition["status"] == "False")


def _has_settled_claims(pod: Object) -> bool:
    """Return whether a pod in the queue has claims, and all that will be made from templates were made before it.

    A pod with claims from templates is kept out of the queue until they are made, and then it is tried.
    """
    references = pod["spec"].get("resourceClaims", ())
    made = {each["name"] for each in pod["status"].get("resourceClaimStatuses", ())}
    unmade = [each for each in references if "resourceClaimName" not in each and each["name"] not in made]
    is_gated = "schedulingGates" in pod["spec"]
    return bool(references) and not is_gated and (bool(unmade) or not made)


def _is_live(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and not has_ended(pod)


def _full_name(it: Object) -> str:
    return f"{it['metadata']['namespace']}/{it['metadata']['name']}"


def _drop_result(pod: Object) -> Object:
    """Return the pod without its conditions, which contain the result."""
    status = {key: value for key, value in pod["status"].items() if key != "conditions"}
    return drop_managed_fields(pod | {"status": status})
