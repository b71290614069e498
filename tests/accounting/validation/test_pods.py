"""Pods and templates: field paths, ephemeral containers, overhead, claims, and unreadable quantities."""

import pytest

from tallygate.accounting.problem import Reason
from tallygate.accounting.validation.pods import validate_pod
from tallygate.objects.core import Pod
from tests.accounting.objects import Json, container, pod
from tests.accounting.validation.problem_views import INTEGER, list_causes, list_codes, list_details

GPU = "example.com/gpu"
HALF = container("a", None, {GPU: "500m"})


@pytest.mark.parametrize(
    "prefix", ["", "spec.template.", "spec.jobTemplate.spec.template.", "template."], ids=lambda prefix: prefix or "pod"
)
def test_every_path_begins_with_the_prefix(prefix: str) -> None:
    broken = pod(
        container("a", {GPU: 1, "cpu": 2}, {"cpu": 1}),
        initContainers=[container("i", {"gpu": 1}, claims=[{"name": "x"}])],
        ephemeralContainers=[HALF],
        overhead={GPU: "500m"},
        resources={"requests": {GPU: 1}, "claims": []},
    )
    found = validate_pod(broken, prefix, template=True)
    assert {each.field.removeprefix(prefix).partition(".")[0] for each in found} == {"spec"}
    assert all(each.field.startswith(f"{prefix}spec.") for each in found)


def test_problems_are_in_the_order_of_the_fields() -> None:
    found = validate_pod(
        pod(HALF, HALF, initContainers=[HALF], overhead={GPU: "500m"}, resources={"limits": {GPU: 1}}), template=True
    )
    assert [each.field for each in found] == [
        f"spec.containers[0].resources.limits[{GPU}]",
        f"spec.containers[1].resources.limits[{GPU}]",
        f"spec.initContainers[0].resources.limits[{GPU}]",
        f"spec.resources.limits[{GPU}]",
        f"spec.overhead.limits[{GPU}]",
    ]


@pytest.mark.parametrize("valid", [Pod(), pod(), pod({"name": "a"}), pod(container("a", {"cpu": 1}, {"cpu": 1}))])
def test_a_valid_pod_has_no_problems(valid: Pod) -> None:
    assert validate_pod(valid) == []


@pytest.mark.parametrize("resources", [{"limits": {}}, {"requests": {"cpu": 1}}, {"claims": []}])
def test_an_ephemeral_container_cannot_set_resources(resources: Json) -> None:
    found = validate_pod(pod(container("a"), ephemeralContainers=[{"name": "e", "resources": resources}]))
    assert list_causes(found) == [
        "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container"
    ]


@pytest.mark.parametrize("resources", [None, {}, {"limits": None}])
def test_an_ephemeral_container_may_have_empty_resources(resources: Json | None) -> None:
    assert validate_pod(pod(container("a"), ephemeralContainers=[{"name": "e", "resources": resources}])) == []


def test_resources_of_an_ephemeral_container_are_validated() -> None:
    found = list_details(validate_pod(pod(container("a"), ephemeralContainers=[HALF])))
    assert found[0] == (f"spec.ephemeralContainers[0].resources.limits[{GPU}]", INTEGER)
    assert len(found) == 2


def test_overhead_is_validated_as_limits() -> None:
    assert list_details(validate_pod(pod(container("a"), overhead={GPU: "1500m", "hugepages-2Mi": "2Mi"}))) == [
        (f"spec.overhead.limits[{GPU}]", INTEGER),
        ("spec.overhead", "HugePages require cpu or memory"),
    ]


CLAIMS = [{"name": "b"}, {"name": "a"}]
NONE = "must be one of the names in pod.spec.resourceClaims which is empty"
LISTED = "must be one of the names in pod.spec.resourceClaims: a, b"
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def validate_claims(references: list[Json], claims: list[Json] | None) -> list[tuple[str, str, str]]:
    """Return field below the claims, reason, and detail of each problem of a container with these references."""
    a_container = {"name": "a", "resources": {"claims": references}}
    found = validate_pod(pod(a_container, resourceClaims=claims))
    at = "spec.containers[0].resources.claims"
    return [(each.field.removeprefix(at), each.reason.name, each.detail) for each in found]


@pytest.mark.parametrize(
    ("references", "claims", "expected"),
    [
        pytest.param([{"name": "a"}, {"name": "b"}], CLAIMS, [], id="both claims"),
        pytest.param(
            [{"name": "a", "request": "x"}, {"name": "a", "request": "y"}], CLAIMS, [], id="two requests of one"
        ),
        pytest.param([{"name": "a", "request": "z" * 63}], CLAIMS, [], id="the longest request"),
        pytest.param([{"name": "x"}], None, [("[0]", "NOT_FOUND", NONE)], id="the pod has none"),
        pytest.param(
            [{"name": "x"}], [{"name": ""}], [("[0]", "NOT_FOUND", NONE)], id="the pod has no claim with a name"
        ),
        pytest.param([{"name": "x"}], CLAIMS, [("[0]", "NOT_FOUND", LISTED)], id="the pod has others"),
        pytest.param([{"name": ""}, {}], CLAIMS, [("[0]", "REQUIRED", ""), ("[1]", "REQUIRED", "")], id="no name"),
        pytest.param([{"name": "a"}, {"name": "a"}], CLAIMS, [("[1]", "DUPLICATE", "")], id="twice"),
        pytest.param(
            [{"name": "a"}, {"name": "a", "request": "x"}],
            CLAIMS,
            [("[1]", "DUPLICATE", "")],
            id="a request after the whole",
        ),
        pytest.param(
            [{"name": "a", "request": "x"}, {"name": "a", "request": "x"}],
            CLAIMS,
            [("[1]", "DUPLICATE", "")],
            id="a request twice",
        ),
        pytest.param(
            [{"name": "a", "request": "x"}, {"name": "a", "request": "y"}, {"name": "a"}],
            CLAIMS,
            [("[2]", "DUPLICATE", ""), ("[2]", "DUPLICATE", "")],
            id="the whole after two requests",
        ),
        pytest.param(
            [{"name": "a", "request": "Bad_"}],
            CLAIMS,
            [("[0].request", "INVALID", LABEL)],
            id="a request that is not a label",
        ),
        pytest.param(
            [{"name": "a", "request": "x.y"}],
            CLAIMS,
            [("[0].request", "INVALID", "must not contain dots")],
            id="a request with dots",
        ),
        pytest.param(
            [{"name": "a", "request": "z" * 64}],
            CLAIMS,
            [("[0].request", "INVALID", "must be no more than 63 characters")],
            id="a long request",
        ),
    ],
)
def test_references_to_claims(
    references: list[Json], claims: list[Json] | None, expected: list[tuple[str, str, str]]
) -> None:
    assert validate_claims(references, claims) == expected


def test_a_repeated_reference_is_shown() -> None:
    found = validate_pod(
        pod({"name": "a", "resources": {"claims": [{"name": "a", "request": "x"}] * 2}}, resourceClaims=CLAIMS)
    )
    assert list_causes(found) == ['spec.containers[0].resources.claims[1]: Duplicate value: "a/x"']


def test_every_unreadable_quantity_is_reported_at_its_field() -> None:
    broken = pod(
        container("a", {"cpu": "1x"}, {"memory": "1GB"}),
        initContainers=[container("i", {"cpu": "two"})],
        ephemeralContainers=[container("e", {"cpu": "three"})],
        resources={"limits": {"cpu": ""}},
        overhead={"cpu": "four"},
    )
    assert [field for field, code in list_codes(validate_pod(broken)) if code == "TG004"] == [
        "spec.containers[0].resources.limits[memory]",
        "spec.containers[0].resources.requests[cpu]",
        "spec.initContainers[0].resources.requests[cpu]",
        "spec.ephemeralContainers[0].resources.requests[cpu]",
        "spec.resources.limits[cpu]",
        "spec.overhead[cpu]",
    ]


def test_other_fields_are_validated_beside_an_unreadable_quantity() -> None:
    found = list_codes(validate_pod(pod(container("a", {GPU: "1500m"}, {GPU: 1, "cpu": "x"}), HALF)))
    assert [code for _, code in found] == ["TG004", "TG006", "TG010", "TG006", "TG006"]


@pytest.mark.parametrize(
    ("requests", "limits"),
    [
        pytest.param({GPU: 1}, {GPU: "x"}, id="the limit is there, if unreadable"),
        pytest.param({"hugepages-2Mi": "2Mi", "cpu": "x"}, {"hugepages-2Mi": "2Mi"}, id="cpu is there, if unreadable"),
    ],
)
def test_an_unreadable_quantity_causes_no_other_problem(requests: Json, limits: Json) -> None:
    assert [each.code for each in validate_pod(pod(container("a", requests, limits)))] == ["TG004"]


def test_a_long_token_is_cut() -> None:
    (found,) = validate_pod(pod(container("a", {"cpu": "9x" * 10_000})))
    assert len(found.message) < 400
    assert found.value.endswith("…")
    assert found.reason is Reason.INVALID


def test_a_number_out_of_bounds_is_too_large() -> None:
    (found,) = validate_pod(pod(container("a", {"cpu": "1e999999999"})))
    assert (found.code, found.detail) == ("TG007", "")


def test_many_references_to_claims_are_validated_in_linear_time() -> None:
    """Visit each reference once, without a comparison of all pairs."""
    references = [{"name": "a", "request": f"r{index}"} for index in range(20_000)] + [{"name": "a"}] * 2
    assert len(validate_claims(references, CLAIMS)) == 20_001
