"""Reviews of ConfigMaps with policies: one that no gate would load is denied, with the findings of lint.

The API server sends the ConfigMaps of the gate's namespace that have the label of policies, or had it.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from tallygate.accounting.problem import BUILT_IN_CHECK, Problem, Reason
from tallygate.admission.request import AdmissionRequest, Phase, ReviewError, Verdict
from tallygate.admission.response import (
    UNPROCESSABLE,
    ResponseSubject,
    create_denial_status,
    create_response,
    encode_response,
)
from tallygate.gate.decisions import Decision, DecisionRecord, UndecidedError
from tallygate.policy.lint_findings import LintFinding
from tallygate.policy.policy_config_maps import (
    NOTHING_FOUND,
    ConfigMapReport,
    PolicyConfigMap,
    PolicyFiles,
    lint_config_map,
)

_MAX_SHOWN: Final = 20
"""Errors in a response; lint lists all of them."""

_MAX_MESSAGE_CHARACTERS: Final = 500
_MAX_LOGGED_CHARACTERS: Final = 1024
_CONTROL_CHARACTERS: Final = dict.fromkeys((*range(32), 127, *range(128, 160)), " ")
_COMMAND: Final = "tallygate lint"
_DECODER: Final = msgspec.json.Decoder(PolicyConfigMap)


class Mutex(Protocol):
    """A lock that a thread takes only if no other has it."""

    def acquire(self, blocking: bool = ...) -> bool:  # noqa: FBT001  # as threading.Lock
        """Take the lock, and return whether it was free."""
        ...

    def release(self) -> None:
        """Give the lock back."""
        ...


def is_config_map(request: AdmissionRequest) -> bool:
    """Return whether a request writes a ConfigMap."""
    return not request.group and request.kind == "ConfigMap" and not request.subresource


class PolicyReviews:
    """The decisions on ConfigMaps with policies.

    `read_files` returns the policy files that the gate has now, `unix_time` seconds of the Unix epoch. One ConfigMap is
    read at a time, since a large one takes a second of this process.
    """

    def __init__(self, read_files: Callable[[], PolicyFiles], mutex: Mutex, unix_time: Callable[[], float]) -> None:
        self._read_files = read_files
        self._mutex = mutex
        self._unix_time = unix_time

    def decide(self, request: AdmissionRequest, phase: Phase) -> Decision:
        """Decide on the write of a ConfigMap; one without the label is allowed.

        Raises:
            ReviewError: if the object is no ConfigMap.
            UndecidedError: while another one is read.
        """
        config_map = _decode(request.object)
        if not config_map.is_labelled:
            return _create_decision(request, phase, NOTHING_FOUND)
        stored = _decode(request.old_object) if request.old_object is not None else None
        if not self._mutex.acquire(blocking=False):
            raise UndecidedError("another ConfigMap of policies is being read", request.uid, is_transient=True)
        try:
            now = datetime.fromtimestamp(self._unix_time(), UTC)
            report = lint_config_map(config_map, stored, self._read_files(), now)
        finally:
            self._mutex.release()
        return _create_decision(request, phase, report)


def _decode(content: msgspec.Raw | bytes) -> PolicyConfigMap:
    try:
        return _DECODER.decode(content)
    except (ValueError, RecursionError) as error:
        raise ReviewError(f"the object is no ConfigMap: {error}"[:_MAX_MESSAGE_CHARACTERS]) from None


def _create_decision(request: AdmissionRequest, phase: Phase, report: ConfigMapReport) -> Decision:
    problems = tuple(_create_problems(report.errors[:_MAX_SHOWN]))
    verdict = Verdict(problems, warnings=tuple(_create_problems(report.warnings)))
    subject = ResponseSubject(request, {}, until_then=_describe_rest(report.errors), command=_COMMAND)
    status = create_denial_status(subject, UNPROCESSABLE, "Invalid", problems) if problems else None
    body = encode_response(request.uid, create_response(subject, verdict, phase, status))
    record = DecisionRecord(
        uid=request.uid,
        user=request.user.name,
        operation=request.operation,
        kind=request.kind,
        namespace=request.namespace,
        name=request.name,
        phase=phase,
        dry_run=request.dry_run,
        verdict="deny" if problems else "allow",
        codes=tuple(problem.code for problem in problems),
        warnings=tuple(problem.code for problem in verdict.warnings),
        message="; ".join(map(str, problems))[:_MAX_LOGGED_CHARACTERS],
    )
    return Decision(body, record)


def _create_problems(findings: Iterable[LintFinding]) -> list[Problem]:
    """Return findings as problems whose field is the place in the file, as lint prints it."""
    return [
        Problem(
            f"{finding.file}:{finding.line}:{finding.column}".translate(_CONTROL_CHARACTERS),
            finding.code,
            Reason.INVALID,
            _shorten(finding.message),
            policy_kind=BUILT_IN_CHECK,
        )
        for finding in findings
    ]


def _shorten(text: str) -> str:
    line = text.translate(_CONTROL_CHARACTERS)
    return line if len(line) <= _MAX_MESSAGE_CHARACTERS else f"{line[:_MAX_MESSAGE_CHARACTERS]} …"


def _describe_rest(errors: Sequence[LintFinding]) -> str:
    """Return what gates do until the errors are corrected, and how to see all of them."""
    more = f", and {len(errors) - _MAX_SHOWN} more" if len(errors) > _MAX_SHOWN else ""
    return f"gates keep the policies that they have; `{_COMMAND}` lists these errors{more}"
