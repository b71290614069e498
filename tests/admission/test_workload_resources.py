"""The resources of other projects: which are selected, and the webhooks that are called for them."""

import re
from typing import Any

import pytest

from tallygate.admission.kinds import BUILT_IN_TARGETS, REVIEW_TARGETS
from tallygate.admission.webhook_configuration import ServiceTarget
from tallygate.admission.workload_resources import (
    ServedResources,
    WorkloadResource,
    read_registered,
    select_resources,
)
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.workload_kinds import CountField, FieldPath, PodSetDefinition, WorkloadKind
from tests.admission.plain_configurations import create_plain_configurations, to_typed

EVERYTHING_SERVED = {
    (kind.group, version, kind.resource): kind.is_namespaced for kind in KNOWN_KINDS for version in kind.versions
}
JOB_SETS = WorkloadResource("jobset.x-k8s.io", "v1alpha2", "jobsets", is_namespaced=True)


def webhooks(*resources: WorkloadResource, **options: Any) -> list[dict[str, Any]]:
    """Return the webhook of each phase for these resources."""
    configurations = create_plain_configurations(ServiceTarget(), workload_resources=resources, **options)
    return [each for pair in configurations for each in pair["webhooks"] if each["name"].startswith("workloads.")]


def kind_with(*paths: str, annotation: str = "") -> WorkloadKind:
    """Return a kind with templates at these paths, and a count in an annotation."""
    counts = ((CountField(FieldPath.parse(f'metadata.annotations["{annotation}"]')),),) if annotation else ()
    pod_sets = tuple(PodSetDefinition((FieldPath.parse(path),), counts) for path in paths)
    return WorkloadKind("example.com", "Gang", "gangs", ("v2", "v1"), pod_sets)


def test_every_known_kind_has_the_name_of_its_target() -> None:
    assert {(each.group, each.plural) for each in select_resources(KNOWN_KINDS, EVERYTHING_SERVED)} == {
        (group, target.plural) for (group, _), target in REVIEW_TARGETS.items() if (group, _) not in BUILT_IN_TARGETS
    }


@pytest.mark.parametrize(
    ("versions", "selected"),
    [
        (("v2", "v1"), ["gangs.v2.example.com"]),
        (("v1",), ["gangs.v1.example.com"]),
        (("v1", "v3"), ["gangs.v1.example.com"]),
        (("v3",), []),
        ((), []),
    ],
)
def test_the_newest_version_that_is_served_and_read_is_selected(versions: tuple[str, ...], selected: list[str]) -> None:
    served = {("example.com", version, "gangs"): True for version in versions} | {("other.com", "v2", "gangs"): True}
    assert [str(each) for each in select_resources([kind_with("spec.template")], served)] == selected


def test_of_two_definitions_of_a_kind_the_last_one_counts() -> None:
    served = {("example.com", "v1", "gangs"): True}
    (found,) = select_resources([kind_with("spec.template"), kind_with("template")], served)
    assert found.fields == (("spec",), ("template",))


def test_one_webhook_in_each_phase_is_called_for_exactly_these() -> None:
    resources = select_resources(KNOWN_KINDS, EVERYTHING_SERVED)
    for webhook in webhooks(*resources):
        assert read_registered(to_typed({"metadata": {}, "webhooks": [webhook]})) == {
            each[:3]: each.is_namespaced for each in resources
        }
        assert {operation for rule in webhook["rules"] for operation in rule["operations"]} == {"CREATE", "UPDATE"}
        assert ("argoproj.io", "clusterworkflowtemplates", "Cluster") in [
            (rule["apiGroups"][0], resource, rule["scope"])
            for rule in webhook["rules"]
            for resource in rule["resources"]
        ]
        assert not any(
            "/" in resource or "*" in resource for rule in webhook["rules"] for resource in rule["resources"]
        )


def test_their_webhooks_are_as_those_of_creations() -> None:
    options: dict[str, Any] = {"failure_policy": "Ignore", "exempt_namespaces": ["calico"], "ca_bundle": b"x"}
    plain = create_plain_configurations(ServiceTarget(), **options)
    for configuration, webhook in zip(plain, webhooks(JOB_SETS, **options), strict=True):
        creations = configuration["webhooks"][0]
        same = creations.keys() - {"name", "rules", "matchConditions"}
        assert {name: webhook[name] for name in same} == {name: creations[name] for name in same}


def test_without_such_resources_no_such_webhook_is_registered() -> None:
    assert webhooks() == []
    assert read_registered(to_typed({"metadata": {}})) == {}
    for configuration in create_plain_configurations(ServiceTarget()):
        assert read_registered(to_typed(configuration)) == {}


@pytest.mark.parametrize(
    ("kind", "compared"),
    [
        (kind_with("spec.template", "spec.items[*].template"), [".?spec"]),
        (kind_with("template"), [".?spec", '[?"template"]']),
        (kind_with("spec.template", annotation="a.b/count"), ['.metadata[?"annotations"]', ".?spec"]),
        (kind_with("in-line.template"), ['[?"in-line"]', ".?spec"]),
    ],
)
def test_an_update_is_sent_if_a_field_changes_that_is_read(kind: WorkloadKind, compared: list[str]) -> None:
    served: ServedResources = {("example.com", "v1", "gangs"): True}
    for webhook in webhooks(*select_resources([kind], served)):
        (condition,) = webhook["matchConditions"]
        first, *comparisons = condition["expression"].split(" || ")
        assert first == "request.operation != 'UPDATE'"
        matches = [re.fullmatch(r"object(\S+) != oldObject(\S+)", each) for each in comparisons]
        pairs = [(match[1], match[2]) for match in matches if match]
        assert pairs == [(each, each) for each in [*compared, ".metadata.?labels"]]


def test_scale_requests_of_scalable_resources_are_sent_in_the_registered_version() -> None:
    rollouts = WorkloadResource("argoproj.io", "v1alpha1", "rollouts", is_namespaced=True)
    _, validating = create_plain_configurations(ServiceTarget(), workload_resources=[JOB_SETS, rollouts])
    (webhook,) = (each for each in validating["webhooks"] if each["name"].startswith("scales."))
    others = [rule for rule in webhook["rules"] if rule["apiGroups"][0] not in {"", "apps"}]
    assert [(rule["apiVersions"], rule["resources"], rule["operations"]) for rule in others] == [
        (["v1alpha1"], ["rollouts/scale"], ["UPDATE"])
    ]
