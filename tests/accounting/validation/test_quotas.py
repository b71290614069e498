"""ResourceQuotas: keys and values, scopes, and faults that Kubernetes accepts."""

from typing import Any

import msgspec
import pytest

from tallygate.accounting.validation.node_and_quota import (
    MAX_SCOPE_PROBLEMS,
    check_quota_strictly,
    validate_quota,
)
from tallygate.objects.core import ResourceQuota
from tests.accounting.objects import Json, quota
from tests.accounting.validation.problem_views import (
    DOMAIN,
    FOR_QUOTA,
    INTEGER,
    NAME,
    NEGATIVE,
    STANDARD,
    list_causes,
    list_codes,
    list_detail_texts,
)

GPU = "example.com/gpu"
EMPTY = "name part must be non-empty"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"requests.{GPU}", 4),
        (f"requests.{GPU}", "3500m"),
        ("requests.deviceclass.resource.kubernetes.io/gpu", "1500m"),
        (GPU, 4),
        (f"limits.{GPU}", 4),
        ("hugepages-2Mi", "2Mi"),
        ("requests.hugepages-2Mi", "2Mi"),
        ("requests.storage", "1Gi"),
        ("count/pods", 4),
        ("count/deployments.apps", 4),
        ("gold.storageclass.storage.k8s.io/requests.storage", "1Gi"),
        ("requests.cpu", "1500m"),
    ],
)
def test_valid_keys(key: str, value: Any) -> None:
    assert validate_quota(quota({key: value})) == []


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (GPU, "3500m", [INTEGER]),
        (f"limits.{GPU}", "3500m", [INTEGER]),
        ("count/deployments.apps", "1500m", [INTEGER]),
        ("count/pods", "1500m", [INTEGER]),
        ("pods", "1500m", [INTEGER]),
        ("services.nodeports", "1500m", [INTEGER]),
        ("gold.storageclass.storage.k8s.io/requests.storage", "1500m", [INTEGER]),
        ("gpu.deviceclass.resource.k8s.io/devices", "1500m", [INTEGER]),
        ("pods", -1, [NEGATIVE]),
        ("gpu", 1, [STANDARD, FOR_QUOTA]),
        ("requests.gpu", 1, [STANDARD, FOR_QUOTA]),
        ("limits.foo", 1, [STANDARD, FOR_QUOTA]),
        ("limits.hugepages-2Mi", 1, [STANDARD, FOR_QUOTA]),
        ("count", 1, [STANDARD, FOR_QUOTA]),
        ("count/", 1, [EMPTY, NAME]),
        ("storage", 1, [FOR_QUOTA]),
        (f"Requests.{GPU}", 1, [DOMAIN]),
        ("requests.Example.com/gpu", 1, [DOMAIN]),
        ("gpu", "-0.5", [STANDARD, FOR_QUOTA, NEGATIVE]),
    ],
)
def test_invalid_keys(key: str, value: Any, expected: list[str]) -> None:
    found = validate_quota(quota({key: value}))
    assert list_detail_texts(found) == expected
    assert {each.field for each in found} == {f"spec.hard[{key}]"}


def test_the_status_is_validated() -> None:
    lists = {"hard": {"gpu": 1}, "used": {"pods": "1500m"}}
    found = validate_quota(msgspec.json.decode(msgspec.json.encode({"status": lists}), type=ResourceQuota))
    assert [each.field for each in found] == ["status.hard[gpu]", "status.hard[gpu]", "status.used[pods]"]


def test_an_empty_quota_is_valid() -> None:
    assert validate_quota(ResourceQuota()) == check_quota_strictly(ResourceQuota()) == []
    assert validate_quota(quota()) == check_quota_strictly(quota()) == []


def test_an_unreadable_value_is_reported_with_the_other_problems() -> None:
    assert list_codes(validate_quota(quota({"cpu": "4x", "gpu": 1}))) == [
        ("spec.hard[cpu]", "TG004"),
        ("spec.hard[gpu]", "TG002"),
        ("spec.hard[gpu]", "TG002"),
    ]


SCOPES = "spec.scopes: Invalid value: "
UNSUITABLE = "unsupported scope applied to resource"


@pytest.mark.parametrize(
    ("scopes", "hard", "expected"),
    [
        pytest.param(None, {"services": 1}, [], id="no scopes"),
        pytest.param([], {"services": 1}, [], id="an empty list"),
        pytest.param(["BestEffort"], {f"requests.{GPU}": 1}, [], id="keys with a domain suit every scope"),
        pytest.param(["BestEffort"], {"pods": 1}, [], id="pods suit BestEffort"),
        pytest.param(
            ["Terminating", "PriorityClass"], {"requests.cpu": 1, "limits.memory": 1, "pods": 1}, [], id="compute"
        ),
        pytest.param(["VolumeAttributesClass"], {"persistentvolumeclaims": 1, "requests.storage": 1}, [], id="volumes"),
        pytest.param(["CrossNamespacePodAffinity"], {"pods": 1}, [], id="affinity"),
        pytest.param(["Foo"], {"services": 1}, ['["Foo"]: unsupported scope'], id="an unknown scope"),
        pytest.param(
            ["BestEffort"], {"requests.cpu": 1}, [f'["BestEffort"]: {UNSUITABLE}'], id="cpu of best effort pods"
        ),
        pytest.param(
            ["Terminating"],
            {"services": 1, "hugepages-2Mi": 1, "pods": 1},
            [f'["Terminating"]: {UNSUITABLE}'] * 2,
            id="one for each key",
        ),
        pytest.param(
            ["VolumeAttributesClass"], {"pods": 1}, [f'["VolumeAttributesClass"]: {UNSUITABLE}'], id="pods of volumes"
        ),
        pytest.param(
            ["BestEffort", "NotBestEffort"],
            {"requests.cpu": 1},
            [
                f'["BestEffort","NotBestEffort"]: {UNSUITABLE}',
                '["BestEffort","NotBestEffort"]: conflicting scopes',
            ],
            id="opposites",
        ),
        pytest.param(
            ["Terminating", "NotTerminating", "Terminating"],
            {},
            ['["Terminating","NotTerminating","Terminating"]: conflicting scopes'],
            id="other opposites",
        ),
    ],
)
def test_scopes(scopes: list[str] | None, hard: Json, expected: list[str]) -> None:
    assert list_causes(validate_quota(quota(hard, scopes=scopes))) == [SCOPES + each for each in expected]


TWO = '["a","b"]'
IS = "`operator` is"
FOR_SELECTOR = "for scope selector"
AT = "spec.scopeSelector.matchExpressions"
EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param({"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}, [], id="in"),
        pytest.param({"scopeName": "PriorityClass", "operator": "DoesNotExist"}, [], id="does not exist"),
        pytest.param({"scopeName": "Terminating", "operator": "Exists"}, [], id="exists"),
        pytest.param(
            {"scopeName": "PriorityClass", "operator": "In"},
            [f".values: Required value: must be at least one value when {IS} 'In' or 'NotIn' {FOR_SELECTOR}"],
            id="in without values",
        ),
        pytest.param(
            {"scopeName": "PriorityClass", "operator": "Exists", "values": ["a", "b"]},
            [f".values: Invalid value: {TWO}: must be no value when {IS} 'Exist' or 'DoesNotExist' {FOR_SELECTOR}"],
            id="exists with values",
        ),
        pytest.param(
            {"scopeName": "PriorityClass", "operator": "Is"},
            ['.operator: Invalid value: "Is": not a valid selector operator'],
            id="no operator",
        ),
        pytest.param(
            {"scopeName": "Terminating", "operator": "NotIn", "values": ["a"]},
            [f'.operator: Invalid value: "NotIn": {EXISTS}'],
            id="only exists",
        ),
        pytest.param({"operator": "Exists"}, ['.scopeName: Invalid value: "": unsupported scope'], id="no scope"),
    ],
)
def test_a_scope_selector(expression: Json, expected: list[str]) -> None:
    found = validate_quota(quota({"pods": 1}, scopeSelector={"matchExpressions": [expression]}))
    assert list_causes(found) == [AT + each for each in expected]


def test_an_unsuitable_selector_has_kubernetes_internal_form() -> None:
    expression = {"scopeName": "BestEffort", "operator": "Exists"}
    shown = '{"MatchExpressions":[{"ScopeName":"BestEffort","Operator":"Exists","Values":null}]}'
    assert list_causes(validate_quota(quota({"cpu": 1}, scopeSelector={"matchExpressions": [expression]}))) == [
        f"{AT}: Invalid value: {shown}: {UNSUITABLE}"
    ]


def test_opposites_in_a_selector() -> None:
    expressions = [{"scopeName": name, "operator": "Exists"} for name in ("Terminating", "NotTerminating")]
    assert list_causes(validate_quota(quota({"pods": 1}, scopeSelector={"matchExpressions": expressions}))) == [
        f"{AT}: Invalid value: null: conflicting scopes"
    ]


@pytest.mark.parametrize("selector", [{}, {"matchExpressions": None}, {"matchExpressions": []}])
def test_an_empty_selector_is_valid(selector: Json) -> None:
    assert validate_quota(quota({"services": 1}, scopeSelector=selector)) == []


def test_messages_suggest_valid_values() -> None:
    unknown, unsuitable = validate_quota(quota({"requests.cpu": 1}, scopes=["Foo", "BestEffort"]))
    assert "use one of Terminating, NotTerminating" in unknown.message
    assert "it goes with pods" in unsuitable.message


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (f"requests.{GPU}", "3500m", ["TG065"]),
        ("requests.pod.alpha.kubernetes.io/opaque-int-resource-x", "1500m", ["TG065", "TG064"]),
        (GPU, 4, ["TG064"]),
        (GPU, "3500m", ["TG064"]),
        (f"limits.{GPU}", 4, ["TG064"]),
        ("requests.foo.kubernetes.io/x", 4, ["TG064"]),
        ("pod.alpha.kubernetes.io/opaque-int-resource-x", 4, ["TG064"]),
        (f"requests.{GPU}", 4, []),
        ("requests.deviceclass.resource.kubernetes.io/gpu", 4, []),
        ("gpu.deviceclass.resource.k8s.io/devices", 4, []),
        ("gold.storageclass.storage.k8s.io/requests.storage", "1Gi", []),
        ("gold.volumeattributesclass.storage.k8s.io/requests.storage", "1Gi", []),
        ("count/widgets.example.com", 4, []),
        ("requests.cpu", "1500m", []),
        ("services", 4, []),
    ],
)
def test_faults_that_kubernetes_accepts(key: str, value: Any, expected: list[str]) -> None:
    assert [each.code for each in check_quota_strictly(quota({key: value}))] == expected


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        (GPU, f"write requests.{GPU}"),
        (f"limits.{GPU}", f"write requests.{GPU}"),
        ("requests.foo.kubernetes.io/x", "use a cap"),
    ],
)
def test_the_message_of_a_key_that_never_counts_suggests_another(key: str, advice: str) -> None:
    (found,) = check_quota_strictly(quota({key: 4}))
    assert found.message.endswith(advice)


def test_the_number_of_scope_problems_is_bounded() -> None:
    hard = {f"hugepages-{size}Mi": 1 for size in range(1, 400)}
    assert len(validate_quota(quota(hard, scopes=["BestEffort"] * 400))) == MAX_SCOPE_PROBLEMS
    expressions = [{"scopeName": "BestEffort", "operator": "Exists"}] * 400
    assert len(validate_quota(quota(hard, scopeSelector={"matchExpressions": expressions}))) == MAX_SCOPE_PROBLEMS
