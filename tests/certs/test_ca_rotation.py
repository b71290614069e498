"""The next step of a CA rotation, with one case for each step; test_rotation_order.py checks the order."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from tallygate_certs.authority import CA_LIFETIME, create_ca, create_serving_certificate
from tallygate_certs.ca_rotation import (
    RotationAction,
    RotationInput,
    choose_step,
    find_request_error,
    get_retirement_time,
)
from tallygate_certs.certificate_names import CertificateNames, parse_names, read_names
from tallygate_certs.secret_state import MAX_CA_CERTIFICATES, SecretState, convert_key_pair

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = parse_names(["gate.tally.svc"])
CA, OLD = create_ca(NOW), create_ca(NOW)
SERVING_PAIR, OLD_SERVING_PAIR = (convert_key_pair(create_serving_certificate(each, NAMES, NOW)) for each in (CA, OLD))
COMPLETE = SecretState(CA, (), SERVING_PAIR, NOW)
ROTATING = SecretState(CA, (OLD.certificate,), OLD_SERVING_PAIR, NOW)


def add_days(number: float) -> datetime:
    """Return the time `number` days after the start."""
    return NOW + timedelta(days=number)


def create_input(state: SecretState | None, **changes: object) -> RotationInput:
    """Return the input of a replica that serves the stored certificate, with every CA published and propagated."""
    complete = RotationInput(
        state=state,
        published_cas=state.ca_certificates if state else (),
        is_published=True,
        is_propagated=lambda _: True,
        served=state.serving if state else None,
        names=NAMES,
        now=NOW,
    )
    return replace(complete, **changes)  # type: ignore[arg-type]  # each case names fields of its own


@dataclass(frozen=True)
class Case:
    """The input of a decision, and the expected action with a part of its reason."""

    rotation_input: RotationInput
    action: RotationAction | None = None
    reason: str = ""


_NEVER: Callable[[object], bool] = lambda _: False  # noqa: E731  # a value of a case

CASES = {
    "the state is complete": Case(create_input(COMPLETE)),
    "the Secret is missing": Case(create_input(None), RotationAction.REBUILD, "no Secret"),
    "no CA signs": Case(create_input(replace(COMPLETE, ca=None)), RotationAction.REBUILD, "no authority"),
    "the CA has expired": Case(
        create_input(COMPLETE, now=NOW + CA_LIFETIME), RotationAction.REBUILD, "no authority in it signs"
    ),
    "the CA was stored by hand": Case(create_input(replace(COMPLETE, ca_since=None)), RotationAction.ADOPT, "new here"),
    "it is not published": Case(create_input(COMPLETE, is_published=False), RotationAction.PUBLISH, "trust"),
    "the certificate is missing": Case(
        create_input(replace(COMPLETE, serving=None)), RotationAction.ISSUE, "cannot be used"
    ),
    "the certificate is lost and another is served": Case(
        create_input(replace(COMPLETE, serving=None), served=SERVING_PAIR), RotationAction.ISSUE, "served on"
    ),
    "the certificate has expired": Case(create_input(COMPLETE, now=add_days(90)), RotationAction.ISSUE, "has expired"),
    "the certificate has a month left": Case(create_input(COMPLETE, now=add_days(60))),
    "the certificate has less than a month left": Case(
        create_input(COMPLETE, now=add_days(60.1)), RotationAction.ISSUE, "29 days left"
    ),
    "the certificate lacks a name": Case(
        create_input(COMPLETE, names=parse_names(["10.1.2.3"])), RotationAction.ISSUE, "good for 10.1.2.3"
    ),
    "a certificate is requested": Case(
        create_input(replace(COMPLETE, requested="certificate")), RotationAction.ISSUE, "asked for"
    ),
    "a CA is requested": Case(
        create_input(replace(COMPLETE, requested="authority")), RotationAction.ROTATE_CA, "asked for"
    ),
    "an unknown target is requested": Case(create_input(replace(COMPLETE, requested="all"))),
    "the CA has less than a year left": Case(
        create_input(
            replace(COMPLETE, serving=convert_key_pair(create_serving_certificate(CA, NAMES, add_days(3300)))),
            now=add_days(3300),
        ),
        RotationAction.ROTATE_CA,
        "less than a year",
    ),
    "a new CA is not propagated": Case(create_input(ROTATING, is_propagated=_NEVER)),
    "a new CA is not propagated and another is requested": Case(
        create_input(replace(ROTATING, requested="authority"), is_propagated=_NEVER)
    ),
    "a new CA is propagated": Case(create_input(ROTATING), RotationAction.ISSUE, "trusted everywhere"),
    "the certificate of the old CA expires before that": Case(
        create_input(ROTATING, is_propagated=_NEVER, now=add_days(90)), RotationAction.ISSUE, "has expired"
    ),
    "old CAs may still be needed": Case(create_input(replace(ROTATING, serving=SERVING_PAIR), now=add_days(59))),
    "old CAs are no longer needed": Case(
        create_input(
            replace(ROTATING, serving=convert_key_pair(create_serving_certificate(CA, NAMES, add_days(60)))),
            now=add_days(91),
        ),
        RotationAction.RETIRE_CA,
        "old",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_next_step(name: str) -> None:
    case = CASES[name]
    step = choose_step(case.rotation_input)
    assert (step.action if step else None) == case.action
    assert case.reason in (step.reason if step else "")


@pytest.mark.parametrize("name", CASES)
def test_steps_end(name: str) -> None:
    """Follow the steps to an end: within five steps no action is left, unless a bundle must be published."""
    current, taken = CASES[name].rotation_input, list[RotationAction]()
    while (step := choose_step(current)) and step.action is not RotationAction.PUBLISH:
        state = step.state or current.state
        assert state
        current = replace(current, state=state, published_cas=state.ca_certificates, served=state.serving)
        taken.append(step.action)
        assert len(taken) < 5


def test_a_replaced_ca_signs_no_more_certificates() -> None:
    step = choose_step(create_input(replace(COMPLETE, requested="authority")))
    assert step
    assert step.state
    assert step.state.ca
    assert step.state.previous_cas == (CA.certificate,)
    assert (step.state.serving, step.state.requested, step.state.ca_since) == (SERVING_PAIR, "", NOW)


def test_a_rebuilt_secret_keeps_the_served_certificate_and_the_published_cas() -> None:
    step = choose_step(create_input(None, published_cas=(OLD.certificate,), served=OLD_SERVING_PAIR))
    assert step
    assert step.state
    assert (step.state.serving, step.state.previous_cas) == (OLD_SERVING_PAIR, (OLD.certificate,))


def test_a_rebuilt_secret_drops_an_untrusted_certificate() -> None:
    step = choose_step(
        create_input(SecretState(None, (), OLD_SERVING_PAIR), published_cas=(CA.certificate,), served=None)
    )
    assert step
    assert step.state
    assert step.state.ca
    assert step.state.serving
    assert step.state.serving.is_signed_by(step.state.ca.certificate)


def test_a_new_certificate_has_all_names_of_the_old_one() -> None:
    other = CertificateNames(dns=("other.tally.svc",))
    step = choose_step(create_input(COMPLETE, names=other))
    assert step
    assert step.state
    assert step.state.serving
    assert read_names(step.state.serving.certificate) == other + NAMES


def test_no_ca_is_created_for_a_full_bundle_and_the_reason_is_reported() -> None:
    full = replace(COMPLETE, previous_cas=(OLD.certificate,) * (MAX_CA_CERTIFICATES - 1), requested="authority")
    assert choose_step(create_input(full)) is None
    assert find_request_error(full) == (
        "32 authorities are trusted, and no more can be: a new one is made after 2026-04-02, when the old ones are "
        "forgotten"
    )
    assert get_retirement_time(NOW) == datetime(2026, 4, 2, tzinfo=UTC)


def test_foreign_cas_never_exceed_the_limit_of_a_bundle() -> None:
    strangers = tuple(create_ca(NOW).certificate for _ in range(MAX_CA_CERTIFICATES + 5))
    step = choose_step(create_input(None, published_cas=strangers))
    assert step
    assert step.state
    assert len(step.state.ca_certificates) == MAX_CA_CERTIFICATES


def test_a_request_error_is_short_for_every_request() -> None:
    assert len(find_request_error(replace(COMPLETE, requested="x" * 100_000))) < 120
