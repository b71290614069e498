"""Caps with a surge: Deployments that fill them and roll, and pods beside them."""

from collections.abc import Iterator

import pytest

from e2e.api import MERGE, STRATEGIC, Answer, Object, api
from e2e.extra_gates import run_ledger_gate
from e2e.gates.process import GateProcess
from e2e.namespaces import new_namespace
from e2e.pods import DONGLE, make_deployment, pod, submit_decided
from e2e.ports import Site
from e2e.waiting import until

_HARD, _SURGE = 4, 1
_CAP = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: rolling}}
spec:
  namespaces: {{include: ["case-*"]}}
  hard: {{{DONGLE}: {_HARD}}}
"""
_WITH_SURGE = f"{_CAP}  surge: {{amounts: {{{DONGLE}: {_SURGE}}}, for: 15m}}\n"
_WITHIN = 90.0  # seconds
_ROLLOUT_SECONDS = 120.0
_FORBIDDEN = 403
_CREATED = 201
_READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.fixture(scope="module", autouse=True)
def ledger_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate on this machine that watches the cluster with its ledgers there, registered."""
    with (
        new_namespace(site.cluster, "gate-") as own,
        run_ledger_gate(site, tmp_path_factory.mktemp("gate") / "g", {"rolling.yaml": _WITH_SURGE}, own) as gate,
    ):
        yield gate


class _Deployment:
    """The Deployment `web` of a namespace, with one dongle for each of its pods."""

    def __init__(self, site: Site, namespace: str) -> None:
        self._site = site
        self._api = api(site.cluster.kubeconfig)
        self._path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._replica_sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
        self._asked = 0
        self.most = 0

    def create(self) -> None:
        """Create it with pods that fill the cap, and wait until they are ready."""
        strategy = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
        spec = pod(self._site, "web")["spec"]
        self._api.create(self._path, make_deployment("web", _HARD, spec, strategy=strategy))
        until("all pods are ready", lambda: self.make_ready() == _HARD, _WITHIN)

    def roll(self, revision: str) -> Answer:
        """Change the template, and return the answer of the API server."""
        template = {"metadata": {"labels": {"revision": revision}}}
        return self._api.ask("PATCH", f"{self._path}/web", {"spec": {"template": template}}, kind=MERGE)

    def list_pods(self) -> list[Object]:
        """Return the stored pods that a ReplicaSet of it has made."""
        pods = self._api.items(self._pods, labelSelector="app=web")
        self.most = max(self.most, len(pods))
        return pods

    def count(self, revision: str) -> int:
        """Return the number of pods of a revision."""
        return sum(each["metadata"]["labels"].get("revision") == revision for each in self.list_pods())

    def make_ready(self) -> int:
        """Report the pods as ready, as the kubelet would, and return their number."""
        pods = self.list_pods()
        for each in pods:
            if each.get("status", {}).get("phase") != "Running":
                self._api.ask("PATCH", f"{self._pods}/{each['metadata']['name']}/status", _READY, kind=STRATEGIC)
        return len(pods)

    def await_end(self, revision: str) -> None:
        """Report new pods as ready, and let ReplicaSets try again, until all pods are of this revision."""

        def is_over() -> bool:
            self.make_ready()
            self._ask_again()
            return self.count(revision) == _HARD == len(self.list_pods())

        until(f"rollout {revision} ends", is_over, _ROLLOUT_SECONDS, self._describe)

    def _ask_again(self) -> None:
        """Change each ReplicaSet, so that its controller tries at once.

        By itself it tries after pauses that double with each refusal, up to 1,000 s; each step here is refused a pod:
        `DefaultTypedControllerRateLimiter`, client-go's util/workqueue/default_rate_limiters.go, v0.37.
        """
        self._asked += 1
        change = {"metadata": {"annotations": {"example.com/asked": f"{self._asked}"}}}
        for each in self._api.items(self._replica_sets):
            self._api.ask("PATCH", f"{self._replica_sets}/{each['metadata']['name']}", change, kind=MERGE)

    def _describe(self) -> str:
        """Return the revisions and phases of the pods, and the events of the namespace with their times."""
        pods = [(each["metadata"]["labels"].get("revision"), each["status"].get("phase")) for each in self.list_pods()]
        events = self._api.items(f"{self._pods.removesuffix('/pods')}/events")
        lines = [
            f"{each['firstTimestamp']} {each['lastTimestamp']} {each['count']} {each['message']}" for each in events
        ]
        return "\n".join([str(pods), *sorted(lines)])


def test_a_full_cap_rolls_within_its_surge_and_other_pods_do_not_use_it(site: Site, namespace: str) -> None:
    web = _Deployment(site, namespace)
    web.create()
    assert submit_decided(site, namespace, "before").status == _FORBIDDEN
    answer = web.roll("2")
    assert "TG206" in str(answer.warnings), "two more pods have room only one after the other"
    until("a new pod exceeds the cap", lambda: web.count("2") == _SURGE, _WITHIN)
    assert submit_decided(site, namespace, "meanwhile").status == _FORBIDDEN
    web.await_end("2")
    assert web.most == _HARD + _SURGE
    assert submit_decided(site, namespace, "after").status == _FORBIDDEN


def test_a_pod_beyond_the_surge_gets_the_time_at_which_that_began(site: Site, namespace: str) -> None:
    web = _Deployment(site, namespace)
    web.create()
    web.roll("2")
    until("a new pod exceeds the cap", lambda: web.count("2") == _SURGE, _WITHIN)
    new = next(each for each in web.list_pods() if each["metadata"]["labels"].get("revision") == "2")
    owners = new["metadata"]["ownerReferences"]
    refused = submit_decided(site, namespace, "beyond", ownerReferences=owners, labels={"app": "web"})
    assert refused.status == _FORBIDDEN
    assert f"hard {_HARD}, surge {_SURGE} (since 20" in refused.rejection
    assert "Wait until old pods end" in refused.rejection


def test_without_a_surge_the_rollout_waits_until_there_is_one(
    site: Site, namespace: str, ledger_gate: GateProcess
) -> None:
    web = _Deployment(site, namespace)
    web.create()
    ledger_gate.write_policies({"rolling.yaml": _CAP})
    try:
        answer = web.roll("2")
        assert "the rollout can never proceed" in str(answer.warnings)
        until("its controller was refused", lambda: _has_failed(site, namespace), _WITHIN)
        assert web.count("2") == 0
    finally:
        ledger_gate.write_policies({"rolling.yaml": _WITH_SURGE})
    web.await_end("2")
    assert web.most == _HARD + _SURGE


def _has_failed(site: Site, namespace: str) -> bool:
    events = api(site.cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/events")
    return any(each["reason"] == "FailedCreate" and "cap rolling" in each["message"] for each in events)


def test_a_forged_controller_opens_no_surge(site: Site, namespace: str) -> None:
    web = _Deployment(site, namespace)
    web.create()
    web.roll("2")
    until("a new pod exceeds the cap", lambda: web.count("2") == _SURGE, _WITHIN)
    owner = web.list_pods()[0]["metadata"]["ownerReferences"][0]
    forged = {**owner, "name": "web-forged", "uid": "00000000-0000-4000-8000-000000000000"}
    refused = submit_decided(site, namespace, "forged", ownerReferences=[forged])
    assert (refused.status, "surge" in refused.rejection) == (_FORBIDDEN, False)
    assert submit_decided(site, namespace, "ordinary").status == _FORBIDDEN
