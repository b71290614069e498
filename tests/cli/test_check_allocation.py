"""Caps by allocated devices in `tallygate check`: claims are compared with the least that they get of a snapshot."""

from pathlib import Path
from typing import Any

import pytest

from tests.accounting.claims import CLASS, Object, claim_object, exactly, result
from tests.cli.cap_checks import check
from tests.state.informers.slices import DRIVER, POOL, create_device, create_slice

CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec:
  namespaces: {include: [team-a]}
  shared: %s
  hard: {gpu-memory: 160Gi}
  devices: {gpu-memory: {sum: memory}}
"""
RESOURCE = "resource.k8s.io/v1"
OVER_CAP, OVER_FREE, UNKNOWN = ("warning", "TG211"), ("warning", "TG212"), ("note", "TG408")
GETS = "of the published devices, cap gpus of this namespace has hard 160Gi"
WAITS = "stays pending until the devices of other claims are free"


def device_class(**spec: Any) -> Object:
    """Return the class of the devices."""
    return {"apiVersion": RESOURCE, "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": spec}


def claim(name: str, count: int = 1, *devices: str, **metadata: Any) -> Object:
    """Return a claim, which has these devices."""
    results = [result(driver=DRIVER, pool=POOL, device=each) for each in devices] or None
    return {
        "apiVersion": RESOURCE,
        **claim_object(exactly(count), results=results, name=name, uid=f"c-{name}", **metadata),
    }


def template(count: int) -> Object:
    """Return a template of claims."""
    metadata = {"name": "gpus", "namespace": "team-a"}
    return {
        "apiVersion": RESOURCE,
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": claim("", count)["spec"]},
    }


def pod(name: str = "p", **metadata: Any) -> Object:
    """Return a pod with a claim from the template."""
    spec = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "gpus"}], "containers": [{"name": "c"}]}
    meta = {"name": name, "namespace": "team-a", "uid": f"u-{name}", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def stateful_set(replicas: int) -> Object:
    """Return a workload of such pods."""
    labels = {"app": "w"}
    template_of_pods = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template_of_pods}
    metadata = {"name": "w", "namespace": "team-a"}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def create_owner(name: str) -> Object:
    """Return the metadata that names a pod as the owner of a claim."""
    return {
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"u-{name}", "controller": True}]
    }


SLICE = {"apiVersion": RESOURCE, **create_slice(3, *(create_device(f"h-{index}") for index in range(4)))}
CLUSTER = [SLICE, device_class()]
ONE_OF_W = [pod("w-0", labels={"app": "w"}), claim("w-0-g", 1, "h-0", **create_owner("w-0"))]
SMALL = {
    "apiVersion": RESOURCE,
    **create_slice(3, *(create_device(f"t-{index}", "t4", "16Gi") for index in range(2)), name="small", pool="node-2"),
}


@pytest.mark.parametrize(
    ("manifests", "stored", "findings"),
    [
        pytest.param([claim("new", 2)], [claim("old", 2)], [], id="a claim that fits has no finding"),
        pytest.param(
            [claim("new", 2)], [claim("old", 1, "h-0")], [OVER_FREE], id="the devices of a claim are not free"
        ),
        pytest.param([claim("new", 3)], [], [OVER_CAP], id="a claim for more than the cap can never run"),
        pytest.param([claim("new", 3)], [claim("new", 3)], [], id="a stored claim is not compared"),
        pytest.param([claim("new", 1), claim("more", 2)], [], [], id="a claim without devices leaves all free"),
        pytest.param([claim("new", 2)], [claim("old", 1, "h-0"), SMALL], [], id="the smallest devices count"),
        pytest.param(
            [
                claim("new", 2),
                device_class(selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].model != "t4"'}}]),
            ],
            [claim("old", 1, "h-0"), SMALL],
            [OVER_FREE],
            id="a class among the manifests selects devices",
        ),
        pytest.param([template(3)], [claim("old", 2, "h-0", "h-1")], [OVER_CAP], id="a template needs no free amount"),
        pytest.param([template(2)], [claim("old", 2, "h-0", "h-1")], [], id="a template within the cap has no finding"),
        pytest.param([pod()], [template(2), claim("old", 1, "h-0")], [OVER_FREE], id="a pod waits for its claim"),
        pytest.param([pod()], [template(3)], [OVER_CAP], id="a pod that can never run is no error"),
        pytest.param([stateful_set(2)], [template(1)], [], id="a workload that fits has no finding"),
        pytest.param([stateful_set(3)], [template(1)], [("warning", "TG204")], id="a workload above the cap"),
        pytest.param(
            [stateful_set(2)],
            [template(1), claim("old", 1, "h-3")],
            [("warning", "TG205")],
            id="a workload with more pods than are free",
        ),
        pytest.param([stateful_set(2)], [template(1), *ONE_OF_W], [], id="the pods of a workload count once"),
        pytest.param(
            [stateful_set(2)],
            [template(1), *ONE_OF_W, claim("old", 1, "h-3")],
            [("warning", "TG205")],
            id="a further pod of a workload waits",
        ),
        pytest.param(
            [stateful_set(1)],
            [template(2), *ONE_OF_W, claim("old", 1, "h-3")],
            [],
            id="the increase to other claims is unknown",
        ),
    ],
)
def test_the_least_of_the_devices_is_compared_with_the_cap(
    tmp_path: Path, manifests: list[Object], stored: list[Object], findings: list[tuple[str, str]]
) -> None:
    found = check(tmp_path, manifests, [*CLUSTER, *stored, claim("idle")], cap=CAP)
    assert [each[:2] for each in found] == findings, found


def test_the_findings_have_the_words_of_the_gate(tmp_path: Path) -> None:
    stored = [*CLUSTER, claim("old", 1, "h-0"), template(2)]
    found = check(tmp_path, [claim("new", 2), claim("big", 3), pod()], stored, cap=CAP)
    assert [each[2] for each in found] == [
        f"this claim gets at least 160Gi gpu-memory {GETS}, free 80Gi: its pod {WAITS}",
        f"this claim gets at least 240Gi gpu-memory {GETS}: with these devices its pod can never run",
        f"the claims of this pod get at least 160Gi gpu-memory {GETS}, free 80Gi: the pod {WAITS}",
    ]


@pytest.mark.parametrize(
    ("cap", "stored", "used"),
    [
        pytest.param(CAP, [device_class()], "unknown, without the ResourceSlices", id="a snapshot without slices"),
        pytest.param(CAP, [SLICE], "used 0 of 160Gi gpu-memory", id="an unknown class"),
        pytest.param(
            CAP, [*CLUSTER, claim("old", 1, "lost")], "used unknown of 160Gi", id="a device that is not published"
        ),
        pytest.param(CAP + "  workloads: ignore\n", CLUSTER, "used 0 of 160Gi", id="a cap without forecasts"),
        pytest.param(
            CAP.replace("hard: {gpu-memory: 160Gi}", "soft: {gpu-memory: 160Gi}"),
            CLUSTER,
            "used 0 gpu",
            id="a soft limit",
        ),
    ],
)
def test_a_claim_that_is_not_compared_has_a_note(tmp_path: Path, cap: str, stored: list[Object], used: str) -> None:
    found = check(tmp_path, [claim("new", 2)], [*stored, claim("idle")], cap=cap)
    (note,) = [each for each in found if "when devices are allocated" in each[2]]
    assert note[:2] == UNKNOWN
    assert used in note[2]


def test_an_excess_of_the_cap_is_reported_even_if_the_used_amount_is_unknown(tmp_path: Path) -> None:
    found = check(tmp_path, [claim("new", 3)], [*CLUSTER, claim("old", 1, "lost")], cap=CAP)
    assert OVER_CAP in [each[:2] for each in found]


def test_a_slice_of_a_snapshot_that_is_written_by_hand_needs_no_uid(tmp_path: Path) -> None:
    metadata = {key: value for key, value in SLICE["metadata"].items() if key not in {"uid", "resourceVersion"}}
    stored = [SLICE | {"metadata": metadata}, device_class(), claim("old", 1, "h-0")]
    assert [each[:2] for each in check(tmp_path, [claim("new", 2)], stored, cap=CAP)] == [OVER_FREE]
