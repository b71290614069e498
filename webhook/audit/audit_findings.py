"""A finding of an audit: what is wrong with something that is stored, and whose report tells of it.

What an audit has found: all of it counted, and as much of it kept as has room.

What an audit has looked at, and what it has left out and why.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from webhook.accounting.problem import Problem
from webhook.policy.model import Enforcement

ENFORCEMENTS_BY_STRICTNESS = (Enforcement.DENY, Enforcement.WARN, Enforcement.AUDIT)


class ObjectRef(NamedTuple):
    """The object that a finding is about; `namespace` is empty for one that is in none."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(slots=True)
class AuditFinding:
    """What a rule or cap says of an object, and how strictly it is enforced.

    `home` is the namespace in whose report it stands, empty for the cluster's own. Where the pods of one `owner` all
    have the same, it is said of one of them, and `more` counts the others. `why` is the reason of a policy's author.
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
        """The sentence, without path, code or rule."""
        if not self.more_pods:
            return self.problem.message
        noun = "pod" if self.more_pods == 1 else "pods"
        return f"{self.problem.message} (and {self.more_pods} more {noun} of {self.owner})"


MAX_FINDINGS_PER_NAMESPACE: Final = 1000
"""Findings kept of one namespace. Where more is wrong, a stricter one takes the place of a weaker."""
MAX_FINDINGS: Final = 50_000
"""Findings kept in all: some tens of megabytes."""

_RANK = {enforcement: rank for rank, enforcement in enumerate(ENFORCEMENTS_BY_STRICTNESS)}


class PolicyKey(NamedTuple):
    """Who says it: a `rule` or a `cap`, by its name, and how strictly that is enforced."""

    by: str
    name: str
    enforcement: Enforcement


class AuditFindings:
    """Findings by the namespace in whose report they stand."""

    def __init__(self, max_per_namespace: int = MAX_FINDINGS_PER_NAMESPACE, max_findings: int = MAX_FINDINGS) -> None:
        self._max_per_namespace = max_per_namespace
        self._remaining = max_findings
        self._by_namespace: dict[str, dict[Enforcement, list[AuditFinding]]] = {}
        self._counts: dict[str, Counter[Enforcement]] = defaultdict(Counter)
        self.by_policy: Counter[PolicyKey] = Counter()

    def add(self, finding: AuditFinding) -> None:
        """Count a finding, and keep it if there is room or something weaker can make room for it."""
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
        """The namespaces of which something was found, in order; the empty one for the cluster's own."""
        return sorted(self._counts)

    def list_findings(self, namespace: str) -> list[AuditFinding]:
        """What is kept of one, the strictest first, then by object."""
        by_enforcement = self._by_namespace.get(namespace, {})
        return [
            finding
            for enforcement in by_enforcement
            for finding in sorted(by_enforcement[enforcement], key=_create_sort_key)
        ]

    def list_all(self) -> list[AuditFinding]:
        """What is kept, by namespace."""
        return [finding for namespace in self.list_namespaces() for finding in self.list_findings(namespace)]

    def drop_findings(self) -> None:
        """Keep nothing any more but how much was found."""
        self._by_namespace.clear()

    def count_by_enforcement(self, namespace: str | None = None) -> Counter[Enforcement]:
        """How much was found of one, or in all, kept or not."""
        if namespace is not None:
            return Counter(self._counts.get(namespace, ()))
        return sum(self._counts.values(), Counter())


def _create_sort_key(finding: AuditFinding) -> tuple[str, str, str, str]:
    object_ref, problem = finding.subject, finding.problem
    return object_ref.kind, object_ref.name, problem.field, problem.code


MAX_REMARKS: Final = 20


@dataclass(slots=True)
class AuditCoverage:
    """What was looked at: objects by kind, those left out by why, and what could not be judged."""

    evaluated: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    idle: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    unreadable: int = 0
    remarks: dict[str, None] = field(default_factory=dict)

    def add_remark(self, text: str) -> None:
        """Say something once, unless enough was said."""
        if len(self.remarks) < MAX_REMARKS:
            self.remarks[text] = None
