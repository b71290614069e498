"""Kinds of other projects, registered by a gate that runs while their definitions come and go."""

import json
import shlex
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from e2e.api import Answer, Object, api
from e2e.command_output import run_kubectl, run_tallygate
from e2e.gates.process import GateProcess
from e2e.pods import submit
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Gate, NotHereError, Site
from e2e.registering import CONFIGURATIONS
from e2e.self_registration import define, read_registration, run_registering_gate
from e2e.waiting import until

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAME = "jobsets.jobset.x-k8s.io"
_RESOURCE = "jobsets.v1alpha2.jobset.x-k8s.io"
_DONGLE = "example.com/dongle"
_WITHIN = 120.0
_MAX_SECONDS = 10.0  # seconds from a served kind to its evaluation (docs/reference/installation.md)
_REFUSED = "spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources.requests[example.com/dongle]"
_SPEC = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCALE = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: dongles}}
spec:
  namespaces: {{include: [{namespace}]}}
  hard: {{example.com/dongle: 4}}
"""


_DEFINITION = define("jobset.x-k8s.io", "JobSet", "v1alpha2", _SPEC)
_GROUPS = define("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "v1", _SPEC, _SCALE)


@pytest.fixture
def registering_gate(site: Site, tmp_path: Path) -> Iterator[GateProcess]:
    """Run a gate that has registered itself, with the rights of its account, in a cluster without JobSets."""
    _remove_definition(site.cluster)
    try:
        with run_registering_gate(site, tmp_path) as gate:
            yield gate
    finally:
        _remove_definition(site.cluster)
        groups, ours = f"{_DEFINITIONS}/{_GROUPS['metadata']['name']}", api(site.cluster.kubeconfig)
        ours.delete(groups)
        until("LeaderWorkerSet is not served", lambda: not ours.ask("GET", groups).is_done, _WITHIN)


def _remove_definition(cluster: Cluster) -> None:
    api(cluster.kubeconfig).delete(f"{_DEFINITIONS}/{_NAME}")
    until("the kind is not served", lambda: not _is_served(cluster), _WITHIN)


def _is_served(cluster: Cluster) -> bool:
    return api(cluster.kubeconfig).ask("GET", "/apis/jobset.x-k8s.io/v1alpha2/jobsets").is_done


def _template(amount: str, resource: str) -> Object:
    amounts = {resource: amount}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return {"spec": {"containers": [container]}}


def _job_set(amount: str, resource: str) -> Object:
    template = {"spec": {"template": _template(amount, resource)}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": f"set-{uuid4().hex[:8]}"},
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": 2, "template": template}]},
    }


def _create(cluster: Cluster, namespace: str, amount: str, resource: str = _DONGLE) -> Answer:
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"
    return api(cluster.kubeconfig).ask("POST", path, _job_set(amount, resource))


def _rejects_fraction(cluster: Cluster, namespace: str) -> bool:
    return _REFUSED in _create(cluster, namespace, "1500m").messages


def test_a_kind_is_evaluated_soon_after_it_is_served_and_stops_nothing_when_it_is_removed(
    site: Site, registering_gate: GateProcess, namespace: str
) -> None:
    cluster, gate = site.cluster, registering_gate
    until("kinds of other cases are forgotten", lambda: "workloads" not in read_registration(gate), _WITHIN, gate.log)
    api(cluster.kubeconfig).create(_DEFINITIONS, _DEFINITION)
    until("the kind is served", partial(_is_served, cluster), _WITHIN)
    served_at = time.monotonic()
    until(
        "a fraction is rejected", lambda: _REFUSED in _create(cluster, namespace, "1500m").messages, _WITHIN, gate.log
    )
    assert time.monotonic() - served_at < _MAX_SECONDS
    until("it says so", lambda: read_registration(gate).get("workloads") == [_RESOURCE], _WITHIN, gate.log)
    assert _create(cluster, namespace, "1").is_done

    _remove_definition(cluster)
    assert submit(site, namespace, "meanwhile").is_done
    until("the kind is forgotten", lambda: "workloads" not in read_registration(gate), _WITHIN, gate.log)
    assert submit(site, namespace, "afterwards").is_done
    assert [webhook["name"] for webhook in _list_webhooks(cluster) if webhook["name"].startswith("workloads")] == []


def _list_webhooks(cluster: Cluster) -> list[Object]:
    return [each for path in CONFIGURATIONS.values() for each in api(cluster.kubeconfig).get(path)["webhooks"]]


def test_a_workload_without_devices_needs_no_gate(site: Site, registering_gate: GateProcess, namespace: str) -> None:
    """Read the names in the text of the object: those of Kubernetes concern no shipped rule."""
    cluster, gate = site.cluster, registering_gate
    api(cluster.kubeconfig).create(_DEFINITIONS, _DEFINITION)
    until("the kind is registered", lambda: "workloads" in read_registration(gate), _WITHIN, gate.log)
    until("a fraction is rejected", partial(_rejects_fraction, cluster, namespace), _WITHIN, gate.log)
    gate.stop()
    plain = [_create(cluster, namespace, "1", name).is_done for name in ("cpu", "memory")]
    asked = [_create(cluster, namespace, "1", name).is_done for name in (_DONGLE, "hugepages-2Mi")]
    gate.start()
    assert (plain, asked) == ([True, True], [False, False])


def test_an_update_that_leaves_spec_and_labels_needs_no_gate(
    site: Site, registering_gate: GateProcess, namespace: str
) -> None:
    cluster, gate = site.cluster, registering_gate
    api(cluster.kubeconfig).create(_DEFINITIONS, _DEFINITION)
    until("the kind is registered", lambda: "workloads" in read_registration(gate), _WITHIN, gate.log)
    until("a fraction is rejected", partial(_rejects_fraction, cluster, namespace), _WITHIN, gate.log)
    stored = _create(cluster, namespace, "1").object()
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets/{stored['metadata']['name']}"
    changes: dict[str, Object] = {
        "annotations": {"metadata": {"annotations": {"a": "b"}}},
        "finalizers": {"metadata": {"finalizers": []}},
        "labels": {"metadata": {"labels": {"a": "b"}}},
        "spec": {"spec": {"suspend": True}},
    }
    gate.stop()
    done = {
        name: api(cluster.kubeconfig).ask("PATCH", path, change, kind="application/merge-patch+json").is_done
        for name, change in changes.items()
    }
    gate.start()
    assert done == {"annotations": True, "finalizers": True, "labels": False, "spec": False}


def test_a_scale_request_is_evaluated_as_that_of_a_deployment(
    site: Site, registering_gate: GateProcess, namespace: str
) -> None:
    cluster, gate = site.cluster, registering_gate
    gate.write_policies({**SHIPPED_FILES, "cap.yaml": _CAP.format(namespace=namespace)})
    api(cluster.kubeconfig).create(_DEFINITIONS, _GROUPS)
    until("the kind is registered", lambda: "workloads" in read_registration(gate), _WITHIN, gate.log)
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": _template("1", _DONGLE)}}
    path = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{namespace}/leaderworkersets"
    groups = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "groups"}}
    api(cluster.kubeconfig).create(path, groups | {"spec": spec})

    def warns_of_scale() -> bool:
        scale = {"spec": {"replicas": 3}}
        query, kind = {"dryRun": "All"}, "application/merge-patch+json"
        answer = api(cluster.kubeconfig).ask("PATCH", f"{path}/groups/scale", scale, kind=kind, query=query)
        assert answer.is_done, answer.rejection
        return any('LeaderWorkerSet "groups"' in each and "6 example.com/dongle" in each for each in answer.warnings)

    until("a scale over the cap is warned", warns_of_scale, _WITHIN, gate.log)


def test_a_registration_of_an_administrator_has_the_kind_after_the_commands_of_doctor(
    site: Site, gate: Gate, namespace: str
) -> None:
    if not isinstance(gate, GateProcess):
        raise NotHereError("it is about a gate that runs as a process here")
    cluster = site.cluster
    assert _diagnose(cluster, gate)["result"] == "PASS"
    api(cluster.kubeconfig).create(_DEFINITIONS, _DEFINITION)
    try:
        until("the kind is served", partial(_is_served, cluster), _WITHIN)
        until("doctor reports it", lambda: _diagnose(cluster, gate)["result"] == "WARN", _WITHIN)
        found = _diagnose(cluster, gate)
        assert found["reason"].startswith(
            "JobSet of jobset.x-k8s.io is served and not registered in the mutate phase: "
        )
        assert len(found["fix"]) == len(CONFIGURATIONS)
        for command in found["fix"]:
            run_kubectl(cluster, *shlex.split(command)[1:])
        assert _diagnose(cluster, gate)["result"] == "PASS"
        until("a fraction is rejected", partial(_rejects_fraction, cluster, namespace), _WITHIN, gate.log)
    finally:
        _remove_definition(cluster)


def _diagnose(cluster: Cluster, gate: GateProcess) -> Object:
    """Return the check of these kinds by `tallygate doctor`."""
    options = (f"--monitor={gate.monitor}", f"--policies={gate.policies}")
    shown = run_tallygate(cluster, "doctor", *options, "-o", "json")
    checks: list[Object] = json.loads(shown.stdout)["checks"]
    return next(each for each in checks if each["check"] == "workload-kinds")
