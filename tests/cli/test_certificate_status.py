"""`tallygate certs status` for healthy certificates, for a CA rotation in progress, and for faults."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tallygate_certs.authority import create_ca, create_serving_certificate
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.secret_state import (
    SecretState,
    compute_fingerprint,
    convert_key_pair,
    encode_annotations,
    encode_data,
    encode_pem,
)
from tests.certs.api_server import CertificateApiServer, run_api_server

PATH = "/api/v1/namespaces/tallygate-system/secrets/tallygate-tls"
NOW = datetime.now(UTC)
NAMES = parse_names(["gate.own.svc"])
CA, OLD = create_ca(NOW), create_ca(NOW)
COMPLETE = SecretState(CA, (), convert_key_pair(create_serving_certificate(CA, NAMES, NOW)), NOW)


@pytest.fixture
def api() -> CertificateApiServer:
    """Return an API server with both configurations and a complete Secret."""
    api = CertificateApiServer()
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        api.add(kind, "tallygate", [{"clientConfig": {"url": "https://gate.own.svc"}} for _ in range(2)])
    write(api, COMPLETE)
    publish(api, COMPLETE)
    return api


@pytest.fixture
def kubeconfig(api: CertificateApiServer, tmp_path: Path) -> Iterator[Path]:
    """Yield the path of a kubeconfig for the server."""
    with run_api_server(api, tmp_path / "server") as path:
        yield path


def write(api: CertificateApiServer, state: SecretState) -> None:
    """Write this state into the Secret."""
    data = {name: base64.b64encode(value).decode() for name, value in encode_data(state).items()}
    metadata = {"name": "tallygate-tls", "resourceVersion": "1", "annotations": encode_annotations(state)}
    api.objects[PATH] = {"kind": "Secret", "metadata": metadata, "data": data}


def publish(api: CertificateApiServer, state: SecretState) -> None:
    """Write the CAs of this state into every webhook."""
    for found in api.objects.values():
        for webhook in found.get("webhooks", ()):
            webhook["clientConfig"]["caBundle"] = base64.b64encode(encode_pem(state.ca_certificates)).decode()


def status(kubeconfig: Path, *options: str) -> Result:
    """Run `tallygate certs status`."""
    return CliRunner().invoke(root, ["certs", "status", "--kubeconfig", str(kubeconfig), *options])


def problems(kubeconfig: Path) -> list[str]:
    """Return the problems that it prints, at least one."""
    done = status(kubeconfig, "-o", "json")
    assert done.exit_code == 1
    found: list[str] = json.loads(done.stdout)["problems"]
    return found


def test_complete_certificates_have_no_problem(api: CertificateApiServer, kubeconfig: Path) -> None:
    done = status(kubeconfig)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "gate.own.svc" in done.stdout
    assert compute_fingerprint(CA.certificate) in done.stdout
    assert done.stdout.count("2 webhooks, caBundle is what ca.crt says") == 2
    assert "PRIVATE" not in done.stdout
    assert set(api.methods) == {"GET"}


def test_the_json_output_has_all_fields(kubeconfig: Path) -> None:
    found = json.loads(status(kubeconfig, "-o", "json").stdout)
    assert [each["fingerprint"][:16] for each in found["authorities"]] == [compute_fingerprint(CA.certificate)]
    assert found["serving"]["daysLeft"] == 89
    assert [each["trustsExactly"] for each in found["registered"]] == [True, True]
    assert (found["goingOn"], found["problems"]) == ([], [])


def test_a_ca_rotation_is_printed_and_is_no_problem(api: CertificateApiServer, kubeconfig: Path) -> None:
    state = replace(
        COMPLETE,
        previous_cas=(OLD.certificate,),
        serving=convert_key_pair(create_serving_certificate(OLD, NAMES, NOW)),
        requested="certificate",
    )
    write(api, state)
    publish(api, state)
    done = status(kubeconfig, "-o", "json")
    assert done.exit_code == 0
    signs, trusted, asked = json.loads(done.stdout)["goingOn"]
    assert signs.startswith("a new authority is published; it signs")
    assert trusted.startswith(
        f"{compute_fingerprint(OLD.certificate)}: trusted until {NOW + timedelta(days=91):%Y-%m-%d}"
    )
    assert asked == "asked for: certificate"


def test_missing_webhook_configurations_are_reported(api: CertificateApiServer, kubeconfig: Path) -> None:
    for path in [path for path in api.objects if path != PATH]:
        del api.objects[path]
    done = status(kubeconfig)
    assert done.exit_code == 0
    assert "the webhook configuration is missing: no API server calls the gate" in done.stdout


def test_a_missing_secret_is_a_problem(api: CertificateApiServer, kubeconfig: Path) -> None:
    del api.objects[PATH]
    assert problems(kubeconfig) == ["there is no such Secret: no gate has made it"]


def test_a_webhook_that_trusts_another_ca_is_a_problem(api: CertificateApiServer, kubeconfig: Path) -> None:
    publish(api, SecretState(OLD))
    assert problems(kubeconfig) == [
        "2 of 2 webhooks of the MutatingWebhookConfiguration do not trust the certificate",
        "2 of 2 webhooks of the ValidatingWebhookConfiguration do not trust the certificate",
    ]


def test_a_webhook_that_trusts_an_additional_ca_is_a_problem(api: CertificateApiServer, kubeconfig: Path) -> None:
    publish(api, replace(COMPLETE, previous_cas=(OLD.certificate,)))
    assert {text.partition(" does not trust exactly")[1] for text in problems(kubeconfig)} == {
        " does not trust exactly"
    }


def test_unusable_parts_of_the_secret_are_problems(api: CertificateApiServer, kubeconfig: Path) -> None:
    write(api, replace(COMPLETE, ca=None, previous_cas=(CA.certificate,), serving=None, requested="x"))
    found = problems(kubeconfig)
    assert found[0].startswith("ca.crt and ca.key hold no authority that can sign")
    assert found[1].startswith("tls.crt and tls.key hold no certificate with its key")
    assert "write certificate or authority" in found[2]


@pytest.mark.parametrize(("age", "message"), [(91, "has expired"), (70, "should have been renewed")])
def test_a_certificate_that_was_not_renewed_is_a_problem(
    api: CertificateApiServer, kubeconfig: Path, age: int, message: str
) -> None:
    made = NOW - timedelta(days=age)
    old = create_ca(made)
    state = SecretState(old, (), convert_key_pair(create_serving_certificate(old, NAMES, made)), made)
    write(api, state)
    publish(api, state)
    assert message in problems(kubeconfig)[0]


def test_a_missing_permission_is_reported(api: CertificateApiServer, kubeconfig: Path) -> None:
    api.fixed_response = (403, b'{"message": "jane may not"}')
    done = status(kubeconfig)
    assert done.exit_code == 2
    assert "403: jane may not" in done.stderr


def test_a_secret_without_a_namespace_is_a_usage_error(kubeconfig: Path) -> None:
    done = status(kubeconfig, "--secret", "tls")
    assert done.exit_code == 2
    assert "--secret tls: write NAMESPACE/NAME, as in tallygate-system/tallygate-tls" in done.stderr
