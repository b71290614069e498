"""The numbers of `tallygate usage` are plain sums over pods."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.usage.clusters import GPU, Object, caps, namespace, pod, seen
from webhook.cli.usage.consumers import list_consumers
from webhook.cli.usage.usage_report import LedgerChoice, UsageLine, compute_usage

_MIB = 1024 * 1024
_LABELS = {"a": {"gpu": "yes"}, "b": {"gpu": "yes"}, "c": {}}


class Asks(NamedTuple):
    """One pod as the property speaks of it: how many GPUs, thousandths of a CPU and MiB, and how it stands."""

    where: str
    gpus: int
    milli: int
    mebibytes: int
    batch: bool
    going: bool
    phase: str

    def made(self, number: int) -> Object:
        """As the API server stores it."""
        asks = {GPU: f"{self.gpus}", "cpu": f"{self.milli}m", "memory": f"{self.mebibytes}Mi"}
        meta: dict[str, Any] = {"deletionTimestamp": "2026-11-21T10:00:00Z"} if self.going else {}
        spec = {"priorityClassName": "batch"} if self.batch else {}
        return pod(f"p{number}", asks, self.where, meta=meta, spec=spec, status={"phase": self.phase})

    def amount(self, name: str) -> int:
        """What it holds of a name, by hand."""
        if self.phase in {"Succeeded", "Failed"}:
            return 0
        return {GPU: self.gpus, "cpu": self.milli, "limits.memory": self.mebibytes * _MIB, "pods": 1}[name]


ASKS = st.builds(
    Asks,
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


def counts(line: UsageLine, asks: Asks) -> bool:
    """Whether a cap counts a pod, by hand."""
    if line.cap == "each":
        return asks.where == line.namespace
    return asks.batch


def total(line: UsageLine, every: Sequence[Asks]) -> int:
    """The plain sum."""
    return sum(asks.amount(line.name) for asks in every if counts(line, asks))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(every=st.lists(ASKS, max_size=12))
def test_every_number_is_a_plain_sum_over_pods(tmp_path: Path, every: list[Asks]) -> None:
    """Held, terminating, free and over, and the pods behind each number add up to it."""
    items = [namespace(name, **labels) for name, labels in _LABELS.items()]
    cluster, index = seen(tmp_path, [*items, *(asks.made(number) for number, asks in enumerate(every))]), caps(CAPS)
    lines = compute_usage(cluster, index, LedgerChoice()).lines
    assert [(line.cap, line.namespace, line.name) for line in lines] == [
        ("batch", "", "cpu"),
        ("batch", "", "pods"),
        *(("each", where, name) for where in ("a", "b") for name in ("cpu", "limits.memory", GPU)),
    ]
    held = {
        (each.cap, each.namespace, each.name): each
        for one in LedgerChoice().list_ledgers(cluster, index)
        for each in list_consumers(cluster, one)
    }
    for line in lines:
        assert line.used == total(line, every)
        assert line.terminating == total(line, [asks for asks in every if asks.going])
        assert line.reserved is None
        assert line.free == (None if line.hard is None else max(0, line.hard - line.used))
        bounds = [(line.hard, "hard"), (line.soft, "soft")]
        assert line.exceeded_limit.value == next(
            (word for most, word in bounds if most is not None and line.used > most), ""
        )
        assert held[line.cap, line.namespace, line.name].used == line.used


@pytest.mark.parametrize("cap", [None, "each", "batch"])
@pytest.mark.parametrize("where", [None, "a", "c"])
def test_a_choice_leaves_out_lines_and_changes_none(tmp_path: Path, cap: str | None, where: str | None) -> None:
    """A shared cap is meant by each of its namespaces."""
    items = [namespace(name, **labels) for name, labels in _LABELS.items()]
    cluster, index = seen(tmp_path, [*items, Asks("a", 2, 1, 1, True, False, "Running").made(0)]), caps(CAPS)  # noqa: FBT003 -- a pod, field by field
    every = compute_usage(cluster, index, LedgerChoice()).lines
    wanted = [
        line for line in every if cap in (None, line.cap) and (where in (None, line.namespace) or line.cap == "batch")
    ]
    assert list(compute_usage(cluster, index, LedgerChoice(cap, where)).lines) == wanted
