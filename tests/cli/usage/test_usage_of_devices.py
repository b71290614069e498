"""Claims for devices in `tallygate usage` and `tallygate snapshot`, with and without the permission for them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.answers.usage_report import ChosenLedger, LedgerChoice, compute_usage
from tallygate.cli.app import root
from tallygate.cli.usage.verify import find_drift, find_incomparable
from tallygate.cluster.cap_ledger_list import CapLedgerList, CapLedgerRecord
from tallygate.cluster.consumer_sums import PodOwners, describe_consumers, sum_consumers
from tallygate.cluster.usage_lister import get_ledger_key
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tests.admission.case import parse_policies
from tests.cli.usage.clusters import GPU, Object, load_snapshot, namespace, pod
from tests.kube.kubeconfig import write_kubeconfig
from tests.server.small_cluster import SmallCluster, run_small_cluster

CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: ["team-*"]}, hard: {nvidia.com/gpu: 8}}
"""
CLASSES, CLAIMS, TEMPLATES = (
    f"/apis/resource.k8s.io/v1/{name}" for name in ("deviceclasses", "resourceclaims", "resourceclaimtemplates")
)
CLASS: Object = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.example.com", "uid": "class", "resourceVersion": "4"},
    "spec": {"extendedResourceName": GPU},
}


def create_claim(name: str, count: int, kind: str = "ResourceClaim", owner: str = "") -> Object:
    """Return a claim or a template of claims, with fields that tell too much; `owner` is a pod's name."""
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.example.com", "count": count}}
    spec: Object = {"devices": {"requests": [request], "config": [{"opaque": {"parameters": "hunter2"}}]}}
    annotations = {"note": "hunter2"}
    if kind == "ResourceClaimTemplate":
        spec = {"metadata": {"labels": {"app": "x"}, "annotations": annotations}, "spec": spec}
    metadata: Object = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": "60"}
    if owner:
        annotations["resource.kubernetes.io/extended-resource-claim"] = "true"
        metadata["ownerReferences"] = [{"kind": "Pod", "name": owner, "uid": f"uid-team-a-{owner}", "controller": True}]
    body = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata | {"annotations": annotations}}
    return {**body, "spec": spec}


def run(cluster: SmallCluster, folder: Path, *arguments: str) -> Result:
    """Run a command in the cluster."""
    (folder / "cap.yaml").write_text(CAP)
    return CliRunner().invoke(root, [*arguments, "--kubeconfig", str(write_kubeconfig(folder, cluster.server))])


def read_used(result: Result) -> list[int]:
    """Return the used amounts."""
    assert result.exit_code == 0, result.stderr
    return [line["used"] for line in json.loads(result.stdout)["items"]]


def test_claims_are_counted_live_and_in_a_snapshot(tmp_path: Path) -> None:
    """Leave out the fields of a claim that are not needed."""
    usage = ("usage", "--policies", str(tmp_path / "cap.yaml"), "-o", "json")
    now = tmp_path / "now.json"
    with run_small_cluster(namespaces=[namespace("team-a")], pods=[pod("p", {GPU: "2"})]) as cluster:
        cluster.objects |= {CLASSES: [CLASS], CLAIMS: [create_claim("c", 3)]}
        cluster.objects[TEMPLATES] = [create_claim("t", 1, "ResourceClaimTemplate")]
        assert read_used(run(cluster, tmp_path, *usage)) == [5]
        assert run(cluster, tmp_path, "snapshot", str(now)).exit_code == 0
    assert read_used(CliRunner().invoke(root, [*usage, "--snapshot", str(now)])) == [5]
    assert "hunter2" not in now.read_text()
    (template,) = [each for each in json.loads(now.read_text())["items"] if each["kind"] == "ResourceClaimTemplate"]
    assert template["spec"]["metadata"] == {"labels": {"app": "x"}}


@pytest.mark.parametrize(
    ("path", "note"),
    [
        (CLAIMS, "note: claims for devices are not counted: resourceclaims may not be listed"),
        (CLASSES, "note: a claim for devices is counted only where a cap names its class: deviceclasses may not"),
    ],
)
def test_a_kind_that_may_not_be_listed_is_reported(tmp_path: Path, path: str, note: str) -> None:
    """Report it in usage and in its explanation, and leave it out of a snapshot."""
    policies = ("--policies", str(tmp_path / "cap.yaml"))
    with run_small_cluster(namespaces=[namespace("team-a")], pods=[pod("p", {GPU: "2"})]) as cluster:
        cluster.objects |= {CLASSES: [CLASS], CLAIMS: [create_claim("c", 3)]}
        cluster.error_statuses[path] = 403
        for arguments in (("usage", *policies), ("usage", *policies, "--explain", "gpus")):
            result = run(cluster, tmp_path, *arguments)
            assert (result.exit_code, note in result.stderr) == (0, True), result.stderr
        result = run(cluster, tmp_path, "snapshot", str(tmp_path / "now.json"))
        assert f"tallygate: {path.rpartition('/')[2]} are left out" in result.stderr
    stored = CliRunner().invoke(root, ["usage", *policies, "--snapshot", str(tmp_path / "now.json")])
    assert f"the snapshot has no {path.rpartition('/')[2]}" in stored.stderr


def test_a_claim_is_named_as_its_pod_or_by_its_name(tmp_path: Path) -> None:
    """Name reservations of claims as claims too."""
    objects = [create_claim("shared", 3), create_claim("p-gpus", 2, owner="p")]
    cluster = load_snapshot(tmp_path, [namespace("team-a"), CLASS, pod("p", {}), *objects])
    (cap,) = cluster.index_caps(parse_policies(CAP), None).list_caps()
    reserved = Reservation(
        "team-a",
        "new",
        Amounts(),
        Amounts({GPU: 1}),
        "n",
        single_attempt=True,
        operation=Operation.CREATE,
        kind=ConsumerKind.CLAIM,
    )
    ledger = Ledger(cap.hard).with_reservation("u", reserved)
    lister = cluster.usage_lister
    key = get_ledger_key(cap, "team-a")
    consumers = list(lister.list_consumers(cap, key, ledger))
    by_workload = sum_consumers(cap, consumers, PodOwners(), lister.list_pod_names)
    assert describe_consumers(GPU, by_workload.list_top(GPU)) == (
        "ResourceClaim shared (3), Pod p (2), ResourceClaim new (1, reserved)"
    )
    shared = parse_policies(CAP.replace("{namespaces", "{shared: true, namespaces", 1))
    (shared_cap,) = cluster.index_caps(shared, None).list_caps()
    by_namespace = sum_consumers(shared_cap, consumers, PodOwners(), lister.list_pod_names)
    assert describe_consumers(GPU, by_namespace.list_top(GPU)) == "namespace team-a (6, 1 reserved)"


def test_allocated_devices_are_not_counted_without_slices_and_that_is_reported(tmp_path: Path) -> None:
    """Report it once for the cap, and on the line of the name."""
    definition = "devices: {h100: {selector: 'true'}}"
    text = CAP.replace("{nvidia.com/gpu: 8}}", f"{{h100: 8}}, {definition}}}")
    cluster = load_snapshot(tmp_path, [namespace("team-a"), create_claim("c", 3)])
    policies = parse_policies(text)
    caps = cluster.index_caps(policies, None)
    assert "allocated devices are not counted under h100: the snapshot has no resourceslices" in [
        *cluster.list_unread(caps)
    ]
    (cap,) = caps.list_caps()
    chosen = ChosenLedger(cap, get_ledger_key(cap, "team-a"), frozenset({"team-a"}))
    (line,) = compute_usage(cluster, caps, LedgerChoice()).lines
    assert line.remarks == ("not counted: the attributes and capacities of some devices are unknown",)
    assert (line.used, line.free) == (None, None)
    ledger = Ledger(cap.hard, used=Amounts({"h100": 2}), resources=cap.counted, pods_revision=5)
    record = CapLedgerRecord("u", "", "gpus", 6, chosen.key, ledger, None)
    cluster.ledgers = CapLedgerList({chosen.key: record})
    (line,) = compute_usage(cluster, caps, LedgerChoice()).lines
    assert (line.used, line.remarks) == (2, ())
    assert find_incomparable(cluster, chosen) == {"h100": "the snapshot has no resourceslices"}
    assert not list(find_drift(cluster, chosen))


def test_a_claim_counts_by_the_mapping_of_its_ledger_while_its_class_is_away(tmp_path: Path) -> None:
    cluster = load_snapshot(tmp_path, [namespace("team-a"), create_claim("c", 3)])
    caps = cluster.index_caps(parse_policies(CAP), None)
    (cap,) = caps.list_caps()
    key, mappings = get_ledger_key(cap, "team-a"), frozenset({("gpu.example.com", GPU)})
    counted = cap.with_former(mappings)
    ledger = Ledger(cap.hard, used=Amounts({GPU: 3}), resources=counted.counted, pods_revision=5, mappings=mappings)
    cluster.ledgers = CapLedgerList({key: CapLedgerRecord("u", "", "gpus", 6, key, ledger, None)})
    (line,) = compute_usage(cluster, caps, LedgerChoice()).lines
    assert (line.used, line.free) == (3, 5)
