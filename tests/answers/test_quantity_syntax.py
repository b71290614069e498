"""Quantities whose text in a manifest differs from the value that kubectl sends."""

import json

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, resources: {limits: {%s}}}]}\n"


def list_syntax_codes(limits: str) -> list[str]:
    """Return the codes of a pod with these limits, without those of its quantities."""
    result = CliRunner().invoke(root, ["check", "-o", "json", "-"], input=POD % limits)
    return [each["code"] for each in json.loads(result.stdout)["findings"] if each["code"].startswith("TG4")]


@pytest.mark.parametrize(
    ("written", "is_reported"),
    [
        pytest.param("010", True, id="octal"),
        pytest.param('"010"', False, id="octal in quotes"),
        pytest.param("07", False, id="octal that is the same"),
        pytest.param("9007199254740993.0", True, id="an inexact float"),
        pytest.param("9007199254740992.0", False, id="an exact float"),
        pytest.param("9007199254740993", False, id="an integer"),
        pytest.param("12345678901234567891", True, id="an integer that is too long"),
        pytest.param("0.1", False, id="a fraction"),
        pytest.param("3.0", False, id="a redundant fraction"),
        pytest.param("1e3", False, id="an exponent"),
        pytest.param("0x10", False, id="hexadecimal digits are no quantity"),
        pytest.param("1_000", False, id="underscores"),
        pytest.param("true", False, id="a boolean"),
        pytest.param("~", False, id="null"),
        pytest.param("2Gi", False, id="a quantity with a suffix"),
    ],
)
def test_a_number_that_is_sent_with_another_value_is_reported(written: str, *, is_reported: bool) -> None:
    """Report it only if the text is a quantity with another value."""
    assert list_syntax_codes(f"memory: {written}") == (["TG407"] if is_reported else [])


def test_every_list_of_quantities_is_checked() -> None:
    """Check nodes, quotas, limit ranges and overhead too."""
    text = """\
apiVersion: v1
kind: Node
metadata: {name: node}
status: {capacity: {nvidia.com/gpu: 010}, allocatable: {nvidia.com/gpu: 011}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q}
spec: {hard: {pods: 010}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: l}
spec: {limits: [{type: Container, max: {cpu: 010}}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: c}
spec:
  jobTemplate: {spec: {template: {spec: {overhead: {cpu: 010}, initContainers: [{resources: {requests: {cpu: 010}}}]}}}}
"""
    result = CliRunner().invoke(root, ["check", "-o", "json", "-"], input=text)
    lines = [each["line"] for each in json.loads(result.stdout)["findings"] if each["code"] == "TG407"]
    assert lines == [4, 4, 9, 14, 20, 20]


STORED = [
    ("3_000", "3k"),
    ("0x10", "16"),
    ("010", "8"),
    ("0o10", "8"),
    ("0b11", "3"),
    (".5", "500m"),
    ("1_000.5", "1000500m"),
    ("+3", "3"),
    ("1e3", "1k"),
    ("1e19", "10E"),
    ("1e20", "100E"),
    ("1000000000000000000000", "1e+21"),
    ("~", "0"),
    ("null", "0"),
    ('"+3"', "+3"),
    ('"1e3"', "1e3"),
    ("2.9999", "3"),
    ("1n", "1m"),
]


@pytest.mark.parametrize(("written", "stored"), STORED, ids=[written for written, _ in STORED])
def test_quantities_have_the_value_that_kubectl_sends(written: str, stored: str) -> None:
    """Expect the values of real clients and a real API server 1.36."""
    result = CliRunner().invoke(root, ["explain", "pod", "-f", "-", "-o", "json"], input=POD % f"memory: {written}")
    limits = json.loads(result.stdout)["items"][0]["limits"]
    assert limits["memory"]["quantity"] == stored


@pytest.mark.parametrize("written", ["60:00", "1:30", "yes", "on"])
def test_a_text_that_kubectl_sends_as_text_is_no_quantity(written: str) -> None:
    """Report an error, since the API server responds with 400."""
    result = CliRunner().invoke(root, ["check", "-o", "json", "-"], input=POD % f"memory: {written}")
    assert [each["code"] for each in json.loads(result.stdout)["findings"]] == ["TG004"]
