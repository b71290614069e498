"""The ledger of a namespace that is gone goes after it, by a gate with the rights of its ServiceAccount alone."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.gates.process import GateProcess
from e2e.ledgers import forget_ledgers
from e2e.pods import create
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import NotHereError, Site
from e2e.registering import register, unregister
from e2e.service_account import as_service_account
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
def following(site: Site, tmp_path: Path) -> Iterator[GateProcess]:
    """A gate that follows the cluster as its ServiceAccount and keeps its ledgers there."""
    cluster = site.cluster
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("it is about a gate of its own, beside the one of the site")
    followed = (_DEPLOY / "overlays" / "followed" / each for each in ("crd.yaml", "rbac.yaml"))
    for file in (_DEPLOY / "base" / "namespace.yaml", _DEPLOY / "base" / "serviceaccount.yaml", *followed):
        applied = cluster.kubectl("apply", f"--filename={file}")
        assert applied.returncode == 0, applied.stderr
    waited = cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/capledgers.tallygate.dev")
    assert waited.returncode == 0, waited.stderr
    cluster.kubectl("delete", "leases", "--all", f"--namespace={_OWN}")  # of gates that others have killed
    kubeconfig = as_service_account(cluster, _OWN, "tallygate", tmp_path / "kubeconfig")
    arguments = ("--cluster=kubeconfig", f"--kubeconfig={kubeconfig}", "--ledgers=kubernetes", "--in-flight-bound=2s")
    gate = GateProcess(tmp_path / "gate", arguments=arguments)
    gate.start()
    register(cluster, gate)
    gate.write_policies(SHIPPED_FILES | {"passing.yaml": _CAP})
    yield gate
    gate.write_policies(SHIPPED_FILES)
    unregister(cluster)
    gate.stop()
    forget_ledgers(cluster, _OWN)


def _ledgers(site: Site) -> int:
    """How many there are of the namespace that passes."""
    said = site.cluster.kubectl("get", "capledgers", f"--namespace={_OWN}", "--output=json")
    assert said.returncode == 0, said.stderr
    return sum(item["spec"].get("namespace") == _PASSING for item in json.loads(said.stdout)["items"])


@pytest.mark.usefixtures("following")
def test_a_ledger_goes_with_its_namespace_and_another_comes_with_the_next_of_its_name(site: Site) -> None:
    for _ in range(2):
        made = site.cluster.kubectl("create", "namespace", _PASSING)
        assert made.returncode == 0, made.stderr
        until("a pod is let in", lambda: create(site, _PASSING, "p").returncode == 0, _WITHIN)
        assert _ledgers(site) == 1
        gone = site.cluster.kubectl("delete", "namespace", _PASSING, "--wait", "--timeout=120s")
        assert gone.returncode == 0, gone.stderr
        until("its ledger is gone", lambda: _ledgers(site) == 0, _WITHIN)
