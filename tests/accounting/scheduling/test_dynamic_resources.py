"""Pods with claims: the messages of the scheduler, the devices that are lacking, and the changes that would help."""

from collections.abc import Sequence
from typing import Any

import pytest

from tallygate.accounting.allocation import attempt_work
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.kubernetes_versions.version import DEFAULT_VERSION, KubernetesVersion, select_version
from tallygate.accounting.scheduling.device_shortfalls import find_device_shortfalls
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.prediction import (
    Feasibility,
    find_unresolvable_nodes,
    predict_quickly,
)
from tallygate.accounting.scheduling.remedies import find_remedies
from tests.accounting.scheduling.clusters import decode_pod, node, pod
from tests.accounting.scheduling.devices import (
    claim,
    claim_template,
    device,
    device_class,
    device_slice,
    request,
)
from tests.accounting.scheduling.product_scheduler import attempt, create_full_cluster, place_copies

_NODES = [node("a", cpu="4"), node("b", cpu="4")]
_SLICES = [device_slice("a", [device("a0", "16Gi"), device("a1", "80Gi")]), device_slice("b", [device("b0", "16Gi")])]
_LARGE = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
_NOT_HELPFUL = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."


def _create(*objects: dict[str, Any], version: KubernetesVersion = DEFAULT_VERSION) -> Cluster:
    classes = [] if any(each["kind"] == "DeviceClass" for each in objects) else [device_class()]
    return create_full_cluster(_NODES, [], [*classes, *_SLICES, *objects], version)


def _pod(*names: str, **spec: Any) -> dict[str, Any]:
    return pod("new", resourceClaims=[{"name": each, "resourceClaimName": each} for each in names], **spec)


def _predict(cluster: Cluster, written: dict[str, Any]) -> Feasibility:
    incoming = IncomingPod.from_pod(decode_pod(written))
    return predict_quickly(incoming, cluster, 1, run_filters(incoming, cluster)).feasibility


@pytest.mark.parametrize(
    ("claims", "nodes"),
    [
        pytest.param([claim("c")], {"a", "b"}, id="every node has a free device"),
        pytest.param([claim("c", request(count=2))], {"a"}, id="one node has two"),
        pytest.param([claim("c", request(selectors=[_LARGE]))], {"a"}, id="one node has a large device"),
        pytest.param([claim("c"), claim("d", allocated=["b/b0"], pods=["x"])], {"a"}, id="another claim has a device"),
        pytest.param([claim("c", allocated=["b/b0"])], {"b"}, id="the claim has its device"),
        pytest.param([claim("c", allocated=["b/b0"], pods=["x"])], {"b"}, id="pods share the claim"),
        pytest.param(
            [claim("c", request("r", count=1), request("s", selectors=[_LARGE]))],
            {"a"},
            id="a large device stays for the request that needs it",
        ),
        pytest.param([claim("c", request(count=3))], set(), id="no node has three"),
    ],
)
def test_a_pod_fits_the_nodes_with_devices_for_its_claims(claims: Sequence[dict[str, Any]], nodes: set[str]) -> None:
    assert set(attempt(decode_pod(_pod("c")), _create(*claims)).nodes) == nodes


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([claim("c", request(count=3))], "2 cannot allocate all claims. still not schedulable, ", id="few"),
        pytest.param(
            [claim("c", allocated=["other/x"])],
            "2 resourceclaim not available on the node. deallocation of ResourceClaim completed, ",
            id="an idle claim has a device elsewhere",
        ),
        pytest.param(
            [claim("c", allocated=["other/x"], pods=["x"])],
            "2 resourceclaim not available on the node. still not schedulable, ",
            id="another pod uses the claim elsewhere",
        ),
        pytest.param(
            [claim("c", request(of="nothing"))],
            "request r: device class nothing does not exist. no new claims to deallocate, ",
            id="the class is missing",
        ),
    ],
)
def test_the_message_is_that_of_1_36(objects: Sequence[dict[str, Any]], expected: str) -> None:
    result = attempt(decode_pod(_pod("c")), _create(*objects, version=select_version(36)))
    assert result.message == f"0/2 nodes are available: {expected}{_NOT_HELPFUL}"


def test_1_37_does_not_report_that_it_freed_nothing() -> None:
    result = attempt(decode_pod(_pod("c")), _create(claim("c", request(count=3)), version=select_version(37)))
    assert result.message == f"0/2 nodes are available: 2 cannot allocate all claims. {_NOT_HELPFUL}"


@pytest.mark.parametrize(
    ("objects", "written", "expected"),
    [
        pytest.param([], _pod("c"), 'could not find ResourceClaim "default/c"', id="the claim is missing"),
        pytest.param(
            [claim("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            _pod("c"),
            'resourceclaim "c" is being deleted',
            id="the claim is being deleted",
        ),
        pytest.param(
            [claim_template("t")],
            pod("new", resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}]),
            'pod "default/new": ResourceClaim not created yet',
            id="the claim of a template is not made yet",
        ),
        pytest.param(
            [claim("made")],
            pod("new", resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}])
            | {"status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "made"}]}},
            "ResourceClaim default/made was not created for Pod default/new (Pod is not owner)",
            id="the claim belongs to another pod",
        ),
    ],
)
def test_a_claim_that_is_not_ready_keeps_the_pod_out_of_the_queue(
    objects: Sequence[dict[str, Any]], written: dict[str, Any], expected: str
) -> None:
    result = attempt(decode_pod(written), _create(*objects))
    assert (result.nodes, result.message, result.hold_reason) == ((), "", expected)


def test_a_pod_that_is_not_stored_gets_the_claims_of_its_templates() -> None:
    written = pod("new", resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}])
    del written["metadata"]["uid"]
    cluster = _create(claim_template("t", request(selectors=[_LARGE])))
    assert attempt(decode_pod(written), cluster).nodes == ("a",)


def test_each_copy_takes_devices_and_all_are_free_afterwards() -> None:
    written = pod("new", resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}])
    del written["metadata"]["uid"]
    cluster = _create(claim_template("t"))
    for _ in range(2):
        placed = place_copies(decode_pod(written), cluster, 5)
        assert sorted(cluster.nodes.get_name(each) for each in placed.nodes) == ["a", "a", "b"]
        assert placed.unplaced is not None
        assert placed.unplaced.count_reasons() == {"cannot allocate all claims": 2}


def test_copies_share_a_claim_by_its_name_and_so_its_node() -> None:
    cluster = _create(claim("c", request(selectors=[_LARGE])))
    placed = place_copies(decode_pod(_pod("c")), cluster, 3)
    assert [cluster.nodes.get_name(each) for each in placed.nodes] == ["a", "a", "a"]
    assert set(attempt(decode_pod(_pod("c")), cluster).nodes) == {"a"}


def test_an_extended_resource_takes_devices_where_the_node_has_none_of_its_own() -> None:
    name = "example.com/gpu"
    cluster = create_full_cluster(
        [node("own", **{"example.com_gpu": "1"}), node("a"), node("b")],
        [],
        [device_class(resource=name), *_SLICES],
    )
    assert set(attempt(decode_pod(pod("new", requests={name: "2"})), cluster).nodes) == {"a"}
    assert set(attempt(decode_pod(pod("new", requests={name: "1"})), cluster).nodes) == {"own", "a", "b"}


def test_an_extended_resource_that_is_only_limited_is_requested_too() -> None:
    """Add the request as the API server does when it stores the pod."""
    written = pod("new")
    written["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "2"}}
    cluster = create_full_cluster(_NODES, [], [device_class(resource="example.com/gpu"), *_SLICES])
    assert set(attempt(decode_pod(written), cluster).nodes) == {"a"}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([claim("c", request(count=3))], Feasibility.NEVER, id="no node has three devices"),
        pytest.param(
            [claim("c", request(count=2)), claim("d", allocated=["a/a0"], pods=["x"])],
            Feasibility.NOT_NOW,
            id="another claim has one of the devices",
        ),
        pytest.param([claim("c", request(selectors=["device.driver =="]))], Feasibility.NOT_NOW, id="a bad selector"),
    ],
)
def test_a_claim_waits_for_devices_in_use_and_never_gets_devices_that_are_not_there(
    objects: Sequence[dict[str, Any]], expected: Feasibility
) -> None:
    cluster, incoming = _create(*objects), IncomingPod.from_pod(decode_pod(_pod("c")))
    unresolvable = find_unresolvable_nodes(incoming, cluster, cluster.nodes.get_indices())
    assert (len(unresolvable) == 2) is (expected is Feasibility.NEVER)
    assert _predict(cluster, _pod("c")) is Feasibility.NOT_NOW


def test_the_devices_of_a_pool_are_explained_one_by_one() -> None:
    taint = {"taints": [{"key": "sick", "effect": "NoSchedule"}]}
    devices = [device("d0", "80Gi"), device("d1", "16Gi"), device("d2", "80Gi", **taint), device("d3", "80Gi")]
    cluster = create_full_cluster(
        [node("n")],
        [],
        [
            device_class(),
            device_slice("n", devices),
            claim("c", request(count=2, selectors=[_LARGE])),
            claim("used", allocated=["n/d0"], pods=["train-0"]),
        ],
    )
    (shortfall,) = find_device_shortfalls(IncomingPod.from_pod(decode_pod(_pod("c"))), cluster, 0)
    assert str(shortfall) == (
        "claim default/c, request r for 2 devices of class gpu: pool gpu.example.com/n: 4 devices, "
        f"1 allocated (default/train-0, claim default/used), 1 fails selector `{_LARGE}`, has memory 16Gi, "
        "1 has the taint sick:NoSchedule, 1 free"
    )


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [claim("c", request(count=3))], ("2 devices for request r in claim default/c", ("a",)), id="one device less"
        ),
        pytest.param(
            [claim("c", request(count=2)), claim("idle", allocated=["a/a0"])],
            ("delete claim default/idle, which no pod uses", ("a",)),
            id="the deletion of an idle claim",
        ),
        pytest.param(
            [device_class("gpu", "false"), device_class("other"), claim("c")],
            ("class other for request r in claim default/c", ("a", "b")),
            id="another class",
        ),
        pytest.param(
            [claim("c", request(count=2), constraints=[{"distinctAttribute": "gpu.example.com/model"}])],
            ("no constraint in claim default/c", ("a",)),
            id="no constraint",
        ),
    ],
)
def test_a_change_that_helps_is_found(objects: Sequence[dict[str, Any]], expected: tuple[str, tuple[str, ...]]) -> None:
    cluster = _create(*objects)
    incoming = IncomingPod.from_pod(decode_pod(_pod("c")))
    remedies = find_remedies(incoming, cluster, cluster.nodes.get_indices())
    assert expected in [(each.change, each.nodes) for each in remedies]


def test_a_search_that_takes_too_much_work_leaves_the_prediction_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for combinations that no search can try one by one: values that differ in no device but the last."""
    monkeypatch.setattr(attempt_work, "_MAX_WORK", 100_000)
    devices = [
        device(f"d{index:02}", attributes={"model": {"string": "same" if index % 2 else f"m{index}"}})
        for index in range(40)
    ]
    wanted = [request(f"r{index}", count=3) for index in range(9)]
    cluster = create_full_cluster(
        [node("n")],
        [],
        [
            device_class(),
            device_slice("n", devices),
            claim("c", *wanted, constraints=[{"distinctAttribute": "gpu.example.com/model"}]),
        ],
    )
    incoming = IncomingPod.from_pod(decode_pod(_pod("c")))
    diagnosis = run_filters(incoming, cluster)
    assert diagnosis.undecided == ("devices: the search for devices takes more work than is allowed",)
    assert predict_quickly(incoming, cluster, 1, diagnosis).feasibility is Feasibility.UNKNOWN
