"""Audit findings: all are counted, a limited number is stored, and the strictest are stored first."""

from hypothesis import given
from hypothesis import strategies as st

from tallygate.audit.audit_findings import ENFORCEMENTS_BY_STRICTNESS, AuditFindings, PolicyKey
from tallygate.policy.model import Enforcement
from tests.audit.findings import create_finding

NAMESPACES = st.sampled_from(["", "team-a", "team-b"])


def test_findings_are_sorted_by_strictness_then_name() -> None:
    findings = AuditFindings()
    for name, enforcement in (("c", Enforcement.AUDIT), ("b", Enforcement.DENY), ("a", Enforcement.DENY)):
        findings.add(create_finding(name, enforcement))
    assert [each.subject.name for each in findings.list_findings("team-a")] == ["a", "b", "c"]


def test_a_stricter_finding_replaces_a_weaker_one_when_the_namespace_is_full() -> None:
    findings = AuditFindings(max_per_namespace=2)
    for name, enforcement in (
        ("note", Enforcement.AUDIT),
        ("warning", Enforcement.WARN),
        ("one", Enforcement.DENY),
        ("two", Enforcement.DENY),
        ("three", Enforcement.DENY),
    ):
        findings.add(create_finding(name, enforcement))
    assert [each.subject.name for each in findings.list_all()] == ["one", "two"]
    assert findings.count_by_enforcement("team-a") == {Enforcement.DENY: 3, Enforcement.WARN: 1, Enforcement.AUDIT: 1}


@given(
    st.lists(st.tuples(NAMESPACES, st.sampled_from(ENFORCEMENTS_BY_STRICTNESS))), st.integers(1, 5), st.integers(1, 8)
)
def test_all_findings_are_counted_and_no_more_than_the_limits_are_stored(
    drawn: list[tuple[str, Enforcement]], max_per_namespace: int, max_total: int
) -> None:
    findings = AuditFindings(max_per_namespace, max_total)
    for number, (namespace, enforcement) in enumerate(drawn):
        findings.add(create_finding(f"{number}", enforcement, namespace))
    assert findings.count_by_enforcement().total() == sum(findings.by_policy.values()) == len(drawn)
    assert len(findings.list_all()) <= max_total
    for namespace in findings.list_namespaces():
        enforcements = [each.enforcement for each in findings.list_findings(namespace)]
        assert len(enforcements) <= max_per_namespace
        assert enforcements == sorted(enforcements, key=ENFORCEMENTS_BY_STRICTNESS.index)
        assert findings.count_by_enforcement(namespace).total() == sum(1 for where, _ in drawn if where == namespace)
    if len(drawn) <= min(max_per_namespace, max_total):
        assert len(findings.list_all()) == len(drawn)


def test_findings_are_counted_by_policy() -> None:
    findings = AuditFindings()
    findings.add(create_finding("a"))
    findings.add(create_finding("b"))
    assert findings.by_policy == {PolicyKey("rule", "whole", Enforcement.DENY): 2}
