"""Writing reports before an API server that plays what a real one rarely does; the rest is in e2e/test_audit.py."""

import json
from collections.abc import Sequence

import pytest

from tests.audit.findings import finding
from tests.state.kubernetes.server import Play, Scripted, hang_up, says, sends, server
from webhook.audit.audit_findings import AuditFindings
from webhook.audit.policy_report import DIGEST_ANNOTATION, REPORT_APIS, ReportApi, create_content
from webhook.audit.report_writer import ReportCounts, ReportsError, ReportWriter

NEWER, OLDER = REPORT_APIS
FOUND = says(200, kind="APIResourceList")
TEAM = frozenset({"team-a"})


def refused(code: int, message: str = "no") -> Play:
    """A refusal."""
    return says(code, kind="Status", message=message, code=code)


def there(*digests: str, more: str = "") -> Play:
    """A page of our reports in team-a, by what they say."""
    items = [
        {
            "metadata": {
                "name": "tallygate",
                "namespace": "team-a",
                "resourceVersion": "7",
                "annotations": {DIGEST_ANNOTATION: each},
            }
        }
        for each in digests
    ]
    return says(200, metadata={"resourceVersion": "9", "continue": more}, items=items)


def kept(*names: str) -> AuditFindings:
    """Findings in team-a."""
    made = AuditFindings()
    for name in names:
        made.add(finding(name))
    return made


def bring(plays: Sequence[Play], found: AuditFindings) -> tuple[ReportCounts, list[tuple[str, str]], Scripted]:
    """What becomes of the reports of team-a, and what was asked."""
    with server(*plays) as played:
        written = ReportWriter(played.client_config, lambda: 5.0, lambda _: None).write_reports(OLDER, found, TEAM)
    return written, [(asked.method, asked.path.partition("?")[0]) for asked in played.asked], played


def installed(*plays: Play) -> ReportApi | None:
    """Which API there is."""
    with server(*plays) as played:
        return ReportWriter(played.client_config, lambda: 5.0, lambda _: None).find_api()


OURS = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/team-a/policyreports"


def test_the_newer_api_is_asked_for_first() -> None:
    assert installed(FOUND) is NEWER
    assert installed(refused(404), FOUND) is OLDER
    assert installed(refused(404), refused(404)) is None


def test_an_api_server_that_does_not_say_is_no_api_server_without_reports() -> None:
    with pytest.raises(ReportsError, match=r"whether openreports\.io/v1alpha1 is installed cannot be found out"):
        installed(refused(500))
    with pytest.raises(ReportsError, match="the connection to the API server broke"):
        installed(hang_up)


def test_a_report_that_says_it_already_is_not_read_and_not_written() -> None:
    found = kept("a")
    digest = create_content(found.list_findings("team-a"), found.count_by_enforcement("team-a")).digest
    written, asked, played = bring([there(digest)], found)
    assert (written.unchanged, written.written) == (1, 0)
    assert asked == [("GET", OURS)]
    assert "PartialObjectMetadataList" in played.asked[0].headers["Accept"]
    assert "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dtallygate" in played.asked[0].path


def test_a_report_that_says_something_else_is_replaced_as_it_was_read() -> None:
    before = says(200, metadata={"resourceVersion": "8"}, results=None)
    written, asked, played = bring([there("other"), before, says(200)], kept("a"))
    assert written.written == 1
    assert asked[1:] == [("GET", f"{OURS}/tallygate"), ("PUT", f"{OURS}/tallygate")]
    assert json.loads(played.asked[-1].body)["metadata"]["resourceVersion"] == "8"


def test_the_report_of_a_namespace_that_is_clean_is_removed_as_it_was_seen() -> None:
    written, asked, played = bring([there("other"), says(200)], kept())
    assert written.removed == 1
    assert asked[1:] == [("DELETE", f"{OURS}/tallygate")]
    assert json.loads(played.asked[-1].body) == {"preconditions": {"resourceVersion": "7"}}


def test_what_somebody_else_has_changed_meanwhile_is_left_to_the_next_audit() -> None:
    before = says(200, metadata={"resourceVersion": "8"})
    written, _, _ = bring([there("other"), before, refused(409, "the object has been modified")], kept("a"))
    assert written.failures == [
        "PolicyReport team-a/tallygate: update: the API server says 409: the object has been modified"
    ]


def test_a_namespace_that_goes_needs_no_report() -> None:
    ends = refused(403, "forbidden: unable to create new content in namespace team-a because it is being terminated")
    assert bring([there(), ends], kept("a"))[0].failed == 0
    assert bring([there(), refused(404)], kept("a"))[0].failed == 0
    assert bring([there("other"), refused(404)], kept())[0].removed == 1


def test_a_right_that_is_missing_is_named() -> None:
    written, _, _ = bring([there(), refused(403, "cannot create")], kept("a"))
    (failure,) = written.failures
    assert failure.startswith("PolicyReport team-a/tallygate: create: the API server says 403: cannot create; ")
    assert failure.endswith("; the audit must be allowed to create it")
    with pytest.raises(ReportsError, match=r"says 403: cannot list; the audit must be allowed to list it$"):
        bring([refused(403, "cannot list")], kept())


def test_an_api_server_that_takes_up_a_definition_is_waited_for() -> None:
    waits: list[float] = []
    busy = refused(429, "storage is (re)initializing")
    with server(busy, busy, there()) as played:
        ReportWriter(played.client_config, lambda: 5.0, waits.append).write_reports(OLDER, kept(), TEAM)
    assert waits == [1.0, 4.0]


def test_few_failures_are_told_and_all_are_counted() -> None:
    found = AuditFindings()
    names = [f"team-{number}" for number in range(8)]
    for name in names:
        found.add(finding("a", home=name))
    empty = [says(200, metadata={}, items=[]) for _ in names]
    with server(*empty, *[refused(403, "no")] * 8) as played:
        written = ReportWriter(played.client_config, lambda: 5.0, lambda _: None).write_reports(
            OLDER, found, frozenset(names)
        )
    assert (written.failed, len(written.failures)) == (8, 5)


@pytest.mark.parametrize("broken", [sends(200, b"<html>"), says(200, items={})])
def test_what_is_no_list_is_said(broken: Play) -> None:
    with pytest.raises(ReportsError, match="cannot be listed: no list came"):
        bring([broken], kept())


def test_a_report_that_cannot_be_read_is_left_alone() -> None:
    written, asked, _ = bring([there("other"), says(200, metadata={}, results=3)], kept("a"))
    assert (written.failed, asked[-1][0]) == (1, "GET")


def test_the_whole_cluster_has_reports_of_namespaces_and_its_own() -> None:
    found = AuditFindings()
    found.add(finding("n1", home=""))
    own = says(200, metadata={}, items=[])
    with server(there("other", more="next"), says(200), there(), own, says(201)) as played:
        written = ReportWriter(played.client_config, lambda: 5.0, lambda _: None).write_reports(NEWER, found, None)
    assert (written.removed, written.written) == (1, 1)
    base = "/apis/openreports.io/v1alpha1"
    assert [(asked.method, asked.path.partition("?")[0]) for asked in played.asked] == [
        ("GET", f"{base}/reports"),
        ("DELETE", f"{base}/namespaces/team-a/reports/tallygate"),
        ("GET", f"{base}/reports"),
        ("GET", f"{base}/clusterreports"),
        ("POST", f"{base}/clusterreports"),
    ]
    assert "continue=next" in played.asked[2].path
