"""What a sequence is once it is read: plain values, each step with its place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from webhook.accounting.quantity import Quantity
from webhook.admission.request import UserInfo
from webhook.policy.model import PolicySet, SourceLocation

JsonObject = dict[str, Any]
"""An object as JSON has it; quantities are texts or whole numbers, so that none passes through a float."""

Labels = Mapping[str, str]


class ScenarioVerdict(StrEnum):
    """What the API server answers in the end."""

    ALLOWED = "allowed"
    DENIED = "denied"
    RETRY = "busy"


@dataclass(frozen=True, slots=True)
class StepTarget:
    """An object by kind and name; its namespace is the step's."""

    kind: str
    name: str

    def __str__(self) -> str:
        """`pod trainer`."""
        return f"{self.kind.lower()} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class Create:
    """An object is sent."""

    body: JsonObject


@dataclass(frozen=True, slots=True)
class Update:
    """An object is sent in place of a stored one."""

    body: JsonObject


@dataclass(frozen=True, slots=True)
class Resize:
    """What one container of a running pod asks for changes; `container` is empty for the first."""

    target: StepTarget
    container: str
    requests: JsonObject
    limits: JsonObject


@dataclass(frozen=True, slots=True)
class Scale:
    """A workload is to run so many pods."""

    target: StepTarget
    replicas: int


@dataclass(frozen=True, slots=True)
class Delete:
    """An object goes."""

    target: StepTarget


@dataclass(frozen=True, slots=True)
class End:
    """A pod ends, in this phase."""

    target: StepTarget
    phase: str


@dataclass(frozen=True, slots=True)
class Label:
    """Labels change; None takes one away."""

    target: StepTarget
    labels: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Wait:
    """Time passes."""

    seconds: float
    text: str


Action = Create | Update | Resize | Scale | Delete | End | Label | Wait


@dataclass(frozen=True, slots=True)
class LedgerExpectation:
    """Amounts of one ledger by what is looked at (`held`, `promised`, `free`) and name; `namespace` empty if shared."""

    cap: str
    namespace: str
    amounts: Mapping[str, Mapping[str, Quantity]]
    source: SourceLocation


@dataclass(frozen=True, slots=True)
class Expectation:
    """What must come of a step; None is not looked at."""

    verdict: ScenarioVerdict = ScenarioVerdict.ALLOWED
    codes: tuple[str, ...] | None = None
    message: str | None = None
    warnings: tuple[str, ...] | None = None
    filled: Mapping[str, str] | None = None
    pods_created: int | None = None
    pods_missing: int | None = None
    ledgers: tuple[LedgerExpectation, ...] = ()


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    """One thing that happens."""

    action: Action
    namespace: str
    user: UserInfo
    expectation: Expectation
    source: SourceLocation
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """One story, and the cluster in which it begins."""

    name: str
    policies: PolicySet
    namespaces: Mapping[str, Labels]
    steps: tuple[ScenarioStep, ...]
    source: SourceLocation
    nodes: Mapping[str, JsonObject] = field(default_factory=dict)
