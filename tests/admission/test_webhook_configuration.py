"""The webhook configurations: the requests that the API server sends, and their target."""

import base64
import json
from itertools import chain
from typing import Any

import pytest

from tallygate.admission.kinds import BUILT_IN_TARGETS, REVIEW_TARGETS, SCALABLE_KINDS, find_review_target
from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.request import AdmissionRequest
from tallygate.admission.webhook_configuration import (
    ServiceTarget,
    UrlTarget,
    create_webhook_configurations,
    list_own_conditions,
    widen_webhooks,
)
from tallygate.policy.model import PolicySet
from tests.admission.case import parse_policies
from tests.admission.conditions import evaluate_condition, list_policy_conditions
from tests.admission.plain_configurations import create_plain_configurations

SERVICE = ServiceTarget("gates", "gate", 8443)
DEVICES = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: [extended, opaque]}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: ["team-*"]}, hard: {nvidia.com/gpu: 4}}
"""
IMPLIED = """
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {name: addresses}
spec: {resource: example.com/ip, match: {namespaces: {include: ["team-*"]}}}
"""


def list_webhooks(**options: Any) -> list[dict[str, Any]]:
    """Return every webhook of both configurations."""
    return [
        webhook
        for configuration in create_plain_configurations(SERVICE, **options)
        for webhook in configuration["webhooks"]
    ]


def select_evaluating(webhooks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the webhooks that evaluate objects; others update ledgers or are about policies."""
    others = ("namespaces.", "limits.", "scales.", "policies.")
    return [webhook for webhook in webhooks if not webhook["name"].startswith(others)]


def list_sent_requests(webhooks: list[dict[str, Any]]) -> set[tuple[str, str, str, str]]:
    """Return group, resource with subresource, operation and scope of each rule of the webhooks."""
    return {
        (group, resource, operation, rule["scope"])
        for rule in chain.from_iterable(webhook["rules"] for webhook in webhooks)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }


def test_the_names_contain_phase_and_part() -> None:
    mutating, validating = create_plain_configurations(SERVICE)
    assert (mutating["kind"], validating["kind"]) == ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    assert {each["apiVersion"] for each in (mutating, validating)} == {"admissionregistration.k8s.io/v1"}
    assert {each["metadata"]["name"] for each in (mutating, validating)} == {"tallygate"}
    assert [each["name"] for each in mutating["webhooks"]] == [
        "mutate.tallygate.dev",
        "updates.mutate.tallygate.dev",
        "nodes.mutate.tallygate.dev",
    ]
    assert [each["name"] for each in validating["webhooks"]] == [
        "validate.tallygate.dev",
        "updates.validate.tallygate.dev",
        "nodes.validate.tallygate.dev",
        "namespaces.validate.tallygate.dev",
        "limits.validate.tallygate.dev",
        "scales.validate.tallygate.dev",
        "policies.validate.tallygate.dev",
    ]


def test_exactly_the_evaluated_requests_are_sent() -> None:
    """Compare with each resource and its subresources, which are never created: no lease, no event, no status."""
    expected = {
        (group, f"{found.plural}/{part}".rstrip("/"), operation, "Cluster" if kind == "Node" else "Namespaced")
        for (group, kind), found in BUILT_IN_TARGETS.items()
        for part in found.subresources
        for operation in (("UPDATE",) if part else ("CREATE", "UPDATE"))
    }
    mutating, validating = create_plain_configurations(SERVICE)
    assert list_sent_requests(select_evaluating(validating["webhooks"])) == expected
    without_claims = {each for each in expected if each[0] != "resource.k8s.io"}
    assert list_sent_requests(select_evaluating(mutating["webhooks"])) == without_claims
    assert {("", "pods/resize", "UPDATE", "Namespaced")} < expected
    assert ("resource.k8s.io", "resourceclaims/status", "UPDATE", "Namespaced") in expected
    assert len(expected) == 2 * len(BUILT_IN_TARGETS) + 4


def test_no_request_is_sent_twice() -> None:
    """Count the requests of all webhooks: two that match the same request would both be called."""
    for configuration in create_plain_configurations(SERVICE):
        webhooks = {each["name"].partition(".")[0]: each for each in configuration["webhooks"]}
        if namespaces := webhooks.pop("namespaces", None):
            (labels,), (limits,) = namespaces["matchConditions"], webhooks["limits"]["matchConditions"]
            assert labels["expression"].endswith(f" && !({limits['expression']})")
        requests_by_webhook = [list_sent_requests([webhook]) for webhook in webhooks.values()]
        assert sum(map(len, requests_by_webhook)) == len(set().union(*requests_by_webhook))


def test_creates_have_no_match_condition_in_the_validating_phase() -> None:
    """Expect one condition for creates, because the API server converts the object for each condition."""
    mutating, validating = (configuration["webhooks"] for configuration in create_plain_configurations(SERVICE))
    for webhooks, expected in ((mutating, ["may-be-mended"]), (validating, [])):
        created = [each for each in webhooks if ("", "pods", "CREATE", "Namespaced") in list_sent_requests([each])]
        assert [[condition["name"] for condition in each.get("matchConditions", [])] for each in created] == [expected]
        assert {operation for _, _, operation, _ in list_sent_requests(created)} == {"CREATE"}


def test_every_sent_request_is_evaluated_by_the_gate() -> None:
    kinds = {found.plural: kind for (_, kind), found in BUILT_IN_TARGETS.items()}
    for group, resource, operation, _ in list_sent_requests(select_evaluating(list_webhooks())):
        plural, _, part = resource.partition("/")
        assert (
            find_review_target(
                AdmissionRequest(kinds[plural], operation, b"{}", group=group, subresource=part), REVIEW_TARGETS
            )
            is not None
        )


def test_a_cluster_can_register_nodes_while_the_gate_is_down() -> None:
    for policy in ("Fail", "Ignore"):
        for webhook in list_webhooks(failure_policy=policy):
            may_be_ignored = webhook["name"].startswith(("nodes.", "namespaces.", "scales.", "policies."))
            is_closed = webhook["name"].startswith("limits.")
            assert webhook["failurePolicy"] == ("Ignore" if may_be_ignored else "Fail" if is_closed else policy)


def _find_webhook(part: str) -> dict[str, Any]:
    (webhook,) = (each for each in list_webhooks() if each["name"].startswith(f"{part}."))
    return webhook


def test_namespaces_are_sent_if_labels_change() -> None:
    webhook = _find_webhook("namespaces")
    parts = ("", "/finalize", "/status")
    assert list_sent_requests([webhook]) == {("", f"namespaces{part}", "UPDATE", "Cluster") for part in parts}
    (condition,) = webhook["matchConditions"]
    assert condition["expression"].startswith("object.metadata.?labels != oldObject.metadata.?labels && !(")


def test_annotations_that_set_limits_have_a_webhook_that_fails_closed_and_leaves_every_other_write_alone() -> None:
    webhook = _find_webhook("limits")
    assert list_sent_requests([webhook]) == {
        ("", "namespaces", "CREATE", "Cluster"),
        *(("", f"namespaces{part}", "UPDATE", "Cluster") for part in ("", "/finalize", "/status")),
    }
    assert "namespaceSelector" not in webhook
    is_limit = "key.startsWith('limits.tallygate.dev/')"
    is_other = f"{is_limit} && object.metadata.?annotations[?key] != oldObject.metadata.?annotations[?key]"
    (condition,) = webhook["matchConditions"]
    assert condition["expression"] == (
        f"request.operation != 'UPDATE' ? object.metadata.?annotations.orValue({{}}).exists(key, {is_limit})"
        f" : (object.metadata.?annotations.orValue({{}}).exists(key, {is_other})"
        f" || oldObject.metadata.?annotations.orValue({{}}).exists(key, {is_other}))"
    )


def test_config_maps_are_sent_if_they_have_the_label_of_policies_in_the_namespace_of_the_gate() -> None:
    (webhook,) = (each for each in list_webhooks(own_namespace="gates") if each["name"].startswith("policies."))
    assert list_sent_requests([webhook]) == {("", "configmaps", each, "Namespaced") for each in ("CREATE", "UPDATE")}
    (requirement,) = webhook["namespaceSelector"]["matchExpressions"]
    assert requirement == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["gates"]}
    assert webhook["objectSelector"] == {"matchLabels": {"tallygate.dev/policies": "true"}}
    assert "matchConditions" not in webhook


def test_scale_requests_are_sent_if_replicas_increase() -> None:
    (webhook,) = (each for each in list_webhooks() if each["name"].startswith("scales."))
    assert list_sent_requests([webhook]) == {
        (group, f"{plural}/scale", "UPDATE", "Namespaced")
        for group, plural in [
            ("apps", "deployments"),
            ("apps", "replicasets"),
            ("apps", "statefulsets"),
            ("", "replicationcontrollers"),
        ]
    }
    assert [each["expression"] for each in webhook["matchConditions"]] == [
        "object.spec.?replicas.orValue(0) > oldObject.spec.?replicas.orValue(0)"
    ]


def test_every_scalable_kind_is_evaluated() -> None:
    assert {(group, kind): plural for (group, plural), kind in SCALABLE_KINDS.items()}.items() <= {
        key: found.plural for key, found in REVIEW_TARGETS.items()
    }.items()


def test_the_gate_excludes_its_own_namespace_and_kube_system() -> None:
    scales = [each for each in list_webhooks(own_namespace="gates") if each["name"].startswith("scales.")]
    for webhook in select_evaluating(list_webhooks(own_namespace="gates")) + scales:
        if webhook["name"].startswith("nodes."):
            assert "namespaceSelector" not in webhook
            assert list_sent_requests([webhook]) == {
                ("", "nodes", "CREATE", "Cluster"),
                ("", "nodes", "UPDATE", "Cluster"),
                ("", "nodes/status", "UPDATE", "Cluster"),
            }
        else:
            (expression,) = webhook["namespaceSelector"]["matchExpressions"]
            assert expression == {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["kube-system", "gates"],
            }


@pytest.mark.parametrize(
    ("target", "token", "clients"),
    [
        (
            SERVICE,
            "",
            [
                {"service": {"namespace": "gates", "name": "gate", "port": 8443, "path": f"/v1/admit/{phase}"}}
                for phase in ("mutate", "validate")
            ],
        ),
        (
            UrlTarget("https://127.0.0.1:9443"),
            "",
            [{"url": f"https://127.0.0.1:9443/v1/admit/{phase}"} for phase in ("mutate", "validate")],
        ),
        (
            UrlTarget("https://127.0.0.1:9443/"),
            "s3cret-s3cret-s3cret",
            [
                {"url": f"https://127.0.0.1:9443/v1/admit/s3cret-s3cret-s3cret/{phase}"}
                for phase in ("mutate", "validate")
            ],
        ),
    ],
)
def test_the_gate_is_reached_by_service_or_by_url(
    target: ServiceTarget | UrlTarget, token: str, clients: list[dict[str, Any]]
) -> None:
    for configuration, client in zip(create_plain_configurations(target, token=token), clients, strict=True):
        assert [webhook["clientConfig"] for webhook in select_evaluating(configuration["webhooks"])] == [client] * 3


def test_the_ca_bundle_is_encoded_in_base64() -> None:
    pem = b"-----BEGIN CERTIFICATE-----\n"
    assert [base64.b64decode(webhook["clientConfig"]["caBundle"]) for webhook in list_webhooks(ca_bundle=pem)] == [
        pem
    ] * 10
    assert not any("caBundle" in webhook["clientConfig"] for webhook in list_webhooks())


def test_only_mutating_webhooks_are_reinvoked() -> None:
    mutating, validating = create_plain_configurations(SERVICE)
    assert [webhook["reinvocationPolicy"] for webhook in mutating["webhooks"]] == ["IfNeeded"] * 3
    assert not any("reinvocationPolicy" in webhook for webhook in validating["webhooks"])


def test_every_webhook_has_the_required_settings() -> None:
    for webhook in list_webhooks():
        assert webhook["matchPolicy"] == "Equivalent"
        assert webhook["sideEffects"] == ("None" if webhook["name"].startswith("policies.") else "NoneOnDryRun")
        assert webhook["timeoutSeconds"] == 5
        assert webhook["admissionReviewVersions"] == ["v1"]


def test_the_configurations_are_plain_objects_that_share_nothing() -> None:
    """Change one webhook and expect all others unchanged."""
    mutating, validating = create_plain_configurations(SERVICE, ca_bundle=b"x")
    assert json.loads(json.dumps([mutating, validating])) == [mutating, validating]
    before = json.dumps(mutating["webhooks"][1])
    mutating["webhooks"][0]["clientConfig"]["service"]["port"] = 1
    mutating["webhooks"][0]["admissionReviewVersions"].append("v2")
    assert json.dumps(mutating["webhooks"][1]) == before


def list_conditions(configuration: dict[str, Any]) -> dict[str, list[str]]:
    """Return the names of the match conditions of each webhook."""
    return {
        webhook["name"]: [condition["name"] for condition in webhook.get("matchConditions", ())]
        for webhook in configuration["webhooks"]
    }


def test_webhooks_have_the_conditions_of_the_policies() -> None:
    """Expect the condition joined to the one that a webhook has, in each phase."""
    policies = parse_policies(DEVICES)
    plain = create_plain_configurations(SERVICE)
    for configuration, unconditioned in zip(
        create_plain_configurations(SERVICE, conditions=MatchConditions(policies)), plain, strict=True
    ):
        before, after = list_conditions(unconditioned), list_conditions(configuration)
        assert before.keys() == after.keys()
        joined = {name: ["-and-".join([*conditions, "a-policy-may-decide"])] for name, conditions in before.items()}
        added = {name.partition(".")[0] for name in before if after[name] == joined[name]}
        assert added == ({"validate", "updates", "scales"} if "scales" in str(before) else {"mutate", "updates"})


def test_without_policies_nothing_is_asked() -> None:
    for configuration in create_plain_configurations(SERVICE, conditions=MatchConditions(PolicySet())):
        for webhook in configuration["webhooks"]:
            if webhook["name"].partition(".")[0] not in {"namespaces", "limits", "policies"}:
                assert list_policy_conditions(webhook["matchConditions"]) in (["false"], ["(false)"])


def test_a_condition_of_the_policies_is_evaluated_after_that_of_the_webhook() -> None:
    """Join both, since an API server evaluates each condition of a webhook, and take them apart again."""
    mutating, _ = create_webhook_configurations(ServiceTarget(), conditions=MatchConditions(parse_policies(DEVICES)))
    plain, _ = create_webhook_configurations(ServiceTarget())
    for webhook, alone in zip(mutating.webhooks[:2], plain.webhooks[:2], strict=True):
        ((name, expression),) = ((each.name, each.expression) for each in webhook.match_conditions)
        (own,) = alone.match_conditions
        assert (name, expression.startswith(f"({own.expression}) &&\n(")) == (
            f"{own.name}-and-a-policy-may-decide",
            True,
        )
        assert list_own_conditions(webhook) == [own]
        (widened, *_) = widen_webhooks([webhook], [alone])
        assert widened.match_conditions == (own,)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("Pod", {"spec": {"containers": None}}),
        ("Deployment", {"spec": {"template": {"spec": {"containers": None}}}}),
        ("CronJob", {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": None}}}}}}),
        ("LimitRange", {"spec": {"limits": None}}),
    ],
)
def test_an_object_with_null_for_a_list_is_asked_about_and_fails_no_condition(
    kind: str, content: dict[str, Any]
) -> None:
    """Evaluate it as an API server gives it to conditions: it has null where a list is missing that it always has."""
    for configuration in create_plain_configurations(SERVICE, conditions=MatchConditions(parse_policies(DEVICES))):
        (condition,) = configuration["webhooks"][0]["matchConditions"]
        request = {"kind": {"kind": kind}, "namespace": "team-a", "operation": "CREATE"}
        object_ = {"metadata": {"name": "x"}, **content}
        assert evaluate_condition(condition["expression"], {**request, "object": object_})[0]


def test_a_policy_that_implies_requests_registers_every_new_pod_in_the_mutating_phase() -> None:
    policies = parse_policies(IMPLIED)
    mutating, _ = create_plain_configurations(SERVICE, conditions=MatchConditions(policies))
    (condition,) = mutating["webhooks"][0]["matchConditions"]
    assert condition["name"] == "a-policy-may-decide"
    assert "startsWith('team-')" in condition["expression"]
