"""The effort of comparing policies with each other, which has a limit: each two of them are compared."""

from collections.abc import Iterable
from typing import Final

from tallygate.policy.lint_findings import LintFinding, create_error, create_finding
from tallygate.policy.model import ImpliedRequest, Match, NamespaceCap, PodMatch, ResourceRule
from tallygate.policy.policy_codes import TOO_LARGE
from tallygate.policy.selectors import NamespaceSelector, PolicyLabelSelector

MAX_STEPS: Final = 10_000_000
"""The largest effort of comparing policies with each other. A step takes some microseconds at most; two thousand rules
on one resource, each for another namespace, take all of it."""

MATCH_STEPS: Final = 5
"""The steps of comparing two matches, without their names."""

_NAME_PAIRS_PER_STEP: Final = 10


class TooManyStepsError(Exception):
    """Comparing the policies up to one with each other takes too long."""

    def __init__(self, policy: ResourceRule | NamespaceCap | ImpliedRequest) -> None:
        super().__init__(policy.name)
        self.policy = policy

    def create_finding(self) -> LintFinding:
        text = (
            "the policies up to this one have too many names and wildcards to compare them with each other; write "
            "fewer policies, or fewer names in them"
        )
        return create_finding(self.policy, create_error("", TOO_LARGE, text))


class Effort:
    """The steps of comparing policies so far."""

    def __init__(self) -> None:
        self._steps = 0

    def add(self, policy: ResourceRule | NamespaceCap | ImpliedRequest, steps: int, name_pairs: int) -> None:
        """Count a comparison of a policy.

        Raises:
            TooManyStepsError: if there were more than `MAX_STEPS`.
        """
        self._steps += steps + name_pairs // _NAME_PAIRS_PER_STEP
        if self._steps > MAX_STEPS:
            raise TooManyStepsError(policy)


def measure_match(match: Match | PodMatch) -> int:
    """Return the number of names of a match, as `measure_globs` counts them."""
    exempt = match.exempt
    users = measure_globs((*exempt.users, *exempt.groups, *exempt.service_accounts))
    return users + measure_namespaces(match.namespaces) + _measure_selector(match.object_selector)


def measure_namespaces(selector: NamespaceSelector | None) -> int:
    """Return the number of names of a selector, as `measure_globs` counts them."""
    if selector is None:
        return 0
    return measure_globs((*selector.include, *selector.exclude)) + _measure_selector(selector.selector)


def _measure_selector(selector: PolicyLabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels) + sum(1 + len(each.values) for each in selector.match_expressions)


def measure_globs(globs: Iterable[str]) -> int:
    """Return the number of names, in which each `*` counts as one more, and each character of a name with `?`."""
    return sum(1 + (len(glob) if "?" in glob else glob.count("*")) for glob in globs)
