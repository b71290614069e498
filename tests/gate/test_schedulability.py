"""Rules that ask whether there are nodes for pods: names that are advertised, and room ever, or now."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.gate.scene import GPU, Scene, pod, response
from tests.gate.test_workload_forecast import told, workload
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.ingest import ingest
from webhook.gate.schedulability import ClusterSnapshot, FixedSnapshot

RULE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: placed}
spec: {resources: ["*"], enforcement: %s, checks: {wellFormedName: false, wholeQuantity: false, \
requestsEqualLimits: false, %s}}
"""
POD = {"kind": {"group": "", "kind": "Pod"}}
NEVER, NOT_NOW, ADVERTISED = "schedulable: never", "schedulable: not-now", "advertised: true"


def cluster(*gpus: int, **spec: Any) -> Cluster:
    """Nodes with so many GPUs each, named a, b, c."""
    made = Cluster()
    for name, amount in zip("abcdef", gpus, strict=False):
        allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"} | ({GPU: str(amount)} if amount else {})
        node = {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": allocatable}}
        ingest(made, "Node", json.dumps(node).encode())
    return made


def hold(made: Cluster, node: str, gpus: int, *, namespace: str = "elsewhere", name: str = "", **spec: Any) -> None:
    """Put a pod with so many GPUs on a node."""
    body = pod(name or f"on-{node}-{gpus}", gpus, nodeName=node, **spec)
    body["metadata"]["namespace"] = namespace
    ingest(made, "Pod", json.dumps(body).encode())


def scene(made: Cluster, checks: str = NEVER, enforcement: str = "deny") -> Scene:
    """A gate with one rule, beside this cluster."""
    return Scene(RULE % (enforcement, checks), placing=FixedSnapshot(made))


def refused(made: Scene, body: dict[str, Any], **request: Any) -> str:
    """The message of a refusal."""
    found = response(made.admit(body, **request))
    return "" if found["allowed"] else str(found["status"]["message"])


def test_a_pod_larger_than_every_node_is_told_the_largest() -> None:
    assert refused(scene(cluster(4, 2)), pod("u", 5)) == (
        f'Pod "p": spec: no node can ever run this pod: it requests 5 {GPU}, the largest node has 4 '
        "(TG113, rule placed)"
    )


def test_a_pod_that_waits_for_others_is_none_that_can_never_run() -> None:
    full = cluster(4)
    hold(full, "a", 4)
    assert refused(scene(full), pod("u", 1)) == ""
    assert refused(scene(full, NOT_NOW), pod("u", 1)) == (
        f'Pod "p": spec: no node is feasible for this pod now: 0/1 nodes are available: 1 Insufficient {GPU}. '
        "no new claims to deallocate, preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod (TG114, rule placed)"
    )


def test_who_will_be_asked_to_make_room_is_told_and_nothing_is_refused_for_it() -> None:
    full = cluster(4)
    hold(full, "a", 4, priority=0)
    assert told(scene(full, NOT_NOW), pod("u", 1, priority=10), **POD) == [
        (
            "spec: no node is feasible for this pod now; the scheduler can preempt pods of lower priority: "
            "1 of other namespaces on node a, for example (TG115, rule placed)"
        )
    ]
    assert "TG114" in refused(scene(full, NOT_NOW), pod("u", 1, priority=10, preemptionPolicy="Never"))
    assert "TG114" in refused(scene(full, NOT_NOW), pod("u", 1, priority=0))


def test_of_those_who_will_be_asked_to_leave_only_pods_of_ones_own_namespace_are_named() -> None:
    full = cluster(5)
    for number in range(5):
        hold(full, "a", 1, priority=0, namespace="team-a" if number else "elsewhere", name=f"old-{number}")
    (warning,) = told(scene(full, NOT_NOW, "warn"), pod("u", 5, priority=10), **POD)
    assert "lower priority: old-1, old-2, old-3 and 2 more on node a, for example (TG115" in warning
    found = response(scene(full, NOT_NOW, "audit").admit(pod("u", 2, priority=10)))
    assert "old-1 and 1 more on node a, for example (TG115" in found["auditAnnotations"]["audit"]


def ranked(body: dict[str, Any]) -> dict[str, Any]:
    """A workload whose pods are of priority 10."""
    body["spec"]["template"]["spec"]["priority"] = 10
    return body


def test_a_workload_is_told_for_how_many_replicas_others_are_asked_to_leave() -> None:
    full = cluster(4, 2)
    hold(full, "a", 2, priority=0)
    (warning,) = told(scene(full, NOT_NOW), ranked(workload(2, replicas=3)))
    assert "spec.template.spec: only 2 of 3 replicas fit now; the scheduler can preempt" in warning
    assert "1 of other namespaces on node a, for example (TG115" in warning


def test_a_daemon_set_is_told_too_that_others_are_asked_to_leave() -> None:
    full = cluster(2, 2)
    hold(full, "b", 2, priority=0)
    body = ranked(workload(1)) | {"kind": "DaemonSet"}
    (warning,) = told(scene(full, NOT_NOW), body, kind={"group": "apps", "kind": "DaemonSet"})
    assert "only 1 of 2 eligible nodes can run its pod now; the scheduler can preempt" in warning


def test_nodes_that_let_nobody_in_are_told_in_the_schedulers_words() -> None:
    tainted = cluster(4, 4, taints=[{"key": "only", "value": "x", "effect": "NoSchedule"}])
    assert "no node can ever run this pod: 0/2 nodes are available: 2 node(s) had untolerated taint(s) (TG113" in (
        refused(scene(tainted), pod("u", 1))
    )


def test_a_name_that_no_node_has_is_told_the_nearest_one_and_who_has_it() -> None:
    body = pod("u", 1)
    body["spec"]["containers"][0]["resources"] = {"limits": {f"{GPU}s": "1"}}
    assert refused(scene(cluster(4, 2), f"{ADVERTISED}, {NEVER}"), body) == (
        f'Pod "p": spec.containers[0].resources.limits[{GPU}s]: no node advertises {GPU}s: did you mean {GPU}? '
        "nodes a, b advertise it (TG112, rule placed)"
    )


def test_a_name_like_no_other_is_told_without_a_suggestion() -> None:
    body = pod("u", 1)
    body["spec"]["containers"][0]["resources"] = {"limits": {"example.org/licence": "1"}}
    assert "no node advertises example.org/licence, so no node can run this pod (TG112" in (
        refused(scene(cluster(4), ADVERTISED), body)
    )


@pytest.mark.parametrize("enforcement", ["warn", "audit"])
def test_weaker_rules_let_it_in_and_say_so(enforcement: str) -> None:
    found = response(scene(cluster(4), enforcement=enforcement).admit(pod("u", 5)))
    said = found.get("warnings") or [found["auditAnnotations"]["audit"]]
    assert found["allowed"]
    assert [f"it requests 5 {GPU}, the largest node has 4 (TG113, rule placed)" in each for each in said] == [True]
    assert found["auditAnnotations"]["cluster-age"] == "0.0s"


def test_a_workload_is_told_how_many_of_its_replicas_fit() -> None:
    assert told(scene(cluster(4, 2), NOT_NOW, "warn"), workload(2, replicas=5)) == [
        (
            f"spec.template.spec: only 3 of 5 replicas fit now: 0/2 nodes are available: 2 Insufficient {GPU}. "
            "no new claims to deallocate, preemption: 0/2 nodes are available: "
            "2 No preemption victims found for incoming pod (TG114, rule placed)"
        )
    ]
    assert told(scene(cluster(4, 2), NOT_NOW, "warn"), workload(2, replicas=3)) == []


def test_a_change_of_a_workload_is_judged_by_what_it_adds() -> None:
    full = cluster(4)
    hold(full, "a", 3)
    old = workload(1, replicas=3)
    asked = scene(full, NOT_NOW, "warn")
    assert told(asked, workload(1, replicas=3, paused=True), oldObject=old) == []
    assert told(asked, workload(1, replicas=2), oldObject=old) == []
    (warning,) = told(asked, workload(1, replicas=5), oldObject=old)
    assert "only 1 of 2 more replicas fits now: 0/1 nodes" in warning
    (never,) = told(asked, workload(5, replicas=3), oldObject=old)
    assert f"no node can ever run this pod: it requests 5 {GPU}, the largest node has 4" in never
    assert told(asked, workload(2, replicas=3), oldObject=old) == []


def test_a_daemon_set_is_judged_by_the_nodes_that_are_to_have_it() -> None:
    body = workload(3) | {"kind": "DaemonSet"}
    kind = {"kind": {"group": "apps", "kind": "DaemonSet"}}
    assert refused(scene(cluster(4, 4)), body, **kind) == ""
    assert "no eligible node can ever run this pod: 0/2 nodes" in refused(scene(cluster(2, 2)), body, **kind)
    assert refused(scene(cluster(4, 2)), body, **kind) == ""
    assert "only 1 of 2 eligible nodes can run its pod now" in (refused(scene(cluster(4, 2), NOT_NOW), body, **kind))


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "a"},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"resourceClaims": [{"name": "c", "resourceClaimName": "d"}]},
        {"schedulerName": "another"},
    ],
    ids=["on a node already", "with a claim", "with a device", "for another scheduler"],
)
def test_of_what_cannot_be_judged_nothing_is_said(spec: dict[str, Any]) -> None:
    assert refused(scene(cluster(4), NOT_NOW), pod("u", 5, **spec)) == ""


def test_a_pod_that_is_held_back_is_told_what_can_never_be_only() -> None:
    full = cluster(4)
    hold(full, "a", 4)
    gates = {"schedulingGates": [{"name": "g"}]}
    assert refused(scene(full, NOT_NOW), pod("u", 1, **gates)) == ""
    assert "TG113" in refused(scene(full, NOT_NOW), pod("u", 5, **gates))


def test_a_workload_that_makes_claims_is_told_what_can_never_be_only() -> None:
    made = scene(cluster(4), NOT_NOW, "warn")
    claims: dict[str, Any] = {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    assert told(made, workload(1, "StatefulSet", replicas=5, **claims)) == []
    assert "TG113" in told(made, workload(5, "StatefulSet", replicas=5, **claims))[0]
    assert "only 4 of 5" in told(made, workload(1, "StatefulSet", replicas=5, volumeClaimTemplates=[]))[0]


def test_devices_that_are_named_by_their_class_are_no_business_of_nodes() -> None:
    body = pod("u", 1)
    body["spec"]["containers"][0]["resources"] = {"limits": {"deviceclass.resource.kubernetes.io/gpu": "1"}}
    assert refused(scene(cluster(4), f"{ADVERTISED}, {NEVER}"), body) == ""


def class_of_devices(made: Cluster, name: str, resource: str = "") -> None:
    """A DeviceClass, and the extended resource that it stands for."""
    body = {"metadata": {"name": name}, "spec": {"extendedResourceName": resource} if resource else {}}
    ingest(made, "DeviceClass", json.dumps(body).encode())


def asking(name: str) -> dict[str, Any]:
    """A pod that asks for one of these."""
    body = pod("u", 1)
    body["spec"]["containers"][0]["resources"] = {"limits": {name: "1"}}
    return body


def test_what_a_device_class_stands_for_is_no_business_of_nodes() -> None:
    made = cluster(4)
    class_of_devices(made, "dongles", "example.com/dongle")
    asked = scene(made, f"{ADVERTISED}, {NOT_NOW}")
    assert refused(asked, asking("example.com/dongle")) == ""
    assert refused(asked, asking("deviceclass.resource.kubernetes.io/dongles")) == ""
    assert "no node advertises example.com/dongles, so no" in refused(asked, asking("example.com/dongles"))
    assert "DeviceClass dongle does not exist, so no node can run this pod (TG112" in (
        refused(asked, asking("deviceclass.resource.kubernetes.io/dongle"))
    )
    made.device_classes.remove("dongles")
    assert "no node advertises example.com/dongle, so no" in refused(asked, asking("example.com/dongle"))


def test_while_device_classes_are_not_known_nothing_is_said_of_what_they_may_stand_for() -> None:
    placing = FixedSnapshot(cluster(4), has_devices=False)
    asked = Scene(RULE % ("deny", f"{ADVERTISED}, {NOT_NOW}"), placing=placing)
    assert refused(asked, asking("example.com/dongle")) == ""
    assert "TG113" in refused(asked, pod("u", 5))


def test_of_a_pod_that_no_api_server_could_decode_nothing_is_said() -> None:
    assert refused(scene(cluster(4)), pod("u", 5, tolerations=7)) == ""
    assert told(scene(cluster(4)), workload(5) | {"spec": {"template": pod("", 5, affinity=[])}}) == []


def test_a_change_of_a_pod_that_is_there_is_not_judged() -> None:
    assert refused(scene(cluster(4)), pod("u", 5), oldObject=pod("u", 5, priority=1)) == ""


def test_a_pod_with_too_much_to_say_of_others_is_not_judged_and_it_is_told_why() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn"}]}}
    terms = [
        json.loads(json.dumps(term).replace('"NotIn"', f'"NotIn", "values": ["v{number}"]')) for number in range(20_000)
    ]
    body = pod("u", 5, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    assert len(json.dumps(body)) > 1_500_000
    answer = scene(cluster(4), NOT_NOW).admit(body)
    text = "rule placed was not evaluated: the pod's constraints on nodes and other pods are too complex"
    assert (response(answer)["warnings"], answer.record.unknown, answer.record.verdict) == ([text], (text,), "allow")


def test_without_nodes_or_without_a_cluster_nothing_is_said() -> None:
    assert refused(scene(Cluster(), f"{ADVERTISED}, {NOT_NOW}"), pod("u", 5)) == ""
    assert refused(Scene(RULE % ("deny", f"{ADVERTISED}, {NOT_NOW}")), pod("u", 5)) == ""


class Unseen:
    """A cluster that is not known now, when it comes to it."""

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:
        """Nothing."""
        assert pods
        yield None


def test_while_the_cluster_is_not_known_nothing_is_said() -> None:
    assert refused(Scene(RULE % ("deny", NOT_NOW), placing=Unseen()), pod("u", 5)) == ""


def test_a_rule_is_about_pods_that_ask_for_what_it_names() -> None:
    rule = RULE.replace('["*"]', f"[{GPU}]") % ("deny", NEVER)
    body = pod("u", 1)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9"}}
    assert refused(Scene(rule, placing=FixedSnapshot(cluster(4))), body) == ""
    assert "TG113" in refused(Scene(rule, placing=FixedSnapshot(cluster(4))), pod("u", 5))


def test_the_cluster_is_as_before_afterwards() -> None:
    made = cluster(4, 4)
    for _ in range(2):
        assert told(scene(made, NOT_NOW, "warn"), workload(2, replicas=4)) == []
    assert len(made) == 0
