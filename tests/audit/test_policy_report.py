"""A policy report: bounded, equal for equal findings, and small enough for etcd whatever its texts."""

from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.problem import BUILT_IN_CHECK
from tallygate.audit.policy_report import (
    DIGEST_ANNOTATION,
    MAX_RESULT_BYTES,
    MAX_RESULTS,
    OMITTED_ANNOTATION,
    REPORT_APIS,
    create_content,
    create_report,
    create_result_key,
)
from tallygate.policy.model import Enforcement
from tests.audit.findings import create_finding

NEWER, OLDER = REPORT_APIS


def count_denials(number: int) -> Counter[Enforcement]:
    """Return the counts of this number of denials."""
    return Counter({Enforcement.DENY: number})


def test_a_denial_is_a_failure_and_a_weaker_finding_is_a_warning() -> None:
    found = [create_finding(each.value, each) for each in Enforcement]
    content = create_content(found, Counter(Enforcement))
    assert [(each["result"], each["severity"]) for each in content.results] == [
        ("fail", "high"),
        ("warn", "medium"),
        ("warn", "info"),
    ]
    assert content.summary == {"pass": 0, "fail": 1, "warn": 2, "error": 0, "skip": 0}


def test_omitted_results_are_counted() -> None:
    content = create_content((create_finding(f"{number}") for number in range(700)), count_denials(700))
    assert (len(content.results), content.omitted, content.summary["fail"]) == (MAX_RESULTS, 200, 700)
    report = create_report(OLDER, "team-a", content, {}, 5)
    assert report["metadata"]["annotations"] == {DIGEST_ANNOTATION: content.digest, OMITTED_ANNOTATION: "200"}


@given(st.lists(st.text(), max_size=3), st.integers(1, 2000))
def test_a_report_fits_into_etcd_whatever_its_texts(texts: list[str], times: int) -> None:
    found = [create_finding(text, message=text * times) for text in (*texts, "\x00", "\U0001f4a3") * 150]
    content = create_content(found, count_denials(len(found)))
    encoded = msgspec.json.encode(create_report(NEWER, "team-a", content, {}, 5))
    assert len(encoded) < MAX_RESULT_BYTES + 100_000
    assert all(len(each["message"]) <= 1000 for each in content.results if "message" in each)


def test_a_finding_of_no_policy_has_a_policy_in_the_report() -> None:
    """Both definitions require the field, and an API server rejects an empty one with the whole report."""
    found = create_finding("a")
    built_in = replace(found, problem=replace(found.problem, rule="", policy_kind=BUILT_IN_CHECK))
    assert [each["policy"] for each in create_content([built_in], count_denials(1)).results] == ["built-in"]


def test_the_digest_changes_only_with_the_findings() -> None:
    one, same, other = (create_content([create_finding(name)], count_denials(1)) for name in ("a", "a", "b"))
    more = create_content([create_finding("a")], count_denials(2))
    assert one.digest == same.digest
    assert len({one.digest, other.digest, more.digest}) == 3


def test_an_existing_result_keeps_its_timestamp() -> None:
    before = create_report(OLDER, "team-a", create_content([create_finding("a")], count_denials(1)), {}, 5)
    times: dict[str, Any] = {create_result_key(each): each["timestamp"] for each in before["results"]}
    after = create_report(
        OLDER, "team-a", create_content([create_finding("a"), create_finding("b")], count_denials(2)), times, 9
    )
    assert [each["timestamp"]["seconds"] for each in after["results"]] == [5, 9]


def test_the_report_of_the_cluster_has_no_namespace() -> None:
    content = create_content([create_finding("a", namespace="")], count_denials(1))
    report = create_report(NEWER, "", content, {}, 5)
    assert (report["kind"], "namespace" in report["metadata"], report["source"]) == (
        "ClusterReport",
        False,
        "tallygate",
    )
    assert create_report(OLDER, "team-a", content, {}, 5)["kind"] == "PolicyReport"
    assert "source" not in create_report(OLDER, "team-a", content, {}, 5)
