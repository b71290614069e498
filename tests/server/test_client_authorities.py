"""The CAs of users and of front proxies: one handshake, and one role for each certificate."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tallygate.server.https.client_authorities import ClientAuthorities, ClientRole
from tallygate.server.https.https_server import HttpsStartError


class Made(NamedTuple):
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        """The certificate in PEM."""
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        """The certificate in DER."""
        return self.certificate.public_bytes(Encoding.DER)


def make(name: str, issuer: Made | None = None, key: ec.EllipticCurvePrivateKey | None = None) -> Made:
    """Return a certificate of an issuer, or of its own."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        issuer_name=issuer.certificate.subject if issuer else subject,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now,
        not_valid_after=now + timedelta(days=1),
    )
    return Made(builder.sign(issuer.key if issuer else key, hashes.SHA256()), key)


USERS, PROXIES = make("users"), make("proxies")


def test_the_nearest_ca_of_a_chain_says_what_a_certificate_is_for() -> None:
    authorities = ClientAuthorities(USERS.pem, PROXIES.pem)
    between = make("between", PROXIES)
    user, proxy, below = make("bob", USERS), make("front", PROXIES), make("below", between)
    assert authorities.find_role_of_chain([user.der, USERS.der]) is ClientRole.USER
    assert authorities.find_role_of_chain([proxy.der, PROXIES.der]) is ClientRole.FRONT_PROXY
    assert authorities.find_role_of_chain([below.der, between.der, PROXIES.der]) is ClientRole.FRONT_PROXY
    assert authorities.find_role_of_chain([user.der]) is None
    assert authorities.find_role_of_chain([]) is None
    assert authorities.find_role_of_chain([b"no certificate", USERS.der]) is ClientRole.USER


def test_where_one_ca_has_signed_the_other_no_user_is_a_front_proxy_nor_a_front_proxy_a_user() -> None:
    proxies_below = make("proxies", USERS)
    authorities = ClientAuthorities(USERS.pem, proxies_below.pem)
    chain = [make("front", proxies_below).der, proxies_below.der, USERS.der]
    assert authorities.find_role_of_chain(chain) is ClientRole.FRONT_PROXY
    users_below = make("users", PROXIES, USERS.key)  # another certificate of the same CA, which the client sends
    authorities = ClientAuthorities(USERS.pem, PROXIES.pem)
    assert authorities.find_role_of_chain([make("bob", USERS).der, users_below.der, PROXIES.der]) is ClientRole.USER


def test_a_ca_of_both_kinds_is_refused_also_by_another_certificate() -> None:
    renewed = make("users", key=USERS.key)
    for proxies in (USERS.pem, PROXIES.pem + renewed.pem):
        with pytest.raises(HttpsStartError, match="also signs for users"):
            ClientAuthorities(USERS.pem, proxies)


def test_a_ca_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(HttpsStartError, match="cannot be read"):
        ClientAuthorities(b"", USERS.pem.replace(b"MII", b"AAA"))


def test_without_front_proxies_there_are_users_alone() -> None:
    assert ClientAuthorities(USERS.pem, b"").bundle == USERS.pem.decode()
    assert ClientAuthorities(b"", b"").bundle == ""
