"""The responses of Flask: health, errors, metrics."""

from functools import partial

import pytest
from flask.testing import FlaskClient

from tallygate.server.interfaces import ReadinessStatus
from tallygate.server.web.flask_app import create_monitor_app
from tests.server.app_harness import MUTATE, AppHarness, create_review

GOOD, BAD = (
    ReadinessStatus("policies", ready=True, detail={"digest": "d"}),
    ReadinessStatus("ledger", ready=False, detail={"error": "away"}),
)


def test_healthz_is_ok_whatever_the_checks_return() -> None:
    answer = AppHarness(checks=[lambda: BAD]).client.get("/healthz")
    assert (answer.status_code, answer.get_json()) == (200, {"status": "ok"})


def _create_monitor(*checks: ReadinessStatus) -> FlaskClient:
    harness, readiness = AppHarness(), [partial(_repeat, each) for each in checks]
    return create_monitor_app(harness.metrics, harness.request_log, readiness).test_client()


def _repeat(status: ReadinessStatus) -> ReadinessStatus:
    return status


def test_readyz_is_ready_when_every_check_is() -> None:
    answer = _create_monitor(GOOD).get("/readyz")
    checks = {"policies": {"ready": True, "digest": "d"}}
    assert (answer.status_code, answer.get_json()) == (200, {"status": "ready", "checks": checks})


def test_readyz_is_not_ready_when_one_check_is_not_and_has_all_checks() -> None:
    answer = _create_monitor(GOOD, BAD).get("/readyz")
    assert answer.status_code == 503
    assert answer.get_json()["checks"] == {
        "policies": {"ready": True, "digest": "d"},
        "ledger": {"ready": False, "error": "away"},
    }


def test_readyz_leaves_out_the_checks_that_a_client_excludes_and_ignores_other_names() -> None:
    client = _create_monitor(GOOD, BAD)
    answer = client.get("/readyz?exclude=ledger&exclude=other")
    assert (answer.status_code, list(answer.get_json()["checks"])) == (200, ["policies"])
    assert client.get("/readyz?exclude=policies").status_code == 503


def test_on_the_port_of_reviews_readyz_has_no_details_of_policies() -> None:
    ready, unready = (AppHarness(checks=[partial(_repeat, each)]).client.get("/readyz") for each in (GOOD, BAD))
    assert (ready.status_code, ready.get_json()) == (200, {"status": "ready"})
    assert (unready.status_code, unready.get_json()) == (503, {"status": "not ready"})


@pytest.mark.parametrize(
    ("method", "path", "code"), [("GET", "/x", 404), ("POST", "/healthz", 405), ("GET", "/metrics", 404)]
)
def test_errors_are_json(method: str, path: str, code: int) -> None:
    answer = AppHarness().client.open(path, method=method)
    assert (answer.status_code, answer.get_json()["code"]) == (code, code)


def test_a_wrong_method_is_rejected_with_the_allowed_one() -> None:
    assert "GET" in AppHarness().client.post("/healthz").headers["Allow"]


def test_a_crash_in_a_view_is_logged_and_not_shown() -> None:
    def crash() -> ReadinessStatus:
        raise RuntimeError("the secret")

    harness = AppHarness(checks=[crash])
    answer = harness.client.get("/readyz")
    assert (answer.status_code, answer.get_json()["reason"], "secret" in answer.text) == (500, "InternalError", False)
    assert "RuntimeError: the secret" in harness.log.lines[0]["exception"]


def test_the_monitor_serves_metrics_and_health() -> None:
    harness = AppHarness()
    harness.client.post(MUTATE, data=create_review("deny")).close()
    monitor = create_monitor_app(harness.metrics, harness.request_log, [lambda: GOOD]).test_client()
    text = monitor.get("/metrics").text
    counted = 'tallygate_admission_requests_total{kind="Pod",operation="CREATE",phase="mutate",verdict="deny"} 1.0'
    assert counted in text
    assert 'tallygate_build_info{python="' in text
    assert [monitor.get(path).status_code for path in ("/healthz", "/readyz", MUTATE)] == [200, 200, 404]
