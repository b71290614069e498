"""Guarantees in a shared cap with two gates: a lender leaves them free, and their owner gets them at any time."""

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from threading import Thread

import pytest

from e2e.api import api
from e2e.command_output import run_tallygate
from e2e.extra_gates import until_cap_is_active
from e2e.namespaces import new_namespace
from e2e.pods import DONGLE, list_stored, pod, submit_decided
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Site
from e2e.rolling import run_two_gates, wait_for_leader
from e2e.service import Service
from e2e.stress.replicas import Replicas
from e2e.waiting import until

_HARD, _GUARANTEED = 5, 2
_WITHIN = 60.0  # seconds
_CREATED, _FORBIDDEN = HTTPStatus.CREATED, HTTPStatus.FORBIDDEN
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: pool}}
spec:
  namespaces: {{include: [{owner}, {lender}]}}
  shared: true
  hard: {{{dongle}: {hard}}}
  guarantee: [{{namespaces: [{owner}], amounts: {{{dongle}: 40%}}}}]
"""


@pytest.fixture(scope="module")
def owner(cluster: Cluster) -> Iterator[str]:
    """Create the namespace with the guarantee."""
    with new_namespace(cluster) as name:
        yield name


@pytest.fixture(scope="module")
def lender(cluster: Cluster) -> Iterator[str]:
    """Create the namespace without one."""
    with new_namespace(cluster) as name:
        yield name


@pytest.fixture(scope="module", autouse=True)
def gates(
    site: Site, cluster: Cluster, owner: str, lender: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    """Run two gates with the cap, as behind a Service."""
    folder = tmp_path_factory.mktemp("guarantees") / "gates"
    with new_namespace(cluster, "gate-") as own, run_two_gates(site, own, folder, Service) as replicas:
        wait_for_leader(replicas)
        cap = _CAP.format(owner=owner, lender=lender, dongle=DONGLE, hard=_HARD)
        replicas.write_policies(SHIPPED_FILES | {"pool.yaml": cap})
        until_cap_is_active(cluster, lender, pod(site, "large", f"{_HARD + 1}"))
        yield replicas


def _create(site: Site, namespace: str, name: str) -> int:
    return submit_decided(site, namespace, name).status


def _delete(site: Site, namespace: str, name: str) -> None:
    client = api(site.cluster.kubeconfig)
    client.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", gracePeriodSeconds="0")


def test_a_lender_leaves_the_guarantee_free_and_its_owner_gets_it(
    site: Site, gates: Replicas, owner: str, lender: str
) -> None:
    assert [_create(site, lender, f"lender-{number}") for number in range(3)] == [_CREATED] * 3
    refused = submit_decided(site, lender, "refused")
    assert refused.status == _FORBIDDEN
    assert f"hard {_HARD}, free 2, of which 2 are guaranteed to namespace {owner}; top consumers" in refused.rejection
    assert [_create(site, owner, f"owner-{number}") for number in range(_GUARANTEED)] == [_CREATED] * 2
    full = submit_decided(site, owner, "full")
    assert full.status == _FORBIDDEN
    assert "free 0" in full.rejection
    _delete(site, owner, "owner-0")
    assert _create(site, lender, "again") == _FORBIDDEN, "what the owner leaves is guaranteed to it"
    until("the owner gets it back", lambda: _create(site, owner, "back") == _CREATED, _WITHIN)
    _delete(site, lender, "lender-0")
    until("the owner borrows", lambda: _create(site, owner, "borrowed") == _CREATED, _WITHIN)
    policies = str(gates.each[0].policies)
    assert run_tallygate(site.cluster, "usage", "--policies", policies, "--namespace", owner).returncode == 0
    for namespace in (owner, lender):
        for name in list_stored(site, namespace):
            _delete(site, namespace, name)


def test_both_at_once_take_no_more_than_what_is_theirs(site: Site, owner: str, lender: str) -> None:
    until("nothing is stored", lambda: not list_stored(site, owner) | list_stored(site, lender), _WITHIN)
    creations = [
        Thread(target=partial(_create, site, namespace, f"at-once-{number}"))
        for number in range(_HARD)
        for namespace in (lender, owner)
    ]
    for creation in creations:
        creation.start()
    for creation in creations:
        creation.join()
    of_owner, of_lender = len(list_stored(site, owner)), len(list_stored(site, lender))
    assert of_lender <= _HARD - _GUARANTEED
    assert of_owner >= _GUARANTEED
    assert of_owner + of_lender == _HARD
