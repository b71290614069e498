"""Every case file agrees, and the comparison can fail."""

import gzip
import json
from pathlib import Path

import pytest

from tests.conformance.__main__ import main
from tests.conformance.case import read_cases
from tests.conformance.report import run

CASES = sorted(Path(__file__).parent.joinpath("cases").glob("*.jsonl*"))
CASES_WITH_DEVICES = Path(__file__).parent / "cases" / "schedule-dra.jsonl.gz"
NOT_JUDGED = {
    "devices.jsonl.gz": 14,
    "wide-devices.jsonl.gz": 22,
}
"""The number of cases by file for which tallygate names something that it does not support; other files have none."""
ANSWER: dict[str, object] = {
    "canonical": "3Ki",
    "dec": "3072",
    "format": "BinarySI",
    "integer": True,
    "milli": "3072000",
    "ok": True,
    "sign": 1,
    "value": "3072",
}
GOOD = {"text": "3Ki", "answer": ANSWER}


def _write(path: Path, *cases: object) -> Path:
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return path


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name)
def test_tallygate_agrees_with_kubernetes(path: Path) -> None:
    report = run(path)
    assert report.cases > 0
    assert not report.disagreements, str(report)
    assert report.not_judged == NOT_JUDGED.get(path.name, 0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("canonical", "3072"),
        ("dec", "3073"),
        ("format", "DecimalSI"),
        ("integer", False),
        ("milli", "3072001"),
        ("ok", False),
        ("sign", -1),
        ("value", "3073"),
    ],
)
def test_a_wrong_answer_is_a_disagreement(
    tmp_path: Path, field: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _write(tmp_path / "cases.jsonl", GOOD, {"text": "3Ki", "answer": {**ANSWER, field: value}})
    assert main([str(path)]) == 1
    shown = capsys.readouterr().out
    assert f"{path}: 2 cases, 1 disagreements, 0 not judged" in shown
    assert field in shown


def test_a_wrapped_answer_has_a_separate_count(tmp_path: Path) -> None:
    answer = {"ok": True, "canonical": "10E", "dec": "10000000000000000000", "format": "DecimalSI", "sign": 1}
    wrapped = {"text": "10E", "answer": {**answer, "value": "0", "milli": "0", "integer": True}}
    report = run(_write(tmp_path / "cases.jsonl", wrapped))
    assert (report.cases, report.disagreements, report.beyond_int64) == (1, [], 1)
    assert str(report).endswith(": 1 cases, 0 disagreements, 0 not judged, 1 beyond int64")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("1e4294967296", {"ok": True, "canonical": "1", "dec": "1", "value": "1"}),
        ("1e-4294967296", {"ok": True, "canonical": "1", "dec": "1", "value": "1"}),
        ("-1e-4294967296", {"ok": True, "canonical": "-1", "dec": "-1", "value": "-1"}),
        ("0e4294967296", {"ok": True, "canonical": "0", "dec": "0", "value": "0"}),
        ("1e2000", {"ok": True, "canonical": "100e1998", "value": "0"}),
    ],
)
def test_a_wrapped_exponent_has_a_separate_count(tmp_path: Path, text: str, answer: object) -> None:
    report = run(_write(tmp_path / "cases.jsonl", {"text": text, "answer": answer}))
    assert (report.disagreements, report.beyond_int64) == ([], 1)


NAME = {"is": ["extended", "integer", "scheduler_scalar"], "qualified": [], "container": [], "quota": []}
NAME |= {"limit-range-other": []}
SUM = {"sum": {**ANSWER, "string": "3Ki", "rounded": "3Ki"}, "difference": {"dec": "1024"}, "order": 1}


@pytest.mark.parametrize(
    "case",
    [
        {"token": '"3Ki"', "answer": ANSWER},
        {"left": "2Ki", "right": "1Ki", "answer": SUM},
        {"name": "example.com/gpu", "answer": NAME},
    ],
    ids="-".join,
)
def test_every_answer_of_a_case_is_compared(tmp_path: Path, case: dict[str, object]) -> None:
    assert not run(_write(tmp_path / "cases.jsonl", case)).disagreements
    answer = case["answer"]
    assert isinstance(answer, dict)
    for field, value in answer.items():
        wrong = {**value, "dec": "77"} if isinstance(value, dict) else ["77"] if isinstance(value, list) else "77"
        changed = {**case, "answer": {**answer, field: wrong}}
        assert run(_write(tmp_path / "cases.jsonl", changed)).disagreements, field


CLAIM = {
    "claim": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]}}},
    "classes": {"gpu": "example.com/gpu"},
}
CHARGED = {
    "count/resourceclaims.resource.k8s.io": "1",
    "gpu.deviceclass.resource.k8s.io/devices": "2",
    "requests.deviceclass.resource.kubernetes.io/gpu": "2",
    "requests.example.com/gpu": "2",
}


@pytest.mark.parametrize("name", CHARGED)
def test_another_charge_of_a_claim_is_a_disagreement(tmp_path: Path, name: str) -> None:
    assert not run(_write(tmp_path / "cases.jsonl", {**CLAIM, "answer": CHARGED})).disagreements
    assert run(_write(tmp_path / "cases.jsonl", {**CLAIM, "answer": {**CHARGED, name: "3"}})).disagreements


def test_another_allocated_device_is_a_disagreement(tmp_path: Path) -> None:
    case = next(each for each in read_cases(CASES_WITH_DEVICES) if each["result"].get("claims"))
    assert not run(_write(tmp_path / "cases.jsonl", case)).disagreements
    (results,) = case["result"]["claims"].values()
    results[0]["device"] = "another"
    assert "devices of" in str(run(_write(tmp_path / "cases.jsonl", case)))


def test_a_rejection_for_size_of_a_small_number_is_a_disagreement(tmp_path: Path) -> None:
    text = "0" * 2000 + "3"
    report = run(_write(tmp_path / "cases.jsonl", {"text": text, "answer": {"ok": True, "value": "3"}}))
    assert len(report.disagreements) == 1
    assert "tallygate refuses it" in str(report)


def test_other_fields_are_compared_beyond_int64(tmp_path: Path) -> None:
    answer = {"ok": True, "canonical": "10E", "dec": "10000000000000000000", "format": "BinarySI", "sign": 1}
    report = run(_write(tmp_path / "cases.jsonl", {"text": "10E", "answer": answer}))
    assert len(report.disagreements) == 1


def test_gzipped_files_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cases.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: 1 cases, 0 disagreements, 0 not judged\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"colour": "blue"}\n', "the keys colour"),
        ("[]\n", "not a JSON object"),
        ("{\n", "not JSON"),
    ],
)
def test_a_file_that_cannot_be_compared_is_an_error(
    tmp_path: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(content)
    assert main([str(path)]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_file_or_argument_is_misuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.jsonl")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
