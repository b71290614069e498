"""Policy files that change while a store watches: written, renamed, swapped by the kubelet, deleted, recreated."""

import queue
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tallygate.policy.store import PolicyStatus, PolicyStore
from tests.policy.files import NOON, TIMEOUT_SECONDS, list_rule_names, mount_config_map, rule_text


@contextmanager
def _watch(*paths: Path, poll_seconds: float = 0.2) -> Iterator[tuple[PolicyStore, "queue.Queue[PolicyStatus]"]]:
    """Yield a store that watches, and a queue of its statuses."""
    statuses: queue.Queue[PolicyStatus] = queue.Queue()
    store = PolicyStore(paths, on_change=statuses.put, now=lambda: NOON, poll_seconds=poll_seconds)
    store.start()
    try:
        yield store, statuses
    finally:
        store.stop()


def test_a_change_of_a_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    with _watch(tmp_path) as (store, statuses):
        (tmp_path / "a.yaml").write_text(rule_text("changed"))
        assert statuses.get(timeout=TIMEOUT_SECONDS).generation == 2
        assert list_rule_names(store) == ["changed"]


def test_a_change_in_a_nested_folder_is_noticed(tmp_path: Path) -> None:
    """Notice a change and a new folder, both by polling: only the folders that are named have events."""
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams" / "a.yaml").write_text(rule_text("a"))
    with _watch(tmp_path) as (store, statuses):
        (tmp_path / "teams" / "a.yaml").write_text(rule_text("changed"))
        assert statuses.get(timeout=TIMEOUT_SECONDS).generation == 2
        (tmp_path / "teams" / "new").mkdir()
        (tmp_path / "teams" / "new" / "b.yaml").write_text(rule_text("b"))
        while list_rule_names(store) != ["changed", "b"]:
            statuses.get(timeout=TIMEOUT_SECONDS)


def _write_until_reported(tmp_path: Path, statuses: "queue.Queue[PolicyStatus]") -> None:
    """Write changes until one is reported, because the watch may not have started."""
    for attempt in range(100):
        (tmp_path / "a.yaml").write_text(rule_text(f"changed-{attempt}"))
        try:
            statuses.get(timeout=TIMEOUT_SECONDS / 100)
        except queue.Empty:
            continue
        return
    pytest.fail("no change was seen")


def test_a_change_is_noticed_by_its_event_and_not_by_polling(tmp_path: Path) -> None:
    """Poll at an interval that is longer than the timeout of the test."""
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    with _watch(tmp_path, poll_seconds=10 * TIMEOUT_SECONDS) as (_, statuses):
        _write_until_reported(tmp_path, statuses)


def test_a_change_during_a_reload_is_noticed_by_its_event(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    statuses: queue.Queue[PolicyStatus] = queue.Queue()

    def report(status: PolicyStatus) -> None:
        if not (tmp_path / "b.yaml").exists():
            (tmp_path / "b.yaml").write_text(rule_text("b"))
        statuses.put(status)

    store = PolicyStore([tmp_path], on_change=report, now=lambda: NOON, poll_seconds=10 * TIMEOUT_SECONDS)
    store.start()
    try:
        _write_until_reported(tmp_path, statuses)
        while len(list_rule_names(store)) < 2:
            statuses.get(timeout=TIMEOUT_SECONDS)
    finally:
        store.stop()


def test_a_single_file_is_watched_even_if_it_is_replaced(tmp_path: Path) -> None:
    """Rename a new file over the old one, as editors do."""
    path = tmp_path / "a.yaml"
    path.write_text(rule_text("a"))
    with _watch(path) as (store, statuses):
        (tmp_path / "new").write_text(rule_text("changed"))
        (tmp_path / "new").rename(path)
        statuses.get(timeout=TIMEOUT_SECONDS)
        assert list_rule_names(store) == ["changed"]


def test_new_and_deleted_files_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    with _watch(tmp_path) as (store, statuses):
        (tmp_path / "b.yaml").write_text(rule_text("b"))
        statuses.get(timeout=TIMEOUT_SECONDS)
        assert list_rule_names(store) == ["a", "b"]
        (tmp_path / "a.yaml").unlink()
        statuses.get(timeout=TIMEOUT_SECONDS)
        assert list_rule_names(store) == ["b"]


def test_the_swap_of_a_configmap_is_one_change(tmp_path: Path) -> None:
    """Swap the names of two files: any mixture of versions has a duplicate name and is rejected."""
    mount_config_map(tmp_path, "v1", {"a.yaml": rule_text("a"), "b.yaml": rule_text("b")})
    with _watch(tmp_path) as (store, statuses):
        for version in range(2, 6):
            first, second = ("b", "a") if version % 2 == 0 else ("a", "b")
            mount_config_map(tmp_path, f"v{version}", {"a.yaml": rule_text(first), "b.yaml": rule_text(second)})
            status = statuses.get(timeout=TIMEOUT_SECONDS)
            assert (status.generation, status.rejected_findings) == (version, ())
            assert list_rule_names(store) == [first, second]
        assert statuses.empty()
    assert store.get_status().rejected_count == 0


def test_a_broken_configmap_leaves_the_last_good_one_until_it_is_fixed(tmp_path: Path) -> None:
    mount_config_map(tmp_path, "v1", {"a.yaml": rule_text("a")})
    with _watch(tmp_path) as (store, statuses):
        mount_config_map(tmp_path, "v2", {"a.yaml": "x: ["})
        assert statuses.get(timeout=TIMEOUT_SECONDS).rejected_count == 1
        assert list_rule_names(store) == ["a"]
        mount_config_map(tmp_path, "v3", {"a.yaml": rule_text("fixed")})
        assert statuses.get(timeout=TIMEOUT_SECONDS).rejected_findings == ()
        assert list_rule_names(store) == ["fixed"]


def test_a_deleted_and_recreated_folder_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "a.yaml").write_text(rule_text("a"))
    with _watch(folder) as (store, statuses):
        (folder / "a.yaml").unlink()
        folder.rmdir()
        while not any(
            "cannot be read" in finding.message for finding in statuses.get(timeout=TIMEOUT_SECONDS).rejected_findings
        ):
            assert list_rule_names(store) == ["a"]
        folder.mkdir()
        (folder / "a.yaml").write_text(rule_text("back"))
        while statuses.get(timeout=TIMEOUT_SECONDS).rejected_findings:
            assert list_rule_names(store) == ["a"]
        assert list_rule_names(store) == ["back"]


def test_a_deleted_and_recreated_parent_folder_is_noticed(tmp_path: Path) -> None:
    """Delete the parent folder: no watch is left, and polling finds the new files."""
    folder = tmp_path / "etc" / "policies"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text(rule_text("a"))
    with _watch(folder) as (store, statuses):
        shutil.rmtree(tmp_path / "etc")
        while not any(
            "cannot be read" in finding.message for finding in statuses.get(timeout=TIMEOUT_SECONDS).rejected_findings
        ):
            assert list_rule_names(store) == ["a"]
        folder.mkdir(parents=True)
        (folder / "a.yaml").write_text(rule_text("back"))
        while statuses.get(timeout=TIMEOUT_SECONDS).rejected_findings:
            assert list_rule_names(store) == ["a"]
        assert list_rule_names(store) == ["back"]
