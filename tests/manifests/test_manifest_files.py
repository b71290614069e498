"""Manifest files: search, reading, and errors."""

import io
import os
from pathlib import Path

import pytest

from tallygate.documents.syntax_tree import DEFAULT_LIMITS, DocumentError, Limits
from tallygate.manifests.manifest_files import find_files, get_code, load_manifests, read_text

EMPTY_STDIN = io.BytesIO()


def test_folders_give_their_manifests_in_order(tmp_path: Path) -> None:
    """Search at any depth, without hidden files and folders, other files, or circular links."""
    for name in ("b/two.yml", "b/c/three.json", "a.yaml", ".git/x.yaml", ".#a.yaml", "notes.txt", "z.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (tmp_path / "b" / "again").symlink_to(tmp_path)
    relative_paths = [os.path.relpath(name, tmp_path) for name in find_files((str(tmp_path),))]
    assert relative_paths == ["a.yaml", "z.yaml", "b/two.yml", "b/c/three.json"]


def test_named_files_are_read_with_any_name(tmp_path: Path) -> None:
    """Keep the order of the arguments, also of stdin."""
    assert find_files(("-", str(tmp_path / "x.txt"), "missing")) == ["-", str(tmp_path / "x.txt"), "missing"]


@pytest.mark.parametrize(
    ("name", "content", "is_empty"),
    [
        ("named.yaml", "", True),
        ("named.yaml", "# a comment\n---\n---\n", True),
        ("named.yaml", "replicas: 1\n", False),
        ("named.yaml", "kind: [\n", False),
        ("folder/x.yaml", "replicas: 1\n", True),
        ("folder/x.txt", "apiVersion: v1\nkind: Pod\n", True),
        ("folder/x.yaml", "apiVersion: v1\nkind: Service\n", False),
        ("folder/x.yaml", "apiVersion: v1\nkind: List\nitems: []\n", True),
        ("-", "", True),
        ("-", "Error: chart not found\n", True),
        ("-", "apiVersion: v1\nkind: Service\n", False),
    ],
)
def test_an_argument_without_anything_to_check_is_found(
    tmp_path: Path, name: str, content: str, *, is_empty: bool
) -> None:
    """Require an object of stdin and folders; a file that is named may be another document, such as a values file."""
    argument = name if name == "-" else str(tmp_path / name.partition("/")[0])
    if name != "-":
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    loaded = load_manifests((argument,), io.BytesIO(content.encode()), DEFAULT_LIMITS, lambda names: names)
    assert loaded.empty_arguments == ([argument] if is_empty else [])


def test_a_folder_that_cannot_be_read_is_no_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Report the folder itself as a file that cannot be read."""
    (tmp_path / "closed").mkdir()
    list_folder = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert find_files((str(tmp_path),)) == [str(tmp_path / "closed")]


def test_stdin_is_read() -> None:
    """Read stdin, and use its name in findings."""
    assert read_text("-", io.BytesIO("a: é".encode()), DEFAULT_LIMITS) == "a: é"
    assert load_manifests(("-",), io.BytesIO(b"a: b"), DEFAULT_LIMITS, lambda names: names).file_names == ["<stdin>"]


def _read_invalid(name: str, content: io.BytesIO, limits: Limits = DEFAULT_LIMITS) -> tuple[str, DocumentError]:
    with pytest.raises(DocumentError) as raised:
        read_text(name, content, limits)
    return get_code(raised.value), raised.value


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """Print the reason of the system."""
    code, error = _read_invalid(str(tmp_path / "missing"), EMPTY_STDIN)
    assert (code, error.message) == ("TG406", "cannot be read: No such file or directory")
    _, error = _read_invalid("https://example.com/pod.yaml", EMPTY_STDIN)
    assert error.message.endswith("this is an address: pipe `curl -fsSL https://example.com/pod.yaml` into -")


def test_a_large_file_is_not_read_to_its_end() -> None:
    """Read one byte more than the limit."""
    endless = io.BytesIO(b"x" * 5000)
    code, _ = _read_invalid("-", endless, Limits(size=1024))
    assert (code, endless.tell()) == ("TG402", 1025)


def test_an_undecodable_byte_is_reported_with_its_position() -> None:
    """Count characters for line and column."""
    code, error = _read_invalid("-", io.BytesIO("a: 1\né: ".encode() + b"\xff"))
    assert (code, *error.position) == ("TG401", 2, 4)


def _write_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"


@pytest.mark.parametrize(
    ("patterns", "read"),
    [
        ((), ["a.yaml", "charts/b.yaml", "x/charts/c.patch.yaml"]),
        (("charts",), ["a.yaml"]),
        (("charts/",), ["a.yaml"]),
        (("charts/*",), ["a.yaml", "x/charts/c.patch.yaml"]),
        (("x/charts",), ["a.yaml", "charts/b.yaml"]),
        (("*.patch.yaml", "a.*"), ["charts/b.yaml"]),
        (("b",), ["a.yaml", "charts/b.yaml", "x/charts/c.patch.yaml"]),
    ],
)
def test_files_that_match_a_pattern_are_left_out_of_folders(
    tmp_path: Path, patterns: tuple[str, ...], read: list[str]
) -> None:
    _write_files(tmp_path, dict.fromkeys(("a.yaml", "charts/b.yaml", "x/charts/c.patch.yaml"), POD))
    loaded = load_manifests((str(tmp_path),), EMPTY_STDIN, DEFAULT_LIMITS, lambda names: names, patterns)
    assert [os.path.relpath(each.file, tmp_path) for each in loaded.manifests] == read
    assert loaded.excluded_count == 3 - len(read)


def test_a_file_that_is_named_is_read_whatever_is_left_out(tmp_path: Path) -> None:
    _write_files(tmp_path, {"a.yaml": POD})
    loaded = load_manifests((str(tmp_path / "a.yaml"),), EMPTY_STDIN, DEFAULT_LIMITS, lambda names: names, ("*",))
    assert len(loaded.manifests) == 1


def test_patches_of_a_kustomization_are_no_objects(tmp_path: Path) -> None:
    kustomization = (
        "patches: [{path: one.yaml}, {patch: '[]', target: {kind: Pod}}, {path: [1]}]\n"
        'patchesStrategicMerge: [../two.yaml, "kind: Pod\\nmetadata: {}"]\npatchesJson6902: [{path: three.json}]\n'
        "resources: [pod.yaml]\n"
    )
    names = ("a/one.yaml", "two.yaml", "a/three.json", "a/pod.yaml")
    _write_files(tmp_path, {"a/kustomization.yaml": kustomization, **dict.fromkeys(names, POD)})
    loaded = load_manifests((str(tmp_path),), EMPTY_STDIN, DEFAULT_LIMITS, lambda names: names)
    assert [Path(each.file).name for each in loaded.manifests] == ["pod.yaml"]
    assert (loaded.non_object_count, loaded.findings) == (4, [])


def test_a_kustomization_that_cannot_be_read_is_an_error_of_its_own(tmp_path: Path) -> None:
    _write_files(tmp_path, {"kustomization.yaml": "patches: [\n", "pod.yaml": POD})
    loaded = load_manifests((str(tmp_path),), EMPTY_STDIN, DEFAULT_LIMITS, lambda names: names)
    assert [each.code for each in loaded.findings] == ["TG401"]
    assert len(loaded.manifests) == 1
