"""Namespaces from a file, and unknown namespaces."""

from pathlib import Path

import pytest

from tallygate.state.in_memory import NamespacesError, UnknownNamespaces, read_namespaces


def test_unknown_namespaces_have_unknown_labels() -> None:
    assert UnknownNamespaces().labels("default") is None


def test_a_file_of_namespaces_gives_their_labels(tmp_path: Path) -> None:
    path = tmp_path / "namespaces.json"
    path.write_text(
        '{"kind":"List","items":[{"metadata":{"name":"a","labels":{"gpu":"yes"}}},{"metadata":{"name":"b"}},{}]}'
    )
    lister = read_namespaces(path)
    assert (lister.labels("a"), lister.labels("b"), lister.labels("c")) == ({"gpu": "yes"}, {}, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is not a list of namespaces"),
        (b"[]", "is not a list of namespaces"),
        (b'{"items": 5}', "is not a list of namespaces"),
        (b"[" * 100_000, "is not a list of namespaces"),
        (b'{"items": ' + b"[" * 100_000, "is not a list of namespaces"),
        (b"\xff", "is not a list of namespaces"),
    ],
)
def test_an_invalid_namespaces_file_is_rejected_with_the_reason(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "namespaces.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NamespacesError, match=message):
        read_namespaces(path)
