"""CapLedgers that are followed."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.usage.test_verifying import COUNTED_AT, KEY, counted
from webhook.cli.sources.cap_ledger_list import CapLedgerRecord, create_ledger_record
from webhook.cli.sources.observed_cluster import CapLedgerStore
from webhook.kube.resource_codec import Bookmark, Changed, Deleted, Replaced
from webhook.state.kubernetes.cap_ledger import encode_ledger
from webhook.state.ports import LedgerKey


def row(number: int, tally: int, revision: int) -> CapLedgerRecord:
    """One ledger of a few."""
    made = json.loads(
        encode_ledger(LedgerKey(KEY.cap, f"team-{number}"), counted(tally), "gate", None, COUNTED_AT).body
    )
    made["metadata"] |= {"uid": f"l{number}", "resourceVersion": f"{revision}"}
    return create_ledger_record(msgspec.Raw(json.dumps(made).encode()))


@given(st.lists(st.tuples(st.sampled_from(["change", "delete", "bookmark", "list"]), st.integers(0, 3)), max_size=20))
def test_what_is_seen_is_what_was_told(told: list[tuple[str, int]]) -> None:
    """Whatever came, changed and went; a list stands in the place of everything before."""
    view, wanted = CapLedgerStore(), dict[str, int]()
    for revision, (what, number) in enumerate(told, 1):
        ledger = row(number, revision, revision)
        if what == "change":
            view.apply(Changed(ledger, revision))
            wanted[f"team-{number}"] = revision
        elif what == "delete":
            view.apply(Deleted(ledger, revision))
            wanted.pop(f"team-{number}", None)
        elif what == "list":
            view.apply(Replaced([ledger], revision))
            wanted = {f"team-{number}": revision}
        else:
            view.apply(Bookmark(revision))
        assert view.revision == revision
    found = view.list_ledgers()
    held = {key.namespace: sum(row.ledger.used.values()) for key, row in found.records.items() if row.ledger}
    assert held == wanted
    assert bool(found.missing_reason) is not bool(wanted)
    assert len(view) == len(wanted)
