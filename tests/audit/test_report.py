"""A report: bounded, the same for the same findings, and small enough whatever texts they have."""

from collections import Counter
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.audit.findings import finding
from webhook.audit.report import APIS, DIGEST, LEFT_OUT, MOST_BYTES, MOST_RESULTS, body, content, key_of
from webhook.policy.model import Enforcement

NEWER, OLDER = APIS


def denied(number: int) -> Counter[Enforcement]:
    """So many are denied."""
    return Counter({Enforcement.DENY: number})


def test_a_denial_is_a_failure_and_what_is_weaker_a_warning() -> None:
    found = [finding(each.value, each) for each in Enforcement]
    said = content(found, Counter(Enforcement))
    assert [(each["result"], each["severity"]) for each in said.results] == [
        ("fail", "high"),
        ("warn", "medium"),
        ("warn", "info"),
    ]
    assert said.summary == {"pass": 0, "fail": 1, "warn": 2, "error": 0, "skip": 0}


def test_what_has_no_room_is_counted() -> None:
    said = content((finding(f"{number}") for number in range(700)), denied(700))
    assert (len(said.results), said.left_out, said.summary["fail"]) == (MOST_RESULTS, 200, 700)
    made = body(OLDER, "team-a", said, {}, 5)
    assert made["metadata"]["annotations"] == {DIGEST: said.digest, LEFT_OUT: "200"}


@given(st.lists(st.text(), max_size=3), st.integers(1, 2000))
def test_no_text_makes_a_report_that_etcd_does_not_take(texts: list[str], times: int) -> None:
    found = [finding(text, message=text * times) for text in (*texts, "\x00", "\U0001f4a3") * 150]
    said = content(found, denied(len(found)))
    encoded = msgspec.json.encode(body(NEWER, "team-a", said, {}, 5))
    assert len(encoded) < MOST_BYTES + 100_000
    assert all(len(each["message"]) <= 1000 for each in said.results if "message" in each)


def test_the_same_findings_have_the_same_digest_and_others_another() -> None:
    one, same, other = (content([finding(name)], denied(1)) for name in ("a", "a", "b"))
    more = content([finding("a")], denied(2))
    assert one.digest == same.digest
    assert len({one.digest, other.digest, more.digest}) == 3


def test_a_result_that_stood_there_keeps_its_time() -> None:
    before = body(OLDER, "team-a", content([finding("a")], denied(1)), {}, 5)
    times: dict[str, Any] = {key_of(each): each["timestamp"] for each in before["results"]}
    after = body(OLDER, "team-a", content([finding("a"), finding("b")], denied(2)), times, 9)
    assert [each["timestamp"]["seconds"] for each in after["results"]] == [5, 9]


def test_the_clusters_own_report_has_no_namespace() -> None:
    said = content([finding("a", home="")], denied(1))
    made = body(NEWER, "", said, {}, 5)
    assert (made["kind"], "namespace" in made["metadata"], made["source"]) == ("ClusterReport", False, "tallygate")
    assert body(OLDER, "team-a", said, {}, 5)["kind"] == "PolicyReport"
    assert "source" not in body(OLDER, "team-a", said, {}, 5)
