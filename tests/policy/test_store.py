"""What a store has in force as it is made and told to read again: a whole good set, or the last one that was."""

from pathlib import Path, PosixPath
from typing import Any

import pytest

from tests.policy.files import NOON, in_force, rule_text
from webhook.policy.store import PolicyError, PolicyStatus, PolicyStore


def test_a_broken_set_at_the_start_is_an_error_with_all_its_findings(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Nothing\n")
    (tmp_path / "b.yaml").write_text("x: [")
    with pytest.raises(PolicyError) as caught:
        PolicyStore([tmp_path])
    assert {finding.file for finding in caught.value.findings} == {str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")}
    assert "a.yaml:1:7: error: " in str(caught.value)


def test_a_new_store_says_what_is_in_force(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a", "nvidia.com/gpus"))
    store = PolicyStore([tmp_path], now=lambda: NOON)
    status = store.get_status()
    assert (status.digest, status.generation, status.loaded_at) == (store.get_policies().digest, 1, NOON)
    assert [finding.code for finding in status.warnings] == ["TG339"]
    assert (status.rejected_findings, status.rejected_count, status.internal_error) == ((), 0, None)


def test_stopping_what_was_never_started_is_fine(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    PolicyStore([tmp_path]).stop()


def test_reloading_the_same_changes_nothing_and_tells_nobody(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    told: list[PolicyStatus] = []
    store = PolicyStore([tmp_path], on_change=told.append)
    before = store.get_policies()
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    assert store.reload().generation == 1
    assert store.get_policies() is before
    assert told == []


def test_a_broken_set_leaves_the_last_good_one_in_force_and_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    told: list[PolicyStatus] = []
    store = PolicyStore([tmp_path], on_change=told.append)
    good = store.get_policies()
    (tmp_path / "a.yaml").write_text("kind: Nothing\n")
    status = store.reload()
    store.reload()
    assert store.get_policies() is good
    assert (status.digest, status.generation, status.rejected_count) == (good.digest, 1, 1)
    assert {finding.code for finding in status.rejected_findings} == {"TG306"}
    assert told == [status]
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    status = store.reload()
    assert (status.rejected_findings, status.rejected_count) == ((), 1)
    assert len(told) == 2


def test_a_set_is_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    """One bad file of two keeps the good one's change out as well."""
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    (tmp_path / "b.yaml").write_text(rule_text("b"))
    store = PolicyStore([tmp_path])
    (tmp_path / "a.yaml").write_text(rule_text("changed"))
    (tmp_path / "b.yaml").write_text(rule_text("changed"))
    store.reload()
    assert in_force(store) == ["a", "b"]


class _EditedPath(PosixPath):
    """A policy file that an editor replaces, and its neighbour with it, each time it has just been opened."""

    edits = 0
    opened = 0

    def open(self, *args: Any, **kwargs: Any) -> Any:  # whatever the reader asks for
        """Open the file as it is, then replace both while it is read."""
        file = super().open(*args, **kwargs)
        self.opened += 1
        if self.opened <= self.edits:
            replace_both(Path(self.parent), self.opened)
        return file


def replace_both(folder: Path, version: int) -> None:
    """Replace both files of a set by those of another version."""
    for name in "ab":
        beside = folder / f"{name}.new"
        beside.write_text(rule_text(f"{name}{version}"))
        beside.rename(folder / f"{name}.yaml")


def edited(folder: Path) -> _EditedPath:
    """The first of two files, which nobody edits yet."""
    replace_both(folder, 0)
    return _EditedPath(folder / "a.yaml")


EDITS = pytest.mark.parametrize(
    ("edits", "reads"),
    [
        pytest.param(0, 1, id="what nobody edits is read once"),
        pytest.param(1, 2, id="what is edited is read again"),
        pytest.param(4, 5, id="what is edited four times is read five times"),
    ],
)


@EDITS
def test_a_store_begins_with_no_half_of_a_set_that_is_edited_while_it_is_read(
    tmp_path: Path, edits: int, reads: int
) -> None:
    first = edited(tmp_path)
    first.edits = edits
    store = PolicyStore([first, tmp_path / "b.yaml"])
    assert in_force(store) == [f"a{edits}", f"b{edits}"]
    assert first.opened == reads


@EDITS
def test_a_store_takes_no_half_of_a_set_that_is_edited_while_it_is_read_again(
    tmp_path: Path, edits: int, reads: int
) -> None:
    first = edited(tmp_path)
    store = PolicyStore([first, tmp_path / "b.yaml"])
    first.edits, first.opened = edits, 0
    status = store.reload()
    assert in_force(store) == [f"a{edits}", f"b{edits}"]
    assert (first.opened, status.generation) == (reads, 2 if edits else 1)


def test_what_is_edited_without_end_is_read_five_times(tmp_path: Path) -> None:
    first = edited(tmp_path)
    first.edits = 1000
    PolicyStore([first, tmp_path / "b.yaml"])
    assert first.opened == 5
