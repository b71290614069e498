"""Properties of all pods: monotone requests, additive charges, fits without excess, quiet validation."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallygate.accounting.amounts import round_up_to_unit
from tallygate.accounting.charge import compute_charge
from tallygate.accounting.node_fit import find_shortfalls
from tallygate.accounting.pod_requests import (
    compute_limits,
    compute_pod_limits,
    compute_pod_requests,
    compute_requests,
    explain_request,
)
from tallygate.accounting.pod_resources import parse_pod_resources
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.resource_quota import compute_quota_charge
from tallygate.accounting.validation.limit_ranges import check_limit_range_strictly, validate_limit_range
from tallygate.accounting.validation.node_and_quota import validate_node, validate_quota
from tallygate.accounting.validation.pods import check_pod_strictly, validate_pod
from tallygate.objects.core import Pod, PodSpec
from tests.accounting.charges import sum_charges
from tests.accounting.objects import Json, container, limit_range, node, pod, quota, sidecar

NAMES = ("cpu", "memory", "example.com/gpu", "pod.alpha.kubernetes.io/opaque-int-resource-x")
COUNTED = (*NAMES, "limits.cpu", "limits.memory", "pods")
WHOLE = st.integers(0, 2000)
lean = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def valid_container(name: str) -> st.SearchStrategy[Json]:
    """Return a strategy of containers that the API server accepts: requests equal limits, in whole units."""
    lists = st.dictionaries(st.sampled_from(NAMES), WHOLE, max_size=4)
    make: Callable[[Any], Json] = lambda listed: container(name, listed, listed)  # noqa: E731  # a strategy maps a function
    return lists.map(make)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """Draw a valid pod: containers, init steps, sidecars, overhead."""
    containers = [draw(valid_container(f"c{index}")) for index in range(draw(st.integers(1, 3)))]
    init = [draw(valid_container(f"i{index}")) for index in range(draw(st.integers(0, 3)))]
    for each in init:
        if draw(st.booleans()):
            each["restartPolicy"] = "Always"
    overhead = draw(st.dictionaries(st.sampled_from(NAMES[:2]), WHOLE, max_size=2))
    return pod(*containers, initContainers=init, overhead=overhead)


def spec(a_pod: Pod) -> PodSpec:
    assert a_pod.spec is not None
    return a_pod.spec


@given(pods())
@lean
def test_a_valid_pod_has_no_problems(a_pod: Pod) -> None:
    assert validate_pod(a_pod) == []
    assert check_pod_strictly(a_pod) == []


@given(pods(), pods())
@lean
def test_more_containers_never_need_less(one: Pod, other: Pod) -> None:
    alone = compute_pod_requests(spec(one)).amounts
    both = parse_pod_resources(spec(one))
    both = both._replace(containers=both.containers + parse_pod_resources(spec(other)).containers)
    together = compute_requests(both).amounts
    assert all(together[name] >= needed for name, needed in alone.items())


@given(pods(), st.data())
@lean
def test_raising_any_request_never_lowers_the_sum(a_pod: Pod, data: st.DataObject) -> None:
    resources = parse_pod_resources(spec(a_pod))
    name = data.draw(st.sampled_from(NAMES))
    containers = (*resources.containers, *resources.init)
    raised = data.draw(st.sampled_from(containers))
    more = raised.requests.get(name, Quantity.from_int(0)) + Quantity.from_int(data.draw(st.integers(1, 100)))
    higher = raised._replace(requests={**raised.requests, name: more})
    changed = resources._replace(
        containers=tuple(higher if each is raised else each for each in resources.containers),
        init=tuple(higher if each is raised else each for each in resources.init),
    )
    assert compute_requests(changed).amounts[name] >= compute_requests(resources).amounts.get(name, 0)


@given(pods())
@lean
def test_the_sum_lies_between_the_largest_part_and_all_of_them(a_pod: Pod) -> None:
    resources = parse_pod_resources(spec(a_pod))
    effective = compute_requests(resources)
    for name, total in effective.amounts.items():
        parts = [
            round_up_to_unit(name, each.requests[name])
            for each in (*resources.containers, *resources.init)
            if name in each.requests
        ]
        parts.append(round_up_to_unit(name, resources.overhead[name]) if name in resources.overhead else 0)
        assert max(parts) <= total <= sum(parts)


@given(pods())
@lean
def test_the_terms_that_count_explain_the_sum(a_pod: Pod) -> None:
    effective = compute_pod_requests(spec(a_pod))
    for name, total in effective.quantities.items():
        counting = [term for term in effective.list_terms(name) if term.is_counted]
        steps = [term.quantity + term.sidecars for term in counting if term.role == "init step"]
        others = sum((term.quantity for term in counting if term.role != "init step"), Quantity.from_int(0))
        assert max(steps, default=Quantity.from_int(0)) + others == total
        assert explain_request(effective, name).endswith(f"= {total}")


@given(pods())
@lean
def test_requests_and_limits_of_whole_pods_differ_by_overhead_at_most(a_pod: Pod) -> None:
    requests, limits = compute_pod_requests(spec(a_pod)).amounts, compute_pod_limits(spec(a_pod)).amounts
    assert all(limits[name] <= requests[name] for name in limits)


@given(st.lists(pods(), max_size=4), st.lists(pods(), max_size=4))
@lean
def test_a_sum_of_charges_is_additive(some: list[Pod], others: list[Pod]) -> None:
    assert dict(sum_charges([*some, *others], COUNTED)) == dict(
        sum_charges(some, COUNTED) + sum_charges(others, COUNTED)
    )


@given(pods())
@lean
def test_a_charge_equals_the_requests_of_the_pod(a_pod: Pod) -> None:
    requests, charge = compute_pod_requests(spec(a_pod)).amounts, compute_charge(a_pod, COUNTED).amounts
    assert {name: charge.get(name, 0) for name in NAMES} == {name: requests.get(name, 0) for name in NAMES}
    assert charge["pods"] == 1


@given(pods())
@lean
def test_a_quota_charge_equals_the_requests_of_the_pod(a_pod: Pod) -> None:
    requests, quota = compute_pod_requests(spec(a_pod)).quantities, compute_quota_charge(a_pod, None)
    for name in ("cpu", "memory", "example.com/gpu"):
        assert quota.get(f"requests.{name}") == requests.get(name)


@given(pods(), st.lists(pods(), max_size=3), st.data())
@lean
def test_resources_are_insufficient_exactly_where_the_sum_exceeds_capacity(
    a_pod: Pod, others: list[Pod], data: st.DataObject
) -> None:
    capacity = {name: data.draw(st.integers(0, 6000)) for name in NAMES}
    a_node = node({**capacity, "pods": 100})
    needed = compute_pod_requests(spec(a_pod)).amounts
    for other in others:
        needed += compute_pod_requests(spec(other)).amounts
    units = {name: round_up_to_unit(name, Quantity.from_int(has)) for name, has in capacity.items()}
    requests = compute_pod_requests(spec(a_pod)).amounts
    over = {name for name in needed.find_shortfall(units) if requests.get(name)}
    assert {each.resource for each in find_shortfalls(a_pod, a_node, others)} == over


@given(pods(), st.lists(pods(), max_size=3))
@lean
def test_an_unresolvable_shortfall_exists_on_an_empty_node(a_pod: Pod, others: list[Pod]) -> None:
    a_node = node({"cpu": 1, "memory": 500, "example.com/gpu": 500, "pods": 100})
    crowded, empty = find_shortfalls(a_pod, a_node, others), find_shortfalls(a_pod, a_node, [])
    assert {each.resource for each in crowded if each.unresolvable} == {each.resource for each in empty}


LOOSE_NAME = st.one_of(
    st.sampled_from([*NAMES, "hugepages-2Mi", "gpu", "", "a/b/c", "requests.cpu", "foo.kubernetes.io/x"]),
    st.text(max_size=12),
)
LOOSE_VALUE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)
)
LOOSE = st.dictionaries(LOOSE_NAME, LOOSE_VALUE, max_size=4)


@given(LOOSE, LOOSE, LOOSE, LOOSE)
@lean
def test_validation_of_any_pod_is_deterministic(one: Json, other: Json, third: Json, fourth: Json) -> None:
    a_pod = pod(
        container("a", one, other),
        initContainers=[sidecar("s", third, fourth)],
        ephemeralContainers=[container("e", fourth, one)],
        resources={"requests": other, "limits": third},
        overhead=fourth,
    )
    for template in (False, True):
        found = validate_pod(a_pod, template=template) + check_pod_strictly(a_pod, template=template)
        assert found == validate_pod(a_pod, template=template) + check_pod_strictly(a_pod, template=template)
        assert all(problem.field.startswith("spec.") and problem.message for problem in found)


@given(LOOSE, LOOSE, st.sampled_from(["Container", "Pod", "PersistentVolumeClaim", "x"]))
@lean
def test_validation_accepts_any_node_quota_and_limit_range(one: Json, other: Json, kind: str) -> None:
    item = {"type": kind, "max": one, "min": other, "default": other, "maxLimitRequestRatio": one}
    a_range = limit_range(item)
    for problem in (
        validate_node(node(one, other))
        + validate_quota(quota(one, scopes=["BestEffort"]))
        + validate_limit_range(a_range)
        + check_limit_range_strictly(a_range)
    ):
        assert problem.field
        assert problem.message


@given(pods())
@lean
def test_reading_a_pod_twice_gives_the_same(a_pod: Pod) -> None:
    assert parse_pod_resources(spec(a_pod)) == parse_pod_resources(spec(a_pod))
    assert compute_limits(parse_pod_resources(spec(a_pod))).quantities == compute_pod_limits(spec(a_pod)).quantities
