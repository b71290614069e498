"""Caps that are new, and ledgers that are lost, with two gates whose ledgers are in the cluster."""

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from uuid import uuid4

import pytest

from e2e.api import Answer, api
from e2e.command_output import run_tallygate
from e2e.extra_gates import until_cap_is_active
from e2e.ledgers import delete_ledgers
from e2e.load import Clients
from e2e.namespaces import label, new_namespace
from e2e.pods import DONGLE, list_stored, make_deployment, pod
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Site
from e2e.rolling import run_two_gates, wait_for_leader
from e2e.service import Service
from e2e.stress.replicas import Replicas
from e2e.waiting import until
from tallygate.gate.cap_activation import RECORD_LEASE
from tallygate.state.kubernetes.lease_store import CAPS_ANNOTATION

_HARD = 4
_WITHIN = 60.0  # seconds
_SHOWN_SECONDS = 20.0  # until a Deployment has its pods, on a busy machine; a wait for a ledger would take longer
_MOST_REPEATED = 10_000  # rejections: a replica repeats one for a second
_CREATED, _FORBIDDEN, _TOO_MANY_REQUESTS = HTTPStatus.CREATED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: {name}}}
spec:
  namespaces: {{{namespaces}}}
  {limits}: {{{dongle}: {hard}}}
"""


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """Create the namespace of the gates' ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module")
def old_namespace(cluster: Cluster) -> Iterator[str]:
    """Create a namespace before the gates start."""
    with new_namespace(cluster) as name:
        yield name


@pytest.fixture(scope="module")
def gates(site: Site, own: str, old_namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Run two gates with ledgers in the cluster, as behind a Service."""
    assert old_namespace
    folder = tmp_path_factory.mktemp("new-caps") / "gates"
    with run_two_gates(site, own, folder, Service, own_arguments=[["--new-caps=admit"]] * 2) as replicas:
        wait_for_leader(replicas)
        yield replicas


def _write_cap(gates: Replicas, namespaces: str, limits: str = "hard", hard: int = _HARD) -> str:
    """Write a cap of a new name beside the shipped policies, and return the name."""
    name = f"new-{uuid4().hex[:6]}"
    gates.write_policies(SHIPPED_FILES | {"new.yaml": _format_cap(name, namespaces, limits, hard)})
    return name


def _format_cap(name: str, namespaces: str, limits: str = "hard", hard: int = _HARD) -> str:
    return _CAP.format(name=name, namespaces=namespaces, limits=limits, dongle=DONGLE, hard=hard)


def _create(site: Site, namespace: str, dongles: int = 1, **query: str) -> Answer:
    """Create a pod of a new name, and return the answer."""
    made = pod(site, f"p-{uuid4().hex[:8]}", str(dongles))
    return api(site.cluster.kubeconfig).ask("POST", f"/api/v1/namespaces/{namespace}/pods", made, query=query)


def _create_some(site: Site, namespace: str, count: int) -> list[int]:
    """Create pods of new names one after the other, and return the first answer about each: 429 is one."""
    with Clients(site.cluster, namespace) as clients:
        return [clients.create_one(pod(site, f"p-{uuid4().hex[:8]}")).status for _ in range(count)]


def _show_usage(site: Site, gates: Replicas, namespace: str) -> str:
    policies = str(gates.each[0].policies)
    reads = ("--policies", policies, "--namespace", namespace)
    return run_tallygate(site.cluster, "usage", *reads).stdout


def test_a_deployment_under_a_new_cap_gets_its_pods_at_once_and_a_lost_ledger_stays_closed(
    site: Site, gates: Replicas, own: str, old_namespace: str
) -> None:
    client = api(site.cluster.kubeconfig)
    name = _write_cap(gates, f"include: [{old_namespace}]")
    client.create(
        f"/apis/apps/v1/namespaces/{old_namespace}/deployments", make_deployment("web", _HARD, pod(site, "web")["spec"])
    )
    until("all pods are stored", lambda: len(list_stored(site, old_namespace)) == _HARD, _SHOWN_SECONDS)
    failed = client.items(f"/api/v1/namespaces/{old_namespace}/events", fieldSelector="reason=FailedCreate")
    assert [each["message"] for each in failed] == []
    answer = _create(site, old_namespace, dryRun="All")
    assert answer.status == _CREATED
    assert f"cap {name} is new and counts existing pods first: enforced from about" in answer.warnings[0]
    assert "new: enforced from about" in _show_usage(site, gates, old_namespace)
    until_cap_is_active(site.cluster, old_namespace, pod(site, "large", str(_HARD + 1)))
    assert _create(site, old_namespace).status == _FORBIDDEN
    delete_ledgers(site.cluster, own)
    with Clients(site.cluster, old_namespace) as clients:  # other clients wait and try again after a 429
        refused = [clients.create_one(pod(site, "late"))]
        while refused[-1].status == _FORBIDDEN and len(refused) < _MOST_REPEATED:
            refused.append(clients.create_one(pod(site, "late")))
    assert refused[-1].status == _TOO_MANY_REQUESTS
    assert f"cap {name} cannot decide yet" in refused[-1].message
    assert "(TG218, cap" in refused[-1].message
    until("the ledger is counted", lambda: _create(site, old_namespace).status == _FORBIDDEN, _WITHIN)
    assert len(list_stored(site, old_namespace)) == _HARD


def test_a_cap_with_a_soft_limit_alone_never_rejects(site: Site, gates: Replicas, own: str, old_namespace: str) -> None:
    _write_cap(gates, f"include: [{old_namespace}]", limits="soft", hard=1)
    assert _create_some(site, old_namespace, 5) == [_CREATED] * 5
    delete_ledgers(site.cluster, own)
    assert _create_some(site, old_namespace, 5) == [_CREATED] * 5


def test_a_cap_that_is_removed_and_restored_is_new(site: Site, gates: Replicas, own: str) -> None:
    """Store a pod beyond the limit while the cap is away: its former ledger would not be trusted with it."""
    with new_namespace(site.cluster) as namespace:
        name = _write_cap(gates, f"include: [{namespace}]")
        large = pod(site, "large", str(_HARD + 1))
        until_cap_is_active(site.cluster, namespace, large)
        assert _create_some(site, namespace, _HARD + 1) == [_CREATED] * _HARD + [_FORBIDDEN]
        gates.write_policies(SHIPPED_FILES)
        until("the record has lost the cap", lambda: name not in _read_record(site, own), _WITHIN)
        until("a pod is stored without the cap", lambda: _create(site, namespace).status == _CREATED, _WITHIN)
        gates.write_policies(SHIPPED_FILES | {"new.yaml": _format_cap(name, f"include: [{namespace}]")})
        seen = partial(_create, site, namespace, dryRun="All")
        until("the cap counts first", lambda: f"cap {name} is new" in " ".join(seen().warnings), _WITHIN)
        until_cap_is_active(site.cluster, namespace, large)
        assert name in _read_record(site, own)
        assert _create(site, namespace).status == _FORBIDDEN


def _read_record(site: Site, own: str) -> str:
    """Return the caps that were active, as the Lease in the gates' namespace lists them."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{own}/leases/{RECORD_LEASE}"
    annotation: str = api(site.cluster.kubeconfig).get(path)["metadata"]["annotations"][CAPS_ANNOTATION]
    return annotation


def test_the_first_pod_of_a_value_that_no_namespace_had_is_decided_at_once(
    site: Site, gates: Replicas, old_namespace: str
) -> None:
    _write_cap(gates, "}\n  groupBy: {label: case-team")  # ends the empty selector of namespaces
    value = uuid4().hex[:8]
    label(site.cluster, old_namespace, {"case-team": f"old-{value}"})
    until_cap_is_active(site.cluster, old_namespace, pod(site, "large", str(_HARD + 1)))
    with new_namespace(site.cluster) as name:
        label(site.cluster, name, {"case-team": value})
        seen = partial(_create, site, name, _HARD + 1, dryRun="All")
        until("the label is seen", lambda: seen().status == _FORBIDDEN, _SHOWN_SECONDS)
        assert _create_some(site, name, _HARD + 1) == [_CREATED] * _HARD + [_FORBIDDEN]
