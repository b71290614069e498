"""Invariants of ledgers in any scenario: no cap is exceeded, and used amounts become those of the stored pods."""

from collections.abc import Collection, Iterator
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tallygate.admission.request import UserInfo
from tallygate.cli.scenarios.run import StepRunner
from tallygate.cli.scenarios.scenario import Action, Change, Scenario, ScenarioStep, Send, StepTarget, Wait
from tallygate.cli.scenarios.scenario_document import (
    DeleteStep,
    LabelStep,
    PodEnd,
    ResizeStep,
    ScaleStep,
    StepExpectation,
)
from tallygate.cli.scenarios.simulated_cluster import CapUsage, SimulatedCluster
from tallygate.policy.model import PolicySet, SourceLocation
from tallygate.policy.parse import parse
from tests.effort import examples

HERE = SourceLocation("scenario.yaml", 1, 1)
CAPS = b"""
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: team}
spec: {namespaces: {include: ["team-*"]}, hard: {cpu: 6}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: pool}
spec: {namespaces: {include: [team-a, batch]}, shared: true, hard: {cpu: 8, pods: 7}}
"""
NAMESPACES = ("team-a", "team-b", "batch")
NAMES = st.sampled_from(["a", "b", "c"])


def policies() -> PolicySet:
    """Return the caps of these scenarios."""
    parsed = parse([("caps.yaml", CAPS)])
    assert parsed.is_usable
    return parsed.policies


def pod(cpu: int) -> dict[str, Any]:
    """Return the spec of a pod with this cpu limit."""
    return {"containers": [{"name": "main", "resources": {"limits": {"cpu": cpu}}}]}


def workload(kind: str, name: str, replicas: int, cpu: int) -> Action:
    """Return the creation of a Deployment or StatefulSet."""
    template = {"metadata": {"labels": {"app": name}}, "spec": pod(cpu)}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return Send("create", {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def resize(name: str, cpu: int) -> Action:
    """Return the resize of a pod to this cpu limit."""
    return Change("resize", StepTarget("Pod", name), ResizeStep(name, resources={"cpu": cpu}))


def end(name: str, how: str = "finish") -> Action:
    """Return the end of a pod."""
    return Change(how, StepTarget("Pod", name), PodEnd(name))


SIZES = st.integers(1, 4)
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(
        lambda name, cpu: Send(
            "create", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod(cpu)}
        ),
        NAMES,
        SIZES,
    ),
    st.builds(workload, st.sampled_from(["Deployment", "StatefulSet"]), NAMES, SIZES, SIZES),
    st.builds(
        lambda name, replicas: Change("scale", StepTarget("Deployment", name), ScaleStep(replicas=replicas)),
        NAMES,
        st.integers(0, 4),
    ),
    st.builds(
        lambda kind, name: Change("delete", StepTarget(kind, name), DeleteStep()),
        st.sampled_from(["Pod", "Deployment", "StatefulSet"]),
        NAMES,
    ),
    st.builds(
        resize,
        st.sampled_from(["a", "b", "a-1", "b-0"]),
        SIZES,
    ),
    st.builds(end, st.sampled_from(["a", "b", "a-1", "b-0"]), st.sampled_from(["finish", "fail"])),
    st.builds(lambda name: Change("label", StepTarget("Pod", name), LabelStep(labels={"x": "y"})), NAMES),
    st.builds(lambda seconds: Wait(seconds, f"{seconds}s"), st.sampled_from([0.1, 1.0, 30.0, 41.0])),
)
Actions = list[tuple[Action, str, bool]]
STEPS = st.lists(st.tuples(ACTIONS, st.sampled_from(NAMESPACES), st.booleans()), min_size=1, max_size=12)


def run_steps(steps: Actions) -> Iterator[SimulatedCluster]:
    """Yield the cluster after each step, with any result of the step."""
    cluster = SimulatedCluster(Scenario("x", policies(), {name: {} for name in NAMESPACES}, (), HERE))
    for action, namespace, dry_run in steps:
        step = ScenarioStep(
            action, namespace, UserInfo("jane"), StepExpectation(), HERE, dry_run=dry_run and isinstance(action, Send)
        )
        StepRunner(cluster, step).run()
        yield cluster


def sum_stored_cpu(cluster: SimulatedCluster, namespaces: Collection[str]) -> int:
    """Return the cpu of the stored and unfinished pods in milli."""
    total = 0
    for key, body in cluster.store.list_objects("Pod"):
        if key.namespace in namespaces and body.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
            total += 1000 * body["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return total


MEMBERS = {("team", "team-a"): {"team-a"}, ("team", "team-b"): {"team-b"}, ("pool", ""): {"team-a", "batch"}}


def list_usages(cluster: SimulatedCluster) -> Iterator[tuple[CapUsage, Collection[str]]]:
    """Yield every ledger with its member namespaces."""
    found = list(cluster.list_cap_usages())
    assert len(found) == len(MEMBERS)
    for cap_usage in found:
        yield cap_usage, MEMBERS[cap_usage.active_cap.definition.name, cap_usage.namespace]


# A pod becomes smaller, its ledger is recounted, and the pod finishes and is resized again.
RESIZED_WHEN_OVER: Actions = [
    (Send("create", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod(3)}), "batch", False),
    (Send("create", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": pod(3)}), "team-a", False),
    (resize("b", 2), "team-a", False),
    (Send("create", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod(1)}), "team-a", False),
    (Send("create", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": pod(2)}), "batch", False),
    (end("b"), "team-a", False),
    (resize("b", 1), "team-a", False),
]


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
@example(RESIZED_WHEN_OVER)
def test_no_cap_is_exceeded(steps: Actions) -> None:
    """Compare stored, charged and hard amounts after every step."""
    for cluster in run_steps(steps):
        for cap_usage, members in list_usages(cluster):
            charged = cap_usage.ledger.compute_charged().get("cpu", 0)
            assert sum_stored_cpu(cluster, members) <= charged <= cap_usage.active_cap.hard["cpu"]


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_after_enough_time_nothing_is_reserved_and_stored_pods_are_used(steps: Actions) -> None:
    *_, cluster = run_steps([*steps, (Wait(200.0, "200s"), "batch", False)])
    for cap_usage, members in list_usages(cluster):
        assert not cap_usage.ledger.reservations
        assert cap_usage.ledger.used.get("cpu", 0) == sum_stored_cpu(cluster, members)
