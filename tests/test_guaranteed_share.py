"""The stress test of a guaranteed share: which refusals of its owner it calls unfounded, by drawn-up histories."""

import json
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import pytest

from e2e.stress.clients import Attempt
from e2e.stress.guaranteed_share import GuaranteedShare
from e2e.stress.ledger_history import LedgerHistory, PodHistory
from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.state.kubernetes.cap_ledger import encode_ledger
from tallygate.state.ledger.guarantees import create_guarantees
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ports import LedgerKey

_OWNER, _OTHER = "owner", "other"
_KEY = LedgerKey("half", "")
_HARD, _PERCENT = 10, 20  # the owner has two for itself
_LONG = 1e9  # seconds


def create_history() -> LedgerHistory:
    """Return a history without pods."""
    return LedgerHistory(PodHistory(_OWNER, {_OWNER, _OTHER}))


def see_pod(history: LedgerHistory, uid: str, namespace: str, revision: int, *, is_deleted: bool = False) -> None:
    """Report that a pod was stored, or deleted, at a revision."""
    metadata = {"uid": uid, "namespace": namespace, "resourceVersion": str(revision)}
    history.pods.see({"metadata": metadata}, is_deleted=is_deleted)


def see_ledger(history: LedgerHistory, revision: int, used: int, own: int, **reserved: str) -> None:
    """Report a version of the ledger that counts pods at a revision, with reservations by UID for namespaces."""
    one = Amounts({"cpu": 1000})
    guarantees = create_guarantees({_OWNER: Amounts({"cpu": 2000})}, {_OWNER: Amounts({"cpu": own * 1000})})
    ledger = Ledger(
        Amounts({"cpu": _HARD * 1000}),
        Amounts({"cpu": used * 1000}),
        resources=frozenset({"cpu"}),
        pods_revision=revision,
        guarantees=guarantees,
    )
    for uid, namespace in reserved.items():
        reservation = Reservation(namespace, uid, NO_AMOUNTS, one, "0" * 16, True, Operation.CREATE)  # noqa: FBT003  its form
        ledger = ledger.with_reservation(uid, reservation)
    stored: dict[str, Any] = json.loads(encode_ledger(_KEY, ledger, "home", None, datetime.now(UTC)).body)
    history.see(stored)


def fill(history: LedgerHistory, own: int, others: int) -> None:
    """Report this number of pods of each, at the revisions from 1 on."""
    for number in range(own + others):
        see_pod(history, f"p{number}", _OWNER if number < own else _OTHER, number + 1)


def list_unfounded(history: LedgerHistory, used: int, reserved: int, hard: int = _HARD) -> list[str]:
    """Return what is found of one refusal of the owner, who has requested one processor."""
    free = max(hard - used - reserved, 0)
    message = f"requested 1 cpu, used {used}, reserved {reserved}, hard {hard}, free {free}"
    refusal = Attempt("p", 0.0, _LONG, int(HTTPStatus.FORBIDDEN), message=message)
    return GuaranteedShare(_PERCENT, [refusal], history, 0.0, _LONG).list_unfounded()


@pytest.mark.parametrize(("own", "others", "hard"), [(2, 8, 10), (0, 9, 10), (3, 7, 10)])
def test_a_refusal_is_founded_if_the_owner_has_its_share_or_others_have_more_than_the_rest(
    own: int, others: int, hard: int
) -> None:
    history = create_history()
    fill(history, own, others)
    see_ledger(history, own + others, own + others, own)
    assert list_unfounded(history, own + others, 0, hard) == []


def test_a_refusal_within_the_share_is_unfounded_while_others_leave_it() -> None:
    history = create_history()
    fill(history, 1, 8)
    see_ledger(history, 9, 9, 1)
    (found,) = list_unfounded(history, 9, 0)
    assert "the owner had 1000m of 2000m, and others left it" in found


def test_what_is_reserved_is_the_owners_or_that_of_others() -> None:
    for namespace, is_unfounded in ((_OWNER, False), (_OTHER, True)):
        history = create_history()
        fill(history, 1, 7)
        see_ledger(history, 8, 8, 1, r1=namespace)
        assert bool(list_unfounded(history, 8, 1)) is is_unfounded


def test_a_newer_count_of_the_pods_has_those_that_were_reserved() -> None:
    """Find the amounts in no version: the gate has counted the pods again, and stored nothing."""
    history = create_history()
    fill(history, 1, 7)
    see_ledger(history, 8, 8, 1, r1=_OWNER, r2=_OTHER)
    see_pod(history, "r1", _OWNER, 9)
    see_pod(history, "p7", _OTHER, 10, is_deleted=True)
    assert list_unfounded(history, 9, 1) == []  # at revision 9: the owner has two
    assert list_unfounded(history, 8, 1) == []  # at revision 10
    assert "no count of the pods gives these amounts" in list_unfounded(history, 7, 2)[0]


def test_a_version_that_does_not_count_the_pods_of_its_revision_is_found() -> None:
    history = create_history()
    fill(history, 2, 8)
    see_ledger(history, 10, 10, 1)
    (found,) = history.list_miscounted()
    assert found == "at revision 10 10000m are used, 1000m by the owner, and pods have 10000m, 2000m"


def test_without_a_whole_history_no_refusal_is_compared() -> None:
    history = create_history()
    fill(history, 1, 8)
    see_ledger(history, 9, 9, 1)
    history.pods.forget("p0")
    (found,) = list_unfounded(history, 9, 0)
    assert "has missed something" in found
