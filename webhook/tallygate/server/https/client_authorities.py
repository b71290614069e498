"""Which CA signed a client's certificate: one of users, or one of front proxies. No certificate is of both.

One handshake verifies against both kinds of CAs, and its verified chain says which it was: the first certificate of the
chain whose key and name are those of a CA. So a front proxy is no user, and a user no front proxy, also where one CA
has signed the other. A CA of both kinds is refused: every user could state another one.
"""

import enum
import ssl
from collections.abc import Sequence
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tallygate.server.https.https_server import HttpsStartError
from tallygate.server.https.tls_files import PARSE_ERRORS

_DER: Final = 2  # _ssl.ENCODING_DER
_UNREADABLE: Final = (*PARSE_ERRORS, UnsupportedAlgorithm)


class ClientRole(enum.Enum):
    """The uses of a certificate."""

    USER = "user"
    FRONT_PROXY = "front proxy"


class ClientAuthorities:
    """The CAs that sign for clients, in PEM; b"" for none.

    Raises:
        HttpsStartError: if there are CAs of front proxies, and one cannot be read, or is also a CA of users.
    """

    def __init__(self, user_ca: bytes, proxy_ca: bytes) -> None:
        self.bundle = b"\n".join((user_ca, proxy_ca)).decode("ascii") if proxy_ca else user_ca.decode("ascii")
        self._has_proxies = bool(proxy_ca)
        users = _read_keys(user_ca) if proxy_ca and user_ca else set()
        proxies = _read_keys(proxy_ca) if proxy_ca else set()
        if users & proxies:
            raise HttpsStartError(
                "a CA of proxy_ca_file also signs for users, each of whom could then state another one: let front "
                "proxies have a CA of their own"
            )
        self._roles = dict.fromkeys(users, ClientRole.USER) | dict.fromkeys(proxies, ClientRole.FRONT_PROXY)

    def find_role(self, ssl_object: ssl.SSLObject) -> ClientRole | None:
        """Return what the certificate of a client is for, after the handshake; None without one."""
        if ssl_object.getpeercert(binary_form=True) is None:
            return None
        return self.find_role_of_chain(_read_verified_chain(ssl_object)) if self._has_proxies else ClientRole.USER

    def find_role_of_chain(self, chain: Sequence[bytes]) -> ClientRole | None:
        """Return what the first certificate (DER) of a verified chain is for; None if no CA is in the chain."""
        for content in chain:
            try:
                key = _create_key(x509.load_der_x509_certificate(content))
            except _UNREADABLE:  # not one of the CAs, which were read
                continue
            if key in self._roles:
                return self._roles[key]
        return None


def _read_keys(bundle: bytes) -> set[bytes]:
    try:
        return {_create_key(certificate) for certificate in x509.load_pem_x509_certificates(bundle)}
    except _UNREADABLE as error:
        raise HttpsStartError(f"a CA of clients cannot be read: {error}") from None


def _create_key(certificate: x509.Certificate) -> bytes:
    """Return the name and the public key of a certificate: another one for the same CA has both."""
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return certificate.subject.public_bytes() + key


def _read_verified_chain(ssl_object: ssl.SSLObject) -> list[bytes]:
    """Return the chain (DER) that was verified, from the client's certificate to the CA.

    Before Python 3.13 it is behind `_sslobj` alone, which `SSLObject.get_verified_chain` itself calls since then.
    """
    hidden: Any = ssl_object._sslobj  # type: ignore[attr-defined]  # noqa: SLF001  # no other way before 3.13
    return [each.public_bytes(_DER) for each in hidden.get_verified_chain() or ()]
