"""Certificates in a Secret, before a real API server: made, published, renewed under load, repaired. No create fails.

Two gates stand behind a proxy, as pods behind a Service, and act as the shipped ServiceAccount.
"""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from e2e.api import JSON, api
from e2e.command_output import run_tallygate
from e2e.gates.process import GateProcess
from e2e.gates.running import HERE
from e2e.load import Clients, until_more
from e2e.pods import submit
from e2e.ports import Cluster, NotHereError, Site
from e2e.registering import CONFIGURATIONS, unregister
from e2e.rolling import create_dongle_pods, find_failed
from e2e.self_signed_gates import (
    OWN,
    SECRET,
    SelfSignedGate,
    delete_secret,
    prepare_account,
    read_secret,
    request_renewal,
)
from e2e.tcp_proxy import TcpProxy
from e2e.waiting import until
from tallygate.admission.webhook_configuration import UrlTarget
from tallygate_certs.certificate_names import parse_names, read_names
from tallygate_certs.renewal import issue
from tallygate_certs.secret_state import SecretState, compute_fingerprint, encode_pem
from tests.admission.plain_configurations import create_plain_configurations

_WITHIN = 120.0
_ROTATIONS = 10
_MEANWHILE = 40  # pods that are created between two rotations


@dataclass(frozen=True)
class ReplicaPair:
    """Two replicas, and the one address in front of them."""

    cluster: Cluster
    gates: tuple[SelfSignedGate, SelfSignedGate]
    proxy: TcpProxy
    kubeconfig: Path

    def register(self) -> None:
        """Register them without a CA bundle: that is for them to publish."""
        for each in create_plain_configurations(UrlTarget(f"https://{HERE}:{self.proxy.port}")):
            api(self.cluster.kubeconfig).apply(CONFIGURATIONS[each["kind"]], each)

    def logs(self) -> str:
        """Return the log lines of both about certificates, for a failure's message."""
        return "\n".join(
            line for gate in self.gates if gate.runs for line in gate.log().splitlines() if "certif" in line
        )

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait for it."""
        until(what, is_so, _WITHIN, self.logs)

    def until_settled(self) -> SecretState:
        """Wait until the newest authority has signed what both serve; return the state of the Secret then."""
        found: list[SecretState] = []

        def is_settled() -> bool:
            now = read_secret(self.cluster)
            if now is None or now.ca is None or now.serving is None:
                return False
            found.append(now)
            serves = compute_fingerprint(now.serving.certificate)
            # From before they were registered, it is good only for the names of a Service.
            called = HERE in read_names(now.serving.certificate).to_texts()
            signed = called and now.serving.is_signed_by(now.ca.certificate)
            return signed and not now.requested and all(gate.serves() == serves for gate in self.gates)

        self.until("both serve what the newest authority has signed", is_settled)
        return found[-1]


@pytest.fixture(scope="module")
def pair(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaPair]:
    """Run two replicas that have started at once without a Secret, registered; cases hand on their state."""
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("it is about gates that run as processes here")
    folder = tmp_path_factory.mktemp("kept")
    with prepare_account(site.cluster, folder) as kubeconfig:
        one, other = (SelfSignedGate(folder / name, kubeconfig) for name in ("one", "other"))
        try:
            one.start()
            other.start()
            with TcpProxy(one.port, other.port) as proxy:
                both = ReplicaPair(site.cluster, (one, other), proxy, kubeconfig)
                both.register()
                yield both
                unregister(site.cluster)
        finally:
            one.stop()
            other.stop()


def _until_called(pair: ReplicaPair, site: Site, namespace: str) -> None:
    """Wait until a pod is accepted, by gates that are trusted."""
    names = iter(range(1000))
    pair.until("a pod is accepted", lambda: submit(site, namespace, f"probe-{next(names)}").is_done)


def _bundles(cluster: Cluster) -> set[str]:
    found = [api(cluster.kubeconfig).get(path) for path in CONFIGURATIONS.values()]
    return {each["clientConfig"].get("caBundle", "") for one in found for each in one["webhooks"]}


def test_from_no_secret_at_all_to_ten_rotations_under_load_no_create_fails(
    site: Site, pair: ReplicaPair, namespace: str
) -> None:
    _until_called(pair, site, namespace)
    before = pair.until_settled()
    authorities, leaves = {compute_fingerprint(before.ca_certificates[0])}, set[str]()
    with Clients(site.cluster, namespace) as clients, clients.creating(create_dongle_pods(site)) as answers:
        for each in range(_ROTATIONS):
            request_renewal(site.cluster, "authority" if each % 2 == 0 else "certificate")
            now = pair.until_settled()
            assert now.serving
            authorities.add(compute_fingerprint(now.ca_certificates[0]))
            leaves.add(compute_fingerprint(now.serving.certificate))
            until_more(answers, _MEANWHILE)
    assert find_failed(answers) == []
    assert (len(authorities), len(leaves)) == (1 + _ROTATIONS // 2, _ROTATIONS)
    for gate in pair.gates:
        assert "PRIVATE" not in gate.log()
        assert "forbidden" not in gate.log().lower()


def test_a_secret_that_is_deleted_while_serving_is_created_again_and_no_create_fails(
    site: Site, pair: ReplicaPair, namespace: str
) -> None:
    _until_called(pair, site, namespace)
    before = pair.until_settled()
    with Clients(site.cluster, namespace) as clients, clients.creating(create_dongle_pods(site)) as answers:
        delete_secret(site.cluster)
        pair.until("the Secret is there again", lambda: read_secret(site.cluster) is not None)
        after = pair.until_settled()
        until_more(answers, _MEANWHILE)
    assert find_failed(answers) == []
    assert before.ca_certificates[0] in after.ca_certificates[1:]


def test_an_overwritten_bundle_is_restored(site: Site, pair: ReplicaPair, namespace: str) -> None:
    _until_called(pair, site, namespace)
    pair.until_settled()
    before = _bundles(site.cluster)
    assert len(before) == 1
    removed = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    for path in CONFIGURATIONS.values():
        api(site.cluster.kubeconfig).patch(path, removed, JSON)
    pair.until("it is put back", lambda: _bundles(site.cluster) == before)
    status = ("certs", "status", f"--kubeconfig={site.cluster.kubeconfig}")
    done = run_tallygate(site.cluster, *status, environment={"COLUMNS": "200"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("caBundle is what ca.crt says") == len(CONFIGURATIONS)
    _until_called(pair, site, namespace)


def test_a_secret_with_another_authority_is_adopted_without_a_gap(
    site: Site, pair: ReplicaPair, namespace: str, tmp_path: Path
) -> None:
    _until_called(pair, site, namespace)
    before = pair.until_settled()
    issue(tmp_path / "mine", parse_names([HERE]), datetime.now(UTC))
    with Clients(site.cluster, namespace) as clients, clients.creating(create_dongle_pods(site)) as answers:
        _write_by_hand(site.cluster, tmp_path / "mine")
        after = pair.until_settled()
        until_more(answers, _MEANWHILE)
    assert find_failed(answers) == []
    assert encode_pem(after.ca_certificates[:1]) == (tmp_path / "mine" / "ca.crt").read_bytes()
    assert before.ca_certificates[0] in after.ca_certificates


def test_a_gate_that_restarts_while_no_api_server_answers_serves_its_last_certificate(pair: ReplicaPair) -> None:
    pair.until_settled()
    one = pair.gates[0]
    serves = one.serves()
    one.stop()
    with _cut_api_server(pair.kubeconfig):
        one.start()
        assert one.serves() == serves
        assert "cannot be reached" in one.readiness()["checks"]["certificate-rotation"]["failure"]
        one.stop()
    one.start()


@contextmanager
def _cut_api_server(kubeconfig: Path) -> Iterator[None]:
    """Point a kubeconfig at a port without a server, for as long as the block runs."""
    before = kubeconfig.read_text()
    config = json.loads(before)
    for each in config["clusters"]:
        each["cluster"]["server"] = "https://127.0.0.1:9"
    kubeconfig.write_text(json.dumps(config))
    try:
        yield
    finally:
        kubeconfig.write_text(before)


def _write_by_hand(cluster: Cluster, folder: Path) -> None:
    """Replace the Secret as `kubectl create secret --dry-run=client | kubectl replace` does."""
    names = ("ca.crt", "ca.key", "tls.crt", "tls.key")
    data = {name: base64.b64encode((folder / name).read_bytes()).decode() for name in names}
    made = {"metadata": {"name": SECRET}, "type": "kubernetes.io/tls", "data": data}
    api(cluster.kubeconfig).ask("PUT", f"/api/v1/namespaces/{OWN}/secrets/{SECRET}", made).object()
