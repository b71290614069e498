"""Publishing: what is trusted, and what the API server may answer. A real one is asked in e2e/test_publish.py."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from certs.authority import CA_LIFETIME, create_ca
from certs.ca_bundle import PublishOutcome, publish_bundle, read_ca_bundle
from certs.cert_files import write_ca_certificates
from certs.certificate_names import parse_names
from certs.cluster_access import create_client
from certs.errors import CertsError
from certs.renewal import issue, renew
from tests.certs.api_server import Api, kubeconfig, serving
from webhook.kube.config import ClientConfigError, load_kubeconfig

NOW = datetime.now(UTC)
PEM = b"-----BEGIN CERTIFICATE-----\n"
MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with certificates."""
    made = tmp_path / "tls"
    issue(made, parse_names(["localhost"]), NOW)
    return made


@pytest.fixture
def api() -> Api:
    """An API server with both configurations, two webhooks each, and a field that nobody knows yet."""
    api = Api()
    for kind in (MUTATING, VALIDATING):
        clients: list[dict[str, Any]] = [{"url": "https://a"}, {"url": "https://b", "caBundle": "b2xk"}]
        api.add(kind, "tallygate", [{"name": "a.b.c", "clientConfig": client, "newer": 1} for client in clients])
    return api


@pytest.fixture
def leads(api: Api, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig that leads there."""
    with serving(api, tmp_path / "server") as path:
        yield path


def outcomes(leads: Path, name: str = "tallygate", pem: bytes = PEM) -> list[tuple[str, str]]:
    """Publish, and say what became of each."""
    return [(each.kind, each.outcome) for each in publish_bundle(create_client(load_kubeconfig(leads)), name, pem)]


def bundles(api: Api) -> list[str]:
    """What every webhook trusts."""
    return [webhook["clientConfig"].get("caBundle") for found in api.objects.values() for webhook in found["webhooks"]]


def test_every_webhook_of_both_is_written_and_nothing_else(api: Api, leads: Path) -> None:
    before = json.loads(json.dumps(api.objects))
    assert outcomes(leads) == [(MUTATING, PublishOutcome.UPDATED), (VALIDATING, PublishOutcome.UPDATED)]
    assert bundles(api) == [base64.b64encode(PEM).decode()] * 4
    for path, found in api.objects.items():
        for webhook, old in zip(found["webhooks"], before[path]["webhooks"], strict=True):
            webhook["clientConfig"] = old["clientConfig"]
        assert found["webhooks"] == before[path]["webhooks"]


def test_what_is_so_already_is_not_written(api: Api, leads: Path) -> None:
    outcomes(leads)
    api.requests.clear()
    assert outcomes(leads) == [(MUTATING, PublishOutcome.UNCHANGED), (VALIDATING, PublishOutcome.UNCHANGED)]
    assert api.requests == ["GET", "GET"]


def test_a_configuration_without_webhooks_has_nothing_to_write(api: Api, leads: Path) -> None:
    for found in api.objects.values():
        found["webhooks"] = None
    assert {outcome for _, outcome in outcomes(leads)} == {PublishOutcome.UNCHANGED}


def test_one_of_them_may_be_missing(api: Api, leads: Path) -> None:
    del api.objects[min(api.objects)]
    assert outcomes(leads) == [(MUTATING, PublishOutcome.MISSING), (VALIDATING, PublishOutcome.UPDATED)]


def test_both_missing_says_what_to_do(leads: Path) -> None:
    with pytest.raises(
        CertsError, match=r"no webhook configuration is called other: register the gate first \(kubectl"
    ):
        outcomes(leads, "other")


def test_who_writes_in_between_is_not_overwritten(api: Api, leads: Path) -> None:
    """What was read is read anew, and only then written."""
    api.rivals = 4
    assert outcomes(leads) == [(MUTATING, PublishOutcome.UPDATED), (VALIDATING, PublishOutcome.UPDATED)]
    assert api.requests == ["GET", "PATCH"] * 6


def test_who_writes_all_the_time_is_told_of(api: Api, leads: Path) -> None:
    api.rivals = 100
    with pytest.raises(CertsError, match="was changed by another client after each of 5 reads: try again"):
        outcomes(leads)
    assert api.requests == ["GET", "PATCH"] * 5
    assert base64.b64encode(PEM).decode() not in bundles(api)


@pytest.mark.parametrize(
    ("code", "body", "told"),
    [
        (403, b'{"message": "jane may\\nnot get it"}', "answers 403: jane may not get it"),
        (401, b'{"kind": "Status", "message": "Unauthorized"}', "answers 401: Unauthorized"),
        (500, b"\xff<html>", "answers 500: Internal Server Error"),
        (503, b"[]", "answers 503: Service Unavailable"),
        (403, b'{"message": "' + b"x" * 5000 + b'"}', "answers 403: " + "x" * 300 + " …"),
        (403, b"[" * 100_000, "answers 403: Forbidden"),
    ],
)
def test_a_refusal_is_one_sentence(api: Api, leads: Path, code: int, body: bytes, told: str) -> None:
    api.refusal = (code, body)
    with pytest.raises(CertsError) as caught:
        outcomes(leads)
    server = "the API server at https://127.0.0.1:"
    text = str(caught.value)
    assert text.startswith(f"cannot read and patch the MutatingWebhookConfiguration tallygate: {server}")
    assert text.endswith(told)


@pytest.mark.parametrize("body", [b"hello", b"[1]", b"{}", b'{"kind": "Status"}', b"[" * 100_000, b"\xff"])
def test_what_is_no_api_server_is_told_apart(api: Api, leads: Path, body: bytes) -> None:
    api.refusal = (200, body)
    with pytest.raises(
        CertsError, match="what answered for the MutatingWebhookConfiguration tallygate is no API server"
    ):
        outcomes(leads)


def test_a_server_that_is_not_there_is_told(leads: Path) -> None:
    kubeconfig(leads.parent, "https://127.0.0.1:9")
    with pytest.raises(CertsError, match=r"^the API server at https://127.0.0.1:9 cannot be reached: .*refused"):
        outcomes(leads)


def test_a_server_of_another_authority_is_not_believed(leads: Path) -> None:
    (leads.parent / "ca.crt").write_bytes((leads.parent / "ca.crt").read_bytes())
    write_ca_certificates(leads.parent, [create_ca(NOW).certificate])
    with pytest.raises(CertsError, match=r"cannot be reached: .*certificate verify failed"):
        outcomes(leads)


@pytest.mark.parametrize(
    "server", ["https://[::1", "", "nonsense", "https://", "https://127.0.0.1:99999", "ftp://x", 5]
)
def test_a_server_that_can_be_none_is_told(leads: Path, server: str) -> None:
    with pytest.raises((CertsError, ClientConfigError), match=r"does not say where|cannot be reached") as caught:
        outcomes(kubeconfig(leads.parent, server))
    assert "\n" not in str(caught.value)


def test_an_authority_that_is_none_is_told(leads: Path) -> None:
    (leads.parent / "ca.crt").write_bytes(b"hello")
    with pytest.raises((CertsError, ClientConfigError), match=r"does not say where|cannot be reached"):
        outcomes(leads)


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "a?b", "-a", "a" * 254, "a\n"])
def test_a_name_that_can_be_none_is_refused_unsent(api: Api, leads: Path, name: str) -> None:
    with pytest.raises(CertsError, match="names no webhook configuration: lower-case letters and digits"):
        outcomes(leads, name)
    assert not api.requests


def test_only_certificates_are_trusted_whatever_else_is_in_the_file(folder: Path) -> None:
    """A key that was pasted beside them by mistake is not published."""
    path = folder / "ca.crt"
    pem = path.read_bytes()
    path.write_bytes(b"our own\n" + pem + (folder / "ca.key").read_bytes())
    assert read_ca_bundle(folder, NOW) == pem
    assert len(x509.load_pem_x509_certificates(read_ca_bundle(folder, NOW))) == 1


def test_both_authorities_are_published_while_one_takes_over(folder: Path) -> None:
    later = NOW + CA_LIFETIME * 0.95
    renew(folder, later)
    assert len(x509.load_pem_x509_certificates(read_ca_bundle(folder, later))) == 2


def test_without_a_serving_certificate_there_is_nothing_to_compare(folder: Path) -> None:
    (folder / "tls.crt").unlink()
    assert read_ca_bundle(folder, NOW) == (folder / "ca.crt").read_bytes()


@pytest.mark.parametrize(("content", "told"), [(None, "no certificate in it"), (b"", "ca.crt"), (b"\xff", "ca.crt")])
def test_a_folder_without_authorities_is_refused(folder: Path, content: bytes | None, told: str) -> None:
    (folder / "ca.crt").unlink()
    if content is not None:
        (folder / "ca.crt").write_bytes(content)
    with pytest.raises(CertsError, match=told):
        read_ca_bundle(folder, NOW)


def test_authorities_that_did_not_sign_the_serving_certificate_are_refused(folder: Path) -> None:
    write_ca_certificates(folder, [create_ca(NOW).certificate])
    with pytest.raises(CertsError, match=r"tls.crt: the serving certificate is not valid: .*would not call the gate"):
        read_ca_bundle(folder, NOW)


def test_authorities_by_the_hundred_are_refused(folder: Path) -> None:
    (folder / "ca.crt").write_bytes((folder / "ca.crt").read_bytes() * 200)
    with pytest.raises(CertsError, match=r"200 certificates, .* the most that is published is 65536"):
        read_ca_bundle(folder, NOW)
