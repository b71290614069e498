"""The next step of a CA rotation, as a pure function of the objects that a replica has read.

Every step is one write, which succeeds only if the object is unchanged since it was read. After each step any replica
can take the next, and clients trust the served certificate all the time:

    authority     a new CA comes first in `ca.crt`; the old CA stays trusted, and signs no more from now on
    publish       `caBundle` of all webhooks is set to `ca.crt`
    (propagation) every API server reloads the published bundle
    certificate   the new CA signs the serving certificate
    (90 days)     all certificates of the old CA expire, on every replica
    forget        the old CA is removed from `ca.crt`, and by the next `publish` from `caBundle`

A CA without a known start (the Secret was deleted, replaced or never created) is treated as a CA that was created just
now. It succeeds all published CAs and the CA of the certificate that this replica serves.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from cryptography import x509

from tallygate_certs.authority import SERVING_LIFETIME, KeyPair, create_ca, create_serving_certificate
from tallygate_certs.certificate_names import CertificateNames
from tallygate_certs.renewal import SERVING_MARGIN, is_ca_due
from tallygate_certs.secret_state import (
    MAX_CA_CERTIFICATES,
    RENEW_ANNOTATION,
    SecretState,
    ServingCertificate,
    convert_key_pair,
)

_CLOCK_SKEW = timedelta(days=1)  # tolerated clock difference of replicas; with more, a CA is removed too early
_CERTIFICATE_REQUEST, _CA_REQUEST = "certificate", "authority"
_VALID_REQUESTS = frozenset({"", _CERTIFICATE_REQUEST, _CA_REQUEST})


class RotationAction(StrEnum):
    """The kinds of rotation step."""

    REBUILD = "rebuild"
    ADOPT = "adopt"
    PUBLISH = "publish"
    ISSUE = "issue"
    ROTATE_CA = "rotate-ca"
    RETIRE_CA = "retire-ca"


@dataclass(frozen=True, slots=True)
class RotationInput:
    """The objects that one replica has read.

    Without a Secret, `state` has no value (None). `published_cas` are the CAs that any webhook trusts now, and
    `is_published` is true if all webhooks trust exactly the CAs of `state`. `is_propagated` returns whether every API
    server surely trusts a CA; it is false for all CAs while none can be published. `served` is the serving certificate
    of this replica. `names` are the names by which API servers call the gate.
    """

    state: SecretState | None
    published_cas: tuple[x509.Certificate, ...]
    is_published: bool
    is_propagated: Callable[[x509.Certificate], bool]
    served: ServingCertificate | None
    names: CertificateNames
    now: datetime


@dataclass(frozen=True, slots=True)
class RotationStep:
    """A step, its reason as a sentence, and the new state of the Secret; None: the Secret stays unchanged."""

    action: RotationAction
    reason: str
    state: SecretState | None = None


def choose_step(rotation_input: RotationInput) -> RotationStep | None:
    """Return the step that is due for this replica, or None."""
    state, ca = rotation_input.state, rotation_input.state.ca if rotation_input.state else None
    if state is None or ca is None or ca.certificate.not_valid_after_utc <= rotation_input.now:
        return _rebuild(
            state or SecretState(),
            rotation_input,
            "there is no Secret" if state is None else "no authority in it signs",
        )
    if state.ca_since is None:
        previous_cas = _limit_ca_certificates(state.previous_cas, rotation_input.published_cas, excluded=ca.certificate)
        return RotationStep(
            RotationAction.ADOPT,
            "its authority is new here",
            replace(state, previous_cas=previous_cas, ca_since=rotation_input.now),
        )
    if not rotation_input.is_published:
        return RotationStep(RotationAction.PUBLISH, "API servers are to trust what ca.crt says")
    return _plan_serving_certificate(state, ca, rotation_input) or _plan_ca_rotation(state, ca, rotation_input)


def get_retirement_time(ca_since: datetime) -> datetime:
    """Return the time to remove CAs that were succeeded at `ca_since`: all of their certificates have expired."""
    return ca_since + SERVING_LIFETIME + _CLOCK_SKEW


def find_request_error(state: SecretState) -> str:
    """Return the reason why a requested renewal cannot be done; empty if it can, or if none is requested."""
    if state.requested not in _VALID_REQUESTS:
        return (
            f"the annotation {RENEW_ANNOTATION} is {state.requested[:40]!r}; write {_CERTIFICATE_REQUEST} or "
            f"{_CA_REQUEST}"
        )
    if state.requested == _CA_REQUEST and state.ca_since and len(state.ca_certificates) >= MAX_CA_CERTIFICATES:
        return (
            f"{len(state.ca_certificates)} authorities are trusted, and no more can be: a new one is made after "
            f"{get_retirement_time(state.ca_since):%Y-%m-%d}, when the old ones are forgotten"
        )
    return ""


def _rebuild(state: SecretState, rotation_input: RotationInput, reason: str) -> RotationStep:
    """Create a CA beside all CAs that clients may trust, and keep a trusted serving certificate or sign a new one."""
    ca = create_ca(rotation_input.now)
    previous_cas = _limit_ca_certificates(rotation_input.published_cas, state.previous_cas, excluded=ca.certificate)
    serving = next(
        (
            certificate
            for certificate in (state.serving, rotation_input.served)
            if certificate and certificate.is_trusted_by(previous_cas, rotation_input.now)
        ),
        None,
    )
    new_state = SecretState(
        ca, previous_cas, serving or _sign_serving_certificate(ca, rotation_input), rotation_input.now
    )
    return RotationStep(RotationAction.REBUILD, reason, new_state)


def _plan_serving_certificate(state: SecretState, ca: KeyPair, rotation_input: RotationInput) -> RotationStep | None:
    serving, now = state.serving, rotation_input.now
    if serving is None or not serving.is_trusted_by(state.ca_certificates, now):
        served = rotation_input.served
        if served and served != serving and served.is_trusted_by(state.ca_certificates, now):
            return RotationStep(
                RotationAction.ISSUE, "the one in it cannot be used; it is served on", replace(state, serving=served)
            )
        return _issue_serving_certificate(state, ca, rotation_input, "the one in it cannot be used or has expired")
    if not serving.is_signed_by(ca.certificate):
        if not rotation_input.is_propagated(ca.certificate):
            return None
        return _issue_serving_certificate(state, ca, rotation_input, "the new authority is trusted everywhere")
    if reason := _get_renewal_reason(serving, state.requested, rotation_input):
        return _issue_serving_certificate(state, ca, rotation_input, reason)
    return None


def _plan_ca_rotation(state: SecretState, ca: KeyPair, rotation_input: RotationInput) -> RotationStep | None:
    """Return the step that adds or removes a CA, if the newest CA has signed the serving certificate."""
    if state.serving is None or not state.serving.is_signed_by(ca.certificate):
        return None
    is_due = is_ca_due(ca.certificate, rotation_input.now)
    if (is_due or state.requested == _CA_REQUEST) and len(state.ca_certificates) < MAX_CA_CERTIFICATES:
        reason = "the old one has less than a year left" if is_due else "it was asked for"
        new_state = SecretState(create_ca(rotation_input.now), state.ca_certificates, state.serving, rotation_input.now)
        return RotationStep(RotationAction.ROTATE_CA, reason, new_state)
    if state.previous_cas and state.ca_since and rotation_input.now >= get_retirement_time(state.ca_since):
        return RotationStep(
            RotationAction.RETIRE_CA, "all that the old ones have signed has expired", replace(state, previous_cas=())
        )
    return None


def _get_renewal_reason(serving: ServingCertificate, requested: str, rotation_input: RotationInput) -> str:
    """Return the reason to renew a serving certificate of the newest CA; empty if it is not due."""
    remaining = serving.certificate.not_valid_after_utc - rotation_input.now
    if requested == _CERTIFICATE_REQUEST:
        return "it was asked for"
    if remaining < SERVING_MARGIN:
        return f"the old one has {remaining.days} days left"
    own_names = serving.read_names()
    missing_names = set(rotation_input.names.to_texts()) - set(own_names.to_texts() if own_names else ())
    return f"the old one is not good for {', '.join(sorted(missing_names))}" if missing_names else ""


def _issue_serving_certificate(
    state: SecretState, ca: KeyPair, rotation_input: RotationInput, reason: str
) -> RotationStep:
    requested = "" if state.requested == _CERTIFICATE_REQUEST else state.requested
    return RotationStep(
        RotationAction.ISSUE,
        reason,
        replace(state, serving=_sign_serving_certificate(ca, rotation_input, state.serving), requested=requested),
    )


def _sign_serving_certificate(
    ca: KeyPair, rotation_input: RotationInput, old: ServingCertificate | None = None
) -> ServingCertificate:
    """Sign a certificate for the gate's names and for those of the old certificate, which clients may use again."""
    old_names = old.read_names() if old else None
    return convert_key_pair(
        create_serving_certificate(
            ca, rotation_input.names + old_names if old_names else rotation_input.names, rotation_input.now
        )
    )


def _limit_ca_certificates(
    *groups: Iterable[x509.Certificate], excluded: x509.Certificate
) -> tuple[x509.Certificate, ...]:
    """Return these CAs without duplicates, at most `MAX_CA_CERTIFICATES` - 1: one more stands beside them."""
    certificates = dict.fromkeys(ca for group in groups for ca in group if ca != excluded)
    return tuple(certificates)[: MAX_CA_CERTIFICATES - 1]
