"""The amounts of `tallygate usage` are sums over pods."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallygate.answers.usage_report import LedgerChoice, UsageLine, compute_usage
from tallygate.cli.usage.consumers import list_consumers
from tests.cli.usage.clusters import GPU, Object, load_snapshot, namespace, parse_caps, pod

_MIB = 1024 * 1024
_LABELS = {"a": {"gpu": "yes"}, "b": {"gpu": "yes"}, "c": {}}


class PodCase(NamedTuple):
    """One pod of a property: its GPUs, thousandths of a CPU and MiB, and its state."""

    pod_namespace: str
    gpus: int
    milli: int
    mebibytes: int
    is_batch: bool
    is_terminating: bool
    phase: str

    def to_object(self, number: int) -> Object:
        """Return the pod as the API server stores it."""
        case = {GPU: f"{self.gpus}", "cpu": f"{self.milli}m", "memory": f"{self.mebibytes}Mi"}
        meta: dict[str, Any] = {"deletionTimestamp": "2026-11-21T10:00:00Z"} if self.is_terminating else {}
        spec = {"priorityClassName": "batch"} if self.is_batch else {}
        return pod(f"p{number}", case, self.pod_namespace, meta=meta, spec=spec, status={"phase": self.phase})

    def amount(self, name: str) -> int:
        """Return the used amount of a resource, computed by hand."""
        if self.phase in {"Succeeded", "Failed"}:
            return 0
        return {GPU: self.gpus, "cpu": self.milli, "limits.memory": self.mebibytes * _MIB, "pods": 1}[name]


POD_CASES = st.builds(
    PodCase,
    st.sampled_from(["a", "b", "c"]),
    st.integers(0, 9),
    st.integers(0, 5000),
    st.integers(0, 4096),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
)
CAPS = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: each}
spec:
  namespaces: {selector: {matchLabels: {gpu: "yes"}}}
  hard: {nvidia.com/gpu: 8, limits.memory: 4Gi}
  soft: {cpu: 2}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: batch}
spec: {namespaces: {include: ["?"]}, shared: true, hard: {pods: 3, cpu: 4}, pods: {priorityClasses: [batch]}}
"""


def is_counted(line: UsageLine, case: PodCase) -> bool:
    """Return whether a cap counts a pod, decided by hand."""
    if line.cap == "each":
        return case.pod_namespace == line.namespace
    return case.is_batch


def add_up(line: UsageLine, pods: Sequence[PodCase]) -> int:
    """Return the sum over the counted pods."""
    return sum(case.amount(line.name) for case in pods if is_counted(line, case))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pods=st.lists(POD_CASES, max_size=12))
def test_every_amount_is_a_sum_over_pods(tmp_path: Path, pods: list[PodCase]) -> None:
    """Compare used, terminating, free and exceeded amounts with sums over pods, and with the consumers."""
    items = [namespace(name, **labels) for name, labels in _LABELS.items()]
    cluster, index = (
        load_snapshot(tmp_path, [*items, *(case.to_object(number) for number, case in enumerate(pods))]),
        parse_caps(CAPS),
    )
    lines = compute_usage(cluster, index, LedgerChoice()).lines
    assert [(line.cap, line.namespace, line.name) for line in lines] == [
        ("batch", "", "cpu"),
        ("batch", "", "pods"),
        *(("each", pod_namespace, name) for pod_namespace in ("a", "b") for name in ("cpu", "limits.memory", GPU)),
    ]
    consumers = {
        (each.cap, each.namespace, each.name): each
        for one in LedgerChoice().list_ledgers(cluster, index)
        for each in list_consumers(cluster, one, None)
    }
    for line in lines:
        assert line.used == add_up(line, pods)
        assert line.terminating == add_up(line, [case for case in pods if case.is_terminating])
        assert line.reserved is None
        assert line.free == (None if line.hard is None else max(0, line.hard - line.used))
        limits = [(line.hard, "hard"), (line.soft, "soft")]
        assert line.exceeded_limit.value == next(
            (name for limit, name in limits if limit is not None and line.used > limit), ""
        )
        assert consumers[line.cap, line.namespace, line.name].used == line.used


@pytest.mark.parametrize("cap", [None, "each", "batch"])
@pytest.mark.parametrize("pod_namespace", [None, "a", "c"])
def test_a_choice_omits_lines_and_changes_none(tmp_path: Path, cap: str | None, pod_namespace: str | None) -> None:
    """Select a shared cap by each of its namespaces."""
    items = [namespace(name, **labels) for name, labels in _LABELS.items()]
    cluster, index = (
        load_snapshot(
            tmp_path, [*items, PodCase("a", 2, 1, 1, is_batch=True, is_terminating=False, phase="Running").to_object(0)]
        ),
        parse_caps(CAPS),
    )
    every_line = compute_usage(cluster, index, LedgerChoice()).lines
    expected = [
        line
        for line in every_line
        if cap in (None, line.cap) and (pod_namespace in (None, line.namespace) or line.cap == "batch")
    ]
    assert list(compute_usage(cluster, index, LedgerChoice(cap, pod_namespace)).lines) == expected
