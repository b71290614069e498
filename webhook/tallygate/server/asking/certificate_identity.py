"""Who asks by a client certificate: the user that the API server's own authenticator of certificates names.

The handshake has verified the certificate: a CA of the cluster signed it, for clients, and it was valid. A connection
may outlive it, so that its time counts again with each request. The rules are those of Kubernetes
(k8s.io/apiserver pkg/authentication/request/x509, v1.36).
"""

from datetime import datetime
from http import HTTPStatus
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.identity import Asker

_CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
AUTHENTICATED: Final = "system:authenticated"
"""The group that the API server itself adds to every user (group.AuthenticatedGroupAdder)."""

_FOR_CLIENTS: Final = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
_PARSE_ERRORS: Final = (TypeError, ValueError, x509.InvalidVersion, x509.DuplicateExtension)


class ClientCertificate(NamedTuple):
    """The names in the certificate of a client; the common name is empty without one. The fingerprint is a SHA-256."""

    common_name: str
    organizations: tuple[str, ...]
    fingerprint: str


def identify_by_certificate(content: bytes, now: datetime) -> Asker:
    """Return the user of a verified certificate (DER): its common name, with its organizations as groups.

    Raises:
        AskError: with 401 if it has no common name, is not for clients, or is not valid now.
    """
    certificate = read_client_certificate(content, now)
    if not certificate.common_name:
        raise _create_error("names no user: its subject has no common name (CN)")
    extra = ((_CREDENTIAL_ID, (f"X509SHA256={certificate.fingerprint}",)),)
    return Asker(certificate.common_name, groups=(*certificate.organizations, AUTHENTICATED), extra=extra)


def read_client_certificate(content: bytes, now: datetime) -> ClientCertificate:
    """Return whom a verified certificate (DER) names.

    Raises:
        AskError: with 401 if it is not for clients, or is not valid now.
    """
    try:
        certificate = x509.load_der_x509_certificate(content)
        subject = certificate.subject
        names = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        organizations = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        is_for_clients = _is_for_clients(certificate)
    except _PARSE_ERRORS:
        raise _create_error("cannot be read") from None
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise _create_error("is not valid at this time")
    if not is_for_clients:
        raise _create_error("is not for clients: its extended key usage lacks clientAuth")
    fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
    return ClientCertificate(names[-1] if names else "", tuple(organizations), fingerprint)


def _is_for_clients(certificate: x509.Certificate) -> bool:
    """Return whether a certificate may be used by clients; one without an extended key usage may, as in Go."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return not _FOR_CLIENTS.isdisjoint(usage)


def _create_error(reason: str) -> AskError:
    message = f"the client certificate {reason}. Send another one, or a token without a certificate"
    return AskError(HTTPStatus.UNAUTHORIZED, message)
