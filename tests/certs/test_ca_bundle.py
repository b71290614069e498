"""Publication of the CA bundle, against responses that a real API server rarely gives."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tallygate.kube.config import ClientConfigError, load_kubeconfig
from tallygate_certs.authority import CA_LIFETIME, create_ca
from tallygate_certs.ca_bundle import PublishOutcome, publish_bundle, read_ca_bundle
from tallygate_certs.cert_files import write_ca_certificates
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.cluster_access import create_client
from tallygate_certs.errors import CertsError
from tallygate_certs.renewal import issue, renew
from tests.certs.api_server import CertificateApiServer, run_api_server, write_kubeconfig

NOW = datetime.now(UTC)
PEM = b"-----BEGIN CERTIFICATE-----\n"
MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with certificates."""
    made = tmp_path / "tls"
    issue(made, parse_names(["localhost"]), NOW)
    return made


@pytest.fixture
def api() -> CertificateApiServer:
    """Return an API server with both configurations, two webhooks each, and a field that the client does not know."""
    api = CertificateApiServer()
    for kind in (MUTATING, VALIDATING):
        clients: list[dict[str, Any]] = [{"url": "https://a"}, {"url": "https://b", "caBundle": "b2xk"}]
        api.add(kind, "tallygate", [{"name": "a.b.c", "clientConfig": client, "newer": 1} for client in clients])
    return api


@pytest.fixture
def kubeconfig(api: CertificateApiServer, tmp_path: Path) -> Iterator[Path]:
    """Yield the path of a kubeconfig for the server."""
    with run_api_server(api, tmp_path / "server") as path:
        yield path


def publish(kubeconfig: Path, name: str = "tallygate", pem: bytes = PEM) -> list[tuple[str, str]]:
    """Publish a bundle, and return the outcome for each configuration."""
    return [(each.kind, each.outcome) for each in publish_bundle(create_client(load_kubeconfig(kubeconfig)), name, pem)]


def list_bundles(api: CertificateApiServer) -> list[str]:
    """Return the bundle of every webhook."""
    return [
        webhook["clientConfig"].get("caBundle")
        for configuration in api.objects.values()
        for webhook in configuration["webhooks"]
    ]


def test_a_publication_writes_the_bundle_of_every_webhook_and_nothing_else(
    api: CertificateApiServer, kubeconfig: Path
) -> None:
    before = json.loads(json.dumps(api.objects))
    assert publish(kubeconfig) == [(MUTATING, PublishOutcome.UPDATED), (VALIDATING, PublishOutcome.UPDATED)]
    assert list_bundles(api) == [base64.b64encode(PEM).decode()] * 4
    for path, configuration in api.objects.items():
        for webhook, old in zip(configuration["webhooks"], before[path]["webhooks"], strict=True):
            webhook["clientConfig"] = old["clientConfig"]
        assert configuration["webhooks"] == before[path]["webhooks"]


def test_a_current_bundle_is_not_written_again(api: CertificateApiServer, kubeconfig: Path) -> None:
    publish(kubeconfig)
    api.methods.clear()
    assert publish(kubeconfig) == [(MUTATING, PublishOutcome.UNCHANGED), (VALIDATING, PublishOutcome.UNCHANGED)]
    assert api.methods == ["GET", "GET"]


def test_a_configuration_without_webhooks_has_nothing_to_write(api: CertificateApiServer, kubeconfig: Path) -> None:
    for configuration in api.objects.values():
        configuration["webhooks"] = None
    assert {outcome for _, outcome in publish(kubeconfig)} == {PublishOutcome.EMPTY}


def test_one_configuration_may_be_missing(api: CertificateApiServer, kubeconfig: Path) -> None:
    del api.objects[min(api.objects)]
    assert publish(kubeconfig) == [(MUTATING, PublishOutcome.MISSING), (VALIDATING, PublishOutcome.UPDATED)]


def test_an_error_without_any_configuration_names_the_remedy(kubeconfig: Path) -> None:
    with pytest.raises(
        CertsError, match=r"no webhook configuration is called other: register the gate first \(kubectl"
    ):
        publish(kubeconfig, "other")


def test_a_concurrent_write_is_not_overwritten(api: CertificateApiServer, kubeconfig: Path) -> None:
    """Read the configuration again after a conflict, and only then write."""
    api.conflicting_writes = 4
    assert publish(kubeconfig) == [(MUTATING, PublishOutcome.UPDATED), (VALIDATING, PublishOutcome.UPDATED)]
    assert api.methods == ["GET", "PATCH"] * 6


def test_repeated_conflicts_are_reported(api: CertificateApiServer, kubeconfig: Path) -> None:
    api.conflicting_writes = 100
    with pytest.raises(CertsError, match="was changed by another client after each of 5 reads: try again"):
        publish(kubeconfig)
    assert api.methods == ["GET", "PATCH"] * 5
    assert base64.b64encode(PEM).decode() not in list_bundles(api)


@pytest.mark.parametrize(
    ("code", "body", "message"),
    [
        (403, b'{"message": "jane may\\nnot get it"}', "answers 403: jane may not get it"),
        (401, b'{"kind": "Status", "message": "Unauthorized"}', "answers 401: Unauthorized"),
        (500, b"\xff<html>", "answers 500: Internal Server Error"),
        (503, b"[]", "answers 503: Service Unavailable"),
        (403, b'{"message": "' + b"x" * 5000 + b'"}', "answers 403: " + "x" * 300 + " …"),
        (403, b"[" * 100_000, "answers 403: Forbidden"),
    ],
)
def test_a_rejected_publication_is_one_sentence(
    api: CertificateApiServer, kubeconfig: Path, code: int, body: bytes, message: str
) -> None:
    api.fixed_response = (code, body)
    with pytest.raises(CertsError) as caught:
        publish(kubeconfig)
    server = "the API server at https://127.0.0.1:"
    text = str(caught.value)
    assert text.startswith(f"cannot read and patch the MutatingWebhookConfiguration tallygate: {server}")
    assert text.endswith(message)


@pytest.mark.parametrize("body", [b"hello", b"[1]", b"{}", b'{"kind": "Status"}', b"[" * 100_000, b"\xff"])
def test_a_server_that_is_not_an_api_server_is_recognized(
    api: CertificateApiServer, kubeconfig: Path, body: bytes
) -> None:
    api.fixed_response = (200, body)
    with pytest.raises(
        CertsError, match="what answered for the MutatingWebhookConfiguration tallygate is no API server"
    ):
        publish(kubeconfig)


def test_an_unreachable_server_is_reported(kubeconfig: Path) -> None:
    write_kubeconfig(kubeconfig.parent, "https://127.0.0.1:9")
    with pytest.raises(CertsError, match=r"^the API server at https://127.0.0.1:9 cannot be reached: .*refused"):
        publish(kubeconfig)


def test_a_server_of_another_ca_is_not_trusted(kubeconfig: Path) -> None:
    (kubeconfig.parent / "ca.crt").write_bytes((kubeconfig.parent / "ca.crt").read_bytes())
    write_ca_certificates(kubeconfig.parent, [create_ca(NOW).certificate])
    with pytest.raises(CertsError, match=r"cannot be reached: .*certificate verify failed"):
        publish(kubeconfig)


@pytest.mark.parametrize(
    "server", ["https://[::1", "", "nonsense", "https://", "https://127.0.0.1:99999", "ftp://x", 5]
)
def test_an_invalid_server_address_is_reported(kubeconfig: Path, server: str) -> None:
    with pytest.raises((CertsError, ClientConfigError), match=r"does not say where|cannot be reached") as caught:
        publish(write_kubeconfig(kubeconfig.parent, server))
    assert "\n" not in str(caught.value)


def test_an_invalid_ca_certificate_is_reported(kubeconfig: Path) -> None:
    (kubeconfig.parent / "ca.crt").write_bytes(b"hello")
    with pytest.raises((CertsError, ClientConfigError), match=r"does not say where|cannot be reached"):
        publish(kubeconfig)


def test_only_the_certificates_of_a_file_are_published(folder: Path) -> None:
    """Omit a key that was pasted into the file by mistake."""
    path = folder / "ca.crt"
    pem = path.read_bytes()
    path.write_bytes(b"our own\n" + pem + (folder / "ca.key").read_bytes())
    assert read_ca_bundle(folder, NOW) == pem
    assert len(x509.load_pem_x509_certificates(read_ca_bundle(folder, NOW))) == 1


def test_both_cas_are_published_during_a_rotation(folder: Path) -> None:
    later = NOW + CA_LIFETIME * 0.95
    renew(folder, later)
    assert len(x509.load_pem_x509_certificates(read_ca_bundle(folder, later))) == 2


def test_a_bundle_without_a_serving_certificate_is_published_unchecked(folder: Path) -> None:
    (folder / "tls.crt").unlink()
    assert read_ca_bundle(folder, NOW) == (folder / "ca.crt").read_bytes()


@pytest.mark.parametrize(("content", "message"), [(None, "no certificate in it"), (b"", "ca.crt"), (b"\xff", "ca.crt")])
def test_a_folder_without_a_ca_is_rejected(folder: Path, content: bytes | None, message: str) -> None:
    (folder / "ca.crt").unlink()
    if content is not None:
        (folder / "ca.crt").write_bytes(content)
    with pytest.raises(CertsError, match=message):
        read_ca_bundle(folder, NOW)


def test_cas_that_did_not_sign_the_serving_certificate_are_rejected(folder: Path) -> None:
    write_ca_certificates(folder, [create_ca(NOW).certificate])
    with pytest.raises(CertsError, match=r"tls.crt: the serving certificate is not valid: .*would not call the gate"):
        read_ca_bundle(folder, NOW)


def test_two_hundred_cas_are_rejected(folder: Path) -> None:
    (folder / "ca.crt").write_bytes((folder / "ca.crt").read_bytes() * 200)
    with pytest.raises(CertsError, match=r"200 certificates, .* the most that is published is 65536"):
        read_ca_bundle(folder, NOW)
