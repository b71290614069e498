"""The active set of a policy store after its creation and after each reload: complete, and the last good one."""

from pathlib import Path, PosixPath
from typing import Any

import pytest

from tallygate.errors import TallygateError
from tallygate.policy.store import PolicyError, PolicyStatus, PolicyStore
from tests.policy.files import NOON, list_rule_names, rule_text


def test_a_broken_set_at_the_start_is_an_error_with_all_its_findings(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Nothing\n")
    (tmp_path / "b.yaml").write_text("x: [")
    with pytest.raises(PolicyError) as caught:
        PolicyStore([tmp_path])
    assert {finding.file for finding in caught.value.findings} == {str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")}
    assert "a.yaml:1:7: error: " in str(caught.value)


def test_the_status_of_a_new_store_describes_the_active_set(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a", "nvidia.com/gpus"))
    store = PolicyStore([tmp_path], now=lambda: NOON)
    status = store.get_status()
    assert (status.digest, status.generation, status.loaded_at) == (store.get_policies().digest, 1, NOON)
    assert [finding.code for finding in status.warnings] == ["TG339"]
    assert (status.rejected_findings, status.rejected_count, status.internal_error) == ((), 0, None)


def test_stop_without_start_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    PolicyStore([tmp_path]).stop()


def test_reloading_unchanged_files_changes_and_reports_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    statuses: list[PolicyStatus] = []
    store = PolicyStore([tmp_path], on_change=statuses.append)
    before = store.get_policies()
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    assert store.reload().generation == 1
    assert store.get_policies() is before
    assert statuses == []


def test_a_broken_set_leaves_the_last_good_one_active_and_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    statuses: list[PolicyStatus] = []
    store = PolicyStore([tmp_path], on_change=statuses.append)
    good = store.get_policies()
    (tmp_path / "a.yaml").write_text("kind: Nothing\n")
    status = store.reload()
    store.reload()
    assert store.get_policies() is good
    assert (status.digest, status.generation, status.rejected_count) == (good.digest, 1, 1)
    assert {finding.code for finding in status.rejected_findings} == {"TG306"}
    assert statuses == [status]
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    status = store.reload()
    assert (status.rejected_findings, status.rejected_count) == ((), 1)
    assert len(statuses) == 2


def test_a_set_is_loaded_whole_or_not_at_all(tmp_path: Path) -> None:
    """Reject the change of a good file together with a broken file."""
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    (tmp_path / "b.yaml").write_text(rule_text("b"))
    store = PolicyStore([tmp_path])
    (tmp_path / "a.yaml").write_text(rule_text("changed"))
    (tmp_path / "b.yaml").write_text(rule_text("changed"))
    store.reload()
    assert list_rule_names(store) == ["a", "b"]


class _EditedPath(PosixPath):
    """A policy file that is replaced together with its neighbour each time after it was opened."""

    edits = 0
    opened = 0

    def open(self, *args: Any, **kwargs: Any) -> Any:  # the arguments of the reader
        """Open the file, then replace both files while the reader reads it."""
        file = super().open(*args, **kwargs)
        self.opened += 1
        if self.opened <= self.edits:
            replace_both(Path(self.parent), self.opened)
        return file


def replace_both(folder: Path, version: int) -> None:
    """Replace both files of a set by those of another version."""
    for name in "ab":
        new_file = folder / f"{name}.new"
        new_file.write_text(rule_text(f"{name}{version}"))
        new_file.rename(folder / f"{name}.yaml")


def write_files(folder: Path) -> _EditedPath:
    """Write two files and return the first, which is not edited yet."""
    replace_both(folder, 0)
    return _EditedPath(folder / "a.yaml")


EDITS = pytest.mark.parametrize(
    ("edits", "reads"),
    [
        pytest.param(0, 1, id="files without edits are read once"),
        pytest.param(1, 2, id="edited files are read again"),
        pytest.param(4, 5, id="files with four edits are read five times"),
    ],
)


@EDITS
def test_a_new_store_loads_no_half_of_a_set_that_changes_during_the_read(
    tmp_path: Path, edits: int, reads: int
) -> None:
    first = write_files(tmp_path)
    first.edits = edits
    store = PolicyStore([first, tmp_path / "b.yaml"])
    assert list_rule_names(store) == [f"a{edits}", f"b{edits}"]
    assert first.opened == reads


@EDITS
def test_a_reload_loads_no_half_of_a_set_that_changes_during_the_read(tmp_path: Path, edits: int, reads: int) -> None:
    first = write_files(tmp_path)
    store = PolicyStore([first, tmp_path / "b.yaml"])
    first.edits, first.opened = edits, 0
    status = store.reload()
    assert list_rule_names(store) == [f"a{edits}", f"b{edits}"]
    assert (first.opened, status.generation) == (reads, 2 if edits else 1)


def test_a_new_store_refuses_files_that_change_during_every_read(tmp_path: Path) -> None:
    first = write_files(tmp_path)
    first.edits = 1000
    with pytest.raises(TallygateError, match="changed during each of 5 reads: start again when they are complete"):
        PolicyStore([first, tmp_path / "b.yaml"])
    assert first.opened == 5


def test_a_reload_keeps_the_active_set_while_files_change_during_every_read(tmp_path: Path) -> None:
    first = write_files(tmp_path)
    store = PolicyStore([first, tmp_path / "b.yaml"])
    first.edits, first.opened = 1000, 0
    before = store.get_status()
    assert store.reload() == before
    assert (list_rule_names(store), first.opened) == (["a0", "b0"], 5)
    first.edits = 0
    assert store.reload().generation == 2
    assert list_rule_names(store) == ["a5", "b5"]
