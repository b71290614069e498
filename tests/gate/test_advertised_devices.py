"""Rules with `advertised` for devices: the classes that claims name, and the conditions that no device passes."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.devices.least_amounts import LeastAmounts
from tallygate.admission.evaluate import SCHEDULER_USER
from tallygate.review.advertised_devices import KnownDevices
from tallygate.review.cluster_snapshot import FixedSnapshot
from tallygate.state.informers.device_store import DeviceStore
from tests.accounting.claims import Object, claim_object, exactly, first_available, result
from tests.gate.gate_fixture import GateFixture, pod, response
from tests.gate.test_workload_forecast import list_warnings, workload
from tests.state.informers.claim_templates import create_store, template
from tests.state.informers.slices import DRIVER, create_device, create_slice, slice_page

RULE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: devices}
spec: {resources: ["*"], enforcement: deny, checks: {wellFormedName: false, wholeQuantity: false, \
requestsEqualLimits: false, advertised: true}}
"""
CLASSES: dict[str, tuple[str, ...]] = {
    "gpu": (f'device.driver == "{DRIVER}"',),
    "nic": ('device.driver == "nic.example.com"',),
}
PREFIX = "deviceclass.resource.kubernetes.io"
CLAIM: Object = {"kind": {"group": "resource.k8s.io", "kind": "ResourceClaim"}}
TEMPLATE: Object = {"kind": {"group": "resource.k8s.io", "kind": "ResourceClaimTemplate"}}
MODEL, MEMORY = f'device.attributes["{DRIVER}"].model', f'device.capacity["{DRIVER}"].memory'
SLICE = create_slice(
    1,
    create_device("d1", "a100", "16Gi"),
    create_device("d2", "h100", "40Gi"),
)


def create_fixture(
    rule: str = RULE,
    *,
    slices: Iterable[Object] = (SLICE,),
    classes: dict[str, tuple[str, ...]] | None = CLASSES,
    templates: Iterable[Object] = (),
    is_stale: bool = False,
) -> GateFixture:
    """Return a gate with one rule, a node, and the classes, slices and templates of a cluster."""
    store, cluster = DeviceStore(), Cluster()
    store.apply(slice_page(9, *slices))
    node = {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}
    ingest(cluster, "Node", json.dumps(node).encode())
    for name in classes or ():
        body = {"metadata": {"name": name}, "spec": {"extendedResourceName": f"example.com/{name}"}}
        ingest(cluster, "DeviceClass", json.dumps(body).encode())
    least = None if is_stale else LeastAmounts(store.list_slices, (classes or {}).get)
    devices = KnownDevices(lambda: classes, least, create_store(*templates).find_claim)
    return GateFixture(rule, snapshots=FixedSnapshot(cluster), devices=devices)


def select(*expressions: str, device_class: str = "gpu") -> Object:
    """Return a request with selectors."""
    return exactly(device_class=device_class, selectors=[{"cel": {"expression": each}} for each in expressions])


def list_causes(fixture: GateFixture, body: Object, **request: Any) -> list[str]:
    """Return field and message of each cause of a denial."""
    found = response(fixture.admit(body, **request))
    causes = [] if found["allowed"] else found["status"]["details"]["causes"]
    return [f"{each['field']}: {each['message']}" for each in causes]


def claim_causes(*requests: Object, **fixture: Any) -> list[str]:
    """Return the causes of a denial of a claim with these requests, without their common path and code."""
    causes = list_causes(create_fixture(**fixture), claim_object(*requests), **CLAIM)
    code = " (TG112, rule devices)"
    assert all(each.startswith("spec.devices.requests") and each.endswith(code) for each in causes)
    return [each.removeprefix("spec.devices.requests").removesuffix(code) for each in causes]


CLASS_FIELD = "[0].exactly.deviceClassName: "
SECOND = "[0].exactly.selectors[1].cel.expression: "
FIRST = "[0].exactly.selectors[0].cel.expression: "


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param([exactly(device_class="gpu")], [], id="a class with devices"),
        pytest.param(
            [exactly(device_class="gpus")],
            ["[0].exactly.deviceClassName: no DeviceClass gpus: did you mean gpu?"],
            id="a class with a slip of the pen",
        ),
        pytest.param(
            [exactly(device_class="accelerator")],
            ["[0].exactly.deviceClassName: no DeviceClass accelerator: there are gpu, nic"],
            id="a class that resembles no other",
        ),
        pytest.param(
            [exactly(device_class="nic")],
            [
                CLASS_FIELD + "no ResourceSlice publishes a device of class nic: "
                f"no device has driver nic.example.com; there is {DRIVER}"
            ],
            id="a class whose driver publishes nothing",
        ),
        pytest.param(
            [first_available(("gpu", 1), ("gpus", 1), ("gpux", 1))],
            [
                "[0].firstAvailable[1].deviceClassName: no DeviceClass gpus: did you mean gpu?",
                "[0].firstAvailable[2].deviceClassName: no DeviceClass gpux: did you mean gpu?",
            ],
            id="each alternative with a missing class",
        ),
        pytest.param([first_available(("nic", 1), ("gpu", 1))], [], id="an alternative with devices is left"),
        pytest.param(
            [exactly(device_class="gpu"), first_available(("nic", 1), ("nic", 2))],
            [
                f"[1].firstAvailable[{index}].deviceClassName: no ResourceSlice publishes a device of class nic: "
                f"no device has driver nic.example.com; there is {DRIVER}"
                for index in (0, 1)
            ],
            id="no alternative is left",
        ),
        pytest.param([select(f'{MODEL} == "h100"', "true")], [], id="selectors that a device passes"),
        pytest.param(
            [select("true", f'{MODEL} == "h200"')],
            ["[0].exactly.selectors[1].cel.expression: no device of class gpu has model h200; there are a100, h100"],
            id="a model that no device has",
        ),
        pytest.param(
            [select(f'{MODEL} in ["h200", "b200"]')],
            [FIRST + "no device of class gpu has model h200 or b200; there are a100, h100"],
            id="a list of models",
        ),
        pytest.param(
            [select(f'{MEMORY}.compareTo(quantity("80Gi")) >= 0')],
            [FIRST + "no device of class gpu has memory of at least 80Gi; the largest has 40Gi"],
            id="more memory than any device has",
        ),
        pytest.param(
            [select(f'{MEMORY}.isLessThan(quantity("8Gi"))')],
            [FIRST + "no device of class gpu has memory of less than 8Gi; the smallest has 16Gi"],
            id="less memory than any device has",
        ),
        pytest.param(
            [select(f'{MODEL} == "a100" && {MEMORY}.compareTo(quantity("40Gi")) >= 0')],
            [
                FIRST + "no device of class gpu that passes the conditions before it has memory of at least 40Gi; "
                "the largest has 16Gi"
            ],
            id="conditions that different devices pass",
        ),
        pytest.param(
            [select(f'!({MODEL} == "h100")', f'{MODEL} != "a100"')],
            [
                SECOND + "no device of class gpu that passes the conditions before it "
                "has a model other than a100; there is a100"
            ],
            id="selectors that exclude each other",
        ),
        pytest.param(
            [select(f'device.attributes["{DRIVER}"].modle == "a100"')],
            [FIRST + f"no device of class gpu has an attribute modle in domain {DRIVER}: did you mean model?"],
            id="an attribute with a slip of the pen",
        ),
        pytest.param(
            [select('device.capacity["example.com"].memory == quantity("1Gi")')],
            [FIRST + "no device of class gpu has a capacity memory in domain example.com"],
            id="a domain without capacities",
        ),
        pytest.param(
            [select(f"{MODEL} == 100")],
            [FIRST + 'no device of class gpu has model 100; there are "a100", "h100"'],
            id="a number in place of a text",
        ),
        pytest.param(
            [select(f'{MODEL}.startsWith("b")')],
            [FIRST + f'no device of class gpu passes selector `{MODEL}.startsWith("b")`'],
            id="another condition",
        ),
        pytest.param([select("this is not an expression")], [], id="what the API server rejects"),
    ],
)
def test_a_claim_is_compared_with_the_published_devices(requests: list[Object], expected: list[str]) -> None:
    assert claim_causes(*requests) == expected


@pytest.mark.parametrize(
    ("fixture", "expected"),
    [
        pytest.param({"classes": None}, [], id="classes that are stale"),
        pytest.param(
            {"classes": {}},
            ["[0].exactly.deviceClassName: no DeviceClass gpu: the cluster has no DeviceClass"],
            id="no class",
        ),
        pytest.param({"is_stale": True}, [], id="slices that are stale"),
        pytest.param(
            {"slices": [create_slice(1) | {"spec": {**SLICE["spec"], "pool": {"name": "p", "resourceSliceCount": 2}}}]},
            [],
            id="an incomplete pool",
        ),
        pytest.param(
            {"slices": []},
            [CLASS_FIELD + "no ResourceSlice publishes a device of class gpu"],
            id="no slices",
        ),
        pytest.param(
            {"rule": RULE.replace("advertised: true", "schedulable: never")},
            [],
            id="a rule without the check",
        ),
        pytest.param({"rule": RULE.replace('"*"', "cpu")}, [], id="a rule for other resources"),
        pytest.param(
            {"rule": RULE.replace('"*"', "extended"), "slices": []},
            [CLASS_FIELD + "no ResourceSlice publishes a device of class gpu"],
            id="a rule for extended resources",
        ),
        pytest.param(
            {"rule": RULE.replace('"*"', "nic.deviceclass.resource.k8s.io/*"), "slices": []},
            [],
            id="a rule for another class",
        ),
        pytest.param(
            {"rule": RULE.replace("spec: {", "spec: {match: {kinds: [Pod]}, "), "slices": []},
            [],
            id="a rule for pods",
        ),
    ],
)
def test_what_is_unknown_or_not_selected_gets_no_verdict(fixture: dict[str, Any], expected: list[str]) -> None:
    assert claim_causes(select(f'{MODEL} == "a100"'), **fixture) == expected


def test_a_template_is_evaluated_at_its_own_path() -> None:
    body = {"kind": "ResourceClaimTemplate", **template("one", exactly(device_class="gpus"))}
    message = "no DeviceClass gpus: did you mean gpu? (TG112, rule devices)"
    field = "spec.spec.devices.requests[0].exactly.deviceClassName"
    assert list_causes(create_fixture(), body, **TEMPLATE) == [f"{field}: {message}"]


@pytest.mark.parametrize(
    ("body", "request_fields"),
    [
        pytest.param(claim_object(exactly(device_class="gpus")), {"oldObject": claim_object()}, id="a stored claim"),
        pytest.param(claim_object(exactly(device_class="gpus"), results=[result()]), {}, id="an allocated claim"),
        pytest.param(
            claim_object(exactly(device_class="gpus")),
            {"userInfo": {"username": SCHEDULER_USER}},
            id="a claim of the scheduler",
        ),
    ],
)
def test_a_claim_that_has_or_gets_devices_is_not_evaluated(body: Object, request_fields: dict[str, Any]) -> None:
    assert list_causes(create_fixture(), body, **CLAIM, **request_fields) == []


def test_a_pod_and_a_workload_are_evaluated_by_their_known_templates() -> None:
    fixture = create_fixture(templates=[template("bad", exactly(device_class="gpus")), template("good", select())])
    claims = [{"name": name, "resourceClaimTemplateName": name} for name in ("good", "bad", "missing", "bad")] + [
        {"name": "own", "resourceClaimName": "own"}
    ]
    message = "ResourceClaimTemplate bad: no DeviceClass gpus: did you mean gpu? (TG112, rule devices)"
    path = "spec.resourceClaims[1].resourceClaimTemplateName"
    assert list_causes(fixture, pod("u", 0, resourceClaims=claims)) == [f"{path}: {message}"]
    body = workload(0)
    body["spec"]["template"]["spec"]["resourceClaims"] = claims
    apps = {"kind": {"group": "apps", "kind": "Deployment"}}
    assert list_causes(fixture, body, **apps) == [f"spec.template.{path}: {message}"]


def create_pod(name: str) -> Object:
    """Return a pod that requests one of a resource."""
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"limits": {name: "1"}}}]}}


@pytest.mark.parametrize(
    ("name", "slices", "expected"),
    [
        pytest.param(f"{PREFIX}/gpu", [SLICE], "", id="a class with devices"),
        pytest.param(f"{PREFIX}/gpus", [SLICE], "no DeviceClass gpus: did you mean gpu?", id="a missing class"),
        pytest.param(
            f"{PREFIX}/gpu",
            [],
            f"no node advertises {PREFIX}/gpu, and no ResourceSlice publishes a device of class gpu",
            id="a class without devices",
        ),
        pytest.param(
            "example.com/gpu",
            [],
            "no node advertises example.com/gpu, and no ResourceSlice publishes a device of class gpu",
            id="an extended resource of a class without devices",
        ),
    ],
)
def test_a_pod_is_evaluated_by_its_extended_resources(name: str, slices: list[Object], expected: str) -> None:
    causes = list_causes(create_fixture(slices=slices), create_pod(name))
    path = f"spec.containers[0].resources.limits[{name}]"
    assert causes == ([f"{path}: {expected} (TG112, rule devices)"] if expected else [])


def test_the_first_problem_of_a_pod_replaces_that_of_the_nodes() -> None:
    rule = RULE.replace("advertised: true", "advertised: true, schedulable: never")
    fixture = create_fixture(rule, templates=[template("bad", exactly(device_class="gpus"))])
    body = pod("u", 0, resourceClaims=[{"name": "bad", "resourceClaimTemplateName": "bad"}])
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9"}}
    assert [each.rpartition("(")[2] for each in list_causes(fixture, body)] == ["TG112, rule devices)"]
    assert "TG113" in list_causes(fixture, {**body, "spec": {**body["spec"], "resourceClaims": []}})[0]


def test_enforcement_decides_as_for_other_rules() -> None:
    warning = RULE.replace("enforcement: deny", "enforcement: warn")
    (text,) = list_warnings(create_fixture(warning), claim_object(exactly(device_class="gpus")), **CLAIM)
    assert text == "spec.devices.requests[0].exactly.deviceClassName DeviceClass gpus gpu TG112"


def test_too_much_work_is_reported_as_not_evaluated() -> None:
    devices = [create_device(f"d{number}") for number in range(128)]
    slices = [create_slice(1, *devices, name=f"s{number}", pool=f"p{number}") for number in range(40)]
    fixture = create_fixture(slices=slices)
    decision = fixture.admit(claim_object(select(f'{MODEL} == "x"')), **CLAIM)
    assert response(decision)["allowed"]
    assert decision.record.unknown == (
        "rule devices was not evaluated: the selectors are too much work for the published devices",
    )


def test_a_claim_with_many_faults_reports_the_first() -> None:
    requests = [exactly(device_class=f"gpu-{number}", name=f"r{number}") for number in range(40)]
    assert len(claim_causes(*requests)) == 8
