"""`tallygate certs status`: what it prints of a cluster where all is well, something goes on, or something is wrong."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from certs.authority import create_ca, create_serving_certificate
from certs.certificate_names import parse_names
from certs.secret_state import (
    SecretState,
    compute_fingerprint,
    convert_key_pair,
    encode_annotations,
    encode_data,
    encode_pem,
)
from tests.certs.api_server import Api, serving
from webhook.cli.app import root

PATH = "/api/v1/namespaces/tallygate-system/secrets/tallygate-tls"
NOW = datetime.now(UTC)
NAMES = parse_names(["gate.own.svc"])
AUTHORITY, OLD = create_ca(NOW), create_ca(NOW)
RIGHT = SecretState(AUTHORITY, (), convert_key_pair(create_serving_certificate(AUTHORITY, NAMES, NOW)), NOW)


@pytest.fixture
def api() -> Api:
    """An API server with both configurations."""
    api = Api()
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        api.add(kind, "tallygate", [{"clientConfig": {"url": "https://gate.own.svc"}} for _ in range(2)])
    write(api, RIGHT)
    publish(api, RIGHT)
    return api


@pytest.fixture
def kubeconfig(api: Api, tmp_path: Path) -> Iterator[Path]:
    """It leads there."""
    with serving(api, tmp_path / "server") as path:
        yield path


def write(api: Api, kept: SecretState) -> None:
    """Let this be in the Secret."""
    data = {name: base64.b64encode(value).decode() for name, value in encode_data(kept).items()}
    metadata = {"name": "tallygate-tls", "resourceVersion": "1", "annotations": encode_annotations(kept)}
    api.objects[PATH] = {"kind": "Secret", "metadata": metadata, "data": data}


def publish(api: Api, kept: SecretState) -> None:
    """Let every webhook trust this."""
    for found in api.objects.values():
        for webhook in found.get("webhooks", ()):
            webhook["clientConfig"]["caBundle"] = base64.b64encode(encode_pem(kept.ca_certificates)).decode()


def status(kubeconfig: Path, *options: str) -> Result:
    """Run it."""
    return CliRunner().invoke(root, ["certs", "status", "--kubeconfig", str(kubeconfig), *options])


def problems(kubeconfig: Path) -> list[str]:
    """What it says is wrong; there is something."""
    done = status(kubeconfig, "-o", "json")
    assert done.exit_code == 1
    found: list[str] = json.loads(done.stdout)["problems"]
    return found


def test_all_is_well(api: Api, kubeconfig: Path) -> None:
    done = status(kubeconfig)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "gate.own.svc" in done.stdout
    assert compute_fingerprint(AUTHORITY.certificate) in done.stdout
    assert done.stdout.count("2 webhooks, caBundle is what ca.crt says") == 2
    assert "PRIVATE" not in done.stdout
    assert set(api.requests) == {"GET"}


def test_for_a_program(kubeconfig: Path) -> None:
    found = json.loads(status(kubeconfig, "-o", "json").stdout)
    assert [each["fingerprint"][:16] for each in found["authorities"]] == [compute_fingerprint(AUTHORITY.certificate)]
    assert found["serving"]["daysLeft"] == 89
    assert [each["trustsExactly"] for each in found["registered"]] == [True, True]
    assert (found["goingOn"], found["problems"]) == ([], [])


def test_a_succession_is_told_and_nothing_is_wrong(api: Api, kubeconfig: Path) -> None:
    kept = replace(
        RIGHT,
        previous_cas=(OLD.certificate,),
        serving=convert_key_pair(create_serving_certificate(OLD, NAMES, NOW)),
        requested="certificate",
    )
    write(api, kept)
    publish(api, kept)
    done = status(kubeconfig, "-o", "json")
    assert done.exit_code == 0
    signs, trusted, asked = json.loads(done.stdout)["goingOn"]
    assert signs.startswith("a new authority is published; it signs")
    assert trusted.startswith(
        f"{compute_fingerprint(OLD.certificate)}: trusted until {NOW + timedelta(days=91):%Y-%m-%d}"
    )
    assert asked == "asked for: certificate"


def test_no_registration_is_told(api: Api, kubeconfig: Path) -> None:
    for path in [path for path in api.objects if path != PATH]:
        del api.objects[path]
    done = status(kubeconfig)
    assert done.exit_code == 0
    assert "the webhook configuration is missing: no API server calls the gate" in done.stdout


def test_no_secret_is_wrong(api: Api, kubeconfig: Path) -> None:
    del api.objects[PATH]
    assert problems(kubeconfig) == ["there is no such Secret: no gate has made it"]


def test_who_trusts_another_is_wrong(api: Api, kubeconfig: Path) -> None:
    publish(api, SecretState(OLD))
    assert problems(kubeconfig) == [
        "2 of 2 webhooks of the MutatingWebhookConfiguration do not trust the certificate",
        "2 of 2 webhooks of the ValidatingWebhookConfiguration do not trust the certificate",
    ]


def test_who_trusts_more_than_is_kept_is_wrong(api: Api, kubeconfig: Path) -> None:
    publish(api, replace(RIGHT, previous_cas=(OLD.certificate,)))
    assert {text.partition(" does not trust exactly")[1] for text in problems(kubeconfig)} == {
        " does not trust exactly"
    }


def test_what_cannot_be_used_is_wrong(api: Api, kubeconfig: Path) -> None:
    write(api, replace(RIGHT, ca=None, previous_cas=(AUTHORITY.certificate,), serving=None, requested="x"))
    found = problems(kubeconfig)
    assert found[0].startswith("ca.crt and ca.key hold no authority that can sign")
    assert found[1].startswith("tls.crt and tls.key hold no certificate with its key")
    assert "write certificate or authority" in found[2]


@pytest.mark.parametrize(("age", "told"), [(91, "has expired"), (70, "should have been renewed")])
def test_a_certificate_that_was_not_renewed_is_wrong(api: Api, kubeconfig: Path, age: int, told: str) -> None:
    made = NOW - timedelta(days=age)
    old = create_ca(made)
    kept = SecretState(old, (), convert_key_pair(create_serving_certificate(old, NAMES, made)), made)
    write(api, kept)
    publish(api, kept)
    assert told in problems(kubeconfig)[0]


def test_what_may_not_be_read_is_told(api: Api, kubeconfig: Path) -> None:
    api.refusal = (403, b'{"message": "jane may not"}')
    done = status(kubeconfig)
    assert done.exit_code == 2
    assert "403: jane may not" in done.stderr


def test_a_secret_without_a_namespace_is_misuse(kubeconfig: Path) -> None:
    done = status(kubeconfig, "--secret", "tls")
    assert done.exit_code == 2
    assert "--secret tls: write NAMESPACE/NAME, as in tallygate-system/tallygate-tls" in done.stderr
