"""Variants of webhook configurations: missing ones, URLs in place of Services, and the failure policy Ignore."""

import dataclasses

from msgspec.structs import replace

from tallygate.cli.doctor.api_types import LabelledNamespace
from tallygate.cli.doctor.check_result import CheckStatus
from tallygate.cli.doctor.facts import DryRun, ServedCertificate
from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.objects.meta import LabelSelector, SelectorRequirement
from tests.admission.case import parse_policies
from tests.cli.doctor.fact_changes import FAIL, UNKNOWN, create_unregistered
from tests.cli.doctor.healthy_gate import (
    READY,
    Object,
    create_conditioned,
    create_facts,
    create_registration,
    encode_pem,
    find_failures,
    get_ca,
    leaf,
    replica,
    run_check,
    with_check,
)


def use_urls(mutating: Object, validating: Object) -> None:
    """Let the API server call the gate by URL."""
    for each in (*mutating["webhooks"], *validating["webhooks"]):
        each["clientConfig"] = {"url": "https://gate.example.com/v1", "caBundle": each["clientConfig"]["caBundle"]}


def test_checks_of_missing_configurations_are_unknown() -> None:
    found = find_failures(create_facts(mutating=None, validating=None))
    assert found.pop("registered") is FAIL
    assert set(found.values()) == {UNKNOWN}


def test_the_reason_why_a_gate_has_not_registered_itself_is_that_of_its_leader() -> None:
    unregistered = {kind: create_unregistered() for kind in ("mutating", "validating")}
    waiting = {"ready": True, "state": "waiting", "reason": "no CA is known for the served certificate: add the CA"}
    standby = {"ready": True, "state": "standby", "reason": "the leader registers the gate"}
    for details, reason in (
        ((standby, waiting), "no CA is known for the served certificate: add the CA"),
        ((standby,), "the leader registers the gate"),
        ((None,), "it has no access to the API server"),
    ):
        replicas = tuple(replica(readiness=with_check("registration", **each) if each else READY) for each in details)
        found = run_check("registered", create_facts(**unregistered, replicas=replicas))
        assert found.status is FAIL
        assert found.reason.startswith("the mutatingwebhookconfiguration tallygate has no webhooks yet")
        assert reason in found.reason
    found = run_check("registered", create_facts(**unregistered, replicas=()))
    assert "no replica can be asked why" in found.reason


def test_a_gate_with_a_url_is_checked_by_its_served_certificate() -> None:
    trusted = encode_pem(get_ca())
    for error, expected in (("", CheckStatus.PASS), ("hostname mismatch", FAIL)):
        served = ServedCertificate(encode_pem(leaf()), {trusted: error})
        facts = create_facts(**create_registration(use_urls), served_certificate=served, deployment=None, secret=None)
        found = run_check("trusted", facts)
        assert found.status is expected
        assert error in found.reason
        assert run_check("failure-policy", facts).status is CheckStatus.PASS


def test_a_certificate_that_was_shown_counts_for_webhooks_that_are_called_as_it_was() -> None:
    trusted, shown_at_url = encode_pem(get_ca()), encode_pem(leaf(service="elsewhere"))

    def use_one_url(mutating: Object, _: Object) -> None:
        use_urls(mutating, {"webhooks": []})

    for registration, certificate, expected in (
        (create_registration(), encode_pem(leaf()), CheckStatus.PASS),
        (create_registration(use_one_url), shown_at_url, FAIL),  # the others are called by a Service
    ):
        served = ServedCertificate(certificate, {trusted: ""})
        assert run_check("trusted", create_facts(**registration, served_certificate=served)).status is expected


def test_the_failure_policy_ignore_hides_whether_the_gate_was_called() -> None:
    def ignore(mutating: Object, validating: Object) -> None:
        for each in (*mutating["webhooks"], *validating["webhooks"]):
            each["failurePolicy"] = "Ignore"

    facts = create_facts(**create_registration(ignore), dry_runs=(DryRun("p", "default", 201, ""),))
    assert run_check("reachable", facts).status is UNKNOWN


_CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: cap-%s}
spec: {namespaces: {selector: {matchLabels: {tier: t%s}}}, hard: {example.com/r%s: 4}}
"""


def test_caps_with_too_many_selectors_are_named() -> None:
    for count, expected in ((8, ""), (9, "; for cap-8 in namespaces with any labels: ")):
        policies = parse_policies("---".join(_CAP % (number, number, number) for number in range(count)))
        found = run_check("asked", create_facts(policies=policies, **create_conditioned(policies)))
        assert found.status is CheckStatus.PASS
        assert found.reason.startswith("of pods, about those with a resource that a policy names, or with claims")
        assert expected in found.reason


def test_a_webhook_for_labels_hides_no_excluded_namespace() -> None:
    """Exclude a namespace in the webhook for all namespaces alone."""
    policies = parse_policies(_CAP % (0, 0, 0))
    facts = create_facts(policies=policies, **create_conditioned(policies))
    assert isinstance(facts.validating, WebhookConfiguration)
    first, *others = facts.validating.webhooks
    requirement = SelectorRequirement("kubernetes.io/metadata.name", "NotIn", ["kube-system", "tallygate-system", "a"])
    changed = replace(first, namespace_selector=LabelSelector(match_expressions=[requirement]))
    namespaces = (LabelledNamespace("a", {"tier": "t0"}), LabelledNamespace("b", {}))
    validating = replace(facts.validating, webhooks=(changed, *others))
    found = run_check("excluded-namespaces", dataclasses.replace(facts, validating=validating, namespaces=namespaces))
    assert "1 of 2 namespaces are excluded by namespaceSelector: a" in found.reason
    assert len(found.fix_commands) == 1
