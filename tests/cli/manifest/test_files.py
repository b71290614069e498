"""From arguments to files."""

import io
import os
from pathlib import Path

from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.files import find, read

NOTHING = io.BytesIO()


def test_folders_give_their_manifests_in_order(tmp_path: Path) -> None:
    """At any depth, without hidden folders, other files, or links that lead in a circle."""
    for name in ("b/two.yml", "b/c/three.json", "a.yaml", ".git/x.yaml", "notes.txt", "z.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (tmp_path / "b" / "again").symlink_to(tmp_path)
    below = [os.path.relpath(name, tmp_path) for name in find((str(tmp_path),))]
    assert below == ["a.yaml", "z.yaml", "b/two.yml", "b/c/three.json"]


def test_named_files_are_taken_whatever_they_are_called(tmp_path: Path) -> None:
    """In the order given, stdin among them."""
    assert find(("-", str(tmp_path / "x.txt"), "gone")) == ["-", str(tmp_path / "x.txt"), "gone"]


def test_stdin_is_read() -> None:
    """It is called so in findings."""
    file = read("-", io.BytesIO("a: é".encode()), Bounds())
    assert (file.name, file.text, file.fault) == ("<stdin>", "a: é", None)


def test_what_is_not_there_is_a_fault(tmp_path: Path) -> None:
    """With the system's reason."""
    file = read(str(tmp_path / "gone"), NOTHING, Bounds())
    assert file.fault is not None
    assert (file.fault.code, file.fault.message) == ("TG406", "cannot be read: No such file or directory")


def test_what_is_too_large_is_not_read_whole() -> None:
    """One byte more than the bound is read, whatever follows."""
    endless = io.BytesIO(b"x" * 5000)
    file = read("-", endless, Bounds(size=1024))
    assert file.fault is not None
    assert (file.fault.code, endless.tell()) == ("TG402", 1025)


def test_what_is_no_text_says_which_byte() -> None:
    """Line and column count characters."""
    file = read("-", io.BytesIO("a: 1\né: ".encode() + b"\xff"), Bounds())
    assert file.fault is not None
    assert (file.fault.code, file.fault.place.line, file.fault.place.column) == ("TG401", 2, 4)
