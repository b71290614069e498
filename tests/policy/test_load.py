"""Policy files on disk: found, read, watched; and the last good set stays in force."""

import os
import queue
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from webhook.policy import bounds
from webhook.policy.finding import Severity
from webhook.policy.load import read
from webhook.policy.store import PolicyError, PolicyStore, Status

WAIT = 20.0
"""Seconds until a change that was not seen counts as lost."""

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _rule(name: str, resource: str = "") -> str:
    head = "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\n"
    return f"{head}metadata: {{name: {name}}}\nspec: {{resources: [{resource or f'{name}.example/x'}]}}\n"


def _names(store: PolicyStore) -> list[str]:
    return [rule.name for rule in store.current().rules]


@contextmanager
def _watched(*paths: Path, poll_seconds: float = 0.2) -> Iterator[tuple[PolicyStore, "queue.Queue[Status]"]]:
    """A store that watches, and what it tells."""
    told: queue.Queue[Status] = queue.Queue()
    store = PolicyStore(paths, on_change=told.put, now=lambda: NOON, poll_seconds=poll_seconds)
    store.start()
    try:
        yield store, told
    finally:
        store.stop()


def test_a_folder_is_read_by_name_and_only_policy_files(tmp_path: Path) -> None:
    (tmp_path / "2.yaml").write_text(_rule("b"))
    (tmp_path / "1.yml").write_text(_rule("a"))
    (tmp_path / "3.json").write_text('{"apiVersion": "x"}')
    for other in (".hidden.yaml", "README.md", "policy.yaml.bak", "notes.txt"):
        (tmp_path / other).write_text("not: [a policy")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "x.yaml").write_text("not: [a policy")
    (tmp_path / "folder.yaml").mkdir()
    parsed = read([tmp_path])
    assert [rule.name for rule in parsed.policies.rules] == ["a", "b"]
    assert {finding.file for finding in parsed.findings} == {str(tmp_path / "3.json")}


def test_a_file_may_be_called_anything_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text(_rule("a"))
    assert [rule.name for rule in read([tmp_path / "rules.txt"]).policies.rules] == ["a"]


def test_a_file_of_two_names_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "1.yaml").write_text(_rule("a"))
    (tmp_path / "2.yaml").symlink_to(tmp_path / "1.yaml")
    assert read([tmp_path, tmp_path / "1.yaml", tmp_path]).findings == ()


def test_a_configmap_mount_is_read_once(tmp_path: Path) -> None:
    _mount(tmp_path, "v1", {"a.yaml": _rule("a"), "b.yaml": _rule("b")})
    parsed = read([tmp_path])
    assert parsed.findings == ()
    assert parsed.policies.files == (str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"))


def test_reading_lints(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_rule("a", '"!a.b/c"'))
    parsed = read([tmp_path])
    assert [finding.code for finding in parsed.findings] == ["TG330"]
    assert not parsed.usable


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    (finding,) = read([tmp_path / "missing"]).findings
    assert finding.code == "TG301"
    assert "No such file or directory" in finding.message


def test_a_folder_without_policies_is_a_mistake(tmp_path: Path) -> None:
    (finding,) = read([tmp_path]).findings
    assert finding.file == str(tmp_path)
    assert "no policy file here" in finding.message


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (finding,) = read([tmp_path]).findings
    assert "not a regular file" in finding.message


def test_a_link_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "gone")
    (finding,) = read([tmp_path]).findings
    assert (finding.file, finding.code) == (str(tmp_path / "a.yaml"), "TG301")


def test_a_huge_file_is_read_only_as_far_as_tells_that_it_is_huge(tmp_path: Path) -> None:
    with (tmp_path / "a.yaml").open("wb") as file:
        file.truncate(5 << 30)  # five gigabytes that take no room
    (finding,) = read([tmp_path]).findings
    assert finding.code == "TG302"


def test_too_much_in_all_is_not_read_to_its_end(tmp_path: Path) -> None:
    for at in range(12):
        (tmp_path / f"{at:02}.yaml").write_bytes(b"#" * bounds.MAX_FILE_BYTES)
    parsed = read([tmp_path])
    assert [finding.code for finding in parsed.findings] == ["TG302"]
    assert len(parsed.policies.files) == 9


def test_a_broken_set_at_the_start_is_an_error_with_all_its_findings(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Nothing\n")
    (tmp_path / "b.yaml").write_text("x: [")
    with pytest.raises(PolicyError) as caught:
        PolicyStore([tmp_path])
    assert {finding.file for finding in caught.value.findings} == {str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")}
    assert "a.yaml:1:7: error: " in str(caught.value)


def test_a_new_store_says_what_is_in_force(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_rule("a", "nvidia.com/gpus"))
    store = PolicyStore([tmp_path], now=lambda: NOON)
    status = store.status()
    assert (status.digest, status.generation, status.loaded_at) == (store.current().digest, 1, NOON)
    assert [finding.code for finding in status.warnings] == ["TG339"]
    assert (status.broken, status.failures, status.crash) == ((), 0, None)


def test_stopping_what_was_never_started_is_fine(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_rule("a"))
    PolicyStore([tmp_path]).stop()


def test_reloading_the_same_changes_nothing_and_tells_nobody(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_rule("a"))
    told: list[Status] = []
    store = PolicyStore([tmp_path], on_change=told.append)
    before = store.current()
    (tmp_path / "a.yaml").write_text(_rule("a"))
    assert store.reload().generation == 1
    assert store.current() is before
    assert told == []


def test_a_broken_set_leaves_the_last_good_one_in_force_and_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_rule("a"))
    told: list[Status] = []
    store = PolicyStore([tmp_path], on_change=told.append)
    good = store.current()
    (tmp_path / "a.yaml").write_text("kind: Nothing\n")
    status = store.reload()
    store.reload()
    assert store.current() is good
    assert (status.digest, status.generation, status.failures) == (good.digest, 1, 1)
    assert {finding.code for finding in status.broken} == {"TG306"}
    assert told == [status]
    (tmp_path / "a.yaml").write_text(_rule("a"))
    status = store.reload()
    assert (status.broken, status.failures) == ((), 1)
    assert len(told) == 2


def test_a_set_is_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    """One bad file of two keeps the good one's change out as well."""
    (tmp_path / "a.yaml").write_text(_rule("a"))
    (tmp_path / "b.yaml").write_text(_rule("b"))
    store = PolicyStore([tmp_path])
    (tmp_path / "a.yaml").write_text(_rule("changed"))
    (tmp_path / "b.yaml").write_text(_rule("changed"))
    store.reload()
    assert _names(store) == ["a", "b"]


def test_a_change_of_a_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_rule("a"))
    with _watched(tmp_path) as (store, told):
        (tmp_path / "a.yaml").write_text(_rule("changed"))
        assert told.get(timeout=WAIT).generation == 2
        assert _names(store) == ["changed"]


def _seen(tmp_path: Path, told: "queue.Queue[Status]") -> None:
    """Write until one is told of, as the watch may not be up."""
    for attempt in range(100):
        (tmp_path / "a.yaml").write_text(_rule(f"changed-{attempt}"))
        try:
            told.get(timeout=WAIT / 100)
        except queue.Empty:
            continue
        return
    pytest.fail("no change was seen")


def test_a_change_is_seen_by_its_event_not_by_the_clock(tmp_path: Path) -> None:
    """The clock would take longer than the test may."""
    (tmp_path / "a.yaml").write_text(_rule("a"))
    with _watched(tmp_path, poll_seconds=10 * WAIT) as (_, told):
        _seen(tmp_path, told)


def test_a_change_while_another_is_read_is_seen_by_its_event(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_rule("a"))
    told: queue.Queue[Status] = queue.Queue()

    def tell(status: Status) -> None:
        if not (tmp_path / "b.yaml").exists():
            (tmp_path / "b.yaml").write_text(_rule("b"))
        told.put(status)

    store = PolicyStore([tmp_path], on_change=tell, now=lambda: NOON, poll_seconds=10 * WAIT)
    store.start()
    try:
        _seen(tmp_path, told)
        while len(_names(store)) < 2:
            told.get(timeout=WAIT)
    finally:
        store.stop()


def test_a_file_named_by_itself_is_watched_even_when_it_is_replaced(tmp_path: Path) -> None:
    """As editors do it: a new file is renamed over the old one."""
    path = tmp_path / "a.yaml"
    path.write_text(_rule("a"))
    with _watched(path) as (store, told):
        (tmp_path / "new").write_text(_rule("changed"))
        (tmp_path / "new").rename(path)
        told.get(timeout=WAIT)
        assert _names(store) == ["changed"]


def test_new_and_deleted_files_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_rule("a"))
    with _watched(tmp_path) as (store, told):
        (tmp_path / "b.yaml").write_text(_rule("b"))
        told.get(timeout=WAIT)
        assert _names(store) == ["a", "b"]
        (tmp_path / "a.yaml").unlink()
        told.get(timeout=WAIT)
        assert _names(store) == ["b"]


def _mount(folder: Path, version: str, files: dict[str, str]) -> None:
    """What the kubelet does with a ConfigMap: write a hidden folder, then rename a symlink over the old one.

    (kubernetes pkg/volume/util/atomic_writer.go, v1.36.)
    """
    hidden = folder / f"..{version}"
    hidden.mkdir()
    for name, text in files.items():
        (hidden / name).write_text(text)
    fresh = folder / "..data_tmp"
    fresh.symlink_to(hidden.name)
    fresh.rename(folder / "..data")
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)


def test_the_swap_of_a_configmap_is_one_change(tmp_path: Path) -> None:
    """Two files change names with one another: any mixture of versions would be a duplicate, and so broken."""
    _mount(tmp_path, "v1", {"a.yaml": _rule("a"), "b.yaml": _rule("b")})
    with _watched(tmp_path) as (store, told):
        for version in range(2, 6):
            first, second = ("b", "a") if version % 2 == 0 else ("a", "b")
            _mount(tmp_path, f"v{version}", {"a.yaml": _rule(first), "b.yaml": _rule(second)})
            status = told.get(timeout=WAIT)
            assert (status.generation, status.broken) == (version, ())
            assert _names(store) == [first, second]
        assert told.empty()
    assert store.status().failures == 0


def test_a_broken_configmap_leaves_the_last_good_one_until_it_is_mended(tmp_path: Path) -> None:
    _mount(tmp_path, "v1", {"a.yaml": _rule("a")})
    with _watched(tmp_path) as (store, told):
        _mount(tmp_path, "v2", {"a.yaml": "x: ["})
        assert told.get(timeout=WAIT).failures == 1
        assert _names(store) == ["a"]
        _mount(tmp_path, "v3", {"a.yaml": _rule("mended")})
        assert told.get(timeout=WAIT).broken == ()
        assert _names(store) == ["mended"]


def test_a_folder_that_is_deleted_and_made_again_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "a.yaml").write_text(_rule("a"))
    with _watched(folder) as (store, told):
        (folder / "a.yaml").unlink()
        folder.rmdir()
        while not any("cannot be read" in finding.message for finding in told.get(timeout=WAIT).broken):
            assert _names(store) == ["a"]
        folder.mkdir()
        (folder / "a.yaml").write_text(_rule("back"))
        while told.get(timeout=WAIT).broken:
            assert _names(store) == ["a"]
        assert _names(store) == ["back"]


def test_even_the_folder_around_may_go_and_come_back(tmp_path: Path) -> None:
    """Then there is nothing left to watch, and the clock finds it."""
    folder = tmp_path / "etc" / "policies"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text(_rule("a"))
    with _watched(folder) as (store, told):
        shutil.rmtree(tmp_path / "etc")
        while not any("cannot be read" in finding.message for finding in told.get(timeout=WAIT).broken):
            assert _names(store) == ["a"]
        folder.mkdir(parents=True)
        (folder / "a.yaml").write_text(_rule("back"))
        while told.get(timeout=WAIT).broken:
            assert _names(store) == ["a"]
        assert _names(store) == ["back"]


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
    (tmp_path / "a.yaml").write_text(_rule("a"))
    told: list[Status] = []
    store = PolicyStore([tmp_path], on_change=told.append, now=_Clock())
    good = store.current()
    (tmp_path / "a.yaml").write_text(_rule("changed"))
    status = store.reload()
    assert store.current() is good
    assert repr(status.crash) == "RuntimeError('out of order')"
    assert (status.digest, status.generation, status.broken, status.failures) == (good.digest, 1, (), 0)
    assert told == [status]


def test_what_the_reader_crashed_over_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_rule("a"))
    told: list[Status] = []
    store = PolicyStore([tmp_path], on_change=told.append, now=_Clock())
    (tmp_path / "a.yaml").write_text(_rule("changed"))
    store.reload()
    assert (store.reload().crash, _names(store)) == (None, ["changed"])
    assert [status.generation for status in told] == [1, 2]


@pytest.mark.parametrize("after", [_rule("a"), "kind: Nothing\n"])
def test_a_crash_is_over_with_the_next_set_that_can_be_read(tmp_path: Path, after: str) -> None:
    """Also when that is the one in force, or broken."""
    (tmp_path / "a.yaml").write_text(_rule("a"))
    told: list[Status] = []
    store = PolicyStore([tmp_path], on_change=told.append, now=_Clock())
    (tmp_path / "a.yaml").write_text(_rule("changed"))
    assert store.reload().crash
    (tmp_path / "a.yaml").write_text(after)
    assert (store.reload().crash, store.status().generation) == (None, 1)
    assert told[1:] == [store.status()]


def _out_of_order(status: Status) -> None:
    if status.generation == 2:
        raise RuntimeError("out of order")


def test_a_crash_of_whoever_is_told_is_noted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_rule("a"))
    told: queue.Queue[int] = queue.Queue()

    def tell(status: Status) -> None:
        told.put(status.generation)
        _out_of_order(status)

    store = PolicyStore([tmp_path], on_change=tell, poll_seconds=0.2)
    store.start()
    (tmp_path / "a.yaml").write_text(_rule("changed"))
    assert told.get(timeout=WAIT) == 2
    store.stop()
    assert repr(store.status().crash) == "RuntimeError('out of order')"
    assert _names(store) == ["changed"]


def test_a_crash_of_whoever_is_told_is_survived(tmp_path: Path) -> None:
    """The watcher goes on, and the next good set is taken."""
    (tmp_path / "a.yaml").write_text(_rule("a"))
    told: queue.Queue[int] = queue.Queue()

    def tell(status: Status) -> None:
        told.put(status.generation)
        _out_of_order(status)

    store = PolicyStore([tmp_path], on_change=tell, poll_seconds=0.2)
    store.start()
    try:
        (tmp_path / "a.yaml").write_text(_rule("changed"))
        assert told.get(timeout=WAIT) == 2
        (tmp_path / "a.yaml").write_text(_rule("again"))
        assert told.get(timeout=WAIT) == 3
        assert store.status().crash is None
        assert _names(store) == ["again"]
    finally:
        store.stop()


@pytest.mark.parametrize("content", ["", "# to be written\n", "---\n---\n"])
def test_a_set_without_any_policy_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "empty.yaml").write_text(content)
    (finding,) = read([tmp_path]).findings
    assert "says no policy" in finding.message
    assert finding.severity is Severity.ERROR
