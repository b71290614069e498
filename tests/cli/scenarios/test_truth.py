"""Whatever the story: no cap is gone over, and when time has passed its ledger holds what is stored, no more."""

from collections.abc import Collection, Iterator
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from webhook.admission.request import UserInfo
from webhook.cli.scenarios.run import StepRunner
from webhook.cli.scenarios.scenario import (
    Action,
    Create,
    Delete,
    End,
    Expectation,
    Label,
    Resize,
    Scale,
    Scenario,
    ScenarioStep,
    StepTarget,
    Wait,
)
from webhook.cli.scenarios.simulated_cluster import CapUsage, SimulatedCluster
from webhook.policy.model import PolicySet, SourceLocation
from webhook.policy.parse import parse

HERE = SourceLocation("story.yaml", 1, 1)
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
    """The caps of these stories."""
    parsed = parse([("caps.yaml", CAPS)])
    assert parsed.is_usable
    return parsed.policies


def pod(cpu: int) -> dict[str, Any]:
    """The spec of a pod that asks for so much."""
    return {"containers": [{"name": "main", "resources": {"limits": {"cpu": cpu}}}]}


def workload(kind: str, name: str, replicas: int, cpu: int) -> Action:
    """A Deployment or StatefulSet comes."""
    template = {"metadata": {"labels": {"app": name}}, "spec": pod(cpu)}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return Create({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})


SIZES = st.integers(1, 4)
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(
        lambda name, cpu: Create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod(cpu)}),
        NAMES,
        SIZES,
    ),
    st.builds(workload, st.sampled_from(["Deployment", "StatefulSet"]), NAMES, SIZES, SIZES),
    st.builds(Scale, st.builds(StepTarget, st.just("Deployment"), NAMES), st.integers(0, 4)),
    st.builds(Delete, st.builds(StepTarget, st.sampled_from(["Pod", "Deployment", "StatefulSet"]), NAMES)),
    st.builds(
        lambda name, cpu: Resize(StepTarget("Pod", name), "", {"cpu": cpu}, {"cpu": cpu}),
        st.sampled_from(["a", "b", "a-1", "b-0"]),
        SIZES,
    ),
    st.builds(
        End,
        st.builds(StepTarget, st.just("Pod"), st.sampled_from(["a", "b", "a-1", "b-0"])),
        st.sampled_from(["Succeeded", "Failed"]),
    ),
    st.builds(lambda name: Label(StepTarget("Pod", name), {"x": "y"}), NAMES),
    st.builds(lambda seconds: Wait(seconds, f"{seconds}s"), st.sampled_from([0.1, 1.0, 30.0, 41.0])),
)
Story = list[tuple[Action, str, bool]]
STEPS = st.lists(st.tuples(ACTIONS, st.sampled_from(NAMESPACES), st.booleans()), min_size=1, max_size=12)


def played(steps: Story) -> Iterator[SimulatedCluster]:
    """The world after each step, whatever came of that."""
    world = SimulatedCluster(Scenario("x", policies(), {name: {} for name in NAMESPACES}, (), HERE))
    for action, namespace, dry_run in steps:
        step = ScenarioStep(
            action, namespace, UserInfo("jane"), Expectation(), HERE, dry_run=dry_run and isinstance(action, Create)
        )
        StepRunner(world, step).run()
        yield world


def stored(world: SimulatedCluster, namespaces: Collection[str]) -> int:
    """The cpu of the pods that are stored and have not ended, in milli."""
    total = 0
    for key, body in world.store.list_objects("Pod"):
        if key.namespace in namespaces and body.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
            total += 1000 * body["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return total


MEMBERS = {("team", "team-a"): {"team-a"}, ("team", "team-b"): {"team-b"}, ("pool", ""): {"team-a", "batch"}}


def accounts(world: SimulatedCluster) -> Iterator[tuple[CapUsage, Collection[str]]]:
    """Every ledger, with the namespaces that draw on it."""
    found = list(world.list_cap_usages())
    assert len(found) == len(MEMBERS)
    for account in found:
        yield account, MEMBERS[account.active_cap.definition.name, account.namespace]


# A pod that was made smaller, and whose ledger was counted since, ends and is resized again.
RESIZED_WHEN_OVER: Story = [
    (Create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod(3)}), "batch", False),
    (Create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": pod(3)}), "team-a", False),
    (Resize(StepTarget("Pod", "b"), "", {"cpu": 2}, {"cpu": 2}), "team-a", False),
    (Create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod(1)}), "team-a", False),
    (Create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": pod(2)}), "batch", False),
    (End(StepTarget("Pod", "b"), "Succeeded"), "team-a", False),
    (Resize(StepTarget("Pod", "b"), "", {"cpu": 1}, {"cpu": 1}), "team-a", False),
]


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
@example(RESIZED_WHEN_OVER)
def test_no_cap_is_gone_over(steps: Story) -> None:
    """Neither by what is stored nor by what is promised; and what is stored is never more than what is charged."""
    for world in played(steps):
        for account, members in accounts(world):
            charged = account.ledger.compute_charged().get("cpu", 0)
            assert stored(world, members) <= charged <= account.active_cap.hard["cpu"]


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_when_time_has_passed_nothing_is_promised_and_what_is_stored_is_held(steps: Story) -> None:
    *_, world = played([*steps, (Wait(200.0, "200s"), "batch", False)])
    for account, members in accounts(world):
        assert not account.ledger.reservations
        assert account.ledger.used.get("cpu", 0) == stored(world, members)
