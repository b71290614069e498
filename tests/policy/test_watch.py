"""Policy files that change while a store watches: written, renamed, swapped by the kubelet, deleted, made again."""

import queue
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.policy.files import NOON, WAIT, in_force, mount, rule_text
from webhook.policy.store import PolicyStatus, PolicyStore


@contextmanager
def _watched(*paths: Path, poll_seconds: float = 0.2) -> Iterator[tuple[PolicyStore, "queue.Queue[PolicyStatus]"]]:
    """A store that watches, and what it tells."""
    told: queue.Queue[PolicyStatus] = queue.Queue()
    store = PolicyStore(paths, on_change=told.put, now=lambda: NOON, poll_seconds=poll_seconds)
    store.start()
    try:
        yield store, told
    finally:
        store.stop()


def test_a_change_of_a_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    with _watched(tmp_path) as (store, told):
        (tmp_path / "a.yaml").write_text(rule_text("changed"))
        assert told.get(timeout=WAIT).generation == 2
        assert in_force(store) == ["changed"]


def _seen(tmp_path: Path, told: "queue.Queue[PolicyStatus]") -> None:
    """Write until one is told of, as the watch may not be up."""
    for attempt in range(100):
        (tmp_path / "a.yaml").write_text(rule_text(f"changed-{attempt}"))
        try:
            told.get(timeout=WAIT / 100)
        except queue.Empty:
            continue
        return
    pytest.fail("no change was seen")


def test_a_change_is_seen_by_its_event_not_by_the_clock(tmp_path: Path) -> None:
    """The clock would take longer than the test may."""
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    with _watched(tmp_path, poll_seconds=10 * WAIT) as (_, told):
        _seen(tmp_path, told)


def test_a_change_while_another_is_read_is_seen_by_its_event(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    told: queue.Queue[PolicyStatus] = queue.Queue()

    def tell(status: PolicyStatus) -> None:
        if not (tmp_path / "b.yaml").exists():
            (tmp_path / "b.yaml").write_text(rule_text("b"))
        told.put(status)

    store = PolicyStore([tmp_path], on_change=tell, now=lambda: NOON, poll_seconds=10 * WAIT)
    store.start()
    try:
        _seen(tmp_path, told)
        while len(in_force(store)) < 2:
            told.get(timeout=WAIT)
    finally:
        store.stop()


def test_a_file_named_by_itself_is_watched_even_when_it_is_replaced(tmp_path: Path) -> None:
    """As editors do it: a new file is renamed over the old one."""
    path = tmp_path / "a.yaml"
    path.write_text(rule_text("a"))
    with _watched(path) as (store, told):
        (tmp_path / "new").write_text(rule_text("changed"))
        (tmp_path / "new").rename(path)
        told.get(timeout=WAIT)
        assert in_force(store) == ["changed"]


def test_new_and_deleted_files_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    with _watched(tmp_path) as (store, told):
        (tmp_path / "b.yaml").write_text(rule_text("b"))
        told.get(timeout=WAIT)
        assert in_force(store) == ["a", "b"]
        (tmp_path / "a.yaml").unlink()
        told.get(timeout=WAIT)
        assert in_force(store) == ["b"]


def test_the_swap_of_a_configmap_is_one_change(tmp_path: Path) -> None:
    """Two files change names with one another: any mixture of versions would be a duplicate, and so broken."""
    mount(tmp_path, "v1", {"a.yaml": rule_text("a"), "b.yaml": rule_text("b")})
    with _watched(tmp_path) as (store, told):
        for version in range(2, 6):
            first, second = ("b", "a") if version % 2 == 0 else ("a", "b")
            mount(tmp_path, f"v{version}", {"a.yaml": rule_text(first), "b.yaml": rule_text(second)})
            status = told.get(timeout=WAIT)
            assert (status.generation, status.rejected_findings) == (version, ())
            assert in_force(store) == [first, second]
        assert told.empty()
    assert store.get_status().rejected_count == 0


def test_a_broken_configmap_leaves_the_last_good_one_until_it_is_mended(tmp_path: Path) -> None:
    mount(tmp_path, "v1", {"a.yaml": rule_text("a")})
    with _watched(tmp_path) as (store, told):
        mount(tmp_path, "v2", {"a.yaml": "x: ["})
        assert told.get(timeout=WAIT).rejected_count == 1
        assert in_force(store) == ["a"]
        mount(tmp_path, "v3", {"a.yaml": rule_text("mended")})
        assert told.get(timeout=WAIT).rejected_findings == ()
        assert in_force(store) == ["mended"]


def test_a_folder_that_is_deleted_and_made_again_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "a.yaml").write_text(rule_text("a"))
    with _watched(folder) as (store, told):
        (folder / "a.yaml").unlink()
        folder.rmdir()
        while not any("cannot be read" in finding.message for finding in told.get(timeout=WAIT).rejected_findings):
            assert in_force(store) == ["a"]
        folder.mkdir()
        (folder / "a.yaml").write_text(rule_text("back"))
        while told.get(timeout=WAIT).rejected_findings:
            assert in_force(store) == ["a"]
        assert in_force(store) == ["back"]


def test_even_the_folder_around_may_go_and_come_back(tmp_path: Path) -> None:
    """Then there is nothing left to watch, and the clock finds it."""
    folder = tmp_path / "etc" / "policies"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text(rule_text("a"))
    with _watched(folder) as (store, told):
        shutil.rmtree(tmp_path / "etc")
        while not any("cannot be read" in finding.message for finding in told.get(timeout=WAIT).rejected_findings):
            assert in_force(store) == ["a"]
        folder.mkdir(parents=True)
        (folder / "a.yaml").write_text(rule_text("back"))
        while told.get(timeout=WAIT).rejected_findings:
            assert in_force(store) == ["a"]
        assert in_force(store) == ["back"]
