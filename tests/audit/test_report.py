"""A report: bounded, the same for the same findings, and small enough whatever texts they have."""

from collections import Counter
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.audit.findings import finding
from webhook.audit.policy_report import (
    DIGEST_ANNOTATION,
    MAX_RESULT_BYTES,
    MAX_RESULTS,
    OMITTED_ANNOTATION,
    REPORT_APIS,
    create_content,
    create_report,
    create_result_key,
)
from webhook.policy.model import Enforcement

NEWER, OLDER = REPORT_APIS


def denied(number: int) -> Counter[Enforcement]:
    """So many are denied."""
    return Counter({Enforcement.DENY: number})


def test_a_denial_is_a_failure_and_what_is_weaker_a_warning() -> None:
    found = [finding(each.value, each) for each in Enforcement]
    said = create_content(found, Counter(Enforcement))
    assert [(each["result"], each["severity"]) for each in said.results] == [
        ("fail", "high"),
        ("warn", "medium"),
        ("warn", "info"),
    ]
    assert said.summary == {"pass": 0, "fail": 1, "warn": 2, "error": 0, "skip": 0}


def test_what_has_no_room_is_counted() -> None:
    said = create_content((finding(f"{number}") for number in range(700)), denied(700))
    assert (len(said.results), said.omitted, said.summary["fail"]) == (MAX_RESULTS, 200, 700)
    made = create_report(OLDER, "team-a", said, {}, 5)
    assert made["metadata"]["annotations"] == {DIGEST_ANNOTATION: said.digest, OMITTED_ANNOTATION: "200"}


@given(st.lists(st.text(), max_size=3), st.integers(1, 2000))
def test_no_text_makes_a_report_that_etcd_does_not_take(texts: list[str], times: int) -> None:
    found = [finding(text, message=text * times) for text in (*texts, "\x00", "\U0001f4a3") * 150]
    said = create_content(found, denied(len(found)))
    encoded = msgspec.json.encode(create_report(NEWER, "team-a", said, {}, 5))
    assert len(encoded) < MAX_RESULT_BYTES + 100_000
    assert all(len(each["message"]) <= 1000 for each in said.results if "message" in each)


def test_the_same_findings_have_the_same_digest_and_others_another() -> None:
    one, same, other = (create_content([finding(name)], denied(1)) for name in ("a", "a", "b"))
    more = create_content([finding("a")], denied(2))
    assert one.digest == same.digest
    assert len({one.digest, other.digest, more.digest}) == 3


def test_a_result_that_stood_there_keeps_its_time() -> None:
    before = create_report(OLDER, "team-a", create_content([finding("a")], denied(1)), {}, 5)
    times: dict[str, Any] = {create_result_key(each): each["timestamp"] for each in before["results"]}
    after = create_report(OLDER, "team-a", create_content([finding("a"), finding("b")], denied(2)), times, 9)
    assert [each["timestamp"]["seconds"] for each in after["results"]] == [5, 9]


def test_the_clusters_own_report_has_no_namespace() -> None:
    said = create_content([finding("a", home="")], denied(1))
    made = create_report(NEWER, "", said, {}, 5)
    assert (made["kind"], "namespace" in made["metadata"], made["source"]) == ("ClusterReport", False, "tallygate")
    assert create_report(OLDER, "team-a", said, {}, 5)["kind"] == "PolicyReport"
    assert "source" not in create_report(OLDER, "team-a", said, {}, 5)
