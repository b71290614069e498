"""What an audit has found: all of it counted, and as much of it kept as has room."""

from collections import Counter, defaultdict
from typing import Final, NamedTuple

from webhook.audit.finding import STRICTEST_FIRST, Finding
from webhook.policy.model import Enforcement

MOST_OF_ONE: Final = 1000
"""Findings kept of one namespace. Where more is wrong, a stricter one takes the place of a weaker."""
MOST: Final = 50_000
"""Findings kept in all: some tens of megabytes."""

_RANK = {enforcement: rank for rank, enforcement in enumerate(STRICTEST_FIRST)}


class Policy(NamedTuple):
    """Who says it: a `rule` or a `cap`, by its name, and how strictly that is enforced."""

    by: str
    name: str
    enforcement: Enforcement


class Kept:
    """Findings by the namespace in whose report they stand."""

    def __init__(self, most_of_one: int = MOST_OF_ONE, most: int = MOST) -> None:
        self._most_of_one = most_of_one
        self._room = most
        self._of: dict[str, dict[Enforcement, list[Finding]]] = {}
        self._counts: dict[str, Counter[Enforcement]] = defaultdict(Counter)
        self.by_policy: Counter[Policy] = Counter()

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it if there is room or something weaker can make room for it."""
        problem, enforcement = finding.problem, finding.enforcement
        self._counts[finding.home][enforcement] += 1
        self.by_policy[Policy(problem.policy_kind, problem.rule, enforcement)] += 1
        there = self._of.setdefault(finding.home, {each: [] for each in STRICTEST_FIRST})
        if self._room <= 0 or sum(map(len, there.values())) >= self._most_of_one:
            weaker = next((each for each in reversed(STRICTEST_FIRST) if there[each]), enforcement)
            if _RANK[weaker] <= _RANK[enforcement]:
                return
            there[weaker].pop()
        else:
            self._room -= 1
        there[enforcement].append(finding)

    def homes(self) -> list[str]:
        """The namespaces of which something was found, in order; the empty one for the cluster's own."""
        return sorted(self._counts)

    def of(self, home: str) -> list[Finding]:
        """What is kept of one, the strictest first, then by object."""
        there = self._of.get(home, {})
        return [each for enforcement in there for each in sorted(there[enforcement], key=_by_object)]

    def all(self) -> list[Finding]:
        """What is kept, by namespace."""
        return [finding for home in self.homes() for finding in self.of(home)]

    def forget(self) -> None:
        """Keep nothing any more but how much was found."""
        self._of.clear()

    def counts(self, home: str | None = None) -> Counter[Enforcement]:
        """How much was found of one, or in all, kept or not."""
        if home is not None:
            return Counter(self._counts.get(home, ()))
        return sum(self._counts.values(), Counter())


def _by_object(finding: Finding) -> tuple[str, str, str, str]:
    subject, problem = finding.subject, finding.problem
    return subject.kind, subject.name, problem.field, problem.code
