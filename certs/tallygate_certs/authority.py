"""A certificate authority (CA) and the serving certificates that it signs.

The keys are ECDSA on P-256: small, quick, and supported by every TLS library.

A CA is valid for ten years, since it is copied into every webhook configuration and a change takes care. A serving
certificate is valid for 90 days. That is short enough to limit the use of a stolen key, and to exercise renewal often.
It is renewed with a third of that left, so an operator has a month to notice that renewal has stopped. All certificates
are valid from five minutes before their creation, for machines whose clocks are behind.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tallygate_certs.certificate_names import CertificateNames

CA_LIFETIME = timedelta(days=3652)
SERVING_LIFETIME = timedelta(days=90)
CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def create_ca(now: datetime) -> KeyPair:
    """Create a self-signed CA with a unique name, so that clients can trust two side by side."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tallygate authority {serial:x}"[:40])])
    builder = _create_builder(name, name, key.public_key(), now, CA_LIFETIME).serial_number(serial)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_create_key_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(_create_key_identifier(key), critical=False)
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def create_serving_certificate(ca: KeyPair, names: CertificateNames, now: datetime) -> KeyPair:
    """Create a serving certificate for these names; it never outlives its CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tallygate")])
    issuer = ca.certificate
    lifetime = min(SERVING_LIFETIME, issuer.not_valid_after_utc - now)
    builder = _create_builder(subject, issuer.subject, key.public_key(), now, lifetime)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_create_key_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(names.to_extension(), critical=False)
    builder = builder.add_extension(_create_key_identifier(key), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(_create_key_identifier(ca.key)), critical=False
    )
    return KeyPair(builder.sign(ca.key, hashes.SHA256()), key)


def _create_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )


def _create_key_identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _create_key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the key usage: a CA signs certificates and CRLs; a serving certificate, handshakes (RFC 5280, 4.2.1.3)."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
