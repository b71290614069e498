"""Registrations of another kind: none, one that calls by URL, and one that lets all pass while the gate is away."""

from tests.cli.doctor.changes import FAIL, UNKNOWN
from tests.cli.doctor.world import Object, authority, leaf, pem, registered, said, well, wrong
from webhook.cli.doctor.check_result import CheckStatus
from webhook.cli.doctor.facts import DryRun, ServedCertificate


def by_url(mutating: Object, validating: Object) -> None:
    """Let the gate be called by URL."""
    for each in (*mutating["webhooks"], *validating["webhooks"]):
        each["clientConfig"] = {"url": "https://gate.example.com/v1", "caBundle": each["clientConfig"]["caBundle"]}


def test_nothing_registered_leaves_everything_about_it_unknown() -> None:
    found = wrong(well(mutating=None, validating=None))
    assert found.pop("registered") is FAIL
    assert set(found.values()) == {UNKNOWN}


def test_what_is_called_by_url_is_judged_by_what_it_shows() -> None:
    trusted = pem(authority())
    for refusal, expected in (("", CheckStatus.PASS), ("hostname mismatch", FAIL)):
        shown = ServedCertificate(pem(leaf()), {trusted: refusal})
        facts = well(**registered(by_url), served_certificate=shown, deployment=None, secret=None)
        found = said("trusted", facts)
        assert found.status is expected
        assert refusal in found.reason
        assert said("failure-policy", facts).status is CheckStatus.PASS


def test_ignore_hides_whether_anybody_was_asked() -> None:
    def ignore(mutating: Object, validating: Object) -> None:
        for each in (*mutating["webhooks"], *validating["webhooks"]):
            each["failurePolicy"] = "Ignore"

    facts = well(**registered(ignore), dry_runs=(DryRun("p", "default", 201, ""),))
    assert said("reachable", facts).status is UNKNOWN
