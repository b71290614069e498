"""Webhooks for namespaces with some labels: who has one, how many there are, and that a change asks about no less."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.admission.match_conditions import MAX_LABEL_WEBHOOKS, MatchConditions
from tallygate.admission.webhook_configuration import ServiceTarget, create_webhook_configurations, widen_webhooks
from tallygate.admission.workload_resources import WorkloadResource
from tallygate.objects.admission_registration import Webhook, WebhookConfiguration
from tallygate.objects.meta import ObjectMeta
from tallygate.policy.model import PolicySet
from tests.admission.case import parse_policies
from tests.admission.conditions import list_asked
from tests.effort import examples

CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: %s}
spec: {namespaces: {%s}, hard: {%s: 4}}
"""
GPU = "nvidia.com/gpu"


def _select(**labels: str) -> str:
    return f"selector: {{matchLabels: {{{', '.join(f'{key}: {value}' for key, value in labels.items())}}}}}"


def _create_validating(policies: PolicySet, resources: Sequence[WorkloadResource] = ()) -> WebhookConfiguration:
    conditions = MatchConditions(policies)
    return create_webhook_configurations(ServiceTarget(), conditions=conditions, workload_resources=resources)[1]


def _list_selected(webhooks: Sequence[Webhook], first: str = "") -> dict[str, list[str]]:
    """Return the requirements of each webhook for labels, by the part of its name before and with the number."""
    return {
        webhook.name.removesuffix(".validate.tallygate.dev"): [
            f"{each.key} {each.operator} {','.join(each.values or ())}".strip()
            for each in (webhook.namespace_selector.match_expressions or [])[1:]
        ]
        for webhook in webhooks
        if f"{first}labels-" in webhook.name
    }


def _find(webhooks: Sequence[Webhook], name: str) -> Webhook:
    return next(webhook for webhook in webhooks if webhook.name == f"{name}.validate.tallygate.dev")


def _read_conditions(webhook: Webhook) -> dict[str, str]:
    return {condition.name: condition.expression for condition in webhook.match_conditions}


def test_a_cap_by_label_has_webhooks_of_its_own() -> None:
    """Ask about no pod elsewhere, and keep the excluded namespaces."""
    webhooks = _create_validating(parse_policies(CAP % ("gold", _select(tier="gold"), "pods"))).webhooks
    selected = _list_selected(webhooks)
    assert selected.keys() == {"labels-1", "updates.labels-1", "scales.labels-1"}
    assert all(requirements == ["tier In gold"] for requirements in selected.values())
    assert _read_conditions(_find(webhooks, "labels-1")).keys() == {"a-policy-may-decide"}
    base = next(webhook for webhook in webhooks if webhook.name == "validate.tallygate.dev")
    assert _read_conditions(base) == {"a-policy-may-decide": "false"}
    excluded = base.namespace_selector.match_expressions or []
    assert (_find(webhooks, "labels-1").namespace_selector.match_expressions or [])[:1] == excluded


def test_what_is_asked_by_name_is_not_asked_again_by_label() -> None:
    text = "---".join((CAP % ("gold", _select(tier="gold"), "pods"), CAP % ("a", "include: [team-a]", GPU)))
    webhooks = _create_validating(parse_policies(text)).webhooks
    (by_name,) = (each for each in webhooks if each.name == "validate.tallygate.dev")
    expression = _read_conditions(by_name)["a-policy-may-decide"]
    assert _read_conditions(_find(webhooks, "labels-1"))["not-asked-by-name"] == f"!({expression})"


def test_caps_that_differ_in_the_value_alone_share_webhooks() -> None:
    teams = [CAP % (team, _select(team=team), GPU) for team in ("a", "b", "c")]
    selected = _list_selected(_create_validating(parse_policies("---".join(teams))).webhooks, "updates.")
    assert selected == {"updates.labels-1": ["team In a,b,c"]}


def test_overlapping_selectors_are_divided() -> None:
    """Let the widest policy have all of its namespaces in one webhook, and take these from the others."""
    text = "---".join(
        (CAP % ("team", _select(team="a", tier="silver"), GPU), CAP % ("gold", _select(tier="gold", kind="x"), "pods"))
    )
    assert list(_list_selected(_create_validating(parse_policies(text)).webhooks, "scales.").values()) == [
        ["kind In x", "tier In gold"],
        ["team In a", "tier In silver"],
    ]
    text = "---".join((CAP % ("team", _select(team="a"), GPU), CAP % ("gold", _select(tier="gold", kind="x"), "pods")))
    assert list(_list_selected(_create_validating(parse_policies(text)).webhooks, "scales.").values()) == [
        ["kind In x", "tier In gold"],
        ["kind NotIn x", "team In a"],
        ["kind In x", "team In a", "tier NotIn gold"],
    ]


def test_a_selector_that_no_namespace_has_needs_no_webhook() -> None:
    text = CAP % (
        "none",
        "selector: {matchLabels: {team: a}, matchExpressions: [{key: team, operator: DoesNotExist}]}",
        "pods",
    )
    webhooks = _create_validating(parse_policies(text)).webhooks
    assert not _list_selected(webhooks)
    assert _read_conditions(webhooks[0]) == {"a-policy-may-decide": "false"}


def test_groups_are_asked_about_where_the_label_exists() -> None:
    text = CAP.replace("hard", "groupBy: {label: team}, hard") % ("teams", "", "pods")
    assert _list_selected(_create_validating(parse_policies(text)).webhooks)["labels-1"] == ["team Exists"]


def test_resources_outside_namespaces_are_in_the_webhook_for_all_namespaces_alone() -> None:
    """Leave them out of the others: an API server compares no selector with such an object."""
    resources = [
        WorkloadResource("example.com", "v1", plural, is_namespaced=plural == "jobs") for plural in ("jobs", "sets")
    ]
    webhooks = _create_validating(parse_policies(CAP % ("gold", _select(tier="gold"), GPU)), resources).webhooks
    listed = {
        webhook.name.removesuffix(".validate.tallygate.dev"): [rule.resources for rule in webhook.rules]
        for webhook in webhooks
        if webhook.name.startswith("workloads.")
    }
    assert listed == {"workloads": [("jobs",), ("sets",)], "workloads.labels-1": [("jobs",)]}


@pytest.mark.parametrize("count", [MAX_LABEL_WEBHOOKS, MAX_LABEL_WEBHOOKS + 1])
def test_beyond_some_selectors_namespaces_are_asked_about_whatever_their_labels(count: int) -> None:
    """Name the policies; those that concern every pod come first."""
    values = [f"v{number}" for number in range(count)]
    text = "---".join(
        CAP % (value, _select(tier=value), "pods" if number == count - 1 else f"example.com/{value}")
        for number, value in enumerate(values)
    )
    conditions = MatchConditions(parse_policies(text))
    webhooks = _create_validating(parse_policies(text)).webhooks
    assert len(_list_selected(webhooks, "updates.")) == MAX_LABEL_WEBHOOKS
    assert conditions.unselected == (frozenset() if count == MAX_LABEL_WEBHOOKS else {values[-2]})
    by_name = next(webhook for webhook in webhooks if webhook.name == "validate.tallygate.dev")
    assert (f"example.com/{values[-2]}" in str(by_name)) == (count > MAX_LABEL_WEBHOOKS)


def test_a_registration_that_asks_about_everything_has_no_webhook_for_labels() -> None:
    policies = parse_policies(CAP % ("gold", _select(tier="gold"), GPU))
    conditions = MatchConditions(policies, asks_everything=True)
    for configuration in create_webhook_configurations(ServiceTarget(), conditions=conditions):
        assert not _list_selected(configuration.webhooks)


def test_a_selector_that_is_dropped_is_asked_about_meanwhile() -> None:
    """Keep the stored webhook, and the part of its namespaces that no other one selects."""
    gold, both = CAP % ("gold", _select(tier="gold"), "pods"), CAP % ("team", _select(team="a"), GPU)
    stored = _create_validating(parse_policies(gold)).webhooks
    widened = tuple(widen_webhooks(_create_validating(parse_policies(both)).webhooks, stored))
    assert list(_list_selected(widened, "updates.").values()) == [["team In a"], ["team NotIn a", "tier In gold"]]
    assert tuple(widen_webhooks(_create_validating(parse_policies(both)).webhooks, widened)) == widened


_LABELS = st.fixed_dictionaries(
    {}, optional={"tier": st.sampled_from(["gold", "silver"]), "team": st.sampled_from(["vision", "speech"])}
)


def _count_calls(webhooks: Sequence[Webhook], request: Mapping[str, Any], labels: Mapping[str, str]) -> int:
    configuration = WebhookConfiguration(ObjectMeta(), tuple(webhooks))
    labels = {**labels, "kubernetes.io/metadata.name": request["namespace"]}
    return sum(webhook.is_called(request, labels) for webhook in list_asked(configuration, request))


_SELECTORS = st.sampled_from(
    [
        _select(tier="gold"),
        _select(tier="silver"),
        _select(tier="gold", team="vision"),
        "selector: {matchExpressions: [{key: team, operator: Exists}]}",
        "selector: {matchExpressions: [{key: tier, operator: NotIn, values: [gold]}]}",
        'include: ["team-*"]',
    ]
)
_VERSIONS = st.lists(st.lists(st.tuples(_SELECTORS, st.sampled_from([GPU, "pods", "cpu"])), max_size=2), max_size=5)
_PODS = [
    {"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {"limits": {name: "1"}}}]}}
    for name in (GPU, "cpu")
]


@settings(max_examples=examples(100), deadline=None)
@given(_VERSIONS, st.sampled_from(_PODS), _LABELS)
def test_a_wider_registration_asks_about_what_the_stored_ones_asked(
    versions: list[list[tuple[str, str]]], pod: dict[str, Any], labels: dict[str, str]
) -> None:
    """Change the policies some times, and ask once about a pod that an earlier version was asked about."""
    request = {
        "kind": {"group": "", "kind": "Pod"},
        "resource": "pods",
        "namespace": "team-a",
        "operation": "CREATE",
        "object": pod,
    }
    stored: tuple[Webhook, ...] = ()
    was_asked = 0
    for version in versions:
        text = "---".join(CAP % (f"cap-{number}", *chosen) for number, chosen in enumerate(version))
        exact = _create_validating(parse_policies(text) if version else PolicySet()).webhooks
        widened = tuple(widen_webhooks(exact, stored))
        was_asked = max(was_asked, _count_calls(exact, request, labels))
        assert was_asked <= _count_calls(widened, request, labels) <= 1
        assert tuple(widen_webhooks(exact, widened)) == widened
        stored = widened
