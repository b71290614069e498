"""The store of watched CapLedgers."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tallygate.cluster.cap_ledger_list import CapLedgerRecord, CapLedgerStore, create_ledger_record
from tallygate.kube.resource_codec import Bookmark, Changed, Deleted, Replaced
from tallygate.state.kubernetes.cap_ledger import encode_ledger
from tallygate.state.ports import LedgerKey
from tests.cli.usage.test_verify import COUNTED_AT, KEY, create_ledger


def create_record(number: int, gpus: int, revision: int) -> CapLedgerRecord:
    """Return the record of one of a few ledgers."""
    made = json.loads(
        encode_ledger(LedgerKey(KEY.cap, f"team-{number}"), create_ledger(gpus), "gate", None, COUNTED_AT).body
    )
    made["metadata"] |= {"uid": f"l{number}", "resourceVersion": f"{revision}"}
    return create_ledger_record(msgspec.Raw(json.dumps(made).encode()))


@given(st.lists(st.tuples(st.sampled_from(["change", "delete", "bookmark", "list"]), st.integers(0, 3)), max_size=20))
def test_the_store_has_the_state_after_all_events(events: list[tuple[str, int]]) -> None:
    """Apply any sequence of events; a list replaces everything before it."""
    store, expected = CapLedgerStore(), dict[str, int]()
    for revision, (event, number) in enumerate(events, 1):
        ledger = create_record(number, revision, revision)
        if event == "change":
            store.apply(Changed(ledger, revision))
            expected[f"team-{number}"] = revision
        elif event == "delete":
            store.apply(Deleted(ledger, revision))
            expected.pop(f"team-{number}", None)
        elif event == "list":
            store.apply(Replaced([ledger], revision))
            expected = {f"team-{number}": revision}
        else:
            store.apply(Bookmark(revision))
        assert store.revision == revision
    listed = store.list_ledgers()
    used = {key.namespace: sum(record.ledger.used.values()) for key, record in listed.records.items() if record.ledger}
    assert used == expected
    assert bool(listed.missing_reason) is not bool(expected)
    assert len(store) == len(expected)
