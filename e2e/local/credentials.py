"""Credentials of the control plane: its authority, the key of its tokens, and a kubeconfig for each client.

A client is a certificate: its common name is the user, its organization the group (Kubernetes, "X509 client
certificates").
"""

import base64
import json
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tallygate_certs.authority import KeyPair, create_ca, create_serving_certificate
from tallygate_certs.cert_files import write_ca, write_serving_pair
from tallygate_certs.certificate_names import CertificateNames

_NAMES = CertificateNames(("localhost", "kubernetes.default.svc"), (ip_address("127.0.0.1"),))
_LIFETIME = timedelta(days=7)  # a development cluster may run over a weekend
_SKEW = timedelta(minutes=5)


class Credentials:
    """Keys and certificates in one folder, made for each control plane and deleted with it."""

    def __init__(self, folder: Path, server: str) -> None:
        """Make them, for clients of the API server at the URL `server`."""
        self._folder = folder
        self._server = server
        self._authority = create_ca(datetime.now(UTC))
        self.authority = folder / "ca.crt"
        self.authority_key = folder / "ca.key"
        self.serving = folder / "tls.crt"
        self.serving_key = folder / "tls.key"
        self.token_key = folder / "tokens.key"
        self.token_public_key = folder / "tokens.pub"
        folder.mkdir()
        write_ca(folder, self._authority)
        write_serving_pair(folder, create_serving_certificate(self._authority, _NAMES, datetime.now(UTC)))
        self._write_token_keys()

    def kubeconfig(self, file: str, user: str, group: str | None = None) -> Path:
        """Write a kubeconfig, whole in itself, that is this user in this group."""
        client = _client(self._authority, user, group)
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tallygate",
            "clusters": [{"name": "tallygate", "cluster": self._cluster()}],
            "contexts": [{"name": "tallygate", "context": {"cluster": "tallygate", "user": user}}],
            "users": [{"name": user, "user": _user(client)}],
        }
        path = self._folder / file
        path.touch(mode=0o600)
        path.write_text(json.dumps(content, indent=2))  # JSON is YAML too
        return path

    def _cluster(self) -> dict[str, str]:
        certificate = self._authority.certificate.public_bytes(serialization.Encoding.PEM)
        return {"server": self._server, "certificate-authority-data": _base64(certificate)}

    def _write_token_keys(self) -> None:
        """Write the key that signs ServiceAccount tokens, and its public half, which verifies them."""
        key = ec.generate_private_key(ec.SECP256R1())
        self.token_key.touch(mode=0o600)
        self.token_key.write_bytes(_private(key))
        self.token_public_key.write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )


def _user(client: KeyPair) -> dict[str, str]:
    return {
        "client-certificate-data": _base64(client.certificate.public_bytes(serialization.Encoding.PEM)),
        "client-key-data": _base64(_private(client.key)),
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return PEM in the form that Kubernetes reads for every purpose (client-go's keyutil)."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _client(authority: KeyPair, user: str, group: str | None) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    names = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group is not None:
        names.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(names))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    )
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)
