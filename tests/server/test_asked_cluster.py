"""The live state for asks: complete, without the events of watches meanwhile, and with what is not known."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from threading import Event
from typing import Any

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.cluster.pod_groups import parse_feature_gates
from tallygate.admission.cap_index import CapIndex
from tallygate.answers.answer_json import VisibleNames
from tallygate.answers.device_hours import Grouping
from tallygate.answers.live_hours import HoursQuestion
from tallygate.cluster.cap_ledger_list import LEDGERS_PATH
from tallygate.kube.config import load_kubeconfig
from tallygate.policy.model import PolicySet
from tallygate.server.asking.answerer import Answerer
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.ask_request import read_objects
from tallygate.server.controllers.asked_cluster import AskedCluster
from tallygate.state.kubernetes.cap_ledger import encode_ledger
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ports import LedgerKey
from tests.accounting.scheduling.devices import claim, device_class, device_slice
from tests.answers.asked_clusters import read_policies
from tests.answers.device_histories import format_seconds
from tests.kube.kubeconfig import write_kubeconfig
from tests.server.asking.review_answers import catch_ask_error
from tests.server.process import eventually
from tests.server.small_cluster import SmallCluster, run_small_cluster

CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: cpus}
spec: {namespaces: {include: [team-a]}, hard: {cpu: 4}}
"""
RESOURCE = "resource.k8s.io/v1"
EMPTY = (
    *("/api/v1/resourcequotas", "/api/v1/limitranges"),
    *("/apis/scheduling.k8s.io/v1/priorityclasses", "/apis/node.k8s.io/v1/runtimeclasses"),
    *(f"/apis/{RESOURCE}/{plural}" for plural in ("resourceclaimtemplates", "devicetaintrules")),
)
ASKED = b"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: team-a}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: team-a}
spec:
  containers: [{name: main, image: x, resources: {requests: {cpu: 1}}}]
  resourceClaims: [{name: g, resourceClaimTemplateName: one}]
---
apiVersion: v1
kind: Pod
metadata: {name: second, namespace: team-a}
spec:
  containers: [{name: main, image: x, resources: {requests: {cpu: 1}}}]
  resourceClaims: [{name: g, resourceClaimTemplateName: one}]
---
apiVersion: v1
kind: Pod
metadata: {name: third, namespace: team-a}
spec: {containers: [{name: main, image: x, resources: {requests: {cpu: 2}}}]}
"""


def store(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object with the identity that an API server gives it."""
    meta = item["metadata"]
    return item | {"metadata": {"uid": f"uid-{meta['name']}", "resourceVersion": "7", **meta}}


def create_objects() -> dict[str, list[dict[str, Any]]]:
    """Return the namespaces, nodes and pods of a small cluster."""
    allocatable = {"allocatable": {"cpu": "5", "pods": "10"}}
    busy = {"requests": {"cpu": "1"}}
    spec = {"nodeName": "a", "containers": [{"name": "main", "image": "x", "resources": busy}]}
    return {
        "namespaces": [store({"metadata": {"name": "team-a"}})],
        "nodes": [store({"metadata": {"name": "a"}, "status": allocatable})],
        "pods": [store({"metadata": {"name": "busy", "namespace": "team-b"}, "spec": spec})],
    }


@contextmanager
def run_objects() -> Iterator[SmallCluster]:
    """Yield a small cluster with two devices, one of them allocated."""
    with run_small_cluster(**create_objects()) as cluster:
        cluster.objects |= {path: [] for path in EMPTY}
        taken = claim("taken", allocated=["a/d0"], pods=["busy"])
        cluster.objects |= {
            f"/apis/{RESOURCE}/deviceclasses": [store(device_class())],
            f"/apis/{RESOURCE}/resourceslices": [store(device_slice("a", ["d0", "d1"]))],
            f"/apis/{RESOURCE}/resourceclaims": [store(taken)],
        }
        yield cluster


@contextmanager
def run_cluster(folder: Path) -> Iterator[tuple[SmallCluster, AskedCluster]]:
    """Yield a small cluster, and its state for asks."""
    with run_objects() as cluster:
        yield cluster, AskedCluster(load_kubeconfig(write_kubeconfig(folder, cluster.server)))


def answer(asked: AskedCluster) -> dict[str, Any]:
    """Return the answer about the objects."""
    answerer = Answerer(asked.open_state, PolicySet, lambda: 0.0)
    content: dict[str, Any] = json.loads(answerer.answer(read_objects(ASKED), "team-a", VisibleNames()))
    return content


def is_known(asked: AskedCluster) -> bool:
    """Return whether the state and its devices are known."""
    try:
        with asked.open_state(1.0) as opened:
            return opened.state.require_columns().devices is not None
    except AskError:
        return False


def test_an_ask_is_answered_over_what_is_stored_each_time_alike(tmp_path: Path) -> None:
    with run_cluster(tmp_path) as (_, asked):
        asked.start()
        try:
            assert eventually(lambda: is_known(asked))
            first, second = answer(asked), answer(asked)
        finally:
            asked.stop()
    verdicts = [each["verdict"] for item in first["objects"] for each in item["predictions"]]
    assert (verdicts, first["revision"]) == (["fits now", "not now", "fits now"], "100")
    assert first["objects"] == second["objects"]


GROUPS = "/apis/scheduling.k8s.io/v1beta1/podgroups"
GANG = b"""
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: gang, namespace: team-a}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: team-a}
spec:
  schedulingGroup: {podGroupName: gang}
  containers: [{name: main, image: x, resources: {requests: {cpu: 5}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: small, namespace: team-a}
spec:
  schedulingGroup: {podGroupName: gang}
  containers: [{name: main, image: x, resources: {requests: {cpu: 1}}}]
"""
TRIED = {
    **store({"metadata": {"name": "tried", "namespace": "team-a"}}),
    "status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]},
}


def list_gang_verdicts(asked: AskedCluster, body: bytes = GANG) -> list[str]:
    """Return the verdicts on the pods of the gang."""
    answerer = Answerer(asked.open_state, PolicySet, lambda: 0.0)
    content = json.loads(answerer.answer(read_objects(body), "team-a", VisibleNames()))
    return [each["verdict"] for item in content["objects"] for each in item["predictions"]]


def test_the_pods_of_a_group_are_placed_together_where_pod_groups_are_served(tmp_path: Path) -> None:
    with run_cluster(tmp_path) as (cluster, asked):
        cluster.objects[GROUPS] = [TRIED]
        asked.start()
        try:
            assert eventually(lambda: asked.check().ready)
            verdicts = [list_gang_verdicts(asked), list_gang_verdicts(asked, GANG.replace(b"cpu: 5", b"cpu: 2"))]
        finally:
            asked.stop()
    assert verdicts == [["not now", "not now"], ["fits now", "fits now"]]


def test_pod_groups_that_are_served_later_are_known_then(tmp_path: Path) -> None:
    """Be ready and answer without them before, as an older API server does not serve the kind."""
    with run_cluster(tmp_path) as (cluster, asked):
        asked.start()
        try:
            assert eventually(lambda: asked.check().ready)
            assert list_gang_verdicts(asked) == ["unknown", "unknown"]
            cluster.objects[GROUPS] = [TRIED]
            assert eventually(lambda: "not now" in list_gang_verdicts(asked))
        finally:
            asked.stop()


def test_pod_groups_that_were_never_tried_are_known_by_the_feature_gates_of_the_settings(tmp_path: Path) -> None:
    """Call the pods unknown without them, as after a restart in a cluster where no group is there."""
    for gates, verdict in ((frozenset[str](), "unknown"), (parse_feature_gates("GenericWorkload=true"), "not now")):
        with run_objects() as cluster:
            cluster.objects[GROUPS] = []
            config = load_kubeconfig(write_kubeconfig(tmp_path, cluster.server))
            asked = AskedCluster(config, feature_gates=gates)
            asked.start()
            try:
                assert eventually(lambda asked=asked: asked.check().ready)  # type: ignore[misc]
                assert list_gang_verdicts(asked) == [verdict, verdict]
            finally:
                asked.stop()


def test_the_pods_of_groups_that_may_not_be_listed_are_unknown(tmp_path: Path) -> None:
    with run_cluster(tmp_path) as (cluster, asked):
        cluster.error_statuses[GROUPS] = 403
        asked.start()
        try:
            assert eventually(lambda: asked.check().ready)
            assert list_gang_verdicts(asked) == ["unknown", "unknown"]
        finally:
            asked.stop()


def test_a_claim_that_is_reserved_for_a_group_shows_the_feature_gate(tmp_path: Path) -> None:
    """Count it as on from then on, with the claim as one of the group."""
    shared = claim("shared", allocated=["a/d0"])
    shared["status"]["reservedFor"] = [
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "g"}
    ]
    with run_cluster(tmp_path) as (cluster, asked):
        cluster.objects[f"/apis/{RESOURCE}/resourceclaims"] = [store(shared)]
        asked.start()
        try:
            assert eventually(lambda: is_known(asked))
            with asked.open_state(1.0) as opened:
                columns = opened.state.require_columns()
                assert columns.pod_groups.has_claim_gate
                assert columns.devices is not None
                (stored,) = columns.devices.claims.values()
        finally:
            asked.stop()
    assert [consumer.resource for consumer in (stored.status and stored.status.reserved_for) or ()] == ["podgroups"]


def test_the_stored_pods_of_a_group_count_for_its_quorum(tmp_path: Path) -> None:
    """Have one pod that runs and one that waits of a gang of three, and ask about the third."""
    gang = {
        "metadata": {"name": "gang", "namespace": "team-a"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    spec = {
        "priority": 0,
        "schedulingGroup": {"podGroupName": "gang"},
        "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
    }
    third = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "third", "namespace": "team-a"}, "spec": spec}
    with run_cluster(tmp_path) as (cluster, asked):
        cluster.objects[GROUPS] = [TRIED, store(gang)]
        cluster.objects["/api/v1/pods"] += [
            store({"metadata": {"name": "runs", "namespace": "team-a"}, "spec": {**spec, "nodeName": "a"}}),
            store({"metadata": {"name": "waits", "namespace": "team-a"}, "spec": spec}),
        ]
        asked.start()
        try:
            assert eventually(lambda: asked.check().ready)
            verdicts = list_gang_verdicts(asked, json.dumps(third).encode())
            waiting = show_usage(asked)["waiting"]
        finally:
            asked.stop()
    assert verdicts == ["fits now"]
    assert [(each["names"], each["verdict"]) for each in waiting] == [(["waits"], "not now")]
    assert waiting[0]["sentence"] == (
        "kube-scheduler does not try the pod yet: waiting for minCount pods from a gang to appear in scheduling queue: "
        "2 of 3 pods of PodGroup gang exist"
    )


def test_what_may_not_be_listed_is_not_known(tmp_path: Path) -> None:
    with run_cluster(tmp_path) as (cluster, asked):
        cluster.error_statuses[f"/apis/{RESOURCE}/resourceclaims"] = 403
        asked.start()
        try:
            assert eventually(lambda: asked.check().ready)
            assert eventually(lambda: "may not be listed" in json.dumps(answer(asked)))
            verdicts = [each["verdict"] for item in answer(asked)["objects"] for each in item["predictions"]]
        finally:
            asked.stop()
    assert verdicts == ["unknown", "unknown", "fits now"]


def test_the_state_is_ready_once_each_kind_was_listed_or_tried(tmp_path: Path) -> None:
    """Answer nothing before: it would call unknown what is known a moment later."""
    path, event = "/api/v1/limitranges", Event()
    with run_cluster(tmp_path) as (cluster, asked):
        cluster.delayed[path] = event
        cluster.error_statuses[f"/apis/{RESOURCE}/resourceclaims"] = 403
        asked.start()
        try:
            assert eventually(lambda: sum(watch.revision is None for watch in asked.list_watches()) == 2)
            assert not asked.check().ready
            event.set()
            assert eventually(lambda: asked.check().ready)
        finally:
            event.set()
            asked.stop()


def show_usage(asked: AskedCluster) -> dict[str, Any]:
    """Return the usage of team-a under a cap of devices."""
    policies = read_policies(CAP)
    answerer = Answerer(asked.open_state, lambda: policies, lambda: 0.0)
    content: dict[str, Any] = json.loads(answerer.answer_usage("team-a", VisibleNames()))
    return content


def create_stored_ledger() -> dict[str, Any]:
    """Return the ledger of team-a, with half a cpu in use, and two reserved for a pod."""
    (cap,) = CapIndex(read_policies(CAP), None).list_caps()
    requested = Amounts({"cpu": 2000})
    reserved = Reservation("team-a", "new", NO_AMOUNTS, requested, "n", single_attempt=True, operation=Operation.CREATE)
    ledger = Ledger(cap.hard, Amounts({"cpu": 500}), resources=cap.resources, pods_revision=100, namespaces_revision=3)
    ledger = ledger.with_reservation("uid-new", reserved)
    key, at = LedgerKey(cap.key, "team-a"), datetime(2026, 1, 1, tzinfo=UTC)
    stored: dict[str, Any] = json.loads(encode_ledger(key, ledger, "tallygate-system", None, at).body)
    return store(stored)


def test_what_the_gate_has_reserved_counts_where_its_ledgers_may_be_listed(tmp_path: Path) -> None:
    with run_cluster(tmp_path) as (cluster, asked):
        cluster.objects[LEDGERS_PATH] = [create_stored_ledger()]
        asked.start()
        try:
            assert eventually(lambda: is_known(asked))
            assert eventually(lambda: not show_usage(asked)["notes"])
            usage = show_usage(asked)
        finally:
            asked.stop()
    (line,), (cap,) = usage["items"], usage["holders"]
    assert (line["hard"], line["used"], line["reserved"], line["free"]) == (4000, 500, 2000, 1500)
    assert [(each["name"], each["state"]) for each in cap["holders"]] == [("new", "reserved")]


def test_amounts_are_counted_where_ledgers_may_not_be_listed(tmp_path: Path) -> None:
    with run_cluster(tmp_path) as (cluster, asked):
        cluster.error_statuses[LEDGERS_PATH] = 403
        asked.start()
        try:
            assert eventually(lambda: is_known(asked))
            assert eventually(lambda: "may not list CapLedgers" in str(show_usage(asked)["notes"]))
            (line,) = show_usage(asked)["items"]
        finally:
            asked.stop()
    assert (line["used"], line["reserved"], line["free"]) == (0, None, 4000)


def test_a_server_knows_the_shapes_of_the_pods_that_run_and_the_pods_that_wait(tmp_path: Path) -> None:
    with run_cluster(tmp_path) as (cluster, asked):
        busy = {"requests": {"cpu": "1"}}
        spec = {"priority": 0, "containers": [{"name": "main", "image": "x", "resources": busy}]}
        pods = cluster.objects["/api/v1/pods"]
        pods += [
            store({"metadata": {"name": "runs", "namespace": "team-a"}, "spec": {**spec, "nodeName": "a"}}),
            store({"metadata": {"name": "waits", "namespace": "team-a"}, "spec": spec}),
        ]
        asked.start()
        try:
            assert eventually(lambda: is_known(asked))
            usage = show_usage(asked)
        finally:
            asked.stop()
    assert [(shape["pods"], shape["copies"]) for shape in usage["startable"]] == [(1, 2)]
    assert [(each["names"], each["verdict"]) for each in usage["waiting"]] == [(["waits"], "fits now")]


def test_the_hours_of_devices_are_those_since_the_first_list(tmp_path: Path) -> None:
    """List an hour ago a pod that runs, one that has ended since then, and a claim."""
    begin = int(datetime.now(UTC).timestamp()) - 3600
    gpu = {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}
    spec = {"nodeName": "a", "containers": [{"name": "main", "image": "x", "resources": gpu}]}
    terminated = {"terminated": {"finishedAt": format_seconds(begin + 600)}}
    ended = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": terminated}]}
    started = {"startTime": format_seconds(begin - 60)}
    with run_objects() as cluster:
        asked = AskedCluster(load_kubeconfig(write_kubeconfig(tmp_path, cluster.server)), get_time=lambda: begin)
        cluster.objects["/api/v1/pods"] += [
            store({"metadata": {"name": name, "namespace": "team-a"}, "spec": spec, "status": started | status})
            for name, status in (("runs", {}), ("ended", ended))
        ]
        asked.start()
        try:
            assert eventually(lambda: is_known(asked))
            question = HoursQuestion(None, "workload", Grouping(by_workload=True))
            content = json.loads(Answerer(asked.open_state, PolicySet, lambda: 0.0).answer_hours(question))
        finally:
            asked.stop()
    hours = {item["workload"]: item for item in content["items"]}
    assert content["since"] == format_seconds(begin)
    assert hours["Pod ended"]["seconds"] == 1200
    assert 7200 <= hours["Pod runs"]["seconds"] < 8000
    assert (hours["ResourceClaim taken"]["claims"], len(hours)) == (1, 3)


def test_nothing_is_answered_before_pods_are_known_and_while_another_ask_is_answered(tmp_path: Path) -> None:
    with run_cluster(tmp_path) as (cluster, asked):
        error = catch_ask_error(lambda: answer(asked))
        assert (error.status, "namespaces, pods, nodes" in error.message) == (HTTPStatus.SERVICE_UNAVAILABLE, True)
        asked.start()
        try:
            assert eventually(lambda: is_known(asked))
            with asked.open_state(1.0):
                error = catch_ask_error(lambda: asked.open_state(0.0).__enter__())
        finally:
            asked.stop()
        assert error.status == HTTPStatus.TOO_MANY_REQUESTS
        assert cluster.paths
