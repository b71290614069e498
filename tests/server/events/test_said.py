"""What is said of whom: read from the bytes of a review and of its answer."""

import json
from typing import Any

import pytest

from tests.server.events.asked import OWNER, answer, review
from webhook.admission.request import Phase
from webhook.server.events.event_message import EventMessage, Owner, create_event_message

_WEB = Owner("apps/v1", "ReplicaSet", "web-1", "u-web")


def test_a_refusal_is_said_of_the_controller_in_the_words_of_the_answer() -> None:
    assert create_event_message(review(OWNER), answer()) == EventMessage(
        "team-a", _WEB, "Refused", "TG201", "the sentence"
    )


def test_a_warning_is_said_of_the_controller_in_the_validating_phase_only() -> None:
    warned = answer("allow", 'Pod "p": look out')
    assert create_event_message(review(OWNER), warned) == EventMessage(
        "team-a", _WEB, "Warned", "TG201", 'Pod "p": look out'
    )
    assert create_event_message(review(OWNER), answer("allow", phase=Phase.MUTATING)) is None


def test_a_refusal_in_the_mutating_phase_is_said_since_there_is_no_other() -> None:
    found = create_event_message(review(OWNER), answer(phase=Phase.MUTATING))
    assert found is not None
    assert found.reason == "Refused"


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
def test_nothing_is_said_of_dry_runs_of_others_than_new_pods_or_where_nothing_was_decided(
    record: dict[str, Any],
) -> None:
    assert create_event_message(review(OWNER), answer(**record)) is None


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
def test_who_is_no_controller_or_nobody_that_there_could_be_is_told_nothing(owner: dict[str, Any]) -> None:
    assert create_event_message(review(OWNER | owner), answer()) is None


def test_of_several_owners_the_controller_is_told() -> None:
    other = OWNER | {"uid": "u-other", "controller": False}
    found = create_event_message(review(other, OWNER), answer())
    assert found is not None
    assert found.owner == _WEB


@pytest.mark.parametrize("metadata", [None, {}, {"ownerReferences": None}, {"ownerReferences": "all"}])
def test_a_pod_that_names_no_owner_in_order_is_nobodys(metadata: object) -> None:
    body = json.dumps({"request": {"uid": "r", "object": {"metadata": metadata}}}).encode()
    assert create_event_message(body, answer()) is None


@pytest.mark.parametrize("text", ["x" * 5000, "€" * 5000, "ä" + "€" * 340 + "x"])
def test_a_message_stays_within_a_kilobyte_and_is_cut_between_characters(text: str) -> None:
    found = create_event_message(review(OWNER), answer(text=text))
    assert found is not None
    assert len(found.text.encode()) <= 1024
    assert found.text == text or (found.text.endswith("…") and text.startswith(found.text[:-1]))
