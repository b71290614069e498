"""What came of a request: the API server's answer, in one piece."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from webhook.accounting.problem import Problem
from webhook.admission.answer import TOO_MANY_REQUESTS
from webhook.admission.verdict import PatchOperation
from webhook.cli.sequences.model import Body, Verdict
from webhook.gate.decisions import Decision

API_SERVER: Final = "the API server"
GATE: Final = "the gate"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict, who refused, with which codes and words; what was filled in; and what is stored then, if anything.

    `events` are what controllers would write down, `made` how many pods they created.
    """

    verdict: Verdict = Verdict.ALLOWED
    by: str = ""
    codes: tuple[str, ...] = ()
    message: str = ""
    warnings: tuple[str, ...] = ()
    filled: Mapping[str, str] = field(default_factory=dict)
    stored: Body | None = None
    events: tuple[str, ...] = ()
    made: int = 0
    missing: int = 0

    @property
    def allowed(self) -> bool:
        """Whether the API server said yes."""
        return self.verdict is Verdict.ALLOWED

    def after(self, before: "Outcome") -> "Outcome":
        """With what an earlier phase of the same request said."""
        warnings = tuple(dict.fromkeys((*before.warnings, *self.warnings)))
        return replace(self, warnings=warnings, filled={**before.filled, **self.filled})


def refused(message: str, *codes: str) -> Outcome:
    """The API server refuses by itself."""
    return Outcome(Verdict.DENIED, API_SERVER, codes, message)


def invalid(what: str, problems: Iterable[Problem]) -> Outcome:
    """The API server's validation found these."""
    found = tuple(problems)
    codes = tuple(dict.fromkeys(each.code for each in found))
    return refused(f"{what} is invalid: {'; '.join(map(str, found))}", *codes)


def answered(answer: Decision) -> tuple[Outcome, tuple[PatchOperation, ...]]:
    """What the gate answered, and its patch."""
    said: dict[str, Any] = json.loads(answer.body)["response"]
    status, warnings = said.get("status") or {}, tuple(said.get("warnings", ()))
    if said["allowed"]:
        patch = tuple(json.loads(base64.b64decode(said["patch"]))) if "patch" in said else ()
        return Outcome(warnings=warnings, filled=dict(_filled(patch))), patch
    verdict = Verdict.BUSY if status.get("code") == TOO_MANY_REQUESTS else Verdict.DENIED
    codes = tuple(dict.fromkeys(answer.record.codes))
    return Outcome(verdict, GATE, codes, str(status.get("message", "")), warnings), ()


def _filled(patch: Iterable[PatchOperation]) -> Iterator[tuple[str, str]]:
    """Each value that a patch adds, by its field as Kubernetes prints it."""
    for operation in patch:
        *steps, last = operation["path"].split("/")[1:]
        path = _path(steps)
        if isinstance(operation["value"], Mapping):
            yield from ((f"{path}.{last}[{name}]", str(value)) for name, value in operation["value"].items())
        else:
            yield f"{path}[{last.replace('~1', '/').replace('~0', '~')}]", str(operation["value"])


def _path(steps: Iterable[str]) -> str:
    path = ""
    for step in steps:
        path += f"[{step}]" if step.isdecimal() else f".{step}"
    return path.removeprefix(".")
