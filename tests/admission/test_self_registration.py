"""The completion of webhook configurations that are left to the gate."""

from typing import Any

import pytest

from tallygate.admission.self_registration import (
    EXEMPT_ANNOTATION,
    FAILURE_POLICY_ANNOTATION,
    REGISTRATION_ANNOTATION,
    URL_ANNOTATION,
    RegistrationChoices,
    RegistrationError,
    create_webhooks,
    is_left_to_gate,
    parse_choices,
)
from tallygate.objects.admission_registration import Webhook, encode_webhook
from tests.admission.plain_configurations import to_typed

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def configuration(kind: str = KINDS[0], **annotations: str) -> dict[str, Any]:
    """Return an empty configuration that is left to the gate; other annotations are given by their last part."""
    given = {f"tallygate.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return {"kind": kind, "metadata": {"name": "tallygate", "annotations": {REGISTRATION_ANNOTATION: "gate"} | given}}


def create(content: dict[str, Any], token: str = "") -> tuple[Webhook, ...]:
    """Return the webhooks of a configuration with the bundle `ABC`, where a webhook of its name has none."""
    stored = to_typed(content)
    choices = parse_choices(stored)
    return create_webhooks(stored, choices, namespace="here", token=token, choose_bundle=lambda old: old or b"ABC")


def complete(content: dict[str, Any], token: str = "") -> list[dict[str, Any]]:
    """Return the webhooks of a configuration as they are written."""
    return list(map(encode_webhook, create(content, token)))


def add_defaults(webhooks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return webhooks as an API server stores them."""
    return [{"namespaceSelector": {}, "objectSelector": {}, **webhook} for webhook in webhooks]


def test_only_the_annotation_leaves_a_configuration_to_the_gate() -> None:
    assert is_left_to_gate(to_typed(configuration()))
    assert not is_left_to_gate(to_typed({"metadata": {"annotations": {REGISTRATION_ANNOTATION: "none"}}}))
    assert not is_left_to_gate(to_typed({"metadata": {}}))


def test_without_other_annotations_the_service_is_called_and_fails_closed() -> None:
    assert parse_choices(to_typed(configuration(failure_policy="", exempt_namespaces=""))) == RegistrationChoices()
    for kind in KINDS:
        first = complete(configuration(kind))[0]
        assert first["clientConfig"]["service"]["namespace"] == "here"
        assert first["clientConfig"]["caBundle"] == "QUJD"
        assert first["failurePolicy"] == "Fail"
        (names,) = first["namespaceSelector"]["matchExpressions"]
        assert names["values"] == ["kube-system", "here"]


def test_the_annotations_choose_the_failure_policy_and_the_exempt_namespaces() -> None:
    stored = configuration(failure_policy="Ignore", exempt_namespaces="calico-system, cilium")
    webhooks = complete(stored)
    assert {each["failurePolicy"] for each in webhooks} == {"Ignore"}
    (names,) = webhooks[0]["namespaceSelector"]["matchExpressions"]
    assert names["values"] == ["kube-system", "here", "calico-system", "cilium"]


def test_a_gate_outside_the_cluster_is_called_by_its_address() -> None:
    stored = configuration(url="https://gate.example.com:8443")
    assert complete(stored)[0]["clientConfig"]["url"] == "https://gate.example.com:8443/v1/admit/mutate"
    assert parse_choices(to_typed(stored)).get_host("here") == "gate.example.com"
    assert parse_choices(to_typed(configuration(url="https://[::1]:8443"))).get_host("here") == "::1"
    assert RegistrationChoices().get_host("here") == "tallygate.here.svc"


def test_a_token_is_in_the_path() -> None:
    assert complete(configuration(), token="secret")[0]["clientConfig"]["service"]["path"] == "/v1/admit/secret/mutate"  # noqa: S106  an example


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (FAILURE_POLICY_ANNOTATION, "fail"),
        (EXEMPT_ANNOTATION, "Calico"),
        (EXEMPT_ANNOTATION, "a;b"),
        (URL_ANNOTATION, "http://gate"),
        (URL_ANNOTATION, "https://gate/path"),
        (URL_ANNOTATION, "https://gate:0"),
    ],
)
def test_an_invalid_annotation_is_named(annotation: str, text: str) -> None:
    stored = configuration()
    stored["metadata"]["annotations"][annotation] = text
    with pytest.raises(
        RegistrationError, match=f"{annotation} of the MutatingWebhookConfiguration has the value '{text}': write"
    ):
        parse_choices(to_typed(stored))


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_api_server_stores_of_the_webhooks_is_the_same(kind: str) -> None:
    stored = configuration(kind)
    stored["webhooks"] = [each | {"fieldOfANewerVersion": 1} for each in add_defaults(complete(stored))]
    assert create(stored) == to_typed(stored).webhooks


@pytest.mark.parametrize(
    "change",
    [
        {"failurePolicy": "Ignore"},
        {"matchConditions": [{"name": "none", "expression": "false"}]},
        {"objectSelector": {"matchLabels": {"a": "b"}}},
        {"namespaceSelector": {}},
        {"timeoutSeconds": 30},
        {"rules": []},
        {"clientConfig": {"service": {"name": "other", "namespace": "here"}}},
        {"name": "other.tallygate.dev"},
    ],
)
def test_each_edit_of_a_webhook_is_a_difference(change: dict[str, Any]) -> None:
    stored = configuration(KINDS[1])
    expected = create(stored)
    first, *others = add_defaults(complete(stored))
    for edited in ([first | change, *others], others, [*others, first], [first, *others, first]):
        assert expected != to_typed({**stored, "webhooks": edited}).webhooks


def test_a_stored_bundle_is_offered_to_the_webhook_of_its_name() -> None:
    stored = configuration()
    stored["webhooks"] = [{"name": "nodes.mutate.tallygate.dev", "clientConfig": {"caBundle": "T0xE"}}]
    bundles = {each["name"]: each["clientConfig"]["caBundle"] for each in complete(stored)}
    assert bundles == {
        "mutate.tallygate.dev": "QUJD",
        "updates.mutate.tallygate.dev": "QUJD",
        "nodes.mutate.tallygate.dev": "T0xE",
    }
