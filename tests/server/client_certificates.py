"""Certificates of clients, by the CA of a folder or signed by themselves."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tallygate_certs.cert_files import read_ca


def issue_client_certificate(  # noqa: PLR0913 - what may be wrong with a certificate
    folder: Path,
    name: str = "kube-apiserver",
    *,
    organization: str = "tests",
    days: int = 1,
    is_for_clients: bool = True,
    is_self_signed: bool = False,
) -> Path:
    """Issue a certificate that ends in `days` from now; an empty name is left out. Return the file with both."""
    ca = read_ca(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    end = datetime.now(UTC) + timedelta(days=days)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
            *([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []),
        ]
    )
    usage = ExtendedKeyUsageOID.CLIENT_AUTH if is_for_clients else ExtendedKeyUsageOID.SERVER_AUTH
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if is_self_signed else ca.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=2))
        .not_valid_after(end)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    )
    certificate = builder.sign(key if is_self_signed else ca.key, hashes.SHA256())
    path = folder / f"client-{certificate.serial_number}.pem"
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(certificate.public_bytes(Encoding.PEM) + pkcs8)
    return path
