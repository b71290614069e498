"""What is found is all counted; what is kept of it has bounds, and what matters most is kept."""

from hypothesis import given
from hypothesis import strategies as st

from tests.audit.findings import finding
from webhook.audit.audit_findings import ENFORCEMENTS_BY_STRICTNESS, AuditFindings, PolicyKey
from webhook.policy.model import Enforcement

HOMES = st.sampled_from(["", "team-a", "team-b"])


def test_the_strictest_come_first_then_by_name() -> None:
    kept = AuditFindings()
    for name, enforcement in (("c", Enforcement.AUDIT), ("b", Enforcement.DENY), ("a", Enforcement.DENY)):
        kept.add(finding(name, enforcement))
    assert [each.subject.name for each in kept.list_findings("team-a")] == ["a", "b", "c"]


def test_where_there_is_no_more_room_what_is_stricter_takes_the_place_of_what_is_weaker() -> None:
    kept = AuditFindings(max_per_namespace=2)
    for name, enforcement in (
        ("note", Enforcement.AUDIT),
        ("warning", Enforcement.WARN),
        ("one", Enforcement.DENY),
        ("two", Enforcement.DENY),
        ("three", Enforcement.DENY),
    ):
        kept.add(finding(name, enforcement))
    assert [each.subject.name for each in kept.list_all()] == ["one", "two"]
    assert kept.count_by_enforcement("team-a") == {Enforcement.DENY: 3, Enforcement.WARN: 1, Enforcement.AUDIT: 1}


@given(st.lists(st.tuples(HOMES, st.sampled_from(ENFORCEMENTS_BY_STRICTNESS))), st.integers(1, 5), st.integers(1, 8))
def test_all_are_counted_and_none_is_kept_beyond_the_bounds(
    found: list[tuple[str, Enforcement]], most_of_one: int, most: int
) -> None:
    kept = AuditFindings(most_of_one, most)
    for number, (home, enforcement) in enumerate(found):
        kept.add(finding(f"{number}", enforcement, home))
    assert kept.count_by_enforcement().total() == sum(kept.by_policy.values()) == len(found)
    assert len(kept.list_all()) <= most
    for home in kept.list_namespaces():
        there = [each.enforcement for each in kept.list_findings(home)]
        assert len(there) <= most_of_one
        assert there == sorted(there, key=ENFORCEMENTS_BY_STRICTNESS.index)
        assert kept.count_by_enforcement(home).total() == sum(1 for where, _ in found if where == home)
    if len(found) <= min(most_of_one, most):
        assert len(kept.list_all()) == len(found)


def test_findings_are_counted_by_policy() -> None:
    kept = AuditFindings()
    kept.add(finding("a"))
    kept.add(finding("b"))
    assert kept.by_policy == {PolicyKey("rule", "whole", Enforcement.DENY): 2}
