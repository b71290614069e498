"""What is said of a workload that is told to have more pods."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gate.scene import CAP, GPU, Scene, pod, response
from tests.gate.test_quotas import NO_CAPS, gpus, quotas
from webhook.admission.request import Phase
from webhook.errors import TallygateError
from webhook.gate.decisions import Decision
from webhook.gate.scale_requests import WorkloadReader

DENY = CAP + "  workloads: deny\n"
DEPLOYMENTS = ("apps", "deployments")


class Stored:
    """One workload, and who asked for it."""

    def __init__(self, body: dict[str, Any] | None, failure: Exception | None = None) -> None:
        self.asked: list[tuple[tuple[str, str], str, str]] = []
        self._body = body
        self._failure = failure

    def read_workload(self, resource: tuple[str, str], namespace: str, name: str) -> bytes | None:
        """It, or none, or no answer."""
        self.asked.append((resource, namespace, name))
        if self._failure is not None:
            raise self._failure
        return None if self._body is None else json.dumps(self._body).encode()


def workload(gpus: int, replicas: int = 1, **spec: Any) -> dict[str, Any]:
    """A workload of version 7 whose pods ask for so many GPUs each."""
    metadata = {"name": "w", "uid": "u", "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"replicas": replicas, "template": pod("", gpus), **spec}}


def scale(replicas: int, version: str = "7", uid: str = "u") -> dict[str, Any]:
    """A Scale as the API server sends it: no replicas are left out."""
    spec = {"replicas": replicas} if replicas else {}
    return {"kind": "Scale", "metadata": {"name": "w", "uid": uid, "resourceVersion": version}, "spec": spec}


def asked(
    scene: Scene, to: int, since: dict[str, Any], resource: tuple[str, str] = DEPLOYMENTS, **more: Any
) -> Decision:
    """Scale to so many."""
    group, plural = resource
    request = {
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": group, "version": "v1", "resource": plural},
        "subResource": "scale",
        "name": "w",
        "oldObject": since,
    }
    return scene.admit(scale(to), **request | more)


def told(workloads: WorkloadReader, to: int, since: int = 1, text: str = CAP, **more: Any) -> list[str]:
    """The warnings; it is scaled."""
    said = response(asked(Scene(text, workloads=workloads), to, scale(since), **more))
    assert said["allowed"]
    warnings: list[str] = said.get("warnings", [])
    return warnings


@pytest.mark.parametrize(
    ("resource", "kind"),
    [
        (DEPLOYMENTS, "Deployment"),
        (("apps", "replicasets"), "ReplicaSet"),
        (("apps", "statefulsets"), "StatefulSet"),
        (("", "replicationcontrollers"), "ReplicationController"),
    ],
)
def test_a_workload_that_is_scaled_beyond_a_cap_is_told_the_sum(resource: tuple[str, str], kind: str) -> None:
    stored = Stored(workload(2))
    (warning,) = told(stored, 3, resource=resource)
    assert warning == (
        f'{kind} "w": 3 replicas request 6 nvidia.com/gpu, cap gpus of this namespace has hard 4: '
        "2 of them can run at a time (TG204, cap gpus)"
    )
    assert stored.asked == [(resource, "team-a", "w")]


def test_a_workload_is_told_how_many_wait_for_what_others_hold() -> None:
    scene = Scene(workloads=Stored(workload(1)))
    scene.create(3)
    (warning,) = response(asked(scene, 3, scale(1)))["warnings"]
    assert "free 1: 1 waits until other pods end (TG205, cap gpus)" in warning


def test_a_cap_that_denies_workloads_denies_their_scaling() -> None:
    answer = asked(Scene(DENY, workloads=Stored(workload(2))), 3, scale(1))
    status = response(answer)["status"]
    assert (status["code"], status["details"]["kind"]) == (403, "Deployment")
    assert 'Deployment "w": 3 replicas request 6 nvidia.com/gpu' in status["message"]
    assert (answer.record.kind, answer.record.verdict) == ("Deployment", "deny")


def test_quotas_are_told_of_too() -> None:
    stored = Stored(workload(2))
    said = response(asked(Scene(NO_CAPS, workloads=stored, quotas=quotas(gpus(4, 0))), 9, scale(1)))
    assert said["allowed"]
    assert ["TG208" in each for each in said["warnings"]] == [True]


def test_a_workload_of_one_pod_that_was_told_to_have_none_is_counted_anew() -> None:
    (warning,) = told(Stored(workload(5, 0)), 1, since=0)
    assert "1 replica requests 5 nvidia.com/gpu" in warning


@pytest.mark.parametrize("to", [0, 1])
def test_nobody_is_asked_about_a_workload_that_gets_no_more_pods(to: int) -> None:
    stored = Stored(workload(9))
    assert told(stored, to) == []
    assert stored.asked == []


def test_nobody_is_asked_where_there_is_neither_cap_nor_quota() -> None:
    stored = Stored(workload(9))
    assert told(stored, 9, text=NO_CAPS) == []
    assert stored.asked == []


@pytest.mark.parametrize(
    "stored",
    [
        Stored(None),
        Stored(None, TallygateError("the API server is away")),
        Stored(workload(9) | {"metadata": {"uid": "u", "resourceVersion": "8"}}),
        Stored(workload(9) | {"metadata": {"uid": "another", "resourceVersion": "7"}}),
        Stored({"metadata": {"uid": "u", "resourceVersion": "7"}}),
        Stored({"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": []}),
    ],
)
def test_nothing_is_said_where_it_is_not_known_what_the_pods_ask_for(stored: Stored) -> None:
    assert told(stored, 9, text=DENY) == []
    assert len(stored.asked) == 1


def test_a_scale_that_does_not_say_whose_it_is_is_held_against_nobody() -> None:
    nameless = {"kind": "Scale", "metadata": {}, "spec": {}}
    stored = Stored({**workload(9), "metadata": {}})
    assert response(asked(Scene(DENY, workloads=stored), 9, nameless))["allowed"]


def test_without_a_cluster_nothing_is_said() -> None:
    assert response(asked(Scene(DENY), 9, scale(1)))["allowed"]


@pytest.mark.parametrize(
    "more",
    [
        {"subResource": "status"},
        {"resource": ("apps", "daemonsets")},
        {"resource": ("example.com", "deployments")},
        {"kind": {"group": "example.com", "kind": "Scale"}},
    ],
)
def test_only_scales_of_workloads_that_are_judged_are_looked_into(more: dict[str, Any]) -> None:
    stored = Stored(workload(9))
    assert told(stored, 9, text=DENY, **more) == []
    assert stored.asked == []


def test_the_mutating_phase_has_nothing_to_say() -> None:
    stored = Stored(workload(9))
    request: dict[str, Any] = {"phase": Phase.MUTATING}
    assert response(asked(Scene(DENY, workloads=stored), 9, scale(1), **request))["allowed"]
    assert stored.asked == []


def test_all_but_the_number_is_as_it_is_stored() -> None:
    """A rollout's surge counts where the template changes, and here it does not."""
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert told(Stored(workload(1, 2, strategy=strategy)), 3, since=2) == []


def test_a_review_that_a_real_api_server_sent_is_one_of_a_scale() -> None:
    review = json.loads((Path(__file__).parent / "scale.json").read_text())
    stored = workload(2) | {
        "metadata": {k: review["request"]["oldObject"]["metadata"][k] for k in ("uid", "resourceVersion")}
    }
    scene = Scene(CAP.replace("team-*", "default"), workloads=Stored(stored))
    said = json.loads(scene.gate.admit(json.dumps(review).encode(), Phase.VALIDATING, 5.0).body)["response"]
    assert f'Deployment "web": 9 replicas request 18 {GPU}' in said["warnings"][0]
