"""Writing reports, against a scripted API server with rare responses; the usual ones are in e2e/test_audit.py."""

import json
from collections.abc import Sequence

import pytest

from tallygate.audit.audit_findings import AuditFindings
from tallygate.audit.policy_report import DIGEST_ANNOTATION, REPORT_APIS, ReportApi, create_content
from tallygate.audit.report_writer import ReportCounts, ReportsError, ReportWriter
from tests.audit.findings import create_finding
from tests.state.kubernetes.scripted_api_server import (
    Responder,
    ScriptedApiServer,
    hang_up,
    respond,
    respond_json,
    server,
)

NEWER, OLDER = REPORT_APIS
FOUND = respond_json(200, kind="APIResourceList")
TEAM = frozenset({"team-a"})


def create_error(code: int, message: str = "no") -> Responder:
    """Return an error response."""
    return respond_json(code, kind="Status", message=message, code=code)


def create_list(*digests: str, more: str = "") -> Responder:
    """Return a page of our reports in team-a with these digests."""
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
    return respond_json(200, metadata={"resourceVersion": "9", "continue": more}, items=items)


def create_findings(*names: str) -> AuditFindings:
    """Return findings in team-a about pods with these names."""
    findings = AuditFindings()
    for name in names:
        findings.add(create_finding(name))
    return findings


def write_reports(
    plays: Sequence[Responder], found: AuditFindings
) -> tuple[ReportCounts, list[tuple[str, str]], ScriptedApiServer]:
    """Write the reports of team-a; return the counts, the requests, and the server."""
    with server(*plays) as api:
        written = ReportWriter(api.client_config, lambda: 5.0, lambda _: None).write_reports(OLDER, found, TEAM)
    return written, [(request.method, request.path.partition("?")[0]) for request in api.requests], api


def find_api(*plays: Responder) -> ReportApi | None:
    """Return the API of reports that the API server has."""
    with server(*plays) as api:
        return ReportWriter(api.client_config, lambda: 5.0, lambda _: None).find_api()


OURS = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/team-a/policyreports"


def test_the_newer_api_is_preferred() -> None:
    assert find_api(FOUND) is NEWER
    assert find_api(create_error(404), FOUND) is OLDER
    assert find_api(create_error(404), create_error(404)) is None


def test_an_error_is_not_taken_for_a_missing_api() -> None:
    with pytest.raises(ReportsError, match=r"whether openreports\.io/v1alpha1 is installed cannot be found out"):
        find_api(create_error(500))
    with pytest.raises(ReportsError, match="the connection to the API server broke"):
        find_api(hang_up)


def test_an_unchanged_report_is_neither_read_nor_written() -> None:
    found = create_findings("a")
    digest = create_content(found.list_findings("team-a"), found.count_by_enforcement("team-a")).digest
    written, requests, api = write_reports([create_list(digest)], found)
    assert (written.unchanged, written.written) == (1, 0)
    assert requests == [("GET", OURS)]
    assert "PartialObjectMetadataList" in api.requests[0].headers["Accept"]
    assert "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dtallygate" in api.requests[0].path


def test_a_changed_report_is_replaced_at_the_version_that_was_read() -> None:
    before = respond_json(200, metadata={"resourceVersion": "8"}, results=None)
    written, requests, api = write_reports([create_list("other"), before, respond_json(200)], create_findings("a"))
    assert written.written == 1
    assert requests[1:] == [("GET", f"{OURS}/tallygate"), ("PUT", f"{OURS}/tallygate")]
    assert json.loads(api.requests[-1].body)["metadata"]["resourceVersion"] == "8"


def test_the_report_of_a_clean_namespace_is_removed_at_the_version_that_was_listed() -> None:
    written, requests, api = write_reports([create_list("other"), respond_json(200)], create_findings())
    assert written.removed == 1
    assert requests[1:] == [("DELETE", f"{OURS}/tallygate")]
    assert json.loads(api.requests[-1].body) == {"preconditions": {"resourceVersion": "7"}}


def test_a_conflict_is_left_to_the_next_audit() -> None:
    before = respond_json(200, metadata={"resourceVersion": "8"})
    written, _, _ = write_reports(
        [create_list("other"), before, create_error(409, "the object has been modified")], create_findings("a")
    )
    assert written.failures == [
        "PolicyReport team-a/tallygate: update: the API server says 409: the object has been modified"
    ]


def test_a_terminating_namespace_needs_no_report() -> None:
    ends = create_error(
        403, "forbidden: unable to create new content in namespace team-a because it is being terminated"
    )
    assert write_reports([create_list(), ends], create_findings("a"))[0].failed == 0
    assert write_reports([create_list(), create_error(404)], create_findings("a"))[0].failed == 0
    assert write_reports([create_list("other"), create_error(404)], create_findings())[0].removed == 1


def test_a_missing_permission_is_named() -> None:
    written, _, _ = write_reports([create_list(), create_error(403, "cannot create")], create_findings("a"))
    (failure,) = written.failures
    assert failure.startswith("PolicyReport team-a/tallygate: create: the API server says 403: cannot create; ")
    assert failure.endswith("; the audit must be allowed to create it")
    with pytest.raises(ReportsError, match=r"says 403: cannot list; the audit must be allowed to list it$"):
        write_reports([create_error(403, "cannot list")], create_findings())


def test_a_request_is_retried_while_the_api_server_initializes_storage() -> None:
    waits: list[float] = []
    busy = create_error(429, "storage is (re)initializing")
    with server(busy, busy, create_list()) as api:
        ReportWriter(api.client_config, lambda: 5.0, waits.append).write_reports(OLDER, create_findings(), TEAM)
    assert waits == [1.0, 4.0]


def test_few_failures_are_reported_and_all_are_counted() -> None:
    found = AuditFindings()
    names = [f"team-{number}" for number in range(8)]
    for name in names:
        found.add(create_finding("a", namespace=name))
    empty = [respond_json(200, metadata={}, items=[]) for _ in names]
    with server(*empty, *[create_error(403, "no")] * 8) as api:
        written = ReportWriter(api.client_config, lambda: 5.0, lambda _: None).write_reports(
            OLDER, found, frozenset(names)
        )
    assert (written.failed, len(written.failures)) == (8, 5)


@pytest.mark.parametrize("broken", [respond(200, b"<html>"), respond_json(200, items={})])
def test_an_invalid_list_is_an_error(broken: Responder) -> None:
    with pytest.raises(ReportsError, match="cannot be listed: no list came"):
        write_reports([broken], create_findings())


def test_an_unreadable_report_is_left_unchanged() -> None:
    written, requests, _ = write_reports(
        [create_list("other"), respond_json(200, metadata={}, results=3)], create_findings("a")
    )
    assert (written.failed, requests[-1][0]) == (1, "GET")


def test_the_whole_cluster_has_reports_of_namespaces_and_its_own() -> None:
    found = AuditFindings()
    found.add(create_finding("n1", namespace=""))
    own = respond_json(200, metadata={}, items=[])
    with server(create_list("other", more="next"), respond_json(200), create_list(), own, respond_json(201)) as api:
        written = ReportWriter(api.client_config, lambda: 5.0, lambda _: None).write_reports(NEWER, found, None)
    assert (written.removed, written.written) == (1, 1)
    base = "/apis/openreports.io/v1alpha1"
    assert [(request.method, request.path.partition("?")[0]) for request in api.requests] == [
        ("GET", f"{base}/reports"),
        ("DELETE", f"{base}/namespaces/team-a/reports/tallygate"),
        ("GET", f"{base}/reports"),
        ("GET", f"{base}/clusterreports"),
        ("POST", f"{base}/clusterreports"),
    ]
    assert "continue=next" in api.requests[2].path
