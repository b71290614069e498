"""Changes of claims and of extended resources that would help a pod: each makes the pod fit once it is made."""

import re
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.remedies import Remedy, find_remedies
from tests.accounting.scheduling.clusters import decode_pod, node, pod
from tests.accounting.scheduling.devices import claim, claim_template, device, device_class, device_slice, request
from tests.accounting.scheduling.product_scheduler import create_full_cluster
from tests.effort import examples

Json = dict[str, Any]

_RESOURCE = "example.com/gpu"
_SICK = {"taints": [{"key": "sick", "effect": "NoSchedule"}]}
_CLASSES = [
    device_class(resource=_RESOURCE),
    device_class("large", 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'),
]


def _create(objects: Sequence[Json]) -> Cluster:
    return create_full_cluster([node("a"), node("b")], [], [*_CLASSES, *objects])


def _find(objects: Sequence[Json], written: Json) -> tuple[Remedy, ...]:
    cluster = _create(objects)
    incoming = IncomingPod.from_pod(decode_pod(written))
    return find_remedies(incoming, cluster, cluster.nodes.get_indices())


def _with_template(*, is_stored: bool) -> Json:
    written = pod("new", resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}])
    if not is_stored:
        del written["metadata"]["uid"]
        return written
    return written | {"status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "made"}]}}


_OWNER = {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "new", "uid": "uid-new", "controller": True}]}
_NAMED = pod("new", resourceClaims=[{"name": "x", "resourceClaimName": "c"}])
_PAIR = [device_slice("a", ["a0", "a1"])]


@pytest.mark.parametrize(
    ("objects", "written", "expected"),
    [
        pytest.param(
            [*_PAIR, claim("c", request(count=7))],
            _NAMED,
            "2 devices for request r in claim default/c",
            id="as many devices as fit",
        ),
        pytest.param(
            [*_PAIR, claim_template("t", request(count=7))],
            _with_template(is_stored=False),
            "2 devices for request r in claim template default/t",
            id="a template whose claim is not made",
        ),
        pytest.param(
            [*_PAIR, claim_template("t", request(count=7)), claim("made", request(count=7), metadata=_OWNER)],
            _with_template(is_stored=True),
            "2 devices for request r in claim template default/t",
            id="a template whose claim is made",
        ),
        pytest.param(
            [*_PAIR, claim("d", allocated=["a/a0"], pods=["x"])],
            pod("new", requests={_RESOURCE: "5"}),
            f"1 {_RESOURCE} in container c",
            id="an extended resource",
        ),
        pytest.param(
            [*_PAIR, claim("d", allocated=["a/a0"])],
            pod("new", requests={_RESOURCE: "2"}),
            "delete claim default/d, which no pod uses",
            id="an idle claim beside an extended resource",
        ),
    ],
)
def test_a_change_makes_the_pod_fit(objects: Sequence[Json], written: Json, expected: str) -> None:
    assert Remedy(expected, ("a",)) in _find(objects, written)


@pytest.mark.parametrize(("name", "more"), [("free", True), ("busy", False)])
def test_more_cpu_helps_only_where_devices_are_free(name: str, *, more: bool) -> None:
    """Try the cpu of a node whose device is free, and of one whose device is allocated."""
    objects = [*_CLASSES, device_slice(name, ["d"]), claim("used", allocated=["busy/d"], pods=["x"])]
    cluster = create_full_cluster([node(name, cpu="1")], [], objects)
    incoming = IncomingPod.from_pod(decode_pod(pod("new", requests={_RESOURCE: "1", "cpu": "2"})))
    remedies = find_remedies(incoming, cluster, cluster.nodes.get_indices())
    assert (Remedy("1 more cpu on the node", (name,)) in remedies) is more


def _change(change: str, objects: Sequence[Json], written: Json) -> tuple[list[Json], Json]:
    """Return the objects and the pod after a change that is described."""
    objects, written = [*deepcopy(list(objects))], deepcopy(written)
    (wanted,) = [each for each in objects if each["metadata"]["name"] == "c"]
    devices = wanted["spec"]["devices"]
    exactly = devices["requests"][0]["exactly"]
    if found := re.fullmatch(rf"(\d+) {_RESOURCE} in container c", change):
        written["spec"]["containers"][0]["resources"]["requests"][_RESOURCE] = found[1]
    elif found := re.fullmatch(r"delete claim default/(\w+), which no pod uses", change):
        objects = [each for each in objects if each["metadata"]["name"] != found[1]]
    elif change == "no constraint in claim default/c":
        del devices["constraints"]
    elif found := re.fullmatch(r"(\d+) devices? for request r in claim default/c", change):
        exactly["count"] = int(found[1])
    elif change == "one device in place of all for request r in claim default/c":
        exactly |= {"allocationMode": "ExactCount", "count": 1}
    elif found := re.fullmatch(r"class (\w+) for request r in claim default/c", change):
        exactly["deviceClassName"] = found[1]
    else:
        assert change == "a toleration of the devices' taints for request r in claim default/c"
        exactly["tolerations"] = [{"operator": "Exists"}]
    return objects, written


_DEVICE = st.tuples(st.sampled_from(["16Gi", "80Gi"]), st.booleans(), st.sampled_from(["free", "idle", "busy"]))


@given(
    st.tuples(st.lists(_DEVICE, max_size=4), st.lists(_DEVICE, max_size=3)),
    st.integers(1, 5),
    st.sampled_from(["named", "extended", "all"]),
    st.sampled_from(["gpu", "large"]),
    st.sampled_from(
        [(), ({"matchAttribute": "gpu.example.com/node"},), ({"distinctAttribute": "gpu.example.com/kind"},)]
    ),
)
@settings(max_examples=examples(100), deadline=None)
def test_every_change_makes_the_pod_fit_its_nodes(
    drawn: tuple[list[tuple[str, bool, str]], ...],
    count: int,
    kind: str,
    class_name: str,
    constraints: tuple[Json, ...],
) -> None:
    """Make each change, in the objects themselves. One device more than the reported number is too many."""
    objects: list[Json] = []
    for name, devices in zip("ab", drawn, strict=True):
        attributes = {"node": {"string": name}, "kind": {"string": "same"}}
        written_devices = [
            device(f"{name}{index}", memory, attributes=attributes, **(_SICK if is_sick else {}))
            for index, (memory, is_sick, _) in enumerate(devices)
        ]
        objects.append(device_slice(name, written_devices))
        for index, (_, _, use) in enumerate(devices):
            if use != "free":
                pods = ["x"] if use == "busy" else []
                objects.append(claim(f"of{name}{index}", allocated=[f"{name}/{name}{index}"], pods=pods))
    wanted = request(of=class_name, count=count)
    if kind == "all":
        wanted = request(of=class_name, allocationMode="All")
        del wanted["exactly"]["count"]
    fields: dict[str, Any] = {"constraints": list(constraints)} if constraints else {}
    objects.append(claim("c", wanted, **fields))
    written = pod("new", requests={_RESOURCE: f"{count}"}) if kind == "extended" else _NAMED
    incoming = IncomingPod.from_pod(decode_pod(written))
    if len(run_filters(incoming, _create(objects)).feasible):
        return
    for each in _find(objects, written):
        assert _find_feasible(*_change(each.change, objects, written)) == set(each.nodes)
        number = re.match(r"(\d+) ", each.change)
        if number and int(number[1]) + 1 < count:
            larger = each.change.replace(number[1], f"{int(number[1]) + 1}", 1).replace("device for", "devices for")
            assert not _find_feasible(*_change(larger, objects, written))


def _find_feasible(objects: Sequence[Json], written: Json) -> set[str]:
    cluster = _create(objects)
    incoming = IncomingPod.from_pod(decode_pod(written))
    return {cluster.nodes.get_name(each) for each in run_filters(incoming, cluster).feasible.tolist()}
