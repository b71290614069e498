"""Renewal of the certificates in a folder, in an order in which clients always trust the served certificate."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509

from tallygate_certs import cert_files
from tallygate_certs.authority import SERVING_LIFETIME, create_ca, create_serving_certificate
from tallygate_certs.certificate_names import CertificateNames, read_names
from tallygate_certs.errors import CertsError

SERVING_MARGIN = SERVING_LIFETIME / 3
"""A serving certificate is renewed when it has less than this left."""

CA_MARGIN = timedelta(days=365)
"""A CA is succeeded when it has less than this left."""

PROPAGATION_DELAY = timedelta(days=1)
"""The time from the creation of a CA until it signs the serving certificate: time to publish it everywhere."""


@dataclass(frozen=True, slots=True)
class RenewalResult:
    """The actions of a renewal with their reasons, one sentence each; empty if nothing was due."""

    actions: tuple[str, ...]


def issue(folder: Path, names: CertificateNames, now: datetime) -> None:
    """Create or replace the serving certificate for these names; create a CA if the folder has none.

    Raises:
        CertsError: if the CA of the folder cannot be used, or the folder cannot be written.
    """
    if not cert_files.read_ca_certificates(folder):
        cert_files.write_ca(folder, create_ca(now))
    ca = cert_files.read_ca(folder)
    if ca.certificate.not_valid_after_utc <= now:
        raise CertsError(f"the authority in {folder} has expired; `tallygate certs renew` makes its successor")
    cert_files.write_serving_pair(folder, create_serving_certificate(ca, names, now))


def renew(folder: Path, now: datetime, *, force: bool = False) -> RenewalResult:
    """Renew the due certificates: first create a new CA beside the old; a day later sign a serving certificate with it.

    A previous CA stays trusted as long as a certificate that it signed may be valid. `force` creates a new serving
    certificate even if none is due.

    Raises:
        CertsError: if there is nothing to renew, or the folder cannot be read or written.
    """
    ca, serving = cert_files.read_ca(folder), cert_files.read_serving_pair(folder)
    signer, previous_cas = ca, cert_files.read_ca_certificates(folder)[1:]
    actions = []
    if is_ca_due(ca.certificate, now):
        previous_cas = select_trusted_cas((ca.certificate, *previous_cas), now, now)
        ca = create_ca(now)
        cert_files.write_ca(folder, ca, previous_cas)
        actions.append("made a new authority; publish ca.crt, which trusts it and the old one")
    elif (still_trusted := select_trusted_cas(previous_cas, ca.certificate.not_valid_before_utc, now)) != tuple(
        previous_cas
    ):
        cert_files.write_ca_certificates(folder, (ca.certificate, *still_trusted))
        actions.append("removed an authority that no longer signs any certificate; publish ca.crt")
    if reason := get_renewal_reason(serving.certificate, ca.certificate, now, force=force):
        # No client trusts a CA that was created just now, so its predecessor signs once more, if it lasts as long.
        if signer.certificate.not_valid_after_utc < now + SERVING_LIFETIME:
            signer = ca
        cert_files.write_serving_pair(folder, create_serving_certificate(signer, read_names(serving.certificate), now))
        actions.append(f"made a new serving certificate: {reason}")
    return RenewalResult(tuple(actions))


def is_ca_due(ca: x509.Certificate, now: datetime) -> bool:
    """Return whether a CA needs a successor."""
    return ca.not_valid_after_utc - now < CA_MARGIN


def get_renewal_reason(serving: x509.Certificate, ca: x509.Certificate, now: datetime, *, force: bool = False) -> str:
    """Return the reason to renew a serving certificate; empty if it is not due."""
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
    """Return those CAs, succeeded at `replaced_at`, that may have signed a certificate that is still valid."""
    return tuple(
        certificate
        for certificate in previous_cas
        if now < min(certificate.not_valid_after_utc, replaced_at + SERVING_LIFETIME)
    )
