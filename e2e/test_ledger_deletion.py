"""The ledger of a deleted namespace is deleted after it, by a gate with the rights of its ServiceAccount alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.api import api
from e2e.extra_gates import require_gate_process, run_ledger_gate
from e2e.gates.process import GateProcess
from e2e.ledgers import define_ledgers, delete_leases, list_ledgers
from e2e.pods import submit
from e2e.ports import Site
from e2e.service_account import gates_account
from e2e.waiting import until

_DEPLOY = Path(__file__).parents[1] / "deploy" / "kustomize"
_OWN = "tallygate-system"
_WITHIN = 120.0
_PASSING = "passes-away"
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: passing}
spec:
  namespaces: {include: [passes-away]}
  hard: {example.com/dongle: 2}
"""


@pytest.fixture
def watching_gate(site: Site, tmp_path: Path) -> Iterator[GateProcess]:
    """Run a gate that watches the cluster as its ServiceAccount with its ledgers there."""
    cluster = site.cluster
    require_gate_process(site)
    define_ledgers(cluster)
    kubeconfig = gates_account(cluster, tmp_path, "cluster-access")
    delete_leases(cluster, _OWN)
    with run_ledger_gate(site, tmp_path / "gate", {"passing.yaml": _CAP}, _OWN, kubeconfig) as gate:
        yield gate


def _ledgers(site: Site) -> int:
    """Return the number of ledgers of the deleted namespace."""
    return sum(each["spec"].get("namespace") == _PASSING for each in list_ledgers(site.cluster, _OWN))


@pytest.mark.usefixtures("watching_gate")
def test_a_ledger_goes_with_its_namespace_and_another_comes_with_the_next_of_its_name(site: Site) -> None:
    ours, namespaces = api(site.cluster.kubeconfig), "/api/v1/namespaces"
    for _ in range(2):
        ours.create(namespaces, {"metadata": {"name": _PASSING}})
        until("a pod is accepted", lambda: submit(site, _PASSING, "p").is_done, _WITHIN)
        assert _ledgers(site) == 1
        ours.delete(f"{namespaces}/{_PASSING}")
        until("the namespace is deleted", lambda: ours.find(f"{namespaces}/{_PASSING}") is None, _WITHIN)
        until("its ledger is deleted", lambda: _ledgers(site) == 0, _WITHIN)
