"""`tallygate certs publish` against a small API server."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tallygate.admission.self_registration import REGISTRATION_ANNOTATION
from tallygate.admission.workload_resources import read_registered
from tallygate.cli.app import root
from tallygate_certs.certificate_names import create_service_names
from tallygate_certs.renewal import issue
from tests.admission.plain_configurations import to_typed
from tests.admission.test_self_registration import KINDS
from tests.certs.api_server import CertificateApiServer, run_api_server
from tests.kube.test_discovery import JOB_SET_GROUP, JOB_SETS, WHOLE, discovery, version


@pytest.fixture
def api() -> CertificateApiServer:
    """Return an API server with one of the two configurations."""
    api = CertificateApiServer()
    api.add("ValidatingWebhookConfiguration", "tallygate", [{"name": "a", "clientConfig": {"url": "https://a"}}])
    return api


@pytest.fixture
def kubeconfig(api: CertificateApiServer, tmp_path: Path) -> Iterator[Path]:
    """Yield the path of a kubeconfig in a folder with certificates."""
    with run_api_server(api, tmp_path / "tls") as path:
        yield path


def publish(kubeconfig: Path, *options: str) -> Result:
    """Run the command for the folder of the kubeconfig."""
    return CliRunner().invoke(root, ["certs", "publish", str(kubeconfig.parent), *options])


def test_each_configuration_has_one_line(kubeconfig: Path) -> None:
    options = ("--kubeconfig", str(kubeconfig), "--context", "here")
    done = publish(kubeconfig, *options)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "MutatingWebhookConfiguration tallygate: not there",
        "ValidatingWebhookConfiguration tallygate: updated",
    ]
    assert "tallygate: unchanged" in publish(kubeconfig, *options).stdout


def test_completed_writes_are_printed_before_a_failure(api: CertificateApiServer, kubeconfig: Path) -> None:
    api.conflicting_writes = 100
    done = publish(kubeconfig, "--kubeconfig", str(kubeconfig))
    assert done.exit_code == 2
    assert done.stdout == "MutatingWebhookConfiguration tallygate: not there\n"
    assert done.stderr.startswith(
        "tallygate: the ValidatingWebhookConfiguration tallygate was changed by another client"
    )


_DEPLOYMENT = "/apis/apps/v1/namespaces/here/deployments/tallygate"


@pytest.fixture
def empty_registration(api: CertificateApiServer, tmp_path: Path) -> Path:
    """Make both configurations empty and left to the gate, and return a folder with a certificate for its Service."""
    for kind in KINDS:
        api.add(kind, "tallygate", [])["metadata"]["annotations"] = {REGISTRATION_ANNOTATION: "gate"}
    api.objects["/apis"] = json.loads(WHOLE)
    issue(tmp_path / "certs.d", create_service_names("tallygate", "here"), datetime.now(UTC))
    return tmp_path / "certs.d"


def set_ready_replicas(api: CertificateApiServer, count: int) -> None:
    """Store the gate's Deployment with this number of ready replicas."""
    metadata = {"name": "tallygate", "resourceVersion": "1"}
    api.objects[_DEPLOYMENT] = {"kind": "Deployment", "metadata": metadata, "status": {"readyReplicas": count}}


def register(kubeconfig: Path, folder: Path, *options: str) -> Result:
    """Run the command for another folder than that of the kubeconfig."""
    return CliRunner().invoke(root, ["certs", "publish", str(folder), "--kubeconfig", str(kubeconfig), *options])


def list_webhooks(api: CertificateApiServer) -> list[Any]:
    """Return the webhooks of both configurations."""
    return [webhook for stored in api.objects.values() for webhook in stored.get("webhooks") or ()]


def test_a_gate_without_permissions_is_registered_once_a_replica_is_ready(
    api: CertificateApiServer, kubeconfig: Path, empty_registration: Path
) -> None:
    set_ready_replicas(api, 1)
    token_file = empty_registration / "token"
    token_file.write_text("0123456789abcdef\n")
    done = register(kubeconfig, empty_registration, "--token-file", str(token_file))
    assert [line.split(": ")[1] for line in done.stdout.splitlines()] == ["registered", "registered"]
    assert {each["clientConfig"]["service"]["namespace"] for each in list_webhooks(api)} == {"here"}
    assert all("/v1/admit/0123456789abcdef/" in each["clientConfig"]["service"]["path"] for each in list_webhooks(api))
    assert all(each["clientConfig"]["caBundle"] for each in list_webhooks(api))
    assert [read_registered(to_typed(each)) for each in api.objects.values() if "webhooks" in each] == [
        {JOB_SETS: True}
    ] * 2
    again = register(kubeconfig, empty_registration)
    assert [line.split(": ")[1] for line in again.stdout.splitlines()] == ["unchanged", "unchanged"]


def test_the_kinds_that_policies_define_are_registered_if_they_are_given(
    api: CertificateApiServer, kubeconfig: Path, empty_registration: Path
) -> None:
    set_ready_replicas(api, 1)
    api.objects["/apis"] = json.loads(discovery(**JOB_SET_GROUP, batch_example_com=[version("v1", "gangjobs")]))
    done = register(kubeconfig, empty_registration, "--policies", "policies/examples/gang-jobs.yaml")
    assert [line.split(": ")[1] for line in done.stdout.splitlines()] == ["registered", "registered"]
    assert done.stderr == ""
    registered = [read_registered(to_typed(each)) for each in api.objects.values() if "webhooks" in each]
    assert registered == [{("batch.example.com", "v1", "gangjobs"): True, JOB_SETS: True}] * 2


def test_without_policies_it_is_reported_that_their_kinds_are_not_registered(
    api: CertificateApiServer, kubeconfig: Path, empty_registration: Path
) -> None:
    set_ready_replicas(api, 1)
    done = register(kubeconfig, empty_registration)
    assert done.exit_code == 0
    assert done.stderr.startswith("no kind that a policy defines (WorkloadKind) is registered: ")
    assert register(kubeconfig, empty_registration).stderr == ""


def test_unusable_policies_publish_nothing(
    api: CertificateApiServer, kubeconfig: Path, empty_registration: Path
) -> None:
    set_ready_replicas(api, 1)
    done = register(kubeconfig, empty_registration, "--policies", "nowhere.yaml")
    assert done.exit_code == 2
    assert "nowhere.yaml" in done.stderr
    assert list_webhooks(api) == []


def test_without_discovery_nothing_is_registered(
    api: CertificateApiServer, kubeconfig: Path, empty_registration: Path
) -> None:
    set_ready_replicas(api, 1)
    del api.objects["/apis"]
    done = register(kubeconfig, empty_registration)
    assert done.exit_code == 2
    assert "does not report the kinds that it serves: the API server says 404" in done.stderr
    assert list_webhooks(api) == []


def test_a_gate_of_which_no_replica_is_ready_is_not_registered(
    api: CertificateApiServer, kubeconfig: Path, empty_registration: Path
) -> None:
    set_ready_replicas(api, 0)
    done = register(kubeconfig, empty_registration)
    assert done.exit_code == 2
    assert "no replica of the gate is ready, so that pods would be refused: wait for `kubectl -n here" in done.stderr
    assert list_webhooks(api) == []


def test_a_certificate_for_no_service_registers_nothing(api: CertificateApiServer, kubeconfig: Path) -> None:
    for kind in KINDS:
        api.add(kind, "tallygate", [])["metadata"]["annotations"] = {REGISTRATION_ANNOTATION: "gate"}
    done = publish(kubeconfig, "--kubeconfig", str(kubeconfig))
    assert done.exit_code == 2
    assert "tls.crt is not for the gate's Service: make another by `tallygate certs issue" in done.stderr
    assert list_webhooks(api) == []


def test_an_empty_configuration_of_an_administrator_stays_empty(
    api: CertificateApiServer, kubeconfig: Path, empty_registration: Path
) -> None:
    for kind in KINDS:
        api.add(kind, "tallygate", [])
    done = register(kubeconfig, empty_registration)
    assert [line.split(": ")[1] for line in done.stdout.splitlines()] == ["without webhooks", "without webhooks"]
    assert list_webhooks(api) == []


def test_a_missing_registration_is_a_usage_error(api: CertificateApiServer, kubeconfig: Path) -> None:
    api.objects.clear()
    done = publish(kubeconfig, "--kubeconfig", str(kubeconfig))
    assert done.exit_code == 2
    assert done.stderr.startswith("tallygate: no webhook configuration is called tallygate: register the gate first")


def test_a_cluster_is_named_in_one_way_only(kubeconfig: Path) -> None:
    for options in (("--kubeconfig", str(kubeconfig)), ("--context", "here")):
        done = publish(kubeconfig, "--in-cluster", *options)
        assert done.exit_code == 2
        assert done.stderr.startswith("tallygate: --in-cluster takes neither --kubeconfig nor --context")


def test_an_invalid_folder_fails_before_any_request(api: CertificateApiServer, kubeconfig: Path) -> None:
    (kubeconfig.parent / "ca.crt").unlink()
    done = publish(kubeconfig, "--kubeconfig", str(kubeconfig))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "ca.crt: no certificate in it" in done.stderr
    assert not api.methods
