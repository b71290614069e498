"""A verdict: allow or deny, with everything that is to be said."""

from dataclasses import dataclass, replace
from typing import Any

from webhook.accounting.problem import Problem

PatchOperation = dict[str, Any]
"""One operation of a JSON Patch (RFC 6902)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say of a change.

    `problems` deny (sorted by path, none means allow), `warnings` and `audits` come from rules enforced more weakly,
    `unknown` says what could not be judged and why, `patch` fills in what is missing (mutating phase only), `exceeded`
    names the caps that a privileged user went over.
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
        """Whether nothing speaks against it."""
        return not self.problems

    def merge(self, other: "Verdict") -> "Verdict":
        """What both say."""
        return replace(
            self,
            problems=(*self.problems, *other.problems),
            warnings=(*self.warnings, *other.warnings),
            audits=(*self.audits, *other.audits),
            unknown=(*self.unknown, *other.unknown),
            cluster_age_seconds=other.cluster_age_seconds,
        )


ALLOWED = Verdict()
"""Nothing to say."""
