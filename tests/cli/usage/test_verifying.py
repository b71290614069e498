"""`tallygate usage --verify`: a ledger that the gate's own transitions have made is right, and any other is not."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.usage.clusters import GPU, Object, caps, namespace, pod, seen
from webhook.accounting.amounts import Amounts
from webhook.cli.usage.usage_report import LedgerChoice
from webhook.cli.usage.verify import Drift, find_drift
from webhook.state.kubernetes.cap_ledger import encode_ledger
from webhook.state.ledger.ledger import Ledger, Operation, Reservation
from webhook.state.ports import LedgerKey

CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: [team-a]}, hard: {nvidia.com/gpu: 100}}
"""
INDEX = caps(CAP)
(COUNTED,) = INDEX.list_caps()
KEY = LedgerKey(COUNTED.key, "team-a")
AS_OF = 100
COUNTED_AT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
LONG_BEFORE, JUST_BEFORE = "2026-11-21T09:00:00Z", "2026-11-21T09:29:59Z"


def gpus(count: int, name: str, revision: int, born: str = JUST_BEFORE, **more: str) -> Object:
    """A pod with GPUs that changed last at a revision."""
    meta = {"resourceVersion": f"{revision}", "creationTimestamp": born}
    return pod(name, {GPU: f"{count}"}, meta=meta, status=more)


def drifts(folder: Path, ledger: Ledger, pods: list[Object], now: float | None = None) -> list[Drift]:
    """What is found; `now` is when the cluster was read."""
    stored = json.loads(encode_ledger(KEY, ledger, "tallygate-system", None, COUNTED_AT).body)
    stored["metadata"] |= {"uid": "l", "resourceVersion": "120"}
    cluster = seen(folder, [namespace("team-a"), stored, *pods], 200)
    assert not cluster.ledgers.problems
    cluster.read_at = now
    return [each for chosen in LedgerChoice().list_ledgers(cluster, INDEX) for each in find_drift(cluster, chosen)]


def counted(tally: int) -> Ledger:
    """A ledger that was counted."""
    return Ledger(
        COUNTED.hard,
        used=Amounts({GPU: tally}),
        resources=COUNTED.resources,
        pods_revision=AS_OF,
        namespaces_revision=3,
    )


def row(kind: Operation, to: int, base: int = 0, name: str = "p") -> Reservation:
    """A promise."""
    return Reservation(
        "team-a",
        name,
        Amounts({GPU: base} if base else {}),
        Amounts({GPU: to}),
        "n",
        single_attempt=True,
        operation=kind,
    )


OLD = st.lists(st.integers(0, 5), max_size=5)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=OLD, new=OLD, gone=st.integers(0, 3), off=st.integers(-3, 3))
def test_what_was_counted_is_compared_and_what_came_later_is_no_drift(
    tmp_path: Path, old: list[int], new: list[int], gone: int, off: int
) -> None:
    """The tally is what was there: pods that are as they were must be in it, pods seen later may be."""
    pods = [gpus(count, f"old{number}", 90) for number, count in enumerate(old)]
    pods += [gpus(count, f"new{number}", 150) for number, count in enumerate(new)]
    pods += [gpus(5, f"ended{number}", 90, phase="Failed") for number in range(gone)]
    tally = max(0, sum(old) + off)
    found = drifts(tmp_path, counted(tally), pods)
    is_right = sum(old) <= tally <= sum(old) + sum(new)
    assert bool(found) is not is_right
    if found:
        assert [(each.ledger, each.pod) for each in found] == [(tally, "")]


def test_a_pod_created_long_before_is_counted_whatever_of_it_changed_since(tmp_path: Path) -> None:
    """A kubelet changes its status all the time, and nobody counts anew for that."""
    pods = [gpus(3, "p", 150, LONG_BEFORE)]
    assert drifts(tmp_path, counted(3), pods) == []
    (found,) = drifts(tmp_path, counted(2), pods)
    assert (found.ledger, found.pods) == (2, 3)


@pytest.mark.parametrize(("later", "must"), [(30, False), (120, True)])
def test_a_gate_has_a_minute_to_count_what_is_new(tmp_path: Path, later: float, must: bool) -> None:  # noqa: FBT001 -- a table
    """Then a pod that is not counted is found, where it is known how late it is."""
    pods = [gpus(3, "p", 150)]
    assert drifts(tmp_path, counted(0), pods) == []
    assert bool(drifts(tmp_path, counted(0), pods, COUNTED_AT.timestamp() + later)) is must
    assert drifts(tmp_path, counted(3), pods, COUNTED_AT.timestamp() + later) == []


def test_a_pod_that_ended_since_may_have_been_counted(tmp_path: Path) -> None:
    """Or not."""
    pods = [gpus(3, "p", 150, LONG_BEFORE, phase="Succeeded")]
    assert drifts(tmp_path, counted(3), pods) == []
    assert drifts(tmp_path, counted(0), pods) == []
    assert drifts(tmp_path, counted(4), pods) != []


def test_rows_in_flight_are_no_drift(tmp_path: Path) -> None:
    """Their pods are not there, or have changed since."""
    ledger = (
        counted(0)
        .with_reservation("absent", row(Operation.CREATE, 2))
        .with_reservation("uid-team-a-p", row(Operation.CREATE, 1))
    )
    assert drifts(tmp_path, ledger, [gpus(1, "p", 150)]) == []


def test_a_creation_that_is_counted_and_still_promised_is_charged_twice(tmp_path: Path) -> None:
    """Its row should have been settled with the tally."""
    ledger = counted(1).with_reservation("uid-team-a-p", row(Operation.CREATE, 1))
    (found,) = drifts(tmp_path, ledger, [gpus(1, "p", 90)])
    assert (found.pod, found.name) == ("team-a/p", GPU)


def test_a_change_is_based_on_what_its_pod_holds(tmp_path: Path) -> None:
    """Then it is in flight; based on anything else it promises too much or too little."""
    pods = [gpus(2, "p", 90)]
    assert drifts(tmp_path, counted(2).with_reservation("uid-team-a-p", row(Operation.UPDATE, 4, 2)), pods) == []
    (found,) = drifts(tmp_path, counted(2).with_reservation("uid-team-a-p", row(Operation.UPDATE, 4, 1)), pods)
    assert (found.ledger, found.pods, found.pod) == (1, 2, "team-a/p")


def test_a_ledger_that_was_not_counted_yet_says_nothing_wrong(tmp_path: Path) -> None:
    """Nor one that promises nothing yet."""
    pods = [gpus(2, "p", 90)]
    assert drifts(tmp_path, Ledger(COUNTED.hard), pods) == []
    assert drifts(tmp_path, replace(counted(0), initializer="n"), pods) == []
