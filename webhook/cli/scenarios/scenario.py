"""What a sequence is once it is read: plain values, each step with its place.

What came of a request: the API server's answer, in one piece.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from webhook.accounting.problem import Problem
from webhook.accounting.quantity import Quantity
from webhook.admission.request import UserInfo
from webhook.admission.response import TOO_MANY_REQUESTS
from webhook.admission.verdict import PatchOperation
from webhook.gate.decisions import Decision
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


API_SERVER: Final = "the API server"
GATE: Final = "the gate"


@dataclass(frozen=True, slots=True)
class RequestResult:
    """The verdict, who refused, with which codes and words; what was filled in; and what is stored then, if anything.

    `events` are what controllers would write down, `made` how many pods they created.
    """

    verdict: ScenarioVerdict = ScenarioVerdict.ALLOWED
    rejected_by: str = ""
    codes: tuple[str, ...] = ()
    message: str = ""
    warnings: tuple[str, ...] = ()
    filled: Mapping[str, str] = field(default_factory=dict)
    stored_body: JsonObject | None = None
    events: tuple[str, ...] = ()
    pods_created: int = 0
    pods_missing: int = 0

    @property
    def allowed(self) -> bool:
        """Whether the API server said yes."""
        return self.verdict is ScenarioVerdict.ALLOWED

    def add_earlier(self, earlier: "RequestResult") -> "RequestResult":
        """With what an earlier phase of the same request said."""
        warnings = tuple(dict.fromkeys((*earlier.warnings, *self.warnings)))
        return replace(self, warnings=warnings, filled={**earlier.filled, **self.filled})


def create_rejection(message: str, *codes: str) -> RequestResult:
    """The API server refuses by itself."""
    return RequestResult(ScenarioVerdict.DENIED, API_SERVER, codes, message)


def create_invalid(object_name: str, problems: Iterable[Problem]) -> RequestResult:
    """The API server's validation found these."""
    all_problems = tuple(problems)
    codes = tuple(dict.fromkeys(problem.code for problem in all_problems))
    return create_rejection(f"{object_name} is invalid: {'; '.join(map(str, all_problems))}", *codes)


def parse_decision(decision: Decision) -> tuple[RequestResult, tuple[PatchOperation, ...]]:
    """What the gate answered, and its patch."""
    response: dict[str, Any] = json.loads(decision.body)["response"]
    status, warnings = response.get("status") or {}, tuple(response.get("warnings", ()))
    if response["allowed"]:
        patch = tuple(json.loads(base64.b64decode(response["patch"]))) if "patch" in response else ()
        return RequestResult(warnings=warnings, filled=dict(_list_filled(patch))), patch
    verdict = ScenarioVerdict.RETRY if status.get("code") == TOO_MANY_REQUESTS else ScenarioVerdict.DENIED
    codes = tuple(dict.fromkeys(decision.record.codes))
    return RequestResult(verdict, GATE, codes, str(status.get("message", "")), warnings), ()


def _list_filled(patch: Iterable[PatchOperation]) -> Iterator[tuple[str, str]]:
    """Each value that a patch adds, by its field as Kubernetes prints it."""
    for operation in patch:
        *steps, last = operation["path"].split("/")[1:]
        path = _format_path(steps)
        if isinstance(operation["value"], Mapping):
            yield from ((f"{path}.{last}[{name}]", str(value)) for name, value in operation["value"].items())
        else:
            yield f"{path}[{last.replace('~1', '/').replace('~0', '~')}]", str(operation["value"])


def _format_path(steps: Iterable[str]) -> str:
    path = ""
    for step in steps:
        path += f"[{step}]" if step.isdecimal() else f".{step}"
    return path.removeprefix(".")


MAX_PODS: Final = 1000
