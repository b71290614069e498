"""The log line of an answer, and its counters."""

from typing import Any

import pytest
from msgspec.structs import replace

from tallygate.admission.request import Phase
from tallygate.gate.decisions import DecisionRecord
from tallygate.server.telemetry.metrics import ServerMetrics
from tallygate.server.web.http_errors import HttpError
from tallygate.server.web.request_log import RequestLog
from tests.server.app_harness import AppHarness, Log

RECORD = DecisionRecord(
    uid="u-1",
    user="system:serviceaccount:ci:deployer",
    operation="CREATE",
    kind="Pod",
    namespace="team-a",
    name="p",
    phase=Phase.VALIDATING,
    dry_run=False,
    verdict="allow",
)


def log_record(record: DecisionRecord, seconds: float = 0.0012345) -> dict[str, object]:
    harness = AppHarness()
    harness.request_log.log_decision(record, seconds)
    (line,) = harness.log.lines
    return line


def test_a_decision_is_one_line() -> None:
    assert log_record(RECORD) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "debug",
        "event": "decided",
        "phase": "validate",
        "uid": "u-1",
        "user": "system:serviceaccount:ci:deployer",
        "operation": "CREATE",
        "object": "Pod team-a/p",
        "verdict": "allow",
        "ms": 1.234,
    }


MORE: dict[str, tuple[dict[str, Any], str, object]] = {
    "what denied": ({"policies": ("cap gpus",), "verdict": "deny"}, "policies", ["cap gpus"]),
    "the reason of a retry": (
        {"message": "cap gpus: counted first", "verdict": "retry"},
        "message",
        "cap gpus: counted first",
    ),
    "a reason that is cut": ({"message": "x" * 2000, "verdict": "deny"}, "message", "x" * 1024),
    "codes, each once": ({"codes": ("TG101", "TG103", "TG101"), "verdict": "deny"}, "codes", ["TG101", "TG103"]),
    "a dry run": ({"dry_run": True}, "dry_run", True),
    "warnings": ({"warnings": ("TG202",)}, "warnings", ["TG202"]),
    "audits": ({"audits": ("TG101",)}, "audits", ["TG101"]),
    "unknown facts": ({"unknown": ("labels",)}, "unknown", ["labels"]),
    "a cap exceeded by privilege": ({"exceeded": ("gpus",)}, "exceeded", ["gpus"]),
    "a cluster-scoped object": ({"namespace": "", "kind": "Node", "name": "n"}, "object", "Node n"),
}


@pytest.mark.parametrize("case", MORE)
def test_the_line_has(case: str) -> None:
    change, key, value = MORE[case]
    assert log_record(replace(RECORD, **change))[key] == value


@pytest.mark.parametrize("field", ["uid", "user", "operation", "kind", "namespace", "name"])
def test_a_line_stays_short_whatever_a_client_sends(field: str) -> None:
    harness = AppHarness()
    long: dict[str, Any] = {field: "x" * 1_000_000}
    harness.request_log.log_decision(replace(RECORD, **long), 0.0)
    assert len(harness.log.text) < 1000


def test_a_line_end_in_a_name_makes_no_second_line() -> None:
    harness = AppHarness()
    harness.request_log.log_decision(replace(RECORD, name='p\n{"level":"error"}'), 0.0)
    assert len(harness.log.text.splitlines()) == 1


def test_a_hostile_kind_costs_no_label() -> None:
    metrics = ServerMetrics("0")
    for number in range(1000):
        metrics.count_decision(Phase.MUTATING, f"op-{number}", f"Kind{number}", f"verdict-{number}", 0.1)
    labels = {"phase": "mutate", "operation": "other", "kind": "other", "verdict": "other"}
    assert metrics.registry.get_sample_value("tallygate_admission_requests_total", labels) == 1000
    assert sum(family.name == "tallygate_admission_requests" for family in metrics.registry.collect()) == 1


def test_problems_are_counted_by_code_within_bounds() -> None:
    metrics = ServerMetrics("0")
    for number in range(1000):
        metrics.count_problem(f"TG{number}")
    (family,) = [each for each in metrics.registry.collect() if each.name == "tallygate_admission_problems"]
    samples = [sample for sample in family.samples if sample.name.endswith("_total")]
    assert len(samples) == 257
    assert metrics.registry.get_sample_value("tallygate_admission_problems_total", {"code": "other"}) == 744


def test_a_rejection_is_a_warning_without_a_traceback() -> None:
    harness = AppHarness()
    harness.request_log.log_error(HttpError(413, "too-large", "too large"))
    (line,) = harness.log.lines
    assert (line["level"], line["reason"], line["code"], "exception" in line) == ("warning", "too-large", 413, False)


@pytest.mark.parametrize(("level", "lines"), [("debug", 1), ("info", 1), ("warning", 0), ("error", 0)])
def test_below_its_level_nothing_is_logged(level: str, lines: int) -> None:
    log = Log(level)
    RequestLog(log.logger, ServerMetrics("0")).log_decision(replace(RECORD, verdict="deny"), 0.0)
    assert len(log.lines) == lines


_REPORTED: list[dict[str, Any]] = [
    {"verdict": "deny"},
    {"verdict": "retry"},
    *({name: ("x",)} for name in ("warnings", "audits", "unknown", "exceeded")),
]


@pytest.mark.parametrize("change", _REPORTED)
def test_a_request_that_is_allowed_without_a_word_is_debug_and_every_other_one_info(change: dict[str, Any]) -> None:
    assert log_record(RECORD)["level"] == "debug"
    assert log_record(replace(RECORD, **change))["level"] == "info"


def test_at_level_info_a_request_that_is_allowed_without_a_word_is_counted_and_not_logged() -> None:
    log, metrics = Log("info"), ServerMetrics("1.2.3")
    RequestLog(log.logger, metrics).log_decision(RECORD, 0.001)
    assert log.lines == []
    RequestLog(log.logger, metrics).log_decision(replace(RECORD, warnings=("x",)), 0.001)
    assert [line["warnings"] for line in log.lines] == [["x"]]
    labels = {"phase": "validate", "operation": "CREATE", "kind": "Pod", "verdict": "allow"}
    assert metrics.registry.get_sample_value("tallygate_admission_requests_total", labels) == 2.0
