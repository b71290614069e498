"""What is to be done next about the certificates in the Secret, by whoever looks, and in which order.

Nothing here calls anybody. Every step is one write, made only if nothing was changed since it was looked at, and each
leaves everything such that whoever comes next can go on, and that what is served is trusted all the while:

    successor   a new authority comes first in `ca.crt`; the old one stays trusted, and signs no more from now on
    publish     `caBundle` of all webhooks is what `ca.crt` says
    (settling)  every API server takes up what was published
    certificate the new authority signs what is served
    (90 days)   whatever the old one has signed expires, whoever still serves with it
    forget      the old one goes from `ca.crt`, and with the next `publish` from `caBundle`

An authority that is not known to have come in this way (the Secret was deleted, replaced or never there) is treated as
a successor that came in just now, of all that is published and of what this replica serves with.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from cryptography import x509

from certs.authority import SERVING_LIFETIME, KeyPair, create_ca, create_serving_certificate
from certs.certificate_names import CertificateNames
from certs.renewal import SERVING_MARGIN, is_ca_due
from certs.secret_state import MAX_CA_CERTIFICATES, RENEW_ANNOTATION, SecretState, ServingCertificate, convert_key_pair

_CLOCK_SKEW = timedelta(days=1)  # by which the clocks of replicas may differ before an authority is forgotten too early
_CERTIFICATE_REQUEST, _CA_REQUEST = "certificate", "authority"
_VALID_REQUESTS = frozenset({"", _CERTIFICATE_REQUEST, _CA_REQUEST})


class RotationAction(StrEnum):
    """The kinds of step."""

    REBUILD = "rebuild"
    ADOPT = "take-over"
    PUBLISH = "publish"
    ISSUE = "certificate"
    ROTATE_CA = "authority"
    RETIRE_CA = "forget"


@dataclass(frozen=True, slots=True)
class RotationInput:
    """What one replica sees.

    `kept` is None when there is no Secret; `published` are the authorities that any webhook trusts now, `is_published`
    whether all of them trust exactly what `kept` says; `settled` tells whether every API server is sure to trust an
    authority, which none is while nothing can be published; `served` is what this replica serves with; `names` are
    those by which the gate is called.
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
    """A step, the reason for it as a sentence, and what is then to be kept; None: nothing of the Secret changes."""

    action: RotationAction
    reason: str
    state: SecretState | None = None


def choose_step(rotation_input: RotationInput) -> RotationStep | None:
    """What this replica should do now; None: nothing, or nothing yet."""
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
    """When those are forgotten whose successor came in at `since`: what they signed has expired by then."""
    return ca_since + SERVING_LIFETIME + _CLOCK_SKEW


def find_request_error(state: SecretState) -> str:
    """What whoever has asked for something should know; empty when it is or will be done."""
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
    """A new authority beside all that may be trusted now, and a leaf that is trusted already, if there is one."""
    ca = create_ca(rotation_input.now)
    previous_cas = _limit_ca_certificates(rotation_input.published_cas, state.previous_cas, excluded=ca.certificate)
    serving = next(
        (
            each
            for each in (state.serving, rotation_input.served)
            if each and each.is_trusted_by(previous_cas, rotation_input.now)
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
    """What is due of them, once the newest has signed what is served."""
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
    """Why a leaf of the newest authority must be made anew; empty when it need not be."""
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
    """Good for all names by which the gate is called, and for those of the old one, which may be called so again."""
    old_names = old.read_names() if old else None
    return convert_key_pair(
        create_serving_certificate(
            ca, rotation_input.names + old_names if old_names else rotation_input.names, rotation_input.now
        )
    )


def _limit_ca_certificates(
    *groups: Iterable[x509.Certificate], excluded: x509.Certificate
) -> tuple[x509.Certificate, ...]:
    """All of these, each once, as many as may stand beside one more."""
    certificates = dict.fromkeys(each for some in groups for each in some if each != excluded)
    return tuple(certificates)[: MAX_CA_CERTIFICATES - 1]
