"""The run of a scenario: each step runs in its simulated cluster, and its result is compared with the expectation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tallygate.admission.request import UserInfo
from tallygate.cli.scenarios.api_server import CLUSTER_SCOPED, ApiRequest, ObjectKey
from tallygate.cli.scenarios.compare import Difference, find_differences
from tallygate.cli.scenarios.scenario import (
    Change,
    JsonObject,
    PublishedNode,
    RequestResult,
    Scenario,
    ScenarioStep,
    Send,
    StepTarget,
    Wait,
    create_rejection,
    list_resources,
    parse_device,
)
from tallygate.cli.scenarios.scenario_document import (
    AllocateStep,
    AnnotateStep,
    DeleteStep,
    LabelStep,
    PodEnd,
    ResizeStep,
    ScaleStep,
)
from tallygate.cli.scenarios.simulated_cluster import CapUsage, SimulatedCluster

_SCHEDULER = UserInfo("system:kube-scheduler", ("system:authenticated",))


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step with its result, the ledgers and published nodes after it, and the differences from the expectation."""

    number: int
    step: ScenarioStep
    request_result: RequestResult
    cap_usages: tuple[CapUsage, ...]
    differences: tuple[Difference, ...]
    nodes: tuple[PublishedNode, ...] = ()


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The results of a scenario's steps up to the last one or to the first that differs."""

    scenario: Scenario
    steps: tuple[StepResult, ...]

    @property
    def failed_step(self) -> StepResult | None:
        """The step that differs; None if none does."""
        last = self.steps[-1]
        return last if last.differences else None


def run_scenario(scenario: Scenario) -> ScenarioResult:
    """Run a scenario in a new simulated cluster."""
    cluster, step_results = SimulatedCluster(scenario), list[StepResult]()
    for number, step in enumerate(scenario.steps, 1):
        result = StepRunner(cluster, step).run()
        cap_usages, nodes = tuple(cluster.list_cap_usages()), tuple(cluster.list_published_nodes())
        differences = tuple(find_differences(step.expectation, result, cap_usages, nodes))
        step_results.append(StepResult(number, step, result, cap_usages, differences, nodes))
        if step_results[-1].differences:
            break
    return ScenarioResult(scenario, tuple(step_results))


class StepRunner:
    """The runner of one step."""

    def __init__(self, cluster: SimulatedCluster, step: ScenarioStep) -> None:
        self.cluster = cluster
        self.step = step

    def run(self) -> RequestResult:
        action = self.step.action
        if isinstance(action, Wait):
            return self.cluster.wait(action.seconds).add_to(RequestResult())
        result = self._send(action) if isinstance(action, Send) else self._change_stored_object(action)
        return result if self.step.dry_run else self.cluster.reconcile().add_to(result)

    def _send(self, action: Send) -> RequestResult:
        send = self.cluster.api.create if action.name == "create" else self.cluster.api.update
        return send(action.body, self._create_request())

    def _change_stored_object(self, action: Change) -> RequestResult:
        key = self._create_key(action.target)
        stored_object = self.cluster.store.find(key)
        if stored_object is None:
            return create_rejection(f"{key} not found")
        match action.written:
            case ResizeStep() as resize:
                return self._resize(action.target, resize, stored_object)
            case LabelStep(labels=labels):
                return self._change_metadata("labels", labels, stored_object)
            case AnnotateStep(annotations=annotations):
                return self._change_metadata("annotations", annotations, stored_object)
            case AllocateStep() as allocation:
                return self._allocate(allocation, stored_object)
            case ScaleStep(replicas=replicas):
                stored_object["spec"] = {**(stored_object.get("spec") or {}), "replicas": replicas}
            case PodEnd():
                phase = "Succeeded" if action.name == "finish" else "Failed"
                stored_object["status"] = {**(stored_object.get("status") or {}), "phase": phase}
            case DeleteStep():
                return self._delete(key)
        # Neither scaling nor a pod's status passes the gate (tallygate.admission.webhook_configuration).
        if not self.step.dry_run:
            self.cluster.store.put(key, stored_object)
        return RequestResult()

    def _delete(self, key: ObjectKey) -> RequestResult:
        if not self.step.dry_run:
            self.cluster.store.remove(key)
        return RequestResult()

    def _resize(self, target: StepTarget, written: ResizeStep, pod: JsonObject) -> RequestResult:
        containers = (pod.get("spec") or {}).get("containers") or []
        containers_to_resize = [
            container for container in containers if container.get("name") == written.container or not written.container
        ]
        if not containers_to_resize:
            return create_rejection(f"{target} has no container {written.container}")
        resources = dict(containers_to_resize[0].get("resources") or {})
        for field, changes in list_resources(written):
            if changes:
                resources[field] = {**(resources.get(field) or {}), **changes}
        containers_to_resize[0]["resources"] = resources
        return self.cluster.api.update(pod, self._create_request("resize"))

    def _change_metadata(
        self, field: str, changes: Mapping[str, str | None], stored_object: JsonObject
    ) -> RequestResult:
        values = {**(stored_object["metadata"].get(field) or {}), **changes}
        stored_object["metadata"][field] = {key: value for key, value in values.items() if value is not None}
        return self.cluster.api.update(stored_object, self._create_request())

    def _allocate(self, written: AllocateStep, claim: JsonObject) -> RequestResult:
        """Store the allocation as kube-scheduler does."""
        requests = [request for request, count in written.devices.items() for _ in range(count)]
        results = [
            {"request": request, **parse_device(name)._asdict()}
            for request, name in zip(requests, written.names, strict=True)
        ]
        status = {**(claim.get("status") or {}), "allocation": {"devices": {"results": results}}}
        request = replace(self._create_request("status"), user=_SCHEDULER)
        return self.cluster.api.update({**claim, "status": status}, request)

    def _create_key(self, target: StepTarget) -> ObjectKey:
        return ObjectKey(target.kind, "" if target.kind in CLUSTER_SCOPED else self.step.namespace, target.name)

    def _create_request(self, subresource: str = "") -> ApiRequest:
        return ApiRequest(self.step.user, self.step.namespace, self.step.dry_run, subresource)
