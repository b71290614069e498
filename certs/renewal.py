"""When certificates are made anew, and in which order, so that nobody ever meets one that they do not trust yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509

from certs.authority import SERVING_LIFETIME, create_ca, create_serving_certificate
from certs.cert_files import (
    read_ca,
    read_ca_certificates,
    read_serving_pair,
    write_ca,
    write_ca_certificates,
    write_serving_pair,
)
from certs.certificate_names import CertificateNames, read_names
from certs.errors import CertsError

SERVING_MARGIN = SERVING_LIFETIME / 3
"""A leaf is renewed when it has less than this left."""

CA_MARGIN = timedelta(days=365)
"""An authority is succeeded when it has less than this left."""

PROPAGATION_DELAY = timedelta(days=1)
"""How long a new authority is trusted before it signs what is served: time to publish it everywhere."""


@dataclass(frozen=True, slots=True)
class RenewalResult:
    """What was done, and why, as a sentence for each; nothing when nothing was due."""

    actions: tuple[str, ...]


def issue(folder: Path, names: CertificateNames, now: datetime) -> None:
    """Make a serving certificate for these names, in place of one that is there; and an authority, if there is none.

    Raises:
        CertsError: an authority is there but cannot be used, or the folder cannot be written.
    """
    if not read_ca_certificates(folder):
        write_ca(folder, create_ca(now))
    ca = read_ca(folder)
    if ca.certificate.not_valid_after_utc <= now:
        raise CertsError(f"the authority in {folder} has expired; `tallygate certs renew` makes its successor")
    write_serving_pair(folder, create_serving_certificate(ca, names, now))


def renew(folder: Path, now: datetime, *, force: bool = False) -> RenewalResult:
    """Make anew what is due: first a successor of the authority, trusted beside it; a day later a leaf signed by it.

    An authority that was succeeded stays trusted as long as a leaf that it signed may live. `force` makes a new leaf
    even though none is due.

    Raises:
        CertsError: there is nothing to renew, or the folder cannot be read or written.
    """
    ca, serving = read_ca(folder), read_serving_pair(folder)
    signer, previous_cas = ca, read_ca_certificates(folder)[1:]
    actions = []
    if is_ca_due(ca.certificate, now):
        previous_cas = select_trusted_cas((ca.certificate, *previous_cas), now, now)
        ca = create_ca(now)
        write_ca(folder, ca, previous_cas)
        actions.append("made a new authority; publish ca.crt, which trusts it and the old one")
    elif (still_trusted := select_trusted_cas(previous_cas, ca.certificate.not_valid_before_utc, now)) != tuple(
        previous_cas
    ):
        write_ca_certificates(folder, (ca.certificate, *still_trusted))
        actions.append("ceased to trust an authority that nothing is signed by any more; publish ca.crt")
    if reason := get_renewal_reason(serving.certificate, ca.certificate, now, force=force):
        # Nobody trusts an authority that was made just now, so its predecessor signs once more, if it lasts as long.
        if signer.certificate.not_valid_after_utc < now + SERVING_LIFETIME:
            signer = ca
        write_serving_pair(folder, create_serving_certificate(signer, read_names(serving.certificate), now))
        actions.append(f"made a new serving certificate: {reason}")
    return RenewalResult(tuple(actions))


def is_ca_due(ca: x509.Certificate, now: datetime) -> bool:
    """Whether an authority needs a successor."""
    return ca.not_valid_after_utc - now < CA_MARGIN


def get_renewal_reason(serving: x509.Certificate, ca: x509.Certificate, now: datetime, *, force: bool = False) -> str:
    """Why a leaf must be made anew; empty when it need not be."""
    remaining = serving.not_valid_after_utc - now
    is_propagated = ca.not_valid_before_utc + PROPAGATION_DELAY <= now
    if force:
        return "it was asked for"
    if remaining <= timedelta(0):
        return "the old one has expired"
    if serving.issuer != ca.subject and (is_propagated or remaining <= PROPAGATION_DELAY):
        return "the old one is signed by the authority's predecessor"
    if remaining < SERVING_MARGIN and serving.issuer == ca.subject:
        return f"the old one has {remaining.days} days left"
    return ""


def select_trusted_cas(
    previous_cas: Sequence[x509.Certificate], replaced_at: datetime, now: datetime
) -> tuple[x509.Certificate, ...]:
    """Of authorities that were succeeded at the time `since`, those that a living leaf may be signed by."""
    return tuple(each for each in previous_cas if now < min(each.not_valid_after_utc, replaced_at + SERVING_LIFETIME))
