"""The response to a review: a verdict as status, causes, warnings and audit annotations.

This module omits everything that the API server would call invalid or drop: a validating response has no patch,
warnings contain no control characters and stay within the sizes at which the API server cuts them (apiserver
endpoints/filters/warning.go).
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tallygate.accounting.problem import Problem, Reason
from tallygate.admission.request import (
    ALLOWED,
    CREATE,
    REVIEW_API_VERSION,
    REVIEW_KIND,
    AdmissionRequest,
    PatchOperation,
    Phase,
    Verdict,
)
from tallygate.objects.meta import PartialObjectMetadata

_ENCODER = msgspec.json.Encoder()
_ALLOWING_START = f'{{"apiVersion":"{REVIEW_API_VERSION}","kind":"{REVIEW_KIND}","response":{{"uid":'.encode()
_ALLOWING_END = b',"allowed":true}}'

UNPROCESSABLE = 422
FORBIDDEN = 403
TOO_MANY_REQUESTS = 429

_MAX_WARNINGS_LENGTH = 4096  # beyond this the API server cuts each one to 256 characters
_MAX_ANNOTATIONS_LENGTH = 4096
_MAX_SHOWN = 20
_MAX_CAUSES = 200
_CONTROL_CHARACTERS = dict.fromkeys((*range(32), 127, *range(128, 160)), " ")

PolicyReasons = Mapping[tuple[str, str], str]
"""The reasons of the authors of policies, by the `policy_kind` and the name of the policy that problems have."""


class ResponseSubject(NamedTuple):
    """The subject of a response: the request, and the administrators' reasons by kind and name of a policy.

    `page` is the address at which users see the caps of the request's namespace; empty without one. `until_then` is
    the state until an accepted request changes it; empty for no such line. `command` lists all warnings.
    """

    request: AdmissionRequest
    reasons: PolicyReasons
    page: str = ""
    until_then: str = ""
    command: str = "tallygate check"


class Response(NamedTuple):
    """The response to a review: denied if it has a `status`, else allowed.

    `patch` is that of the mutating phase: the API server calls a validating response with a patch invalid.
    """

    status: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] | None = None
    patch: tuple[PatchOperation, ...] = ()


SEE = "\nsee "
"""What stands in the message of a denial before the address of a page."""

_UNTIL_THEN = "until then"

ALLOWING = Response()
"""The response that allows a request, and says nothing else."""


def create_response(
    subject: ResponseSubject, verdict: Verdict, phase: Phase, status: Mapping[str, Any] | None
) -> Response:
    """Return the response with the warnings, the audit annotations and the patch of a verdict."""
    if verdict is ALLOWED:
        return ALLOWING if status is None else Response(status)
    return Response(
        status,
        _truncate((*_format_warnings(subject, verdict), *verdict.unknown), _MAX_WARNINGS_LENGTH, subject.command),
        _create_annotations(verdict),
        verdict.patch if phase is Phase.MUTATING and status is None else (),
    )


def encode_response(uid: str, response: Response) -> bytes:
    """Return the response to the review with this uid as bytes."""
    status, warnings, annotations, patch = response
    if status is None and not (warnings or annotations or patch):
        return b"".join((_ALLOWING_START, _ENCODER.encode(uid), _ALLOWING_END))
    fields: dict[str, Any] = {"uid": uid, "allowed": status is None}
    if status is not None:
        fields["status"] = status
    if warnings:
        fields["warnings"] = warnings
    if annotations:
        fields["auditAnnotations"] = annotations
    if patch:
        fields["patchType"] = "JSONPatch"
        fields["patch"] = base64.b64encode(_ENCODER.encode(patch)).decode("ascii")
    return _ENCODER.encode({"apiVersion": REVIEW_API_VERSION, "kind": REVIEW_KIND, "response": fields})


def _format_warnings(subject: ResponseSubject, verdict: Verdict) -> list[str]:
    """Return the warnings, each with its object: kubectl prints equal texts once, and without the object."""
    texts = _format_problems(verdict.warnings, subject.reasons)
    return [f"{_describe_object(subject.request)}: {text}" for text in texts] if texts else []


def _create_annotations(verdict: Verdict) -> dict[str, str]:
    """Return the annotations for the cluster's audit log; the API server prefixes each key with the webhook name."""
    audits = _truncate((str(problem) for problem in verdict.audits), _MAX_ANNOTATIONS_LENGTH)
    age = "" if verdict.cluster_age_seconds is None else f"{verdict.cluster_age_seconds:.1f}s"
    annotations = {
        "audit": "; ".join(audits),
        "exceeded-caps": ",".join(verdict.exceeded),
        "cluster-age": age,
        "implied-requests": "; ".join(_truncate(verdict.implied, _MAX_ANNOTATIONS_LENGTH)),
    }
    return {key: text for key, text in annotations.items() if text}


def create_denial_status(
    subject: ResponseSubject, code: int, reason: str, problems: Sequence[Problem]
) -> dict[str, Any]:
    """Return the `status` of a denial (metav1.Status): every problem in the message and among the causes.

    kubectl prints one of them. For a single object with the reason Invalid it prints kind, name and causes; for one of
    several objects, and for any other reason, it prints the message without the object (checkErr in
    k8s.io/kubectl/pkg/cmd/util/helpers.go, v1.36). So both contain everything: the object, all problems, the reasons,
    and the address of the page.
    """
    formatted = _format_problems(problems, subject.reasons)
    causes = [
        {"field": problem.field, "reason": problem.reason.value, "message": problem.text}
        for problem in formatted[:_MAX_CAUSES]
    ]
    message = _format_message(subject.request, formatted)
    if subject.page:
        causes.append({"field": "see", "reason": Reason.INVALID.value, "message": subject.page})
        message = f"{message}{SEE}{subject.page}"
    if subject.until_then:
        causes.append({"field": _UNTIL_THEN, "reason": Reason.INVALID.value, "message": subject.until_then})
        message = f"{message}\n{_UNTIL_THEN}: {subject.until_then}"
    return {
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": {
            "name": subject.request.name or _read_generate_name(subject.request),
            "group": subject.request.group,
            "kind": subject.request.kind,
            "causes": causes,
        },
    }


def create_retry_status(request: AdmissionRequest, retry_after_seconds: int, reason: str) -> dict[str, Any]:
    """Return the `status` that asks a client to retry: there is no decision, and a retry is correct."""
    return {
        "status": "Failure",
        "code": TOO_MANY_REQUESTS,
        "reason": "TooManyRequests",
        "message": f"{reason}; no decision: retry in {retry_after_seconds} s",
        "details": {
            "name": request.name,
            "group": request.group,
            "kind": request.kind,
            "retryAfterSeconds": retry_after_seconds,
            "causes": [
                {"field": "", "reason": Reason.INVALID.value, "message": "no decision was reached within the deadline"}
            ],
        },
    }


class _FormattedProblem(NamedTuple):
    """A problem as a user reads it: `text` has everything but the field."""

    field: str
    reason: Reason
    text: str

    def __str__(self) -> str:
        return f"{self.field}: {self.text}" if self.field else self.text


def _format_problems(problems: Iterable[Problem], reasons: PolicyReasons) -> list[_FormattedProblem]:
    """Return the formatted problems; the reason of a rule or cap stands only in its first problem."""
    explained: set[tuple[str, str]] = set()
    return [
        _FormattedProblem(
            problem.field, problem.reason, _format_problem(problem, _take_reason(explained, problem, reasons))
        )
        for problem in problems
    ]


def _take_reason(explained: set[tuple[str, str]], problem: Problem, reasons: PolicyReasons) -> str:
    """Return the reason of a policy on the first call for a problem of it, and an empty text afterwards."""
    policy = problem.policy_kind, problem.rule
    if policy in explained:
        return ""
    explained.add(policy)
    return reasons.get(policy, "")


def _format_problem(problem: Problem, policy_reason: str) -> str:
    suffix = f": {' '.join(policy_reason.split())}" if policy_reason else ""
    return f"{problem.message} ({problem.origin}{suffix})"


def _format_message(request: AdmissionRequest, problems: Sequence[_FormattedProblem]) -> str:
    shown = [str(problem) for problem in problems[:_MAX_SHOWN]]
    if len(problems) > _MAX_SHOWN:
        scope = f", the first {_MAX_CAUSES} of all" if len(problems) > _MAX_CAUSES else ","
        shown.append(f"and {len(problems) - _MAX_SHOWN} more{scope} among the causes in the status")
    if len(shown) == 1:
        return f"{_describe_object(request)}: {shown[0]}"
    return f"{_describe_object(request)} has {len(problems)} problems:\n" + "\n".join(f"- {line}" for line in shown)


def _describe_object(request: AdmissionRequest) -> str:
    """Return kind and name of the object, in a form that is equal in both phases and in every retry.

    The API server generates a random suffix when a user creates an object with `generateName`; the text omits it,
    because the object does not exist yet.
    """
    prefix = _read_generate_name(request) if request.operation == CREATE else ""
    name = f"{prefix}…" if prefix else request.name
    return (f'{request.kind} "{name}"' if name else request.kind).translate(_CONTROL_CHARACTERS)


def _read_generate_name(request: AdmissionRequest) -> str:
    try:
        metadata = msgspec.json.decode(request.object, type=PartialObjectMetadata).metadata
    except msgspec.DecodeError:  # the decision came from another part of the object, which is readable
        return ""
    return (metadata.generate_name if metadata else None) or ""


def _truncate(texts: Iterable[str], max_length: int, command: str = "tallygate check") -> tuple[str, ...]:
    """Return the texts that fit completely, one line each, and a last one with the number of omitted texts."""
    included: list[str] = []
    remaining = max_length - len(_format_omitted(0, command)) - 8
    texts = [text.translate(_CONTROL_CHARACTERS) for text in texts]
    for text in texts:
        if len(text) > remaining:
            return (*included, _format_omitted(len(texts) - len(included), command))
        included.append(text)
        remaining -= len(text)
    return tuple(included)


def _format_omitted(count: int, command: str) -> str:
    return f"and {count} more that there is no room for here; `{command}` lists them all"
