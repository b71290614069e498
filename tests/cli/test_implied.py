"""Implied requests in the commands: `check`, `predict`, `headroom`, `explain`, `audit` and `test`."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tests.cli.test_known_kinds import UNKNOWN_DEFAULTS

IP = "example.com/ip"
POLICIES = """\
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {name: one-address-each, annotations: {tallygate.dev/why: ask the network team}}
spec:
  resource: example.com/ip
  unless: {hostNetwork: true}
  match: {namespaces: {selector: {matchLabels: {net: pods}}}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: addresses}
spec: {namespaces: {}, hard: {example.com/ip: 4}}
"""
OF_ALL = POLICIES.replace("  match: {namespaces: {selector: {matchLabels: {net: pods}}}}\n", "")
NAMESPACE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team-a", "uid": "n", "resourceVersion": "3", "labels": {"net": "pods"}},
}


def node(addresses: int) -> dict[str, Any]:
    """Return a node that advertises addresses."""
    status = {"allocatable": {IP: str(addresses), "pods": "110", "cpu": "8", "memory": "8Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "uid": "node", "resourceVersion": "4"},
        "status": status,
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a pod without any request."""
    metadata = {"name": name, "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    """Return a workload of such pods."""
    metadata, template = {"name": "w", "namespace": "team-a"}, {"metadata": {}, "spec": pod("")["spec"]}
    body = {"selector": {}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}


def create_stored_pod(name: str, **fields: Any) -> dict[str, Any]:
    """Return such a pod as it is stored on a node."""
    body = pod(name, nodeName="n1", **fields.pop("spec", {}))
    metadata = {**body["metadata"], "uid": name, "resourceVersion": "5", **fields}
    return body | {"metadata": metadata, "status": {"phase": "Running"}}


def run(folder: Path, command: str, *manifests: dict[str, Any], options: tuple[str, ...] = (), **files: Any) -> Result:
    """Run a command on manifests, with policies and the objects of a snapshot if they are given."""
    arguments = command.split()
    if manifests:
        (folder / "manifests.json").write_text("\n".join(map(json.dumps, manifests)))
        arguments += ["-f", str(folder / "manifests.json")]
    if (policies := files.get("policies")) is not None:
        (folder / "policies.yaml").write_text(policies)
        arguments += ["--policies", str(folder / "policies.yaml")]
    if (snapshot := files.get("snapshot")) is not None:
        (folder / "snapshot.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": snapshot}))
        arguments += ["--snapshot", str(folder / "snapshot.json")]
    return CliRunner().invoke(root, [*arguments, *options])


def list_findings(result: Result) -> list[tuple[str, str, str, str]]:
    """Return level, code, field and message of the findings of `check`."""
    found = json.loads(result.stdout)["findings"]
    return [(each["level"], each["code"], each["field"], each["message"]) for each in found]


def test_check_notes_what_pods_get_and_counts_it(tmp_path: Path) -> None:
    manifests = [NAMESPACE, pod("p"), workload("Deployment", replicas=4), pod("host", hostNetwork=True)]
    result = run(tmp_path, "check -o json", *manifests, policies=POLICIES)
    (_, *note), (_, code, _, message), (_, *deployment_note) = list_findings(result)
    assert note == ["TG122", "spec.containers[0].resources", "the pod gets request and limit 1 of example.com/ip"]
    assert (code, message.startswith("4 replicas request 4 example.com/ip")) == ("TG205", True), message
    assert deployment_note == [
        "TG122",
        "spec.template.spec.containers[0].resources",
        "each pod gets request and limit 1 of example.com/ip; the template stays as it is",
    ]


def test_check_reports_that_labels_are_unknown(tmp_path: Path) -> None:
    ((level, code, _, message),) = list_findings(run(tmp_path, "check -o json", pod("p"), policies=POLICIES))
    assert (level, code) == ("note", "TG408")
    assert message.startswith("implied request one-address-each was not evaluated")


def test_check_evaluates_the_nodes_of_a_snapshot_with_what_is_implied(tmp_path: Path) -> None:
    rule = (
        "---\napiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {name: fits}\n"
        "spec: {resources: [example.com/*], checks: {schedulable: not-now}}\n"
    )
    of_four = [NAMESPACE, node(3)]
    result = run(
        tmp_path, "check -o json", workload("Deployment", replicas=4), policies=OF_ALL + rule, snapshot=of_four
    )
    assert ("error", "TG114") in [each[:2] for each in list_findings(result)]
    result = run(
        tmp_path, "check -o json", workload("Deployment", replicas=3), policies=OF_ALL + rule, snapshot=of_four
    )
    assert [each[:2] for each in list_findings(result)] == [("note", "TG122")]


def test_predict_places_pods_with_what_is_implied(tmp_path: Path) -> None:
    snapshot = [NAMESPACE, node(3)]
    manifests = [workload("Deployment", replicas=4)]
    without = run(tmp_path, "predict", *manifests, snapshot=snapshot)
    assert without.exit_code == 0, without.output
    result = run(tmp_path, "predict", *manifests, snapshot=snapshot, policies=POLICIES)
    assert result.exit_code == 1
    assert "Insufficient example.com/ip" in result.stdout
    assert "not now: 3 of 4 replicas, on n1 (3)" in result.stdout
    assert (
        result.stderr
        == UNKNOWN_DEFAULTS + "tallygate: Deployment team-a/w: each pod gets example.com/ip=1 (one-address-each)\n"
    )


def test_predict_places_a_daemon_set_and_pods_of_the_network_of_the_node(tmp_path: Path) -> None:
    manifests = [workload("DaemonSet"), pod("host", hostNetwork=True), pod("p"), pod("q"), pod("r")]
    result = run(tmp_path, "predict -o json", *manifests, snapshot=[NAMESPACE, node(3)], policies=POLICIES)
    assert [each["verdict"] for each in json.loads(result.stdout)["items"]] == [
        "fits now",
        "fits now",
        "fits now",
        "fits now",
        "not now",
    ]


def test_predict_does_not_guess_by_unknown_labels(tmp_path: Path) -> None:
    result = run(tmp_path, "predict", pod("p"), snapshot=[node(3)], policies=POLICIES)
    assert "implied request one-address-each was not evaluated" in " ".join(result.stdout.split())


def test_a_pod_of_a_cluster_is_placed_as_it_is_stored(tmp_path: Path) -> None:
    stored = pod("p")
    stored["metadata"] |= {"uid": "u"}
    result = run(tmp_path, "predict", stored, snapshot=[NAMESPACE, node(0)], policies=POLICIES)
    assert result.exit_code == 0, result.output
    assert "gets example.com/ip" not in result.stderr


def test_headroom_counts_copies_with_what_is_implied(tmp_path: Path) -> None:
    result = run(tmp_path, "headroom", pod("p"), snapshot=[NAMESPACE, node(3)], policies=POLICIES)
    assert "Pod team-a/p: 3 more fit, on 1 node" in result.stdout


def test_explain_shows_the_sum_with_what_is_implied(tmp_path: Path) -> None:
    result = run(tmp_path, "explain pod -o json", workload("Deployment"), policies=OF_ALL)
    (found,) = json.loads(result.stdout)["items"]
    assert found["requests"][IP]["how"] == "example.com/ip = container 1 = 1"
    assert [(each["cap"], each["amount"]) for each in found["caps"]] == [("addresses", 1)]
    assert "example.com/ip=1 (one-address-each) is implied" in result.stderr
    assert "was not evaluated" in run(tmp_path, "explain pod", pod("p"), policies=POLICIES).stderr


def test_audit_finds_stored_pods_that_lack_what_is_implied(tmp_path: Path) -> None:
    static = {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "x", "controller": True}]}
    has = {"containers": [{"name": "c", "resources": {"requests": {IP: "1"}, "limits": {IP: "1"}}}]}
    snapshot = [
        NAMESPACE,
        node(3),
        create_stored_pod("old"),
        create_stored_pod("host", spec={"hostNetwork": True}),
        create_stored_pod("static", **static),
        create_stored_pod("new", spec=has),
    ]
    result = run(tmp_path, "audit -o json", snapshot=snapshot, policies=POLICIES)
    (found,) = [each for each in json.loads(result.stdout)["findings"] if each["code"] != "TG001"]
    assert (found["level"], found["code"], found["object"]["name"]) == ("warning", "TG121", "old"), found
    assert "it is older than this" in found["message"]


SCENARIO = """\
name: every pod takes an address
policies: [policies.yaml]
namespaces: {team-a: {labels: {net: pods}}, other: {}}
steps:
- create: {pod: p}
  expect:
    filled:
      "spec.containers[0].resources.limits[example.com/ip]": 1
      "spec.containers[0].resources.requests[example.com/ip]": 1
    ledger: [{cap: addresses, reserved: {example.com/ip: 1}}]
- create: {pod: two, resources: {example.com/ip: 2}}
  expect: {filled: {}}
- create: {deployment: web, replicas: 2}
  expect: {pods: {created: 1, missing: 1}, filled: {}}
- create: {pod: elsewhere}
  namespace: other
  expect: {filled: {}}
"""


@pytest.mark.parametrize(("text", "passes"), [(SCENARIO, True), (SCENARIO.replace("created: 1", "created: 2"), False)])
def test_scenarios_create_pods_with_what_is_implied(tmp_path: Path, text: str, *, passes: bool) -> None:
    (tmp_path / "policies.yaml").write_text(POLICIES)
    (tmp_path / "scenario.yaml").write_text(text)
    result = CliRunner().invoke(root, ["test", str(tmp_path / "scenario.yaml")])
    assert (result.exit_code == 0) is passes, result.output


WHOLE = """\
name: a Job that is admitted as a whole reserves the addresses of its pods, and they take them over
policies: [policies.yaml]
steps:
- create: {job: three, replicas: 3}
  expect: {verdict: denied, codes: [TG215], message: its 3 pods request 3 example.com/ip}
- create: {job: two, replicas: 2}
  expect: {pods: {created: 2}, ledger: [{cap: addresses, reserved: {example.com/ip: 2}, free: {example.com/ip: 0}}]}
- create: {pod: late}
  expect: {verdict: denied, codes: [TG201]}
"""


def test_a_workload_as_a_whole_reserves_what_is_implied_for_its_pods(tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text(
        OF_ALL.replace("hard: {example.com/ip: 4}", "admit: whole, hard: {example.com/ip: 2}")
    )
    (tmp_path / "scenario.yaml").write_text(WHOLE)
    result = CliRunner().invoke(root, ["test", str(tmp_path / "scenario.yaml")])
    assert result.exit_code == 0, result.output


def test_an_implied_request_alone_is_a_policy(tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text(OF_ALL.partition("---")[0])
    result = CliRunner().invoke(root, ["lint", str(tmp_path / "policies.yaml")])
    assert (result.exit_code, result.stderr) == (0, "1 policy in 1 file: nothing found\n")
