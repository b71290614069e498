"""The adapters: ledgers in memory, namespaces from a file."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from webhook.accounting.amounts import Amounts
from webhook.state.ledger import Ledger
from webhook.state.memory import MemoryLedgers
from webhook.state.namespaces import NamespacesError, UnknownNamespaces, read
from webhook.state.ports import LedgerKey

KEY = LedgerKey("gpus-0123456789", "team-a")


def ledger(tally: int) -> Ledger:
    """Some ledger."""
    return Ledger(Amounts({"x": 5}), tally=Amounts({"x": tally}))


def test_what_was_never_written_is_not_there() -> None:
    assert MemoryLedgers().read(KEY) is None


def test_what_was_written_is_read_again() -> None:
    store = MemoryLedgers()
    assert store.write(KEY, ledger(1), None)
    found = store.read(KEY)
    assert found is not None
    assert found.ledger == ledger(1)


def test_only_the_version_that_was_read_can_be_replaced() -> None:
    store = MemoryLedgers()
    assert store.write(KEY, ledger(1), None)
    found = store.read(KEY)
    assert found is not None
    assert store.write(KEY, ledger(2), found.version)
    assert not store.write(KEY, ledger(3), found.version)
    assert not store.write(KEY, ledger(3), None)


def test_ledgers_of_other_namespaces_are_others() -> None:
    store = MemoryLedgers()
    store.write(KEY, ledger(1), None)
    assert store.read(LedgerKey(KEY.cap, "team-b")) is None


def test_of_many_threads_that_add_one_none_is_lost() -> None:
    store = MemoryLedgers()
    store.write(KEY, ledger(0), None)

    def add(_: int) -> None:
        while True:
            found = store.read(KEY)
            assert found is not None
            if store.write(KEY, ledger(found.ledger.tally["x"] + 1), found.version):
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(400)))
    found = store.read(KEY)
    assert found is not None
    assert found.ledger.tally["x"] == 400


def test_nobody_knows_no_labels() -> None:
    assert UnknownNamespaces().labels("default") is None


def test_a_file_of_namespaces_gives_their_labels(tmp_path: Path) -> None:
    path = tmp_path / "namespaces.json"
    path.write_text(
        '{"kind":"List","items":[{"metadata":{"name":"a","labels":{"gpu":"yes"}}},{"metadata":{"name":"b"}},{}]}'
    )
    lister = read(path)
    assert (lister.labels("a"), lister.labels("b"), lister.labels("c")) == ({"gpu": "yes"}, {}, None)


@pytest.mark.parametrize(
    ("content", "says"),
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
def test_a_file_that_is_something_else_is_refused_with_what_would_pass(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "namespaces.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NamespacesError, match=says):
        read(path)
