"""Caps that admit workloads as a whole: Jobs and their pods as the Job controller makes them."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from e2e.api import MERGE, Answer, Object, api
from e2e.command_output import run_kubectl
from e2e.extra_gates import run_ledger_gate
from e2e.gates.process import GateProcess
from e2e.namespaces import new_namespace
from e2e.pods import DONGLE, pod
from e2e.ports import Cluster, Site
from e2e.waiting import until

_CAP = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: gangs}}
spec:
  namespaces: {{include: ["case-*"]}}
  hard: {{{DONGLE}: 12}}
  admit: whole
"""
_GANG = 8
_WITHIN = 60.0  # seconds
_BOUND = 240.0  # seconds until a reservation that no pod takes over is free: 122, a round, and a busy machine
_FORBIDDEN = 403


@pytest.fixture(scope="module", autouse=True)
def ledger_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate on this machine that watches the cluster with its ledgers there, registered."""
    with (
        new_namespace(site.cluster, "gate-") as own,
        run_ledger_gate(site, tmp_path_factory.mktemp("gate") / "g", {"gangs.yaml": _CAP}, own) as gate,
    ):
        yield gate


def _job(site: Site, name: str, **spec: object) -> Object:
    template = pod(site, name)["spec"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": _GANG,
            "completions": _GANG,
            "template": {"spec": {**template, "restartPolicy": "Never"}},
            **spec,
        },
    }


def _create_job(site: Site, namespace: str, job: Object) -> Answer:
    """Create a Job, and return the answer that is no request to try again later."""
    path, answers = f"/apis/batch/v1/namespaces/{namespace}/jobs", list[Answer]()

    def is_decided() -> bool:
        answers.append(api(site.cluster.kubeconfig).ask("POST", path, job))
        return answers[-1].status != 429

    until("the gate decides", is_decided, _WITHIN)
    return answers[-1]


def _count_pods(cluster: Cluster, namespace: str, job: str) -> int:
    selector = f"?labelSelector=batch.kubernetes.io/job-name%3D{job}"
    return len(api(cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods{selector}"))


def _await_pods(cluster: Cluster, namespace: str, job: str) -> None:
    until(f"{job} has all its pods", lambda: _count_pods(cluster, namespace, job) == _GANG, _WITHIN)


def test_a_job_that_has_no_room_for_all_its_pods_is_refused_and_gets_none(
    site: Site, cluster: Cluster, namespace: str
) -> None:
    assert _create_job(site, namespace, _job(site, "one")).status == 201
    refused = _create_job(site, namespace, _job(site, "two"))
    assert refused.status == _FORBIDDEN
    assert "admits a Job as a whole or not at all: its 8 pods request 8 example.com/dongle" in refused.rejection
    assert "Wait until pods end, or start fewer pods" in refused.rejection
    _await_pods(cluster, namespace, "one")
    run_kubectl(cluster, "delete", "job", "one", "-n", namespace, "--cascade=foreground", "--timeout=120s")
    until("there is room", lambda: _create_job(site, namespace, _job(site, "two")).status == 201, _WITHIN)
    _await_pods(cluster, namespace, "two")


def test_a_suspended_job_reserves_when_it_is_resumed(site: Site, cluster: Cluster, namespace: str) -> None:
    assert _create_job(site, namespace, _job(site, "later", suspend=True)).status == 201
    assert _create_job(site, namespace, _job(site, "now")).status == 201
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/later"
    resumed = api(cluster.kubeconfig).ask("PATCH", path, {"spec": {"suspend": False}}, kind=MERGE)
    assert resumed.status == _FORBIDDEN
    assert "admits a Job as a whole" in resumed.rejection
    _await_pods(cluster, namespace, "now")
    assert _count_pods(cluster, namespace, "later") == 0


def test_a_dry_run_reserves_nothing(site: Site, namespace: str) -> None:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All"
    until(
        "the dry run is allowed",
        lambda: api(site.cluster.kubeconfig).ask("POST", path, _job(site, "dry")).status == 201,
        _WITHIN,
    )
    assert _create_job(site, namespace, _job(site, "real")).status == 201


def test_the_job_of_a_cron_job_is_decided_as_a_whole(site: Site, cluster: Cluster, namespace: str) -> None:
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": _job(site, "nightly")["spec"]}},
    }
    api(cluster.kubeconfig).create(f"/apis/batch/v1/namespaces/{namespace}/cronjobs", cron)
    run_kubectl(cluster, "create", "job", "first", "--from=cronjob/nightly", "-n", namespace)
    _await_pods(cluster, namespace, "first")
    second = cluster.kubectl("create", "job", "second", "--from=cronjob/nightly", "-n", namespace)
    assert "admits a Job as a whole" in second.stderr


def test_what_no_pod_takes_over_is_kept_for_its_job_alone_and_then_free_again(
    site: Site, cluster: Cluster, namespace: str, ledger_gate: GateProcess
) -> None:
    """Use a service account that does not exist: the API server refuses each pod before it asks the gate."""
    job = _job(site, "stuck")
    job["spec"]["template"]["spec"]["serviceAccountName"] = "missing"
    assert _create_job(site, namespace, job).status == 201
    other = _create_job(site, namespace, _job(site, "other"))
    assert other.status == _FORBIDDEN
    assert "top consumers: Job stuck (8, reserved)" in other.rejection
    posing = pod(site, "posing", "5")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "stuck", "uid": str(uuid4()), "controller": True}
    posing["metadata"]["ownerReferences"] = [owner]
    taken = api(cluster.kubeconfig).ask("POST", f"/api/v1/namespaces/{namespace}/pods", posing)
    assert (taken.status, "cap gangs" in taken.rejection) == (_FORBIDDEN, True)
    until(
        "the reservation has ended",
        lambda: _create_job(site, namespace, _job(site, "other")).status == 201,
        _BOUND,
        ledger_gate.log,
    )
    _await_pods(cluster, namespace, "other")
