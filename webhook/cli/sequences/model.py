"""What a sequence is once it is read: plain values, each step with its place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from webhook.accounting.quantity import Quantity
from webhook.admission.change import UserInfo
from webhook.policy.model import PolicySet, SourceLocation

Body = dict[str, Any]
"""An object as JSON has it; quantities are texts or whole numbers, so that none passes through a float."""

Labels = Mapping[str, str]


class Verdict(StrEnum):
    """What the API server answers in the end."""

    ALLOWED = "allowed"
    DENIED = "denied"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Named:
    """An object by kind and name; its namespace is the step's."""

    kind: str
    name: str

    def __str__(self) -> str:
        """`pod trainer`."""
        return f"{self.kind.lower()} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class Create:
    """An object is sent."""

    body: Body


@dataclass(frozen=True, slots=True)
class Update:
    """An object is sent in place of a stored one."""

    body: Body


@dataclass(frozen=True, slots=True)
class Resize:
    """What one container of a running pod asks for changes; `container` is empty for the first."""

    target: Named
    container: str
    requests: Body
    limits: Body


@dataclass(frozen=True, slots=True)
class Scale:
    """A workload is to run so many pods."""

    target: Named
    replicas: int


@dataclass(frozen=True, slots=True)
class Delete:
    """An object goes."""

    target: Named


@dataclass(frozen=True, slots=True)
class End:
    """A pod ends, in this phase."""

    target: Named
    phase: str


@dataclass(frozen=True, slots=True)
class Label:
    """Labels change; None takes one away."""

    target: Named
    labels: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Wait:
    """Time passes."""

    seconds: float
    text: str


Action = Create | Update | Resize | Scale | Delete | End | Label | Wait


@dataclass(frozen=True, slots=True)
class LedgerExpected:
    """Amounts of one ledger by what is looked at (`held`, `promised`, `free`) and name; `namespace` empty if shared."""

    cap: str
    namespace: str
    amounts: Mapping[str, Mapping[str, Quantity]]
    source: SourceLocation


@dataclass(frozen=True, slots=True)
class Expected:
    """What must come of a step; None is not looked at."""

    verdict: Verdict = Verdict.ALLOWED
    codes: tuple[str, ...] | None = None
    message: str | None = None
    warnings: tuple[str, ...] | None = None
    filled: Mapping[str, str] | None = None
    made: int | None = None
    missing: int | None = None
    ledgers: tuple[LedgerExpected, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens."""

    action: Action
    namespace: str
    user: UserInfo
    expected: Expected
    source: SourceLocation
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """One story, and the cluster in which it begins."""

    name: str
    policies: PolicySet
    namespaces: Mapping[str, Labels]
    steps: tuple[Step, ...]
    source: SourceLocation
    nodes: Mapping[str, Body] = field(default_factory=dict)
