"""The next step, one case for each; that their order is safe is shown by test_order.py."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import CA_LIFETIME, create_ca, create_serving_certificate
from certs.ca_rotation import RotationAction, RotationInput, choose_step, find_request_error, get_retirement_time
from certs.certificate_names import CertificateNames, parse_names, read_names
from certs.secret_state import MAX_CA_CERTIFICATES, SecretState, convert_key_pair

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = parse_names(["gate.tally.svc"])
AUTHORITY, OLD = create_ca(NOW), create_ca(NOW)
LEAF, OLD_LEAF = (convert_key_pair(create_serving_certificate(each, NAMES, NOW)) for each in (AUTHORITY, OLD))
RIGHT = SecretState(AUTHORITY, (), LEAF, NOW)
SUCCEEDED = SecretState(AUTHORITY, (OLD.certificate,), OLD_LEAF, NOW)


def days(number: float) -> datetime:
    """So many after the beginning."""
    return NOW + timedelta(days=number)


def sight(kept: SecretState | None, **other: object) -> RotationInput:
    """Of a replica that serves what is kept, where all is published and settled."""
    seen = RotationInput(
        state=kept,
        published_cas=kept.ca_certificates if kept else (),
        is_published=True,
        is_propagated=lambda _: True,
        served=kept.serving if kept else None,
        names=NAMES,
        now=NOW,
    )
    return replace(seen, **other)  # type: ignore[arg-type]  # each case names fields of its own


@dataclass(frozen=True)
class Case:
    """What is seen, and what is to be done, and why."""

    seen: RotationInput
    what: RotationAction | None = None
    why: str = ""


_NEVER: Callable[[object], bool] = lambda _: False  # noqa: E731  # a value of a case

CASES = {
    "all is right": Case(sight(RIGHT)),
    "there is no secret": Case(sight(None), RotationAction.REBUILD, "no Secret"),
    "no authority signs": Case(sight(replace(RIGHT, ca=None)), RotationAction.REBUILD, "no authority"),
    "the authority has expired": Case(
        sight(RIGHT, now=NOW + CA_LIFETIME), RotationAction.REBUILD, "no authority in it signs"
    ),
    "the authority came in by hand": Case(sight(replace(RIGHT, ca_since=None)), RotationAction.ADOPT, "new here"),
    "it is not published": Case(sight(RIGHT, is_published=False), RotationAction.PUBLISH, "trust"),
    "there is no leaf": Case(sight(replace(RIGHT, serving=None)), RotationAction.ISSUE, "cannot be used"),
    "the leaf is lost and another is served": Case(
        sight(replace(RIGHT, serving=None), served=LEAF), RotationAction.ISSUE, "served on"
    ),
    "the leaf has expired": Case(sight(RIGHT, now=days(90)), RotationAction.ISSUE, "has expired"),
    "the leaf has a month left": Case(sight(RIGHT, now=days(60))),
    "the leaf has less than a month left": Case(sight(RIGHT, now=days(60.1)), RotationAction.ISSUE, "29 days left"),
    "the leaf lacks a name": Case(
        sight(RIGHT, names=parse_names(["10.1.2.3"])), RotationAction.ISSUE, "good for 10.1.2.3"
    ),
    "a leaf is asked for": Case(sight(replace(RIGHT, requested="certificate")), RotationAction.ISSUE, "asked for"),
    "an authority is asked for": Case(
        sight(replace(RIGHT, requested="authority")), RotationAction.ROTATE_CA, "asked for"
    ),
    "nonsense is asked for": Case(sight(replace(RIGHT, requested="all"))),
    "the authority has less than a year left": Case(
        sight(
            replace(RIGHT, serving=convert_key_pair(create_serving_certificate(AUTHORITY, NAMES, days(3300)))),
            now=days(3300),
        ),
        RotationAction.ROTATE_CA,
        "less than a year",
    ),
    "a successor is not settled": Case(sight(SUCCEEDED, is_propagated=_NEVER)),
    "a successor is not settled and another asked for": Case(
        sight(replace(SUCCEEDED, requested="authority"), is_propagated=_NEVER)
    ),
    "a successor is settled": Case(sight(SUCCEEDED), RotationAction.ISSUE, "trusted everywhere"),
    "what the old one has signed expires before that": Case(
        sight(SUCCEEDED, is_propagated=_NEVER, now=days(90)), RotationAction.ISSUE, "has expired"
    ),
    "the old ones may still be needed": Case(sight(replace(SUCCEEDED, serving=LEAF), now=days(59))),
    "the old ones are needed no more": Case(
        sight(
            replace(SUCCEEDED, serving=convert_key_pair(create_serving_certificate(AUTHORITY, NAMES, days(60)))),
            now=days(91),
        ),
        RotationAction.RETIRE_CA,
        "old",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_next_step(name: str) -> None:
    case = CASES[name]
    step = choose_step(case.seen)
    assert (step.action if step else None) == case.what
    assert case.why in (step.reason if step else "")


@pytest.mark.parametrize("name", CASES)
def test_steps_come_to_an_end(name: str) -> None:
    """Each is followed by others, and within a few nothing is left to be done, unless an API server has to be told."""
    seen, taken = CASES[name].seen, list[RotationAction]()
    while (step := choose_step(seen)) and step.action is not RotationAction.PUBLISH:
        kept = step.state or seen.state
        assert kept
        seen = replace(seen, state=kept, published_cas=kept.ca_certificates, served=kept.serving)
        taken.append(step.action)
        assert len(taken) < 5


def test_an_old_authority_signs_no_more_from_when_it_is_succeeded() -> None:
    step = choose_step(sight(replace(RIGHT, requested="authority")))
    assert step
    assert step.state
    assert step.state.ca
    assert step.state.previous_cas == (AUTHORITY.certificate,)
    assert (step.state.serving, step.state.requested, step.state.ca_since) == (LEAF, "", NOW)


def test_a_secret_made_anew_keeps_what_is_served_and_published() -> None:
    step = choose_step(sight(None, published_cas=(OLD.certificate,), served=OLD_LEAF))
    assert step
    assert step.state
    assert (step.state.serving, step.state.previous_cas) == (OLD_LEAF, (OLD.certificate,))


def test_a_leaf_that_nobody_trusts_is_not_kept_when_all_is_made_anew() -> None:
    step = choose_step(sight(SecretState(None, (), OLD_LEAF), published_cas=(AUTHORITY.certificate,), served=None))
    assert step
    assert step.state
    assert step.state.ca
    assert step.state.serving
    assert step.state.serving.is_signed_by(step.state.ca.certificate)


def test_a_new_leaf_is_good_for_all_names_that_the_old_one_was_good_for() -> None:
    other = CertificateNames(dns=("other.tally.svc",))
    step = choose_step(sight(RIGHT, names=other))
    assert step
    assert step.state
    assert step.state.serving
    assert read_names(step.state.serving.certificate) == other + NAMES


def test_no_more_authorities_are_made_than_a_bundle_takes_and_that_is_said() -> None:
    full = replace(RIGHT, previous_cas=(OLD.certificate,) * (MAX_CA_CERTIFICATES - 1), requested="authority")
    assert choose_step(sight(full)) is None
    assert find_request_error(full) == (
        "32 authorities are trusted, and no more can be: a new one is made after 2026-04-02, when the old ones are "
        "forgotten"
    )
    assert get_retirement_time(NOW) == datetime(2026, 4, 2, tzinfo=UTC)


def test_what_is_published_by_others_fills_no_bundle_beyond_its_bounds() -> None:
    strangers = tuple(create_ca(NOW).certificate for _ in range(MAX_CA_CERTIFICATES + 5))
    step = choose_step(sight(None, published_cas=strangers))
    assert step
    assert step.state
    assert len(step.state.ca_certificates) == MAX_CA_CERTIFICATES


def test_a_complaint_is_short_whatever_was_asked_for() -> None:
    assert len(find_request_error(replace(RIGHT, requested="x" * 100_000))) < 120
