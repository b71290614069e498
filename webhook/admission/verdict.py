"""The verdict of the rules: allow or deny, with problems, warnings and a patch."""

from dataclasses import dataclass, replace
from typing import Any

from webhook.accounting.problem import Problem

PatchOperation = dict[str, Any]
"""One operation of a JSON Patch (RFC 6902)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of evaluating rules on a request.

    `problems` deny (sorted by path; an empty tuple allows), `warnings` and `audits` come from rules with weaker
    enforcement, `unknown` names the rules that were not evaluated and the reason, `patch` fills in missing entries
    (mutating phase only), `exceeded` names the caps that a privileged user exceeded. `cluster_age_seconds` is the age
    of the cluster data that the verdict depends on.
    """

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    audits: tuple[Problem, ...] = ()
    unknown: tuple[str, ...] = ()
    patch: tuple[PatchOperation, ...] = ()
    exceeded: tuple[str, ...] = ()
    cluster_age_seconds: float | None = None

    @property
    def is_allowed(self) -> bool:
        """True if no problem denies the request."""
        return not self.problems

    def merge(self, other: "Verdict") -> "Verdict":
        """Return a verdict with the problems, warnings, audits and unknown rules of both."""
        return replace(
            self,
            problems=(*self.problems, *other.problems),
            warnings=(*self.warnings, *other.warnings),
            audits=(*self.audits, *other.audits),
            unknown=(*self.unknown, *other.unknown),
            cluster_age_seconds=other.cluster_age_seconds,
        )


ALLOWED = Verdict()
"""The verdict without problems, warnings or a patch."""
