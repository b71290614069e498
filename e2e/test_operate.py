"""The ways out that docs/operate.md and docs/certificates.md tell of: typed as they stand there."""

import base64
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner

from certs.secret_state import SecretState, compute_fingerprint, encode_pem
from e2e.api import api
from e2e.gates.process import GateProcess
from e2e.kept_gates import KeptGate, ask, ground, kept
from e2e.ledgers import define_ledgers, ledgers_in
from e2e.load import STORED, Clients, until_more
from e2e.namespaces import gates_namespace
from e2e.pods import Pod, create, pod, sent, stored
from e2e.ports import Cluster, Gate, NotHereError, Site
from e2e.registering import CONFIGURATIONS, registered, unregister
from e2e.said import said
from e2e.waiting import until
from tests.state.attempts import Put, room
from tests.state.contract import soon
from webhook.admission.webhook_configuration import create_webhook_configurations
from webhook.cli.lint import lint
from webhook.cli.sources.options import load_usable_policies
from webhook.kube.config import load_kubeconfig
from webhook.policy.load import SHIPPED_POLICIES
from webhook.state.batched_ledgers import BatchedLedgers
from webhook.state.kubernetes.cap_ledger import get_object_name
from webhook.state.kubernetes.ledger_store import KubernetesLedgerStore
from webhook.state.ports import LedgerKey

_DOCS = Path(__file__).parents[1] / "docs"
_WITHIN = 120.0  # seconds
_MEANWHILE = 40  # pods that are created after nobody trusts the old authority
_CALL = 'failed calling webhook "validate.tallygate.dev"'


@pytest.fixture
def away(site: Site, started: Gate) -> Iterator[Gate]:
    """The gate, registered and ended: it answers nobody."""
    with registered(site.cluster, started):
        started.stop()
        yield started
        started.start()


def _typed(cluster: Cluster, section: str, page: str = "operate.md", folder: Path | None = None) -> str:
    """What the command of a section prints when somebody types it."""
    found = re.search(rf"<!-- {section}: begin -->\n```console\n\$ (.+)\n```", (_DOCS / page).read_text())
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
@pytest.mark.parametrize("section", ["way out", "let through"])
def test_pods_are_created_again_after_what_the_runbook_says(section: str, site: Site, namespace: str) -> None:
    assert _CALL in create(site, namespace, "before").stderr
    _typed(site.cluster, section)
    until("pods are created", lambda: sent(site, namespace, f"p-{uuid4().hex[:8]}").is_done, _WITHIN)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for name in stored(site, namespace):
        api(site.cluster.kubeconfig).patch(f"{pods}/{name}", {"metadata": {"labels": {"changed": "as-well"}}})


def test_ledgers_let_go_of_their_namespace_by_what_the_runbook_says(site: Site) -> None:
    cluster = site.cluster
    define_ledgers(cluster)
    home, key = gates_namespace(cluster), LedgerKey(f"runbook-{uuid4().hex[:8]}", "team-a")
    store = KubernetesLedgerStore(load_kubeconfig(cluster.kubeconfig), home, lambda: datetime.now(UTC))
    BatchedLedgers(store, time.monotonic).transact(key, Put(lambda _: room(1)), soon())
    ours, ledger = api(cluster.kubeconfig), f"{ledgers_in(home)}/{get_object_name(key)}"
    ours.delete(ledger)
    assert ours.find(ledger) is not None
    _typed(cluster, "ledgers")
    until("it is gone", lambda: ours.find(ledger) is None, _WITHIN)


def test_policies_are_taken_out_of_the_cluster_and_looked_at_by_what_the_runbook_says(
    site: Site, tmp_path: Path
) -> None:
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("the gate in this cluster has policies of its own there")
    cluster, made = site.cluster, ("configmap", "tallygate-policies", f"--namespace={gates_namespace(site.cluster)}")
    (tmp_path / "broken.yaml").write_text(
        "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {name: a}\n"
    )
    said(cluster, "delete", *made, "--ignore-not-found")
    files = (*SHIPPED_POLICIES.iterdir(), tmp_path / "broken.yaml")
    said(cluster, "create", *made, *(f"--from-file={each}" for each in files))
    try:
        _typed(cluster, "policies", folder=tmp_path)
    finally:
        said(cluster, "delete", *made)
    found = CliRunner().invoke(lint, [str(tmp_path / "in-the-cluster.yaml"), "--output=json"])
    assert found.exit_code == 1, found.output
    said_of = json.loads(found.output)
    assert [each["code"] for each in said_of["findings"]] == ["TG308"]
    assert said_of["summary"]["policies"] == len(load_usable_policies([SHIPPED_POLICIES]).rules)


def test_an_authority_whose_key_has_leaked_is_trusted_no_more_after_what_the_page_says(
    site: Site, namespace: str, tmp_path: Path
) -> None:
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("it is about a gate that runs as a process here")
    cluster = site.cluster
    with ground(cluster, tmp_path) as kubeconfig, _kept_gate(cluster, tmp_path / "gate", kubeconfig) as gate:
        let_in = partial(_is_let_in, site, namespace)
        until("a pod is let in", let_in, _WITHIN, gate.log)
        leaked = kept(cluster)
        assert leaked is not None
        with Clients(cluster, namespace) as clients, clients.creating(partial(_pod, site)) as answers:
            ask(cluster, "authority")
            until("another has signed what is served", partial(_succeeded, gate, cluster, leaked), _WITHIN, gate.log)
            _typed(cluster, "leaked", "certificates.md")
            until("the old one is trusted no more", partial(_forgotten, cluster, leaked), _WITHIN, gate.log)
            until_more(answers, _MEANWHILE)
        assert [answer for answer in answers if answer.status != STORED] == []
        now = kept(cluster)
        assert now is not None
        assert _trusted(cluster) == {encode_pem(now.ca_certificates)}
        assert [len(each.ca_certificates) for each in (leaked, now)] == [1, 1]


@contextmanager
def _kept_gate(cluster: Cluster, folder: Path, kubeconfig: Path) -> Iterator[KeptGate]:
    """A gate that makes its own certificates, and is registered."""
    gate = KeptGate(folder, kubeconfig)
    try:
        gate.start()
        for configuration in create_webhook_configurations(gate.reached):
            api(cluster.kubeconfig).apply(CONFIGURATIONS[configuration["kind"]], configuration)
        yield gate
    finally:
        unregister(cluster)
        gate.stop()


def _is_let_in(site: Site, namespace: str) -> bool:
    return sent(site, namespace, f"p-{uuid4().hex[:8]}").is_done


def _pod(site: Site, number: int) -> Pod:
    return pod(site, f"pod-{number}")


def _succeeded(gate: KeptGate, cluster: Cluster, before: SecretState) -> bool:
    now = kept(cluster)
    if now is None or now.serving is None or now.requested:
        return False
    newest = now.ca_certificates[0]
    signed = newest not in before.ca_certificates and now.serving.is_signed_by(newest)
    return signed and gate.serves() == compute_fingerprint(now.serving.certificate)


def _forgotten(cluster: Cluster, leaked: SecretState) -> bool:
    return not any(encode_pem([each]) in bundle for bundle in _trusted(cluster) for each in leaked.ca_certificates)


def _trusted(cluster: Cluster) -> set[bytes]:
    """What the webhooks trust, in PEM."""
    found = [api(cluster.kubeconfig).get(path) for path in CONFIGURATIONS.values()]
    return {base64.b64decode(each["clientConfig"].get("caBundle", "")) for one in found for each in one["webhooks"]}
