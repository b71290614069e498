"""From arguments to files."""

import io
import os
from pathlib import Path

import pytest

from webhook.cli.manifests.manifest_files import find_files, get_code, load_manifests, read_text
from webhook.documents.syntax_tree import DEFAULT_LIMITS, DocumentError, Limits

NOTHING = io.BytesIO()


def test_folders_give_their_manifests_in_order(tmp_path: Path) -> None:
    """At any depth, without hidden folders, other files, or links that lead in a circle."""
    for name in ("b/two.yml", "b/c/three.json", "a.yaml", ".git/x.yaml", "notes.txt", "z.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (tmp_path / "b" / "again").symlink_to(tmp_path)
    below = [os.path.relpath(name, tmp_path) for name in find_files((str(tmp_path),))]
    assert below == ["a.yaml", "z.yaml", "b/two.yml", "b/c/three.json"]


def test_named_files_are_taken_whatever_they_are_called(tmp_path: Path) -> None:
    """In the order given, stdin among them."""
    assert find_files(("-", str(tmp_path / "x.txt"), "gone")) == ["-", str(tmp_path / "x.txt"), "gone"]


def test_stdin_is_read() -> None:
    """It is called so in findings."""
    assert read_text("-", io.BytesIO("a: é".encode()), DEFAULT_LIMITS) == "a: é"
    assert load_manifests(("-",), io.BytesIO(b"a: b"), DEFAULT_LIMITS, lambda names: names).file_names == ["<stdin>"]


def _read_invalid(name: str, content: io.BytesIO, limits: Limits = DEFAULT_LIMITS) -> tuple[str, DocumentError]:
    with pytest.raises(DocumentError) as raised:
        read_text(name, content, limits)
    return get_code(raised.value), raised.value


def test_what_is_not_there_is_a_fault(tmp_path: Path) -> None:
    """With the system's reason."""
    code, error = _read_invalid(str(tmp_path / "gone"), NOTHING)
    assert (code, error.message) == ("TG406", "cannot be read: No such file or directory")


def test_what_is_too_large_is_not_read_whole() -> None:
    """One byte more than the bound is read, whatever follows."""
    endless = io.BytesIO(b"x" * 5000)
    code, _ = _read_invalid("-", endless, Limits(size=1024))
    assert (code, endless.tell()) == ("TG402", 1025)


def test_what_is_no_text_says_which_byte() -> None:
    """Line and column count characters."""
    code, error = _read_invalid("-", io.BytesIO("a: 1\né: ".encode() + b"\xff"))
    assert (code, *error.position) == ("TG401", 2, 4)
