"""Scenarios as plain values, each step with its source location, and the result of a request."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.accounting.problem import Problem
from tallygate.admission.request import PatchOperation, UserInfo
from tallygate.cli.scenarios.scenario_document import (
    ResizeStep,
    ScenarioVerdict,
    StepChange,
    StepExpectation,
    StepObject,
)
from tallygate.gate.decisions import create_response
from tallygate.policy.model import PolicySet, SourceLocation
from tallygate.review.outcome import Outcome

JsonObject = dict[str, Any]
"""A JSON object; quantities are strings or integers, so that no quantity becomes a float."""

Labels = Mapping[str, str]

API_SERVER: Final = "the API server"
GATE: Final = "the gate"
MAX_PODS: Final = 1000
"""The maximum number of pods of one workload; each of them passes the gate."""


@dataclass(frozen=True, slots=True)
class StepTarget:
    """An object by kind and name; its namespace is the namespace of the step."""

    kind: str
    name: str

    def __str__(self) -> str:
        """Return the target as text, for example `pod trainer`."""
        return f"{self.kind.lower()} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class Send:
    """A request that sends an object. `name` is the field of its step: create or update."""

    name: str
    body: JsonObject


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a stored object as it is `written`. `name` is the field of its step, as in scale or finish."""

    name: str
    target: StepTarget
    written: StepChange


@dataclass(frozen=True, slots=True)
class Wait:
    """An advance of the clock."""

    seconds: float
    text: str


Action = Send | Change | Wait


def list_resources(written: StepObject | ResizeStep) -> Iterator[tuple[str, JsonObject]]:
    """Yield `requests` and `limits` with their written amounts; `resources` sets both."""
    yield "requests", {**written.resources, **written.requests}
    yield "limits", {**written.resources, **written.limits}


def parse_device(text: str) -> DeviceId:
    """Return the device that is written as DRIVER/POOL/DEVICE; a part is empty where the text lacks it."""
    driver, _, rest = text.partition("/")
    pool, _, device = rest.rpartition("/")
    return DeviceId(driver, pool, device)


@dataclass(frozen=True, slots=True)
class PublishedNode:
    """The amounts that policies publish on a node, and the problem of each name that is left as it is."""

    name: str
    amounts: Mapping[str, int]
    problems: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ScenarioStep:
    """A step of a scenario."""

    action: Action
    namespace: str
    user: UserInfo
    expectation: StepExpectation
    source: SourceLocation
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario and the initial state of its cluster.

    `time` is the time of the first step. Without it, overrides of limits that have an end have ended. `annotations` are
    those of the namespaces.
    """

    name: str
    policies: PolicySet
    namespaces: Mapping[str, Labels]
    steps: tuple[ScenarioStep, ...]
    source: SourceLocation
    nodes: Mapping[str, JsonObject] = field(default_factory=dict)
    time: datetime | None = None
    annotations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestResult:
    """The result of a request.

    `rejected_by`, `codes` and `message` describe a rejection, `filled` the values that the gate added. `stored_body` is
    the object to store, if any. `events` are the events of controllers, `pods_created` the number of pods they created.
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
        """Whether the API server admitted the request."""
        return self.verdict is ScenarioVerdict.ALLOWED

    def add_earlier(self, earlier: "RequestResult") -> "RequestResult":
        """Return the result with the warnings and added values of an earlier phase of the same request."""
        warnings = tuple(dict.fromkeys((*earlier.warnings, *self.warnings)))
        return replace(self, warnings=warnings, filled={**earlier.filled, **self.filled})


def create_rejection(message: str, *codes: str) -> RequestResult:
    """Return a rejection by the API server itself."""
    return RequestResult(ScenarioVerdict.DENIED, API_SERVER, codes, message)


def create_invalid(object_name: str, problems: Iterable[Problem]) -> RequestResult:
    """Return a rejection by the API server's validation."""
    all_problems = tuple(problems)
    codes = tuple(dict.fromkeys(problem.code for problem in all_problems))
    return create_rejection(f"{object_name} is invalid: {'; '.join(map(str, all_problems))}", *codes)


def create_result(outcome: Outcome) -> tuple[RequestResult, tuple[PatchOperation, ...]]:
    """Return the result of a request that the gate has decided, and its patch."""
    response = create_response(outcome)
    status, warnings, patch = response.status, response.warnings, response.patch
    if status is None:
        return RequestResult(warnings=warnings, filled=dict(_list_filled(patch))), patch
    verdict = ScenarioVerdict.DENIED if outcome.undecided is None else ScenarioVerdict.RETRY
    codes = () if outcome.undecided is not None else tuple(dict.fromkeys(problem.code for problem in outcome.problems))
    return RequestResult(verdict, GATE, codes, str(status["message"]), warnings), ()


def _list_filled(patch: Iterable[PatchOperation]) -> Iterator[tuple[str, str]]:
    """Yield each value that a patch adds, with its field path in Kubernetes' format."""
    for operation in patch:
        *steps, last = operation["path"].split("/")[1:]
        path, added = _format_path(steps), msgspec.json.decode(msgspec.json.encode(operation["value"]))
        if isinstance(added, Mapping):
            yield from ((f"{path}.{last}[{name}]", str(value)) for name, value in added.items())
        else:
            yield f"{path}[{last.replace('~1', '/').replace('~0', '~')}]", str(added)


def _format_path(steps: Iterable[str]) -> str:
    path = ""
    for step in steps:
        path += f"[{step}]" if step.isdecimal() else f".{step}"
    return path.removeprefix(".")
