"""Caches of checks, selections and charges: limited in size, and without effect on verdicts."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.result_cache import compute_fingerprint
from tallygate.admission.cap_index import CapIndex
from tallygate.admission.evaluate import evaluate_request
from tallygate.admission.request import Phase
from tallygate.admission.rule_index import RuleIndex, RuleSelection
from tallygate.objects.core import Pod
from tests.admission.case import create_request, parse_policies

WHOLE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: ["*"], checks: {wholeQuantity: true, perContainer: {max: 5000}}}
"""


def select_rules() -> RuleSelection:
    """Return the selection of one rule for all resources."""
    return RuleIndex(parse_policies(WHOLE)).select("Pod", "team-a", None)


def test_checks_are_cached_by_name_and_results_by_quantity() -> None:
    rules = select_rules()
    checks = rules.get_checks("example.com/a")
    assert rules.get_checks("example.com/a") is checks
    assert checks.check_quantity(b"1500m", is_container=True) is checks.check_quantity(b"1500m", is_container=True)


def test_only_the_latest_of_many_names_are_cached() -> None:
    rules = select_rules()
    for number in range(3000):
        rules.get_checks(f"example.com/a{number}")
    assert len(rules._checks_by_name) <= 256  # noqa: SLF001  # the size of the cache is visible nowhere else
    assert rules.get_checks("example.com/a2999") is rules.get_checks("example.com/a2999")


def test_a_name_that_is_too_long_is_checked_and_not_cached() -> None:
    rules = select_rules()
    assert rules.get_checks("a" * 321) is not rules.get_checks("a" * 321)
    assert rules.get_checks("a" * 320) is rules.get_checks("a" * 320)


def test_only_the_latest_of_many_quantities_are_cached() -> None:
    checks = select_rules().get_checks("example.com/a")
    for number in range(3000):
        assert not checks.check_quantity(str(number).encode(), is_container=True).failures
        assert checks.check_quantity(f"{number}.5".encode(), is_container=True).failures
    # the sizes of the caches are visible nowhere else
    assert 0 < len(checks.group.passing_quantities) <= 256
    assert checks._quantity_results  # noqa: SLF001
    assert len(checks._quantity_results) <= 256  # noqa: SLF001


def test_a_cached_quantity_is_checked_separately_for_container_and_pod() -> None:
    checks = select_rules().get_checks("example.com/a")
    assert checks.check_quantity(b"6000", is_container=True).failures
    assert not checks.check_quantity(b"6000", is_container=False).failures


RULES = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: ["*/*"], checks: {wholeQuantity: true, requestsEqualLimits: true, perPod: {max: 3}}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: strict}
spec:
  resources: ["example.com/a"]
  match: {objectSelector: {matchLabels: {strict: "yes"}}}
  checks: {perContainer: {max: 1}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: a-minute}
spec: {resources: [extended], checks: {activeDeadlineSeconds: {max: 1m}, requestsEqualLimits: false}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: cap}
spec: {namespaces: {include: ["*"]}, hard: {example.com/a: 4, limits.cpu: 4, pods: 10}}
"""

_LISTS = st.dictionaries(st.sampled_from(["example.com/a", "cpu"]), st.sampled_from(["1", "2", "500m", 1]), max_size=2)
_RESOURCES = st.fixed_dictionaries({}, optional={"requests": _LISTS, "limits": _LISTS})
_NAMES = {"name": st.sampled_from(["main", "side"])}
_CONTAINERS = st.lists(st.fixed_dictionaries(_NAMES, optional={"resources": _RESOURCES}), max_size=2)
_INIT_CONTAINERS = st.lists(
    st.fixed_dictionaries(_NAMES, optional={"resources": _RESOURCES, "restartPolicy": st.just("Always")}), max_size=2
)
_STATUSES = st.sampled_from(
    [
        {"phase": "Pending"},
        {"phase": "Succeeded"},
        {"containerStatuses": [{"name": "main", "resources": {"requests": {"example.com/a": "3"}}}]},
    ]
)
_PODS = st.fixed_dictionaries(
    {
        "metadata": st.sampled_from([{"name": "a"}, {"name": "b", "labels": {"strict": "yes"}}]),
        "spec": st.fixed_dictionaries(
            {"containers": _CONTAINERS},
            optional={
                "initContainers": _INIT_CONTAINERS,
                "activeDeadlineSeconds": st.sampled_from([60, 61]),
                "resourceClaims": st.just([{"name": "a"}]),
            },
        ),
    },
    optional={"status": _STATUSES},
)


_CHANGES = st.lists(st.fixed_dictionaries({"object": _PODS}, optional={"old": _PODS}), min_size=2, max_size=6)
_PARTS = _CONTAINERS.map(
    lambda containers: {
        "object": {"kind": "LLMInferenceServiceConfig", "spec": {"template": {"containers": containers}}},
        "group": "serving.kserve.io",
    }
)
"""Templates that are parts of those of their pods."""


@given(st.builds(list.__add__, _CHANGES, st.lists(_PARTS, max_size=3)).flatmap(st.permutations))
def test_cached_results_of_other_pods_change_no_verdict(changes: list[dict[str, Any]]) -> None:
    index = RuleIndex(parse_policies(RULES))
    for request in changes * 2:
        found = evaluate_request(create_request(request), index, None, Phase.VALIDATING)
        assert found == evaluate_request(
            create_request(request), RuleIndex(parse_policies(RULES)), None, Phase.VALIDATING
        )


def test_a_relabelled_bad_pod_does_not_exempt_a_new_pod_of_the_same_spec() -> None:
    resources = {"limits": {"example.com/a": "1500m"}, "requests": {"example.com/a": "1500m"}}
    bad = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "resources": resources}]}}
    relabelled = {**bad, "metadata": {"name": "a", "labels": {"x": "y"}}}
    index = RuleIndex(parse_policies(RULES))
    assert evaluate_request(
        create_request({"old": bad, "object": relabelled}), index, None, Phase.VALIDATING
    ).is_allowed
    created = evaluate_request(create_request({"object": bad}), index, None, Phase.VALIDATING)
    assert [problem.code for problem in created.problems] == ["TG123", "TG101"]


BY_LABEL = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: pods}
spec: {resources: [example.com/a], match: {kinds: [Pod]}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: teams}
spec:
  resources: [example.com/b]
  match: {namespaces: {include: [team-*], selector: {matchLabels: {gpu: "yes"}}}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: others}
spec:
  resources: [example.com/c]
  match: {namespaces: {exclude: [team-*], selector: {matchLabels: {gpu: "yes"}}}}
"""
_LABELLED = {"gpu": "yes"}
_REQUESTS: dict[str, tuple[tuple[str, str, dict[str, str] | None], list[str], list[str]]] = {
    "a pod of a team with the label": (("Pod", "team-a", _LABELLED), ["pods", "teams"], []),
    "a pod of a team without it": (("Pod", "team-b", {}), ["pods"], []),
    "a pod of a team whose labels are unknown": (("Pod", "team-c", None), ["pods"], ["teams"]),
    "a pod of others with the label": (("Pod", "d", _LABELLED), ["pods", "others"], []),
    "a pod of others without it": (("Pod", "e", {}), ["pods"], []),
    "a pod of others whose labels are unknown": (("Pod", "f", None), ["pods"], ["others"]),
    "a Job of a team with the label": (("Job", "team-a", _LABELLED), ["teams"], []),
    "a Job of a team without it": (("Job", "team-b", {}), [], []),
    "a Job of a team whose labels are unknown": (("Job", "team-c", None), [], ["teams"]),
}


@pytest.mark.parametrize("second", _REQUESTS)
@pytest.mark.parametrize("first", _REQUESTS)
def test_rules_of_an_earlier_request_do_not_apply_to_the_next(first: str, second: str) -> None:
    index = RuleIndex(parse_policies(BY_LABEL))
    for request, rules, unknown in (_REQUESTS[first], _REQUESTS[second]):
        found = index.select(*request)
        assert [rule.name for rule in found.rules] == rules
        assert [rule.name for rule in found.unknown] == unknown


@pytest.mark.parametrize("labels", [_LABELLED, {}, None], ids=["label", "no label", "labels unknown"])
def test_namespaces_with_the_same_rules_share_one_selection(labels: dict[str, str] | None) -> None:
    index = RuleIndex(parse_policies(BY_LABEL))
    assert index.select("Pod", "a", labels) is index.select("Pod", "b", labels)


def test_labels_that_no_rule_selects_by_take_no_space_in_the_cache() -> None:
    index = RuleIndex(parse_policies(WHOLE))
    for number in range(10):
        index.select("Pod", "team-a", {"number": str(number)})
    assert index._select.cache_info().currsize == 1  # noqa: SLF001  # the size of the cache is visible nowhere else


@given(st.lists(_PODS, min_size=2, max_size=6))
def test_cached_results_of_other_pods_change_no_charge(pods: list[dict[str, Any]]) -> None:
    (cap,) = CapIndex(parse_policies(RULES), None).list_caps()
    for written in pods * 2:
        pod = msgspec.json.decode(json.dumps(written), type=Pod)
        assert pod.spec is not None
        assert cap.compute_charge(pod, compute_fingerprint(pod.spec)) == cap.compute_charge(pod)


def test_a_sidecar_and_an_init_container_without_a_limit_lack_it_alike() -> None:
    (cap,) = CapIndex(parse_policies(RULES), None).list_caps()
    limited = {"name": "main", "resources": {"limits": {"cpu": "1"}}}
    found = []
    for first in ({"name": "side"}, {"name": "side", "restartPolicy": "Always"}):
        written = {"spec": {"containers": [limited], "initContainers": [first]}}
        pod = msgspec.json.decode(json.dumps(written), type=Pod)
        assert pod.spec is not None
        found.append(cap.compute_charge(pod, compute_fingerprint(pod.spec)).unlimited)
    assert found == [{"limits.cpu": ("side",)}] * 2
