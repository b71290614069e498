"""The webhook configurations: what the API server is told to send, and where to."""

import base64
import json
from itertools import chain
from typing import Any

import pytest

from webhook.admission.kinds import REVIEW_TARGETS, SCALABLE_KINDS, find_review_target
from webhook.admission.request import AdmissionRequest
from webhook.admission.webhook_configuration import ServiceTarget, UrlTarget, create_webhook_configurations

SERVICE = ServiceTarget("gates", "gate", 8443)


def entries(**asked: Any) -> list[dict[str, Any]]:
    """Every webhook of both configurations."""
    return [
        webhook
        for configuration in create_webhook_configurations(SERVICE, **asked)
        for webhook in configuration["webhooks"]
    ]


def judging(webhooks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that are asked for a verdict: of namespaces and scales the gate is only told."""
    return [webhook for webhook in webhooks if not webhook["name"].startswith(("namespaces.", "scales."))]


def sent(webhooks: list[dict[str, Any]]) -> set[tuple[str, str, str, str]]:
    """What their rules name: group, resource with subresource, operation, scope."""
    return {
        (group, resource, operation, rule["scope"])
        for rule in chain.from_iterable(webhook["rules"] for webhook in webhooks)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }


def test_the_names_tell_phase_and_part() -> None:
    mutating, validating = create_webhook_configurations(SERVICE)
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
        "scales.validate.tallygate.dev",
    ]


def test_exactly_what_is_judged_is_sent() -> None:
    """Each resource with its subresources, which are never created, and nothing else: no lease, no event, no status."""
    expected = {
        (group, f"{found.plural}/{part}".rstrip("/"), operation, "Cluster" if kind == "Node" else "Namespaced")
        for (group, kind), found in REVIEW_TARGETS.items()
        for part in found.subresources
        for operation in (("UPDATE",) if part else ("CREATE", "UPDATE"))
    }
    for configuration in create_webhook_configurations(SERVICE):
        assert sent(judging(configuration["webhooks"])) == expected
    assert ("", "pods/resize", "UPDATE", "Namespaced") in expected
    assert len(expected) == 2 * len(REVIEW_TARGETS) + 3


def test_nothing_is_sent_twice() -> None:
    """Two webhooks that speak of one request would both be asked about it."""
    for configuration in create_webhook_configurations(SERVICE):
        apart = [sent([webhook]) for webhook in configuration["webhooks"]]
        assert sum(map(len, apart)) == len(set().union(*apart))


def test_of_what_is_created_no_condition_is_looked_at_in_the_validating_phase() -> None:
    """The API server takes objects apart for conditions; of a create only whether it may be mended is worth that."""
    mutating, validating = (configuration["webhooks"] for configuration in create_webhook_configurations(SERVICE))
    for webhooks, expected in ((mutating, ["may-be-mended"]), (validating, [])):
        created = [each for each in webhooks if ("", "pods", "CREATE", "Namespaced") in sent([each])]
        assert [[condition["name"] for condition in each.get("matchConditions", [])] for each in created] == [expected]
        assert {operation for _, _, operation, _ in sent(created)} == {"CREATE"}


def test_nothing_is_sent_that_the_gate_passes_over() -> None:
    kinds = {found.plural: kind for (_, kind), found in REVIEW_TARGETS.items()}
    for group, resource, operation, _ in sent(judging(entries())):
        plural, _, part = resource.partition("/")
        assert (
            find_review_target(AdmissionRequest(kinds[plural], operation, b"{}", group=group, subresource=part))
            is not None
        )


def test_a_cluster_may_register_nodes_while_the_gate_is_away() -> None:
    for policy in ("Fail", "Ignore"):
        for webhook in entries(failure_policy=policy):
            told = webhook["name"].startswith(("nodes.", "namespaces.", "scales."))
            assert webhook["failurePolicy"] == ("Ignore" if told else policy)


def test_of_namespaces_the_gate_is_told_when_their_labels_change() -> None:
    (webhook,) = (each for each in entries() if each["name"].startswith("namespaces."))
    assert sent([webhook]) == {("", "namespaces", "UPDATE", "Cluster")}
    assert [each["expression"] for each in webhook["matchConditions"]] == [
        "object.metadata.?labels != oldObject.metadata.?labels"
    ]


def test_of_workloads_that_are_scaled_the_gate_is_told_when_they_ask_for_more() -> None:
    (webhook,) = (each for each in entries() if each["name"].startswith("scales."))
    assert sent([webhook]) == {
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


def test_what_is_scaled_is_a_kind_that_is_judged() -> None:
    assert {(group, kind): plural for (group, plural), kind in SCALABLE_KINDS.items()}.items() <= {
        key: found.plural for key, found in REVIEW_TARGETS.items()
    }.items()


def test_the_gate_does_not_stand_in_its_own_way() -> None:
    told = [each for each in entries(own_namespace="gates") if each["name"].startswith("scales.")]
    for webhook in judging(entries(own_namespace="gates")) + told:
        if webhook["name"].startswith("nodes."):
            assert "namespaceSelector" not in webhook
            assert sent([webhook]) == {
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
    ("reached", "token", "clients"),
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
    reached: ServiceTarget | UrlTarget, token: str, clients: list[dict[str, Any]]
) -> None:
    for configuration, client in zip(create_webhook_configurations(reached, token=token), clients, strict=True):
        assert [webhook["clientConfig"] for webhook in judging(configuration["webhooks"])] == [client] * 3


def test_the_authorities_are_given_in_base64() -> None:
    pem = b"-----BEGIN CERTIFICATE-----\n"
    assert [base64.b64decode(webhook["clientConfig"]["caBundle"]) for webhook in entries(ca_bundle=pem)] == [pem] * 8
    assert not any("caBundle" in webhook["clientConfig"] for webhook in entries())


def test_only_what_mutates_is_asked_again() -> None:
    mutating, validating = create_webhook_configurations(SERVICE)
    assert [webhook["reinvocationPolicy"] for webhook in mutating["webhooks"]] == ["IfNeeded"] * 3
    assert not any("reinvocationPolicy" in webhook for webhook in validating["webhooks"])


def test_every_webhook_says_how_it_is_asked() -> None:
    for webhook in entries():
        assert webhook["matchPolicy"] == "Equivalent"
        assert webhook["sideEffects"] == "NoneOnDryRun"
        assert webhook["timeoutSeconds"] == 5
        assert webhook["admissionReviewVersions"] == ["v1"]


def test_the_configurations_are_plain_objects_that_share_nothing() -> None:
    """Whoever changes one entry changes no other."""
    mutating, validating = create_webhook_configurations(SERVICE, ca_bundle=b"x")
    assert json.loads(json.dumps([mutating, validating])) == [mutating, validating]
    before = json.dumps(mutating["webhooks"][1])
    mutating["webhooks"][0]["clientConfig"]["service"]["port"] = 1
    mutating["webhooks"][0]["admissionReviewVersions"].append("v2")
    assert json.dumps(mutating["webhooks"][1]) == before
