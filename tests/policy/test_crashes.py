"""Faults of ours while a set is taken, or while it is told of: the status says so, and the store goes on."""

import queue
from datetime import datetime
from pathlib import Path

import pytest

from tests.policy.files import NOON, WAIT, in_force, rule_text
from webhook.policy.store import PolicyStatus, PolicyStore


class _Clock:
    """Stands for any fault of ours while a set is taken: it is out of order once, the second time it is looked at."""

    def __init__(self) -> None:
        self._looks = 0

    def __call__(self) -> datetime:
        self._looks += 1
        if self._looks == 2:
            raise RuntimeError("out of order")
        return NOON


def test_a_crash_of_the_reader_is_told_and_the_last_good_set_stays_in_force(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    told: list[PolicyStatus] = []
    store = PolicyStore([tmp_path], on_change=told.append, now=_Clock())
    good = store.get_policies()
    (tmp_path / "a.yaml").write_text(rule_text("changed"))
    status = store.reload()
    assert store.get_policies() is good
    assert repr(status.internal_error) == "RuntimeError('out of order')"
    assert (status.digest, status.generation, status.rejected_findings, status.rejected_count) == (
        good.digest,
        1,
        (),
        0,
    )
    assert told == [status]


def test_what_the_reader_crashed_over_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    told: list[PolicyStatus] = []
    store = PolicyStore([tmp_path], on_change=told.append, now=_Clock())
    (tmp_path / "a.yaml").write_text(rule_text("changed"))
    store.reload()
    assert (store.reload().internal_error, in_force(store)) == (None, ["changed"])
    assert [status.generation for status in told] == [1, 2]


@pytest.mark.parametrize("after", [rule_text("a"), "kind: Nothing\n"])
def test_a_crash_is_over_with_the_next_set_that_can_be_read(tmp_path: Path, after: str) -> None:
    """Also when that is the one in force, or broken."""
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    told: list[PolicyStatus] = []
    store = PolicyStore([tmp_path], on_change=told.append, now=_Clock())
    (tmp_path / "a.yaml").write_text(rule_text("changed"))
    assert store.reload().internal_error
    (tmp_path / "a.yaml").write_text(after)
    assert (store.reload().internal_error, store.get_status().generation) == (None, 1)
    assert told[1:] == [store.get_status()]


def _out_of_order(status: PolicyStatus) -> None:
    if status.generation == 2:
        raise RuntimeError("out of order")


def test_a_crash_of_whoever_is_told_is_noted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    told: queue.Queue[int] = queue.Queue()

    def tell(status: PolicyStatus) -> None:
        told.put(status.generation)
        _out_of_order(status)

    store = PolicyStore([tmp_path], on_change=tell, poll_seconds=0.2)
    store.start()
    (tmp_path / "a.yaml").write_text(rule_text("changed"))
    assert told.get(timeout=WAIT) == 2
    store.stop()
    assert repr(store.get_status().internal_error) == "RuntimeError('out of order')"
    assert in_force(store) == ["changed"]


def test_a_crash_of_whoever_is_told_is_survived(tmp_path: Path) -> None:
    """The watcher goes on, and the next good set is taken."""
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    told: queue.Queue[int] = queue.Queue()

    def tell(status: PolicyStatus) -> None:
        told.put(status.generation)
        _out_of_order(status)

    store = PolicyStore([tmp_path], on_change=tell, poll_seconds=0.2)
    store.start()
    try:
        (tmp_path / "a.yaml").write_text(rule_text("changed"))
        assert told.get(timeout=WAIT) == 2
        (tmp_path / "a.yaml").write_text(rule_text("again"))
        assert told.get(timeout=WAIT) == 3
        assert store.get_status().internal_error is None
        assert in_force(store) == ["again"]
    finally:
        store.stop()
