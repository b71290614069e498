"""Variants of webhook configurations: missing ones, URLs in place of Services, and the failure policy Ignore."""

from tallygate.webhook.cli.doctor.check_result import CheckStatus
from tallygate.webhook.cli.doctor.facts import DryRun, ServedCertificate
from tests.cli.doctor.fact_changes import FAIL, UNKNOWN
from tests.cli.doctor.healthy_gate import (
    Object,
    create_facts,
    create_registration,
    encode_pem,
    find_failures,
    get_ca,
    leaf,
    run_check,
)


def use_urls(mutating: Object, validating: Object) -> None:
    """Let the API server call the gate by URL."""
    for each in (*mutating["webhooks"], *validating["webhooks"]):
        each["clientConfig"] = {"url": "https://gate.example.com/v1", "caBundle": each["clientConfig"]["caBundle"]}


def test_checks_of_missing_configurations_are_unknown() -> None:
    found = find_failures(create_facts(mutating=None, validating=None))
    assert found.pop("registered") is FAIL
    assert set(found.values()) == {UNKNOWN}


def test_a_gate_with_a_url_is_checked_by_its_served_certificate() -> None:
    trusted = encode_pem(get_ca())
    for error, expected in (("", CheckStatus.PASS), ("hostname mismatch", FAIL)):
        served = ServedCertificate(encode_pem(leaf()), {trusted: error})
        facts = create_facts(**create_registration(use_urls), served_certificate=served, deployment=None, secret=None)
        found = run_check("trusted", facts)
        assert found.status is expected
        assert error in found.reason
        assert run_check("failure-policy", facts).status is CheckStatus.PASS


def test_the_failure_policy_ignore_hides_whether_the_gate_was_called() -> None:
    def ignore(mutating: Object, validating: Object) -> None:
        for each in (*mutating["webhooks"], *validating["webhooks"]):
            each["failurePolicy"] = "Ignore"

    facts = create_facts(**create_registration(ignore), dry_runs=(DryRun("p", "default", 201, ""),))
    assert run_check("reachable", facts).status is UNKNOWN
