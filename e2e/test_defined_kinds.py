"""A kind that a policy defines, on a real control plane: its objects, its registration and the commands."""

import json
import re
import shlex
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from e2e.api import Object, api
from e2e.command_output import run_kubectl, run_tallygate
from e2e.gates.process import GateProcess
from e2e.pods import submit
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Site
from e2e.registering import CONFIGURATIONS, unregister
from e2e.self_registration import define, leave_to_gate, read_registration, run_registering_gate
from e2e.waiting import until
from tallygate.admission.workload_resources import ServedResources, read_registered
from tests.admission.plain_configurations import to_typed

_EXAMPLE = Path(__file__).parents[1] / "policies" / "examples" / "gang-jobs.yaml"
_TEXT = _EXAMPLE.read_text().replace("nvidia.com/gpu", "example.com/dongle").replace("nvidia.com/", "example.com/")
_CAP = _TEXT.rpartition("\n---\n")[2]
_DEFINED = SHIPPED_FILES | {"gangs.yaml": _TEXT}
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAME = "gangjobs.batch.example.com"
_RESOURCE = "gangjobs.v1.batch.example.com"
_WITHIN = 120.0
_MAX_SECONDS = 10.0  # seconds from a served kind to its evaluation (docs/reference/installation.md)
_TEMPLATE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_NUMBER = {"type": "integer"}
_GROUP = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "replicas": _NUMBER, "podsPerReplica": _NUMBER, "template": _TEMPLATE},
}
_SPEC = {
    "type": "object",
    "properties": {
        "suspend": {"type": "boolean"},
        "leader": {"type": "object", "properties": {"template": _TEMPLATE}},
        "groups": {"type": "array", "items": _GROUP},
    },
}
_DEFINITION = define("batch.example.com", "GangJob", "v1", _SPEC)


@pytest.fixture
def registering_gate(site: Site, tmp_path: Path) -> Iterator[GateProcess]:
    """Run a gate that has registered itself, with a policy that defines `GangJob`, in a cluster without this kind."""
    _remove_definition(site.cluster)
    try:
        with run_registering_gate(site, tmp_path, _DEFINED) as gate:
            yield gate
    finally:
        _remove_definition(site.cluster)


@pytest.fixture
def gang_gate(site: Site, registering_gate: GateProcess, namespace: str) -> GateProcess:
    """Return the gate when the kind is served, and evaluated in this namespace."""
    _serve(site.cluster)
    _until_evaluated(site.cluster, namespace, registering_gate)
    _until_registered(registering_gate)
    return registering_gate


def _serve(cluster: Cluster) -> None:
    api(cluster.kubeconfig).create(_DEFINITIONS, _DEFINITION)
    until("the kind is served", partial(_is_served, cluster), _WITHIN)


def _remove_definition(cluster: Cluster) -> None:
    api(cluster.kubeconfig).delete(f"{_DEFINITIONS}/{_NAME}")
    until("the kind is not served", lambda: not _is_served(cluster), _WITHIN)


def _is_served(cluster: Cluster) -> bool:
    return api(cluster.kubeconfig).ask("GET", "/apis/batch.example.com/v1/gangjobs").is_done


def _until_evaluated(cluster: Cluster, namespace: str, gate: GateProcess) -> None:
    until("a fraction is rejected", partial(_is_rejected, cluster, namespace), _WITHIN, gate.log)


def _until_registered(gate: GateProcess) -> None:
    """Wait for both phases: the first one for which the kind is registered rejects a fraction."""
    until("it is registered", lambda: read_registration(gate).get("workloads") == [_RESOURCE], _WITHIN, gate.log)


def _create_gang(leader: str, *workers: tuple[int, str]) -> Object:
    """Return a gang whose leader requests this many dongles, and groups of workers: number and dongles of each."""
    groups = [
        {"name": f"group-{index}", "replicas": count, "template": _template(dongles)}
        for index, (count, dongles) in enumerate(workers)
    ]
    return {
        "apiVersion": "batch.example.com/v1",
        "kind": "GangJob",
        "metadata": {"name": "sweep"},
        "spec": {"leader": {"template": _template(leader)}, "groups": groups},
    }


def _template(dongles: str) -> Object:
    amounts = {"example.com/dongle": dongles}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return {"spec": {"containers": [container]}}


def _is_rejected(cluster: Cluster, namespace: str) -> bool:
    path = f"/apis/batch.example.com/v1/namespaces/{namespace}/gangjobs"
    answer = api(cluster.kubeconfig).ask("POST", path, _create_gang("500m"), query={"dryRun": "All"})
    return "TG101" in answer.rejection


def _apply(cluster: Cluster, namespace: str, gang: Object) -> str:
    """Return what kubectl prints when it applies a gang without storing it."""
    options = (f"--namespace={namespace}", "--dry-run=server", "--filename=-")
    done = cluster.kubectl("apply", *options, stdin=json.dumps(gang))
    return f"{done.stdout}{done.stderr}"


def _check(cluster: Cluster, folder: Path, gang: Object) -> list[Object]:
    """Return the findings of `tallygate check`, by the policies of the gate."""
    (folder / "gang.json").write_text(json.dumps(gang))
    (folder / "gangs.yaml").write_text(_TEXT)
    options = [f"--policies={folder / 'gangs.yaml'}", "--output=json"]
    found: list[Object] = json.loads(run_tallygate(cluster, "check", str(folder / "gang.json"), *options).stdout)[
        "findings"
    ]
    return found


_MISTAKES: dict[str, Object] = {
    "a fraction in the leader": _create_gang("500m"),
    "a fraction in the second group": _create_gang("1", (1, "1"), (2, "1500m")),
    "an amount that the rule does not allow": _create_gang("1", (2, "3")),
    "several mistakes": _create_gang("250m", (1, "3")),
}


@pytest.mark.usefixtures("gang_gate")
def test_a_gang_is_rejected_for_the_causes_that_check_reports(site: Site, namespace: str, tmp_path: Path) -> None:
    cluster, ours = site.cluster, api(site.cluster.kubeconfig)
    for name, gang in _MISTAKES.items():
        answer = ours.ask("POST", ours.collection(gang, namespace), gang)
        causes = {
            (each["field"], re.sub(r" \(TG\d+, .*", "", each["message"], flags=re.DOTALL))
            for each in json.loads(answer.body)["details"]["causes"]
        }
        findings = _check(cluster, tmp_path, gang)
        assert causes == {(each["field"], each["message"]) for each in findings if "rule" in each["by"]}, name
        assert causes, name
        shown = _apply(cluster, namespace, gang)
        assert all(f"{field}: {message}" in shown for field, message in causes), name


def test_a_gang_that_goes_over_the_cap_is_forecast(site: Site, gang_gate: GateProcess, namespace: str) -> None:
    """Warn of a gang of which the last pods wait; deny one that never fits, by `workloads: deny` of the cap."""
    cluster = site.cluster
    assert submit(site, namespace, "earlier", "4").messages == ""
    waits = _apply(cluster, namespace, _create_gang("2", (1, "4")))
    assert waits.startswith("gangjob.batch.example.com/sweep created (server dry run)\nWarning: "), waits
    assert "request 6 example.com/dongle" in waits
    never = _apply(cluster, namespace, _create_gang("1", (3, "4")))
    assert "denied the request" in never, gang_gate.log()
    assert "cap gpus-gangs" in never


def test_a_kind_is_evaluated_soon_after_it_is_served_and_stops_nothing_when_it_is_removed(
    site: Site, registering_gate: GateProcess, namespace: str
) -> None:
    cluster, gate = site.cluster, registering_gate
    _serve(cluster)
    served_at = time.monotonic()
    _until_evaluated(cluster, namespace, gate)
    assert time.monotonic() - served_at < _MAX_SECONDS
    _until_registered(gate)

    _remove_definition(cluster)
    assert submit(site, namespace, "meanwhile").is_done
    until("the kind is forgotten", lambda: "workloads" not in read_registration(gate), _WITHIN, gate.log)
    assert submit(site, namespace, "afterwards").is_done


def test_an_edit_of_the_policies_adds_and_removes_the_kind(site: Site, gang_gate: GateProcess, namespace: str) -> None:
    cluster, gate = site.cluster, gang_gate
    gate.write_policies(SHIPPED_FILES | {"caps.yaml": _CAP})
    until("the kind is forgotten", lambda: "workloads" not in read_registration(gate), _WITHIN, gate.log)
    until(
        "a fraction is accepted",
        lambda: "created" in _apply(cluster, namespace, _create_gang("500m")),
        _WITHIN,
        gate.log,
    )
    assert "GangJob of batch.example.com (spec.groups[*].template)" in _diagnose(cluster, gate)["reason"]

    gate.write_policies(_DEFINED)
    written_at = time.monotonic()
    _until_evaluated(cluster, namespace, gate)
    assert time.monotonic() - written_at < _MAX_SECONDS
    _until_registered(gate)
    found = _diagnose(cluster, gate)
    assert found["result"] == "PASS", found
    assert "GangJob of batch.example.com" in found["reason"].partition("not read")[0]


def test_publish_and_doctor_register_the_kind_as_the_gate_does(
    site: Site, gang_gate: GateProcess, tmp_path: Path
) -> None:
    cluster = site.cluster
    registered = _list_registered(cluster)
    assert registered == [{("batch.example.com", "v1", "gangjobs"): True}] * 2
    gang_gate.stop()
    unregister(cluster)
    gate = GateProcess(tmp_path / "without-access")
    gate.write_policies(_DEFINED)
    gate.start()
    try:
        leave_to_gate(cluster, gate)
        publish = ("certs", "publish", str(gate.certificates))
        done = run_tallygate(cluster, *publish, f"--policies={gate.policies}")
        assert [line.split(": ")[1] for line in done.stdout.splitlines()] == ["registered"] * 2, done.stderr
        assert done.stderr == ""
        assert _list_registered(cluster) == registered
        assert _diagnose(cluster, gate)["result"] == "PASS"

        unregister(cluster)
        leave_to_gate(cluster, gate)
        assert "no kind that a policy defines" in run_tallygate(cluster, *publish).stderr
        assert _list_registered(cluster) == [{}, {}]
        found = _diagnose(cluster, gate)
        assert found["result"] == "WARN"
        assert found["reason"].startswith("GangJob of batch.example.com is served and not registered in the mutate ")
        for command in found["fix"]:
            run_kubectl(cluster, *shlex.split(command)[1:])
        assert _list_registered(cluster) == registered
        assert _diagnose(cluster, gate)["result"] == "PASS"
    finally:
        gate.write_policies(SHIPPED_FILES)
        unregister(cluster)
        gate.stop()


def _list_registered(cluster: Cluster) -> list[ServedResources]:
    return [read_registered(to_typed(api(cluster.kubeconfig).get(path))) for path in CONFIGURATIONS.values()]


def _diagnose(cluster: Cluster, gate: GateProcess) -> Object:
    """Return the check of these kinds by `tallygate doctor`, with the policies of the gate."""
    options = (f"--monitor={gate.monitor}", f"--policies={gate.policies}", "--output=json")
    checks: list[Object] = json.loads(run_tallygate(cluster, "doctor", *options).stdout)["checks"]
    return next(each for each in checks if each["check"] == "workload-kinds")
