"""The message of an event and its owner, from the bytes of a review and of its answer."""

import json
from typing import Any

import pytest

from tallygate.admission.request import Phase
from tallygate.server.events.event_message import EventMessage, Owner, create_event_message
from tests.server.events.reviews import OWNER, create_decision, create_review

_WEB = Owner("apps/v1", "ReplicaSet", "web-1", "u-web")


def test_a_denial_is_reported_on_the_controller_with_the_text_of_the_answer() -> None:
    assert create_event_message(create_review(OWNER), create_decision()) == EventMessage(
        "team-a", _WEB, "Rejected", "TG201", "the sentence"
    )


def test_a_long_denial_is_cut_before_the_address_of_the_page() -> None:
    """Expect the address whole, since a part of one leads nowhere."""
    page = "https://gate.example.com/page/namespace?namespace=team-a"
    found = create_event_message(create_review(OWNER), create_decision(text="ä" * 2000 + f"\nsee {page}"))
    assert found is not None
    assert found.text.endswith(f"ä…\nsee {page}")
    assert 1022 <= len(found.text.encode()) <= 1024


def test_a_warning_is_reported_on_the_controller_in_the_validating_phase_only() -> None:
    warned = create_decision("allow", 'Pod "p": look out')
    assert create_event_message(create_review(OWNER), warned) == EventMessage(
        "team-a", _WEB, "Warned", "TG201", 'Pod "p": look out'
    )
    assert create_event_message(create_review(OWNER), create_decision("allow", phase=Phase.MUTATING)) is None


def test_a_denial_in_the_mutating_phase_is_reported_because_no_other_phase_follows() -> None:
    found = create_event_message(create_review(OWNER), create_decision(phase=Phase.MUTATING))
    assert found is not None
    assert found.reason == "Rejected"


@pytest.mark.parametrize(
    "record",
    [
        {"dry_run": True},
        {"kind": "Deployment"},
        {"operation": "UPDATE"},
        {"verdict": "retry"},
        {"codes": ()},
        {"namespace": ""},
    ],
)
def test_dry_runs_other_objects_and_undecided_requests_have_no_message(
    record: dict[str, Any],
) -> None:
    assert create_event_message(create_review(OWNER), create_decision(**record)) is None


@pytest.mark.parametrize(
    "owner",
    [
        {"controller": False},
        {"controller": None},
        {"kind": "Node"},
        {"uid": ""},
        {"name": "n" * 254},
    ],
)
def test_an_owner_that_is_no_valid_controller_gets_no_message(owner: dict[str, Any]) -> None:
    assert create_event_message(create_review(OWNER | owner), create_decision()) is None


def test_of_several_owners_the_controller_gets_the_message() -> None:
    other = OWNER | {"uid": "u-other", "controller": False}
    found = create_event_message(create_review(other, OWNER), create_decision())
    assert found is not None
    assert found.owner == _WEB


@pytest.mark.parametrize("metadata", [None, {}, {"ownerReferences": None}, {"ownerReferences": "all"}])
def test_a_pod_without_a_valid_owner_has_no_message(metadata: object) -> None:
    body = json.dumps({"request": {"uid": "r", "object": {"metadata": metadata}}}).encode()
    assert create_event_message(body, create_decision()) is None


@pytest.mark.parametrize("text", ["x" * 5000, "€" * 5000, "ä" + "€" * 340 + "x"])
def test_a_message_is_at_most_a_kilobyte_and_is_cut_between_characters(text: str) -> None:
    found = create_event_message(create_review(OWNER), create_decision(text=text))
    assert found is not None
    assert len(found.text.encode()) <= 1024
    assert found.text == text or (found.text.endswith("…") and text.startswith(found.text[:-1]))
