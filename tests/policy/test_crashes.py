"""Internal errors while a policy set is loaded or reported: the status has the error, and the store continues."""

import queue
from datetime import datetime
from pathlib import Path

import pytest

from tallygate.policy.store import PolicyStatus, PolicyStore
from tests.policy.files import NOON, TIMEOUT_SECONDS, list_rule_names, rule_text


class _Clock:
    """A clock that raises on its second call, as any internal error while a set is loaded."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self) -> datetime:
        self._calls += 1
        if self._calls == 2:
            raise RuntimeError("out of order")
        return NOON


def test_a_crash_of_the_reader_is_reported_and_the_last_good_set_stays_active(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    statuses: list[PolicyStatus] = []
    store = PolicyStore([tmp_path], on_change=statuses.append, now=_Clock())
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
    assert statuses == [status]


def test_files_are_read_again_after_a_crash_of_the_reader(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    statuses: list[PolicyStatus] = []
    store = PolicyStore([tmp_path], on_change=statuses.append, now=_Clock())
    (tmp_path / "a.yaml").write_text(rule_text("changed"))
    store.reload()
    assert (store.reload().internal_error, list_rule_names(store)) == (None, ["changed"])
    assert [status.generation for status in statuses] == [1, 2]


@pytest.mark.parametrize("after", [rule_text("a"), "kind: Nothing\n"])
def test_the_next_readable_set_clears_the_error(tmp_path: Path, after: str) -> None:
    """Reload the active set, or a broken one."""
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    statuses: list[PolicyStatus] = []
    store = PolicyStore([tmp_path], on_change=statuses.append, now=_Clock())
    (tmp_path / "a.yaml").write_text(rule_text("changed"))
    assert store.reload().internal_error
    (tmp_path / "a.yaml").write_text(after)
    assert (store.reload().internal_error, store.get_status().generation) == (None, 1)
    assert statuses[1:] == [store.get_status()]


def _raise_at_second_generation(status: PolicyStatus) -> None:
    if status.generation == 2:
        raise RuntimeError("out of order")


def test_a_crash_of_the_callback_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    statuses: queue.Queue[int] = queue.Queue()

    def report(status: PolicyStatus) -> None:
        statuses.put(status.generation)
        _raise_at_second_generation(status)

    store = PolicyStore([tmp_path], on_change=report, poll_seconds=0.2)
    store.start()
    (tmp_path / "a.yaml").write_text(rule_text("changed"))
    assert statuses.get(timeout=TIMEOUT_SECONDS) == 2
    store.stop()
    assert repr(store.get_status().internal_error) == "RuntimeError('out of order')"
    assert list_rule_names(store) == ["changed"]


def test_the_watcher_survives_a_crash_of_the_callback(tmp_path: Path) -> None:
    """Load the next good set after the crash."""
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    statuses: queue.Queue[int] = queue.Queue()

    def report(status: PolicyStatus) -> None:
        statuses.put(status.generation)
        _raise_at_second_generation(status)

    store = PolicyStore([tmp_path], on_change=report, poll_seconds=0.2)
    store.start()
    try:
        (tmp_path / "a.yaml").write_text(rule_text("changed"))
        assert statuses.get(timeout=TIMEOUT_SECONDS) == 2
        (tmp_path / "a.yaml").write_text(rule_text("again"))
        assert statuses.get(timeout=TIMEOUT_SECONDS) == 3
        assert store.get_status().internal_error is None
        assert list_rule_names(store) == ["again"]
    finally:
        store.stop()
