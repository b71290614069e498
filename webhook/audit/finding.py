"""A finding of an audit: what is wrong with something that is stored, and whose report tells of it."""

from dataclasses import dataclass
from typing import NamedTuple

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
