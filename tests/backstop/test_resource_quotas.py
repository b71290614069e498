"""Tests of the ResourceQuotas that are made of caps."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from tallygate.backstop.compiled_objects import CompiledObject
from tallygate.backstop.gaps import Gap
from tallygate.backstop.resource_quotas import ObservedCluster, create_resource_quotas, list_assumed_resources
from tests.admission.case import parse_policies

GPU = "nvidia.com/gpu"
DEVICES = "gpu.example.com.deviceclass.resource.k8s.io/devices"
CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/gpu.example.com"
NOW = datetime(2026, 12, 1, tzinfo=UTC)
TEAMS = {"team-a": {"team": "vision"}, "team-b": {}, "other": {"team": "vision"}}
LATER = "2026-12-04T18:00:00Z"


def cap(spec: str, name: str = "gpus") -> str:
    """Return the text of a cap with the fields of its spec in flow style."""
    return f"apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


def compile_caps(
    *texts: str,
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    resources_by_class: Mapping[str, str] | None = None,
    excluded: tuple[str, ...] = ("kube-system",),
) -> tuple[list[CompiledObject], list[Gap]]:
    """Return the quotas and gaps of the caps."""
    cluster = ObservedCluster(namespaces, resources_by_class, excluded)
    return create_resource_quotas(parse_policies("---\n".join(texts)), cluster, NOW)


def read_hard(quotas: list[CompiledObject]) -> dict[str, dict[str, str]]:
    """Return the limits of each quota by `namespace/name`, without the prefix of names."""
    return {
        f"{quota['metadata']['namespace']}/{quota['metadata']['name'].removeprefix('tallygate-')}": quota["spec"][
            "hard"
        ]
        for quota in quotas
    }


def format_gaps(gaps: list[Gap]) -> list[str]:
    """Return the subject of each gap, with a mark for those that nothing enforces."""
    return [f"{gap.subject}{'' if gap.is_looser else ' (nothing)'}" for gap in gaps]


def test_a_quota_has_the_limits_of_its_cap_and_the_metadata_of_compiled_objects() -> None:
    quotas, gaps = compile_caps(cap(f"namespaces: {{include: [team-a]}}, hard: {{{GPU}: 8, pods: 50}}"))
    (quota,) = quotas
    assert (quota["apiVersion"], quota["kind"]) == ("v1", "ResourceQuota")
    assert quota["spec"] == {"hard": {"pods": "50", f"requests.{GPU}": "8"}}
    assert quota["metadata"]["name"] == "tallygate-gpus"
    assert quota["metadata"]["labels"]["tallygate.dev/policy"] == "gpus"
    assert quota["metadata"]["annotations"]["tallygate.dev/digest"]
    assert gaps == []


_ONE = "namespaces: {include: [team-a]}"
_LINES: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "requests of cpu and memory": (
        "hard: {cpu: 4, memory: 8Gi, pods: 3}",
        {"pods": "3"},
        ["hard.cpu (nothing)", "hard.memory (nothing)"],
    ),
    "limits": (
        "hard: {limits.cpu: 1500m, limits.memory: 8Gi, limits.ephemeral-storage: 1Gi}",
        {"limits.cpu": "1500m", "limits.ephemeral-storage": "1Gi", "limits.memory": "8Gi"},
        ["hard.limits.cpu", "hard.limits.ephemeral-storage", "hard.limits.memory"],
    ),
    "requests that a quota does not demand": (
        "hard: {ephemeral-storage: 5Gi, hugepages-2Mi: 64Mi}",
        {"requests.ephemeral-storage": "5Gi", "requests.hugepages-2Mi": "64Mi"},
        [],
    ),
    "a limit of 0": (f"hard: {{{GPU}: 0}}", {f"requests.{GPU}": "0"}, []),
    "half a core more than whole": ("hard: {limits.cpu: 1.5005}", {"limits.cpu": "1500m"}, ["hard.limits.cpu"]),
    "names that a quota never counts": (
        f"hard: {{limits.{GPU}: 4, pod.alpha.kubernetes.io/opaque-int-resource-x: 1, pods: 1}}",
        {"pods": "1"},
        [f"hard.limits.{GPU} (nothing)", "hard.pod.alpha.kubernetes.io/opaque-int-resource-x (nothing)"],
    ),
    "devices of a class": (
        f"hard: {{{DEVICES}: 4, {CLASS_RESOURCE}: 2, pods: 1}}",
        {"pods": "1"},
        [
            f"hard.{CLASS_RESOURCE} (nothing)",
            f"hard.{DEVICES} (nothing)",
        ],
    ),
    "devices of mapped classes": (
        f"hard: {{{GPU}: 4}}, devices: {{{GPU}: {{classes: [gpu.example.com]}}}}",
        {f"requests.{GPU}": "4"},
        [f"hard.{GPU}"],
    ),
    "devices by allocation": (
        "hard: {gpu-memory: 80Gi, pods: 1}, devices: {gpu-memory: {sum: memory}}",
        {"pods": "1"},
        ["hard.gpu-memory (nothing)"],
    ),
    "a percentage with the largest amount, and one without": (
        f"hard: {{{GPU}: {{percent: 25%, atMost: 16}}, pods: 50%}}, soft: {{{GPU}: 20%}}",
        {f"requests.{GPU}": "16"},
        [f"hard.{GPU}", "hard.pods (nothing)", f"soft.{GPU} (nothing)"],
    ),
    "a percentage that an override replaces": (
        f"hard: {{{GPU}: {{percent: 25%, atMost: 16}}}}, overrides: [{{hard: {{{GPU}: 20}}, until: {LATER}}}]",
        {f"requests.{GPU}": "20"},
        [f"hard.{GPU}", f"overrides.hard.{GPU}"],
    ),
    "a percentage of what a quota does not count": (
        "hard: {cpu: {percent: 25%, atMost: 16}, memory: 50%, pods: 1}",
        {"pods": "1"},
        ["hard.cpu (nothing)", "hard.memory (nothing)"],
    ),
    "a weighted sum": (
        f"hard: {{slices: 30}}, counts: {{slices: {{weights: {{nvidia.com/mig: 1, {GPU}: 7}}}}}}",
        {"requests.nvidia.com/mig": "30", f"requests.{GPU}": "4"},
        ["hard.slices"],
    ),
    "a sum with the limit of one of its resources": (
        f"hard: {{slices: 30, {GPU}: 2}}, counts: {{slices: {{weights: {{{GPU}: 7}}}}}}",
        {f"requests.{GPU}": "2"},
        [],
    ),
    "thousandths by annotations": (
        f"hard: {{t: 4500}}, counts: {{t: {{annotation: gpu-fraction, weights: {{{GPU}: 1000}}}}}}",
        {f"requests.{GPU}": "4"},
        ["hard.t"],
    ),
    "annotations alone": (
        "hard: {t: 4500, pods: 1}, counts: {t: {annotation: gpu-fraction}}",
        {"pods": "1"},
        ["hard.t (nothing)"],
    ),
    "a product": (
        f"hard: {{m: 4500, pods: 1}}, counts: {{m: {{product: [{GPU}, nvidia.com/gpumem]}}}}",
        {"pods": "1"},
        ["hard.m (nothing)"],
    ),
    "soft limits": (f"hard: {{{GPU}: 4}}, soft: {{{GPU}: 2}}", {f"requests.{GPU}": "4"}, [f"soft.{GPU} (nothing)"]),
    "a surge": (
        f"hard: {{{GPU}: 4, pods: 1}}, surge: {{amounts: {{{GPU}: 2}}, for: 15m}}",
        {"pods": "1", f"requests.{GPU}": "6"},
        [f"surge.amounts.{GPU}"],
    ),
    "whole workloads": (f"hard: {{{GPU}: 4}}, admit: whole", {f"requests.{GPU}": "4"}, ["admit"]),
    "denied workloads": (
        f"hard: {{{GPU}: 4}}, workloads: deny",
        {f"requests.{GPU}": "4"},
        ["workloads (nothing)"],
    ),
    "an override that ends": (
        f"hard: {{{GPU}: 4}}, overrides: [{{hard: {{{GPU}: 12}}, until: '{LATER}'}}]",
        {f"requests.{GPU}": "12"},
        [f"overrides.hard.{GPU}"],
    ),
    "a smaller limit for a time": (
        f"hard: {{{GPU}: 4}}, overrides: [{{hard: {{{GPU}: 1}}, until: '{LATER}'}}]",
        {f"requests.{GPU}": "4"},
        [f"overrides.hard.{GPU}"],
    ),
    "an override that has ended": (
        f"hard: {{{GPU}: 4}}, overrides: [{{hard: {{{GPU}: 12}}, until: 2026-11-01}}]",
        {f"requests.{GPU}": "4"},
        [],
    ),
    "an override of another namespace": (
        f"hard: {{{GPU}: 4}}, overrides: [{{namespaces: [team-b], hard: {{{GPU}: 12}}}}]",
        {f"requests.{GPU}": "4"},
        [],
    ),
    "an annotation that may raise": (
        f"hard: {{{GPU}: 4}}, overrideAnnotation: {{setBy: {{groups: [x]}}, most: {{{GPU}: 16}}}}",
        {f"requests.{GPU}": "16"},
        [f"overrideAnnotation.most.{GPU}"],
    ),
}


@pytest.mark.parametrize("name", _LINES)
def test_lines_of_a_quota(name: str) -> None:
    spec, hard, gaps = _LINES[name]
    quotas, found = compile_caps(cap(f"{_ONE}, {spec}"))
    assert read_hard(quotas) == {"team-a/gpus": hard}
    assert format_gaps(found) == gaps
    assert {gap.policy for gap in found} <= {"cap gpus"}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("exceed: {groups: [sre]}", "some users may exceed the cap (exceed)"),
        ("pods: {objectSelector: {matchLabels: {a: b}}}", "the cap counts pods by their labels"),
        ("pods: {nodeSelector: {gpu: a100}}", "the cap counts pods by their node selector"),
    ],
)
def test_a_cap_whose_pods_or_users_a_quota_does_not_know_has_none(spec: str, reason: str) -> None:
    quotas, gaps = compile_caps(cap(f"{_ONE}, hard: {{{GPU}: 4}}, {spec}"), namespaces=TEAMS)
    assert quotas == []
    assert format_gaps(gaps) == [f"hard.{GPU} (nothing)"]
    assert gaps[0].reason.startswith(reason)


def test_priority_classes_are_a_scope_which_accepts_some_names_only() -> None:
    spec = f"pods: {{priorityClasses: [high, batch]}}, hard: {{{GPU}: 4, pods: 2, limits.cpu: 1, hugepages-2Mi: 2Mi}}"
    quotas, gaps = compile_caps(cap(f"{_ONE}, {spec}"), resources_by_class={"c": GPU})
    assert quotas[0]["spec"] == {
        "hard": {"limits.cpu": "1", "pods": "2", f"requests.{GPU}": "4"},
        "scopeSelector": {
            "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["batch", "high"]}]
        },
    }
    assert format_gaps(gaps) == ["hard.hugepages-2Mi (nothing)", "hard.limits.cpu"]
    assert list_assumed_resources(quotas) == []


def test_a_resource_of_a_device_class_has_no_quota_that_would_count_claims() -> None:
    text = cap(f"{_ONE}, hard: {{{GPU}: 4, example.com/nic: 2}}")
    quotas, gaps = compile_caps(text, namespaces=TEAMS, resources_by_class={"gpu.nvidia.com": GPU, "nic": ""})
    assert read_hard(quotas) == {"team-a/gpus": {"requests.example.com/nic": "2"}}
    assert format_gaps(gaps) == [f"hard.{GPU} (nothing)"]
    unread, _ = compile_caps(text)
    assert list_assumed_resources(unread) == ["example.com/nic", GPU]


_MEMBERS: dict[str, tuple[str, dict[str, list[str]], list[str]]] = {
    "names": ("include: [team-b, team-a]", {"known": ["team-a", "team-b"], "unknown": ["team-a", "team-b"]}, []),
    "a name that does not exist": ("include: [team-x]", {"known": [], "unknown": ["team-x"]}, []),
    "globs": (
        'include: ["team-*", other]',
        {"known": ["other", "team-a", "team-b"], "unknown": ["other"]},
        ["namespaces"],
    ),
    "all but some": (
        "exclude: [other]",
        {"known": ["default", "team-a", "team-b"], "unknown": []},
        ["namespaces (nothing)"],
    ),
    "labels": (
        "include: [team-a], selector: {matchLabels: {team: vision}}",
        {"known": ["team-a"], "unknown": []},
        ["namespaces (nothing)"],
    ),
    "an excluded name": ("include: [kube-system, team-a]", {"known": ["team-a"], "unknown": ["team-a"]}, []),
}


@pytest.mark.parametrize("name", _MEMBERS)
def test_namespaces_with_a_quota(name: str) -> None:
    selector, expected, gaps = _MEMBERS[name]
    text = cap(f"namespaces: {{{selector}}}, hard: {{{GPU}: 4}}")
    known = {**TEAMS, "default": {}, "kube-system": {}}
    quotas, known_gaps = compile_caps(text, namespaces=known)
    unread, unread_gaps = compile_caps(text)
    assert [quota["metadata"]["namespace"] for quota in quotas] == expected["known"]
    assert [quota["metadata"]["namespace"] for quota in unread] == expected["unknown"]
    assert known_gaps == []
    assert format_gaps(unread_gaps) == gaps


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("shared: true", {"other/gpus", "team-a/gpus", "team-b/gpus"}),
        ("groupBy: {label: team}", {"other/gpus", "team-a/gpus"}),
    ],
)
def test_namespaces_that_share_a_cap_have_the_whole_limit_each(spec: str, expected: set[str]) -> None:
    quotas, gaps = compile_caps(cap(f"hard: {{{GPU}: 4}}, {spec}"), namespaces=TEAMS)
    assert read_hard(quotas) == {key: {f"requests.{GPU}": "4"} for key in expected}
    assert format_gaps(gaps) == [f"hard.{GPU}"]


def test_a_group_has_the_limit_of_its_override() -> None:
    spec = f"hard: {{{GPU}: 4}}, groupBy: {{label: team}}, overrides: [{{groups: [vision], hard: {{{GPU}: 9}}}}]"
    quotas, _ = compile_caps(cap(spec), namespaces={"team-a": {"team": "vision"}, "team-b": {"team": "speech"}})
    assert read_hard(quotas) == {"team-a/gpus": {f"requests.{GPU}": "9"}, "team-b/gpus": {f"requests.{GPU}": "4"}}


def test_quotas_are_ordered_by_namespace_and_name() -> None:
    both: dict[str, Any] = {"namespaces": TEAMS}
    quotas, _ = compile_caps(cap("hard: {pods: 4}", "z"), cap("hard: {pods: 5}", "a"), **both)
    assert list(read_hard(quotas)) == ["other/a", "other/z", "team-a/a", "team-a/z", "team-b/a", "team-b/z"]
