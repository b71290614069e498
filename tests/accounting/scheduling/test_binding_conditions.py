"""Claims whose devices are bound after their allocation: the pod waits for the driver, until its time is up."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.prediction import (
    Feasibility,
    predict_daemon_set,
    predict_quickly,
)
from tallygate.accounting.scheduling.remaining_capacity import compute_remaining_capacity
from tests.accounting.scheduling.clusters import decode_pod, node, pod
from tests.accounting.scheduling.devices import DRIVER, claim, device_class, device_slice
from tests.accounting.scheduling.product_scheduler import attempt, create_full_cluster, place_copies

_ALLOCATED_AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
_TIMEOUT = timedelta(minutes=10)
_NOT_AVAILABLE = "resourceclaim not available on the node"
_POD = pod("new", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])


def _claim(conditions: dict[str, str] | None, *, has_time: bool = True, needs: tuple[str, ...] = ("A",)) -> Any:
    """Return a claim with one device; `conditions` are those that its driver reports, None without a report."""
    made = claim("c", allocated=["a/a0"])
    allocation = made["status"]["allocation"]
    allocation["devices"]["results"][0] |= {"bindingConditions": list(needs), "bindingFailureConditions": ["F", "G"]}
    made["status"]["reservedFor"] = [{"resource": "pods", "name": "new", "uid": _POD["metadata"]["uid"]}]
    if not has_time:
        del allocation["allocationTimestamp"]
    if conditions is not None:
        written = [{"type": name, "status": status} for name, status in conditions.items()]
        made["status"]["devices"] = [{"driver": DRIVER, "pool": "a", "device": "a0", "conditions": written}]
    return made


def _create(made: Any, now: datetime | None) -> Any:
    cluster = create_full_cluster([node("a"), node("b")], [], [device_class(), device_slice("a", ["a0"]), made])
    cluster.now = now
    return cluster


@pytest.mark.parametrize(
    ("made", "after", "nodes"),
    [
        pytest.param(_claim({"A": "True"}), 2 * _TIMEOUT, {"a"}, id="the condition is true"),
        pytest.param(_claim({"A": "True"}, needs=("A", "B")), _TIMEOUT, {"a"}, id="one of two is true, in time"),
        pytest.param(_claim({"A": "True"}, needs=("A", "B")), 2 * _TIMEOUT, set(), id="one of two is true, too late"),
        pytest.param(_claim(None), _TIMEOUT, {"a"}, id="no report after exactly ten minutes"),
        pytest.param(_claim(None), _TIMEOUT + timedelta(microseconds=1), set(), id="no report after ten minutes"),
        pytest.param(_claim({"A": "Unknown"}), 2 * _TIMEOUT, set(), id="the condition is unknown, too late"),
        pytest.param(_claim({"A": "True", "G": "True"}), timedelta(), set(), id="a failure condition is true"),
        pytest.param(_claim({"F": "False"}), timedelta(), {"a"}, id="a failure condition is false"),
        pytest.param(_claim(None, has_time=False), 2 * _TIMEOUT, {"a"}, id="an allocation without a time never ends"),
        pytest.param(_claim({"F": "True"}, needs=()), timedelta(), {"a"}, id="a device without binding conditions"),
    ],
)
def test_a_device_that_is_not_bound_in_time_is_available_nowhere(made: Any, after: timedelta, nodes: set[str]) -> None:
    result = attempt(decode_pod(_POD), _create(made, _ALLOCATED_AT + after))
    assert set(result.nodes) == nodes
    if not nodes:
        assert f"2 {_NOT_AVAILABLE}. deallocation of ResourceClaim completed" in result.message


def test_the_first_device_that_is_not_ready_decides() -> None:
    """Report a failure of a later device while an earlier one waits: it is not read."""
    made = _claim(None)
    results = made["status"]["allocation"]["devices"]["results"]
    results.append(results[0] | {"device": "a1"})
    failed = {"driver": DRIVER, "pool": "a", "device": "a1", "conditions": [{"type": "F", "status": "True"}]}
    made["status"]["devices"] = [failed]
    assert attempt(decode_pod(_POD), _create(made, _ALLOCATED_AT)).nodes == ("a",)
    results.reverse()
    assert attempt(decode_pod(_POD), _create(made, _ALLOCATED_AT)).nodes == ()


def test_a_prediction_without_the_time_is_unknown_while_the_driver_is_awaited() -> None:
    cluster, incoming = _create(_claim(None), None), IncomingPod.from_pod(decode_pod(_POD))
    diagnosis = run_filters(incoming, cluster)
    assert predict_quickly(incoming, cluster, 1, diagnosis).feasibility is Feasibility.UNKNOWN
    assert diagnosis.reasons(1) == (_NOT_AVAILABLE,)
    cluster = _create(_claim({"A": "True"}), None)
    assert predict_quickly(incoming, cluster, 1, run_filters(incoming, cluster)).feasibility is Feasibility.NOW


def test_a_claim_whose_binding_failed_is_reached_from_no_node_beside_another_one() -> None:
    failed = _claim({"F": "True"})
    failed["metadata"]["name"] = "failed"
    both = [{"name": each, "resourceClaimName": each} for each in ("first", "failed")]
    objects = [device_class(), device_slice("a", ["a0", "a1"]), claim("first", allocated=["a/a1"]), failed]
    cluster = create_full_cluster([node("a"), node("b")], [], objects)
    cluster.now = _ALLOCATED_AT
    assert attempt(decode_pod(pod("new", resourceClaims=both)), cluster).nodes == ()


_PRE_BIND = 'running PreBind plugin "DynamicResources": add reservation to claim default/c: '
_INVALID = 'ResourceClaim.resource.k8s.io "c" is invalid: '


def _create_shared(pods: int) -> dict[str, Any]:
    return claim("c", allocated=["a/a0"], pods=[f"p{number}" for number in range(pods)])


def test_no_more_than_256_pods_reserve_a_claim() -> None:
    """Fit the pod and fail to bind it, as kube-scheduler 1.37.2 does: it does not count consumers."""
    made = _create_shared(256)
    too_many = "status.reservedFor: Too many: 257: must have at most 256 items"
    assert attempt(decode_pod(_POD), _create(made, None)).message == f"{_PRE_BIND}{_INVALID}{too_many}"
    del made["status"]["allocation"]["allocationTimestamp"]
    both = f"[{too_many}, status.allocation: Invalid value: null: field cannot be modified once set]"
    assert attempt(decode_pod(_POD), _create(made, None)).message == f"{_PRE_BIND}{_INVALID}{both}"
    own = {"resource": "pods", "name": "new", "uid": "uid-new"}
    made["status"]["reservedFor"][-1] = own
    assert attempt(decode_pod(_POD), _create(made, None)).nodes == ("a",)
    assert attempt(decode_pod(_POD), _create(_create_shared(255), None)).nodes == ("a",)


@pytest.mark.parametrize(("consumers", "expected"), [(0, 4), (252, 4), (254, 2), (256, 0), (257, 0)])
def test_copies_share_a_claim_until_256_pods_have_it(consumers: int, expected: int) -> None:
    cluster, incoming = _create(_create_shared(consumers), None), IncomingPod.from_pod(decode_pod(_POD))
    before = dict(cluster.devices.claims) if cluster.devices else {}
    assert len(place_copies(decode_pod(_POD), cluster, 4).nodes) == expected
    assert cluster.devices is not None
    assert dict(cluster.devices.claims) == before
    assert compute_remaining_capacity(incoming, cluster).total == min(256 - min(consumers, 256), 10)


def test_a_daemon_set_shares_a_claim_until_256_pods_have_it() -> None:
    everywhere = _create_shared(255)
    del everywhere["status"]["allocation"]["nodeSelector"]
    cluster, incoming = _create(everywhere, None), IncomingPod.from_pod(decode_pod(_POD))
    prediction = predict_daemon_set(incoming, cluster, run_filters(incoming, cluster))
    assert (prediction.count, prediction.placed_count, prediction.feasibility) == (2, 1, Feasibility.NOT_NOW)
