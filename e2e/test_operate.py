"""Commands of docs/operate/runbook.md and docs/operate/certificates.md for emergencies: run as they stand there."""

import base64
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner

from e2e.api import api
from e2e.command_output import run_kubectl
from e2e.gates.process import GateProcess
from e2e.load import STORED, Clients, until_more
from e2e.namespaces import gates_namespace
from e2e.pods import Pod, create, list_stored, pod, submit
from e2e.ports import Cluster, Gate, NotHereError, Site
from e2e.registering import CONFIGURATIONS, keep_registered, unregister
from e2e.self_signed_gates import SelfSignedGate, prepare_account, read_secret, request_renewal
from e2e.waiting import until
from tallygate.cli.lint import lint
from tallygate.cli.sources.options import load_usable_policies
from tallygate.policy.load import SHIPPED_POLICIES
from tallygate_certs.secret_state import SecretState, compute_fingerprint, encode_pem
from tests.admission.plain_configurations import create_plain_configurations

_DOCS = Path(__file__).parents[1] / "docs"
_WITHIN = 120.0  # seconds
_MEANWHILE = 40  # pods that are created after the old authority is no longer trusted
_CALL = 'failed calling webhook "validate.tallygate.dev"'


@pytest.fixture
def away(site: Site, running_gate: Gate) -> Iterator[Gate]:
    """Yield the gate, registered and stopped: it answers no call."""
    with keep_registered(site.cluster, running_gate):
        running_gate.stop()
        yield running_gate
        running_gate.start()


def _run_page_command(cluster: Cluster, section: str, page: str = "runbook.md", folder: Path | None = None) -> str:
    """Run the command of a section, and return what it prints."""
    (document,) = _DOCS.rglob(page)
    found = re.search(rf"<!-- {section}: begin -->\n```console\n\$ (.+)\n```", document.read_text())
    assert found, f"docs/{page} has no section {section}"
    path = f"{cluster.kubectl_program.parent}:{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S603  the page's own command
        ["/bin/sh", "-c", found[1]],
        cwd=folder,
        env={**os.environ, **cluster.environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("section", ["way out", "accept"])
def test_pods_are_created_again_after_the_command_of_the_runbook(section: str, site: Site, namespace: str) -> None:
    assert _CALL in create(site, namespace, "before").stderr
    _run_page_command(site.cluster, section)
    until("pods are created", lambda: submit(site, namespace, f"p-{uuid4().hex[:8]}").is_done, _WITHIN)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for name in list_stored(site, namespace):
        api(site.cluster.kubeconfig).patch(f"{pods}/{name}", {"metadata": {"labels": {"changed": "as-well"}}})


def test_policies_are_read_from_the_cluster_and_checked_by_the_commands_of_the_runbook(
    site: Site, tmp_path: Path
) -> None:
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("the gate in this cluster has policies of its own there")
    cluster, made = site.cluster, ("configmap", "tallygate-policies", f"--namespace={gates_namespace(site.cluster)}")
    (tmp_path / "broken.yaml").write_text(
        "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {name: a}\n"
    )
    run_kubectl(cluster, "delete", *made, "--ignore-not-found")
    files = (*SHIPPED_POLICIES.iterdir(), tmp_path / "broken.yaml")
    run_kubectl(cluster, "create", *made, *(f"--from-file={each}" for each in files))
    try:
        _run_page_command(cluster, "policies", folder=tmp_path)
    finally:
        run_kubectl(cluster, "delete", *made)
    found = CliRunner().invoke(lint, [str(tmp_path / "in-the-cluster.yaml"), "--output=json"])
    assert found.exit_code == 1, found.output
    report = json.loads(found.output)
    assert [each["code"] for each in report["findings"]] == ["TG308"]
    assert report["summary"]["policies"] == len(load_usable_policies([SHIPPED_POLICIES]).rules)


def test_an_authority_with_a_leaked_key_is_no_longer_trusted_after_the_commands_of_the_page(
    site: Site, namespace: str, tmp_path: Path
) -> None:
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("it is about a gate that runs as a process here")
    cluster = site.cluster
    with (
        prepare_account(cluster, tmp_path) as kubeconfig,
        _run_self_signed_gate(cluster, tmp_path / "gate", kubeconfig) as gate,
    ):
        is_accepted = partial(_is_accepted, site, namespace)
        until("a pod is accepted", is_accepted, _WITHIN, gate.log)
        leaked = read_secret(cluster)
        assert leaked is not None
        with Clients(cluster, namespace) as clients, clients.creating(partial(_pod, site)) as answers:
            request_renewal(cluster, "authority")
            until(
                "another has signed what is served", partial(_has_successor, gate, cluster, leaked), _WITHIN, gate.log
            )
            _run_page_command(cluster, "leaked", "certificates.md")
            until("the old one is trusted no more", partial(_is_forgotten, cluster, leaked), _WITHIN, gate.log)
            until_more(answers, _MEANWHILE)
        assert [answer for answer in answers if answer.status != STORED] == []
        now = read_secret(cluster)
        assert now is not None
        assert _read_bundles(cluster) == {encode_pem(now.ca_certificates)}
        assert [len(each.ca_certificates) for each in (leaked, now)] == [1, 1]


@contextmanager
def _run_self_signed_gate(cluster: Cluster, folder: Path, kubeconfig: Path) -> Iterator[SelfSignedGate]:
    """Run a gate that makes its own certificates, registered."""
    gate = SelfSignedGate(folder, kubeconfig)
    try:
        gate.start()
        for configuration in create_plain_configurations(gate.reached):
            api(cluster.kubeconfig).apply(CONFIGURATIONS[configuration["kind"]], configuration)
        yield gate
    finally:
        unregister(cluster)
        gate.stop()


def _is_accepted(site: Site, namespace: str) -> bool:
    return submit(site, namespace, f"p-{uuid4().hex[:8]}").is_done


def _pod(site: Site, number: int) -> Pod:
    return pod(site, f"pod-{number}")


def _has_successor(gate: SelfSignedGate, cluster: Cluster, before: SecretState) -> bool:
    now = read_secret(cluster)
    if now is None or now.serving is None or now.requested:
        return False
    newest = now.ca_certificates[0]
    signed = newest not in before.ca_certificates and now.serving.is_signed_by(newest)
    return signed and gate.serves() == compute_fingerprint(now.serving.certificate)


def _is_forgotten(cluster: Cluster, leaked: SecretState) -> bool:
    return not any(encode_pem([each]) in bundle for bundle in _read_bundles(cluster) for each in leaked.ca_certificates)


def _read_bundles(cluster: Cluster) -> set[bytes]:
    """Return the CA bundles of the webhooks, in PEM."""
    found = [api(cluster.kubeconfig).get(path) for path in CONFIGURATIONS.values()]
    return {base64.b64decode(each["clientConfig"].get("caBundle", "")) for one in found for each in one["webhooks"]}
