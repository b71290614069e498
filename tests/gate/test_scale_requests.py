"""Warnings about a request to scale a workload."""

import json
from pathlib import Path
from typing import Any

import pytest

from tallygate.admission.request import Phase
from tallygate.errors import TallygateError
from tallygate.gate.decisions import Decision
from tallygate.review.scale_requests import WorkloadReader
from tests.gate.gate_fixture import CAP, GPU, GateFixture, pod, read_facts, response
from tests.gate.test_quotas import NO_CAPS, gpus, quotas

DENY = CAP + "  workloads: deny\n"
DEPLOYMENTS = ("apps", "deployments")


class StoredWorkload:
    """A reader of one workload, which records its calls."""

    def __init__(self, body: dict[str, Any] | None, failure: Exception | None = None) -> None:
        self.calls: list[tuple[tuple[str, str, str], str, str]] = []
        self._body = body
        self._failure = failure

    def read_workload(self, resource: tuple[str, str, str], namespace: str, name: str) -> bytes | None:
        """Return the workload, return None, or raise the failure."""
        self.calls.append((resource, namespace, name))
        if self._failure is not None:
            raise self._failure
        return None if self._body is None else json.dumps(self._body).encode()


def workload(gpus: int, replicas: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a workload of version 7 whose pods request the given GPUs each."""
    metadata = {"name": "w", "uid": "u", "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"replicas": replicas, "template": pod("", gpus), **spec}}


def scale(replicas: int, version: str = "7", uid: str = "u") -> dict[str, Any]:
    """Return a Scale as the API server sends it: zero replicas are omitted."""
    spec = {"replicas": replicas} if replicas else {}
    return {"kind": "Scale", "metadata": {"name": "w", "uid": uid, "resourceVersion": version}, "spec": spec}


def scale_workload(
    fixture: GateFixture, to: int, since: dict[str, Any], resource: tuple[str, str] = DEPLOYMENTS, **more: Any
) -> Decision:
    """Return the decision on a scale to the given number of replicas."""
    group, plural = resource
    request = {
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": group, "version": "v1", "resource": plural},
        "subResource": "scale",
        "name": "w",
        "oldObject": since,
    }
    return fixture.admit(scale(to), **request | more)


def list_warnings(workloads: WorkloadReader, to: int, since: int = 1, text: str = CAP, **more: Any) -> list[str]:
    """Return the warnings about a scale, which must be allowed."""
    result = response(scale_workload(GateFixture(text, workloads=workloads), to, scale(since), **more))
    assert result["allowed"]
    warnings: list[str] = result.get("warnings", [])
    return warnings


@pytest.mark.parametrize(
    ("resource", "version", "kind"),
    [
        (DEPLOYMENTS, "v1", "Deployment"),
        (("apps", "replicasets"), "v1", "ReplicaSet"),
        (("apps", "statefulsets"), "v1", "StatefulSet"),
        (("", "replicationcontrollers"), "v1", "ReplicationController"),
        (("argoproj.io", "rollouts"), "v1alpha1", "Rollout"),
    ],
)
def test_a_scale_over_a_cap_is_warned_with_the_sum(resource: tuple[str, str], version: str, kind: str) -> None:
    stored = StoredWorkload(workload(2))
    (warning,) = list_warnings(stored, 3, resource=resource)
    assert read_facts(warning.removeprefix(f'{kind} "w": ')) == "3 6 nvidia.com/gpu gpus hard=4 2 TG204 gpus"
    group, plural = resource
    assert stored.calls == [((group, version, plural), "team-a", "w")]


def test_a_scale_of_groups_counts_leaders_and_workers() -> None:
    stored = workload(0)
    stored["spec"] = {"replicas": 1, "leaderWorkerTemplate": {"size": 3, "workerTemplate": pod("", 1)}}
    warnings = list_warnings(StoredWorkload(stored), 2, resource=("leaderworkerset.x-k8s.io", "leaderworkersets"))
    assert [each.partition(":")[0] for each in warnings] == ['LeaderWorkerSet "w"']
    assert "6 nvidia.com/gpu" in warnings[0]


def test_a_scale_over_the_free_amount_is_warned_how_many_pods_wait() -> None:
    fixture = GateFixture(workloads=StoredWorkload(workload(1)))
    fixture.create(3)
    (warning,) = response(scale_workload(fixture, 3, scale(1)))["warnings"]
    assert read_facts(warning).endswith("hard=4 free=1 1 TG205 gpus")


def test_a_cap_that_denies_workloads_denies_their_scaling() -> None:
    decision = scale_workload(GateFixture(DENY, workloads=StoredWorkload(workload(2))), 3, scale(1))
    status = response(decision)["status"]
    assert (status["code"], status["details"]["kind"]) == (403, "Deployment")
    assert status["message"].startswith('Deployment "w": ')
    assert "3 6 nvidia.com/gpu gpus hard=4" in read_facts(status["message"])
    assert (decision.record.kind, decision.record.verdict) == ("Deployment", "deny")


def test_a_scale_is_warned_about_quotas_too() -> None:
    stored = StoredWorkload(workload(2))
    result = response(scale_workload(GateFixture(NO_CAPS, workloads=stored, quotas=quotas(gpus(4, 0))), 9, scale(1)))
    assert result["allowed"]
    assert ["TG208" in each for each in result["warnings"]] == [True]


def test_a_scale_from_zero_counts_the_new_pod() -> None:
    (warning,) = list_warnings(StoredWorkload(workload(5, 0)), 1, since=0)
    assert "1 5 nvidia.com/gpu gpus hard=4" in read_facts(warning)


@pytest.mark.parametrize("to", [0, 1])
def test_no_workload_is_read_for_a_scale_that_adds_no_pods(to: int) -> None:
    stored = StoredWorkload(workload(9))
    assert list_warnings(stored, to) == []
    assert stored.calls == []


def test_no_workload_is_read_without_caps_and_quotas() -> None:
    stored = StoredWorkload(workload(9))
    assert list_warnings(stored, 9, text=NO_CAPS) == []
    assert stored.calls == []


@pytest.mark.parametrize(
    "stored",
    [
        StoredWorkload(None),
        StoredWorkload(None, TallygateError("the API server is away")),
        StoredWorkload(workload(9) | {"metadata": {"uid": "u", "resourceVersion": "8"}}),
        StoredWorkload(workload(9) | {"metadata": {"uid": "another", "resourceVersion": "7"}}),
        StoredWorkload({"metadata": {"uid": "u", "resourceVersion": "7"}}),
        StoredWorkload({"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": []}),
    ],
)
def test_a_scale_of_an_unknown_workload_gets_no_warning(stored: StoredWorkload) -> None:
    assert list_warnings(stored, 9, text=DENY) == []
    assert len(stored.calls) == 1


def test_a_scale_without_a_name_is_allowed() -> None:
    nameless = {"kind": "Scale", "metadata": {}, "spec": {}}
    stored = StoredWorkload({**workload(9), "metadata": {}})
    assert response(scale_workload(GateFixture(DENY, workloads=stored), 9, nameless))["allowed"]


def test_a_scale_without_a_cluster_is_allowed() -> None:
    assert response(scale_workload(GateFixture(DENY), 9, scale(1)))["allowed"]


@pytest.mark.parametrize(
    "more",
    [
        {"subResource": "status"},
        {"resource": ("apps", "daemonsets")},
        {"resource": ("example.com", "deployments")},
        {"kind": {"group": "example.com", "kind": "Scale"}},
    ],
)
def test_only_scales_of_supported_workloads_are_evaluated(more: dict[str, Any]) -> None:
    stored = StoredWorkload(workload(9))
    assert list_warnings(stored, 9, text=DENY, **more) == []
    assert stored.calls == []


def test_the_mutating_phase_reads_no_workload() -> None:
    stored = StoredWorkload(workload(9))
    request: dict[str, Any] = {"phase": Phase.MUTATING}
    assert response(scale_workload(GateFixture(DENY, workloads=stored), 9, scale(1), **request))["allowed"]
    assert stored.calls == []


def test_a_scale_changes_only_the_number_of_replicas() -> None:
    """Scale without a surge, which counts only if the template changes."""
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert list_warnings(StoredWorkload(workload(1, 2, strategy=strategy)), 3, since=2) == []


def test_a_recorded_review_of_a_scale_is_evaluated() -> None:
    review = json.loads((Path(__file__).parent / "scale.json").read_text())
    stored = workload(2) | {
        "metadata": {k: review["request"]["oldObject"]["metadata"][k] for k in ("uid", "resourceVersion")}
    }
    fixture = GateFixture(CAP.replace("team-*", "default"), workloads=StoredWorkload(stored))
    result = json.loads(fixture.gate.admit(json.dumps(review).encode(), Phase.VALIDATING, 5.0).body)["response"]
    assert result["warnings"][0].startswith('Deployment "web": ')
    assert f"9 18 {GPU}" in read_facts(result["warnings"][0])
