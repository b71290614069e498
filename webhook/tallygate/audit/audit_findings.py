"""The findings and the coverage of an audit.

A finding is a problem of a stored object, with the namespace of its report. All findings are counted, and up to a limit
of them is stored. The coverage counts the evaluated objects and the skipped ones by reason.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallygate.accounting.problem import Problem
from tallygate.policy.model import Enforcement

ENFORCEMENTS_BY_STRICTNESS = (Enforcement.DENY, Enforcement.WARN, Enforcement.AUDIT)


class ObjectRef(NamedTuple):
    """The object of a finding; `namespace` is empty for a cluster-scoped object."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(slots=True)
class AuditFinding:
    """A problem that a rule or cap reports for an object, and its enforcement.

    `report_namespace` is the namespace of its report, empty for the cluster-scoped one. If several pods of one `owner`
    have the same problem, the finding names one of them, and `more_pods` counts the others. `policy_reason` is the
    reason that the author of the policy gives.
    """

    subject: ObjectRef
    enforcement: Enforcement
    problem: Problem
    report_namespace: str
    policy_reason: str = ""
    owner: str = ""
    more_pods: int = 0

    @property
    def message(self) -> str:
        """The message without path, code and rule."""
        if not self.more_pods:
            return self.problem.message
        noun = "pod" if self.more_pods == 1 else "pods"
        return f"{self.problem.message} (and {self.more_pods} more {noun} of {self.owner})"


MAX_FINDINGS_PER_NAMESPACE: Final = 1000
"""Findings stored for one namespace. Beyond it, a stricter finding replaces a weaker one."""
MAX_FINDINGS: Final = 50_000
"""Findings stored in all: some tens of megabytes."""

_RANK = {enforcement: rank for rank, enforcement in enumerate(ENFORCEMENTS_BY_STRICTNESS)}


class PolicyKey(NamedTuple):
    """The name of a `rule` or a `cap`, and its enforcement."""

    by: str
    name: str
    enforcement: Enforcement


class AuditFindings:
    """Findings by the namespace of their report."""

    def __init__(self, max_per_namespace: int = MAX_FINDINGS_PER_NAMESPACE, max_findings: int = MAX_FINDINGS) -> None:
        self._max_per_namespace = max_per_namespace
        self._remaining = max_findings
        self._by_namespace: dict[str, dict[Enforcement, list[AuditFinding]]] = {}
        self._counts: dict[str, Counter[Enforcement]] = defaultdict(Counter)
        self.by_policy: Counter[PolicyKey] = Counter()

    def add(self, finding: AuditFinding) -> None:
        """Count a finding, and store it if the limits allow it or a weaker finding can be replaced."""
        problem, enforcement = finding.problem, finding.enforcement
        self._counts[finding.report_namespace][enforcement] += 1
        self.by_policy[PolicyKey(problem.policy_kind, problem.rule, enforcement)] += 1
        by_enforcement = self._by_namespace.setdefault(
            finding.report_namespace, {each: [] for each in ENFORCEMENTS_BY_STRICTNESS}
        )
        if self._remaining <= 0 or sum(map(len, by_enforcement.values())) >= self._max_per_namespace:
            weaker = next((each for each in reversed(ENFORCEMENTS_BY_STRICTNESS) if by_enforcement[each]), enforcement)
            if _RANK[weaker] <= _RANK[enforcement]:
                return
            by_enforcement[weaker].pop()
        else:
            self._remaining -= 1
        by_enforcement[enforcement].append(finding)

    def list_namespaces(self) -> list[str]:
        """Return the namespaces with findings, in order; the empty name stands for the cluster-scoped report."""
        return sorted(self._counts)

    def list_findings(self, namespace: str) -> list[AuditFinding]:
        """Return the stored findings of a namespace, the strictest first, then by object."""
        by_enforcement = self._by_namespace.get(namespace, {})
        return [
            finding
            for enforcement in by_enforcement
            for finding in sorted(by_enforcement[enforcement], key=_create_sort_key)
        ]

    def list_all(self) -> list[AuditFinding]:
        """Return all stored findings, by namespace."""
        return [finding for namespace in self.list_namespaces() for finding in self.list_findings(namespace)]

    def drop_findings(self) -> None:
        """Drop the stored findings and keep their numbers."""
        self._by_namespace.clear()

    def count_by_enforcement(self, namespace: str | None = None) -> Counter[Enforcement]:
        """Return the numbers of findings of a namespace, or of all (None), stored or not."""
        if namespace is not None:
            return Counter(self._counts.get(namespace, ()))
        return sum(self._counts.values(), Counter())


def _create_sort_key(finding: AuditFinding) -> tuple[str, str, str, str]:
    object_ref, problem = finding.subject, finding.problem
    return object_ref.kind, object_ref.name, problem.field, problem.code


MAX_REMARKS: Final = 20


@dataclass(slots=True)
class AuditCoverage:
    """The numbers of evaluated objects by kind, of skipped ones by reason, and of unreadable ones."""

    evaluated: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    idle: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    unreadable: int = 0
    remarks: dict[str, None] = field(default_factory=dict)

    def add_remark(self, text: str) -> None:
        """Add a remark once, up to `MAX_REMARKS`."""
        if len(self.remarks) < MAX_REMARKS:
            self.remarks[text] = None
