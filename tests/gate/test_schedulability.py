"""Rules on nodes for pods: advertised resources, and nodes that fit now or ever."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest, settle_devices
from tallygate.accounting.pod_defaults import NO_POD_DEFAULTS, UNKNOWN_POD_DEFAULTS, PodDefaults
from tallygate.objects.scheduling import RuntimeClass, RuntimeClassScheduling, Toleration
from tallygate.review.cluster_snapshot import ClusterSnapshot, FixedSnapshot
from tests.accounting.scheduling.devices import claim, device_slice, request
from tests.gate.gate_fixture import CAP, GPU, GateFixture, pod, read_facts, response
from tests.gate.test_workload_forecast import list_messages, list_warnings, workload

RULE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: placed}
spec: {resources: ["*"], enforcement: %s, checks: {wellFormedName: false, wholeQuantity: false, \
requestsEqualLimits: false, %s}}
"""
POD = {"kind": {"group": "", "kind": "Pod"}}
TOLERATION = Toleration(key="vm", operator="Exists")
NEVER, NOT_NOW, ADVERTISED = "schedulable: never", "schedulable: not-now", "advertised: true"


def cluster(*gpus: int, **spec: Any) -> Cluster:
    """Return a cluster of nodes a, b, c … with the given GPUs."""
    cluster_ = Cluster()
    for name, amount in zip("abcdef", gpus, strict=False):
        allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"} | ({GPU: str(amount)} if amount else {})
        node = {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": allocatable}}
        ingest(cluster_, "Node", json.dumps(node).encode())
    return cluster_


def place_pod(
    cluster_: Cluster, node: str, gpus: int, *, namespace: str = "elsewhere", name: str = "", **spec: Any
) -> None:
    """Place a pod with the given GPUs on a node."""
    body = pod(name or f"on-{node}-{gpus}", gpus, nodeName=node, **spec)
    body["metadata"]["namespace"] = namespace
    ingest(cluster_, "Pod", json.dumps(body).encode())


def create_fixture(cluster_: Cluster, checks: str = NEVER, enforcement: str = "deny") -> GateFixture:
    """Return a gate with one rule and a fixed cluster."""
    return GateFixture(RULE % (enforcement, checks), snapshots=FixedSnapshot(cluster_))


def get_message(fixture: GateFixture, body: dict[str, Any], **request: Any) -> str:
    """Return the message of a denial, or an empty text if the pod is allowed."""
    found = response(fixture.admit(body, **request))
    return "" if found["allowed"] else str(found["status"]["message"])


def get_facts(fixture: GateFixture, body: dict[str, Any], **request: Any) -> str:
    """Return the facts of the message of a denial, or an empty text if the pod is allowed."""
    return read_facts(get_message(fixture, body, **request))


def test_a_pod_larger_than_every_node_is_denied_with_the_largest_node() -> None:
    assert get_facts(create_fixture(cluster(4, 2)), pod("u", 5)) == f"5 {GPU} 4 TG113"


def test_a_pod_that_waits_for_others_can_run_later() -> None:
    full = cluster(4)
    place_pod(full, "a", 4)
    assert get_message(create_fixture(full), pod("u", 1)) == ""
    assert get_facts(create_fixture(full, NOT_NOW), pod("u", 1)) == (
        f"0/1 nodes are available: 1 Insufficient {GPU}. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod TG114"
    )


def test_a_preemption_is_warned_about_and_not_denied() -> None:
    full = cluster(4)
    place_pod(full, "a", 4, priority=0)
    assert list_messages(create_fixture(full, NOT_NOW), pod("u", 1, priority=10), **POD) == [
        (
            "spec: no node is feasible for this pod now; the scheduler can preempt pods of lower priority: "
            "1 of other namespaces on node a, for example (TG115, rule placed)"
        )
    ]
    assert "TG114" in get_message(create_fixture(full, NOT_NOW), pod("u", 1, priority=10, preemptionPolicy="Never"))
    assert "TG114" in get_message(create_fixture(full, NOT_NOW), pod("u", 1, priority=0))


def test_a_warning_names_only_victims_of_the_own_namespace() -> None:
    full = cluster(5)
    for number in range(5):
        place_pod(full, "a", 1, priority=0, namespace="team-a" if number < 4 else "elsewhere", name=f"old-{number}")
    (warning,) = list_warnings(create_fixture(full, NOT_NOW, "warn"), pod("u", 5, priority=10), **POD)
    assert "old-0 old-1 old-2 2 TG115" in warning
    found = response(create_fixture(full, NOT_NOW, "audit").admit(pod("u", 2, priority=10)))
    assert "old-3 1 TG115" in read_facts(found["auditAnnotations"]["audit"])


def set_priority(body: dict[str, Any]) -> dict[str, Any]:
    """Set the priority of the pods of a workload to 10, and return it."""
    body["spec"]["template"]["spec"]["priority"] = 10
    return body


def test_a_workload_is_warned_how_many_replicas_fit_without_preemption() -> None:
    full = cluster(4, 2)
    place_pod(full, "a", 2, priority=0)
    (warning,) = list_warnings(create_fixture(full, NOT_NOW), set_priority(workload(2, replicas=3)))
    assert warning == "spec.template.spec: 2 3 1 TG115"


def test_a_daemon_set_is_warned_about_preemption_too() -> None:
    full = cluster(2, 2)
    place_pod(full, "b", 2, priority=0)
    body = set_priority(workload(1)) | {"kind": "DaemonSet"}
    (warning,) = list_warnings(create_fixture(full, NOT_NOW), body, kind={"group": "apps", "kind": "DaemonSet"})
    assert warning == "spec.template.spec: 1 2 1 TG115"


def test_tainted_nodes_are_reported_in_the_words_of_the_scheduler() -> None:
    tainted = cluster(4, 4, taints=[{"key": "only", "value": "x", "effect": "NoSchedule"}])
    assert (
        get_facts(create_fixture(tainted), pod("u", 1))
        == "0/2 nodes are available: 2 node(s) had untolerated taint(s) TG113"
    )


def test_an_unadvertised_resource_is_reported_with_the_closest_one_and_its_nodes() -> None:
    body = pod("u", 1)
    body["spec"]["containers"][0]["resources"] = {"limits": {f"{GPU}s": "1"}}
    assert get_message(create_fixture(cluster(4, 2), f"{ADVERTISED}, {NEVER}"), body) == (
        f'Pod "p": spec.containers[0].resources.limits[{GPU}s]: no node advertises {GPU}s: did you mean {GPU}? '
        "nodes a, b advertise it (TG112, rule placed)"
    )


def test_an_unadvertised_resource_without_a_similar_one_gets_no_suggestion() -> None:
    body = pod("u", 1)
    body["spec"]["containers"][0]["resources"] = {"limits": {"example.org/licence": "1"}}
    assert get_facts(create_fixture(cluster(4), ADVERTISED), body).endswith(" example.org/licence TG112")


@pytest.mark.parametrize("enforcement", ["warn", "audit"])
def test_weaker_rules_accept_the_pod_with_a_message(enforcement: str) -> None:
    found = response(create_fixture(cluster(4), enforcement=enforcement).admit(pod("u", 5)))
    messages = found.get("warnings") or [found["auditAnnotations"]["audit"]]
    assert found["allowed"]
    assert [f"5 {GPU} 4 TG113" in read_facts(each) for each in messages] == [True]
    assert found["auditAnnotations"]["cluster-age"] == "0.0s"


def test_a_workload_is_warned_how_many_replicas_fit() -> None:
    assert list_warnings(create_fixture(cluster(4, 2), NOT_NOW, "warn"), workload(2, replicas=5)) == [
        (
            f"spec.template.spec: 3 5 0/2 nodes are available: 2 Insufficient {GPU}. "
            "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod TG114"
        )
    ]
    assert list_warnings(create_fixture(cluster(4, 2), NOT_NOW, "warn"), workload(2, replicas=3)) == []


def test_a_change_of_a_workload_is_evaluated_by_its_growth() -> None:
    full = cluster(4)
    place_pod(full, "a", 3)
    old = workload(1, replicas=3)
    fixture = create_fixture(full, NOT_NOW, "warn")
    assert list_warnings(fixture, workload(1, replicas=3, paused=True), oldObject=old) == []
    assert list_warnings(fixture, workload(1, replicas=2), oldObject=old) == []
    (warning,) = list_warnings(fixture, workload(1, replicas=5), oldObject=old)
    assert warning.startswith("spec.template.spec: 1 2 fits 0/1 nodes are available")
    (never,) = list_warnings(fixture, workload(5, replicas=3), oldObject=old)
    assert never == f"spec.template.spec: 5 {GPU} 4 TG113"
    assert list_warnings(fixture, workload(2, replicas=3), oldObject=old) == []


def test_a_daemon_set_is_evaluated_on_its_eligible_nodes() -> None:
    body = workload(3) | {"kind": "DaemonSet"}
    kind = {"kind": {"group": "apps", "kind": "DaemonSet"}}
    assert get_message(create_fixture(cluster(4, 4)), body, **kind) == ""
    assert "no eligible node can ever run this pod: 0/2 nodes" in get_message(
        create_fixture(cluster(2, 2)), body, **kind
    )
    assert get_message(create_fixture(cluster(4, 2)), body, **kind) == ""
    assert "only 1 of 2 eligible nodes can run its pod now" in (
        get_message(create_fixture(cluster(4, 2), NOT_NOW), body, **kind)
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "a"},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"resourceClaims": [{"name": "c", "resourceClaimName": "d"}]},
        {"schedulerName": "another"},
    ],
    ids=["on a node already", "with a volume claim", "with a device claim", "for another scheduler"],
)
def test_a_pod_that_cannot_be_evaluated_gets_no_message(spec: dict[str, Any]) -> None:
    assert get_message(create_fixture(cluster(4), NOT_NOW), pod("u", 5, **spec)) == ""


def test_a_pod_with_scheduling_gates_is_denied_only_if_it_can_never_run() -> None:
    full = cluster(4)
    place_pod(full, "a", 4)
    gates = {"schedulingGates": [{"name": "g"}]}
    assert get_message(create_fixture(full, NOT_NOW), pod("u", 1, **gates)) == ""
    assert "TG113" in get_message(create_fixture(full, NOT_NOW), pod("u", 5, **gates))


def test_a_workload_with_volume_claims_is_warned_only_if_it_can_never_run() -> None:
    fixture = create_fixture(cluster(4), NOT_NOW, "warn")
    claims: dict[str, Any] = {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    assert list_warnings(fixture, workload(1, "StatefulSet", replicas=5, **claims)) == []
    assert "TG113" in list_warnings(fixture, workload(5, "StatefulSet", replicas=5, **claims))[0]
    assert " 4 5 0/1 " in list_warnings(fixture, workload(1, "StatefulSet", replicas=5, volumeClaimTemplates=[]))[0]


def test_a_resource_of_a_device_class_needs_no_advertising_node() -> None:
    body = pod("u", 1)
    body["spec"]["containers"][0]["resources"] = {"limits": {"deviceclass.resource.kubernetes.io/gpu": "1"}}
    assert get_message(create_fixture(cluster(4), f"{ADVERTISED}, {NEVER}"), body) == ""


def add_device_class(cluster_: Cluster, name: str, resource: str = "") -> None:
    """Add a DeviceClass with its extended resource."""
    body = {"metadata": {"name": name}, "spec": {"extendedResourceName": resource} if resource else {}}
    ingest(cluster_, "DeviceClass", json.dumps(body).encode())


def create_pod(name: str) -> dict[str, Any]:
    """Return a pod that requests one unit of a resource."""
    body = pod("u", 1)
    body["spec"]["containers"][0]["resources"] = {"limits": {name: "1"}}
    return body


def test_the_extended_resource_of_a_device_class_needs_no_advertising_node() -> None:
    cluster_ = cluster(4)
    add_device_class(cluster_, "dongles", "example.com/dongle")
    fixture = create_fixture(cluster_, f"{ADVERTISED}, {NOT_NOW}")
    assert get_message(fixture, create_pod("example.com/dongle")) == ""
    assert get_message(fixture, create_pod("deviceclass.resource.kubernetes.io/dongles")) == ""
    assert get_facts(fixture, create_pod("example.com/dongles")).endswith(" example.com/dongles TG112")
    assert "dongles? (TG112" in get_message(fixture, create_pod("deviceclass.resource.kubernetes.io/dongle"))
    cluster_.device_classes.remove("dongles")
    assert get_facts(fixture, create_pod("example.com/dongle")).endswith(" example.com/dongle TG112")


def test_unknown_device_classes_allow_resources_that_no_node_advertises() -> None:
    snapshots = FixedSnapshot(cluster(4), has_devices=False)
    fixture = GateFixture(RULE % ("deny", f"{ADVERTISED}, {NOT_NOW}"), snapshots=snapshots)
    assert get_message(fixture, create_pod("example.com/dongle")) == ""
    assert "TG113" in get_message(fixture, pod("u", 5))


@pytest.mark.parametrize(
    ("checks", "devices", "claim_name", "expected"),
    [
        pytest.param(NOT_NOW, 2, "two", "", id="enough devices"),
        pytest.param(NEVER, 1, "two", "0/1 nodes are available: 1 cannot", id="too few"),
        pytest.param(NOT_NOW, 2, "missing", "", id="a claim that may be stored after the pod"),
    ],
)
def test_a_pod_with_a_claim_is_compared_with_known_devices(
    checks: str, devices: int, claim_name: str, expected: str
) -> None:
    cluster_ = cluster(4)
    add_device_class(cluster_, "gpu")
    published = device_slice("a", [f"d{number}" for number in range(devices)])
    for each in (published, claim("two", request(count=2), metadata={"namespace": "team-a"})):
        ingest(cluster_, each["kind"], json.dumps(each).encode())
    settle_devices(cluster_, ())
    body = pod("u", 1, resourceClaims=[{"name": "gpus", "resourceClaimName": claim_name}])
    message = get_message(create_fixture(cluster_, checks), body)
    assert expected in message if expected else message == ""


def test_an_undecodable_pod_gets_no_message() -> None:
    assert get_message(create_fixture(cluster(4)), pod("u", 5, tolerations=7)) == ""
    assert (
        list_warnings(create_fixture(cluster(4)), workload(5) | {"spec": {"template": pod("", 5, affinity=[])}}) == []
    )


def test_a_change_of_a_stored_pod_is_not_evaluated() -> None:
    assert get_message(create_fixture(cluster(4)), pod("u", 5), oldObject=pod("u", 5, priority=1)) == ""


def test_a_pod_with_too_many_terms_is_not_evaluated_and_warned_why() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn"}]}}
    terms = [
        json.loads(json.dumps(term).replace('"NotIn"', f'"NotIn", "values": ["v{number}"]')) for number in range(20_000)
    ]
    body = pod("u", 5, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    assert len(json.dumps(body)) > 1_500_000
    decision = create_fixture(cluster(4), NOT_NOW).admit(body)
    text = "rule placed was not evaluated: the pod's constraints on nodes and other pods are too complex"
    assert (response(decision)["warnings"], decision.record.unknown, decision.record.verdict) == (
        [text],
        (text,),
        "allow",
    )


def test_a_gate_without_nodes_or_a_cluster_sends_no_message() -> None:
    assert get_message(create_fixture(Cluster(), f"{ADVERTISED}, {NOT_NOW}"), pod("u", 5)) == ""
    assert get_message(GateFixture(RULE % ("deny", f"{ADVERTISED}, {NOT_NOW}")), pod("u", 5)) == ""


class UnknownCluster:
    """A provider whose cluster is unknown at present."""

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:
        """Yield None: the cluster is unknown."""
        assert pods
        yield None

    def request_devices(self) -> None:
        """Do nothing."""


def test_an_unknown_cluster_sends_no_message() -> None:
    assert get_message(GateFixture(RULE % ("deny", NOT_NOW), snapshots=UnknownCluster()), pod("u", 5)) == ""


def test_a_rule_applies_to_pods_that_request_its_resources() -> None:
    rule = RULE.replace('["*"]', f"[{GPU}]") % ("deny", NEVER)
    body = pod("u", 1)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9"}}
    assert get_message(GateFixture(rule, snapshots=FixedSnapshot(cluster(4))), body) == ""
    assert "TG113" in get_message(GateFixture(rule, snapshots=FixedSnapshot(cluster(4))), pod("u", 5))


def test_the_cluster_is_unchanged_afterwards() -> None:
    cluster_ = cluster(4, 4)
    for _ in range(2):
        assert list_warnings(create_fixture(cluster_, NOT_NOW, "warn"), workload(2, replicas=4)) == []
    assert len(cluster_) == 0


@pytest.mark.parametrize(
    ("defaults", "expected"),
    [
        pytest.param(NO_POD_DEFAULTS, "TG113", id="no class has tolerations"),
        pytest.param(
            PodDefaults(
                runtime_classes={"vm": RuntimeClass(scheduling=RuntimeClassScheduling(tolerations=[TOLERATION]))}
            ),
            "",
            id="the class has the toleration",
        ),
        pytest.param(
            UNKNOWN_POD_DEFAULTS,
            "rule placed was not evaluated: RuntimeClass vm is not known here",
            id="the classes are unknown",
        ),
    ],
)
def test_no_denial_hangs_on_a_runtime_class_that_is_unknown(defaults: PodDefaults, expected: str) -> None:
    tainted = cluster(4, taints=[{"key": "vm", "effect": "NoSchedule"}])
    fixture = GateFixture(RULE % ("warn", NEVER), snapshots=FixedSnapshot(tainted), pod_defaults=defaults)
    body = workload(1)
    body["spec"]["template"]["spec"]["runtimeClassName"] = "vm"
    kind = {"group": "apps", "kind": "Deployment"}
    warnings = response(fixture.admit(body, kind=kind, name="w")).get("warnings", [])
    assert [expected in each for each in warnings] == ([True] if expected else [])


@pytest.mark.parametrize(
    ("old", "snapshots", "expected"),
    [
        pytest.param(None, FixedSnapshot(cluster(4, 4, 4)), f"3 6 {GPU}", id="one pod on each node"),
        pytest.param(None, FixedSnapshot(cluster(4, 4)), "", id="two nodes"),
        pytest.param(None, FixedSnapshot(cluster()), "", id="no node"),
        pytest.param(None, None, "DaemonSet", id="the nodes are not known"),
        pytest.param(2, None, "", id="a change that requests no more on unknown nodes"),
        pytest.param(1, None, "DaemonSet", id="a change that requests more on unknown nodes"),
        pytest.param(2, FixedSnapshot(cluster(4, 4, 4)), "", id="a change that requests no more"),
        pytest.param(1, FixedSnapshot(cluster(4, 4, 4)), f"3 6 {GPU}", id="a change that requests more"),
    ],
)
@pytest.mark.parametrize("workloads", ["warn", "deny"])
def test_the_pods_of_a_daemon_set_are_those_of_the_nodes(
    old: int | None, snapshots: FixedSnapshot | None, expected: str, workloads: str
) -> None:
    fixture = GateFixture(f"{CAP}  workloads: {workloads}\n", snapshots=snapshots)
    before: dict[str, Any] = {} if old is None else {"oldObject": workload(old, "DaemonSet")}
    kind = {"group": "apps", "kind": "DaemonSet"}
    result = response(fixture.admit(workload(2, "DaemonSet"), kind=kind, name="w", **before))
    assert result["allowed"] == (not expected or workloads == "warn" or snapshots is None)
    messages = result.get("warnings", []) if result["allowed"] else [result["status"]["message"]]
    assert [expected in read_facts(each) for each in messages] == ([True] if expected else [])
