"""The answer to a review: a verdict as status, causes, warnings and audit annotations.

Everything the API server would call invalid or drop is kept out here: a validating answer has no patch, warnings hold
no control characters and stay within the sizes at which they would be cut (apiserver endpoints/filters/warning.go).
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from webhook.accounting.problem import Problem, Reason
from webhook.admission.request import CREATE, REVIEW_API_VERSION, REVIEW_KIND, AdmissionRequest, Phase
from webhook.admission.verdict import ALLOWED, Verdict
from webhook.objects.meta import PartialObjectMetadata

_ENCODER = msgspec.json.Encoder()


def encode_review_response(
    uid: str,
    *,
    status: Mapping[str, Any] | None = None,
    warnings: tuple[str, ...] = (),
    annotations: Mapping[str, str] | None = None,
    patch: tuple[dict[str, Any], ...] = (),
) -> bytes:
    """Write the answer to the review with this uid: denied with `status`, allowed without.

    `patch` is for the mutating phase alone: the API server calls a validating answer with a patch invalid.
    """
    if status is None and not (warnings or annotations or patch):
        return b'{"apiVersion":"%b","kind":"AdmissionReview","response":{"uid":%b,"allowed":true}}' % (
            REVIEW_API_VERSION.encode(),
            _ENCODER.encode(uid),
        )
    response: dict[str, Any] = {"uid": uid, "allowed": status is None}
    if status is not None:
        response["status"] = status
    if warnings:
        response["warnings"] = warnings
    if annotations:
        response["auditAnnotations"] = annotations
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_ENCODER.encode(patch)).decode("ascii")
    return _ENCODER.encode({"apiVersion": REVIEW_API_VERSION, "kind": REVIEW_KIND, "response": response})


UNPROCESSABLE = 422
FORBIDDEN = 403
TOO_MANY_REQUESTS = 429

_MAX_WARNINGS_LENGTH = 4096  # beyond this the API server cuts each one to 256 characters
_MAX_ANNOTATIONS_LENGTH = 4096
_MAX_SHOWN = 20
_MAX_CAUSES = 200
_CONTROL_CHARACTERS = dict.fromkeys((*range(32), 127, *range(128, 160)), " ")

PolicyReasons = Mapping[str, str]
"""Rule or cap name to the admin's own reason."""


class ResponseSubject(NamedTuple):
    """What an answer is about: the change, and the admins' own reasons by the name of rule or cap."""

    request: AdmissionRequest
    reasons: PolicyReasons


def encode_rule_response(uid: str, subject: ResponseSubject, verdict: Verdict, phase: Phase) -> bytes:
    """The answer to a change that was judged by the rules."""
    status = create_denial_status(subject, UNPROCESSABLE, "Invalid", verdict.problems) if verdict.problems else None
    return encode_response(uid, subject, verdict, phase, status)


def encode_response(
    uid: str, subject: ResponseSubject, verdict: Verdict, phase: Phase, status: Mapping[str, Any] | None
) -> bytes:
    """Write the answer: denied with `status`, allowed without."""
    if verdict is ALLOWED:
        return encode_review_response(uid, status=status)
    return encode_review_response(
        uid,
        status=status,
        warnings=_truncate((*_format_warnings(subject, verdict), *verdict.unknown), _MAX_WARNINGS_LENGTH),
        annotations=_create_annotations(verdict),
        patch=verdict.patch if phase is Phase.MUTATING and status is None else (),
    )


def _format_warnings(subject: ResponseSubject, verdict: Verdict) -> list[str]:
    """Each with its object: of a file with twenty, kubectl shows a text only once, and not what it is about."""
    texts = _format_problems(verdict.warnings, subject.reasons)
    return [f"{_describe_object(subject.request)}: {text}" for text in texts] if texts else []


def _create_annotations(verdict: Verdict) -> dict[str, str]:
    """For the cluster's audit log; the API server puts the webhook's name in front of each key."""
    audits = _truncate((str(problem) for problem in verdict.audits), _MAX_ANNOTATIONS_LENGTH)
    age = "" if verdict.cluster_age_seconds is None else f"{verdict.cluster_age_seconds:.1f}s"
    annotations = {"audit": "; ".join(audits), "exceeded-caps": ",".join(verdict.exceeded), "cluster-age": age}
    return {key: text for key, text in annotations.items() if text}


def create_denial_status(
    subject: ResponseSubject, code: int, reason: str, problems: Sequence[Problem]
) -> dict[str, Any]:
    """The `status` of a refusal (metav1.Status): every problem in the message and among the causes.

    kubectl shows one or the other. Of a single object that is Invalid it prints kind, name and causes; of one among
    several, and of anything else, the message, without saying which object that is about (checkErr in
    k8s.io/kubectl/pkg/cmd/util/helpers.go, v1.36). So both have everything: the object, all problems, the reasons.
    """
    formatted = _format_problems(problems, subject.reasons)
    return {
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": _format_message(subject.request, formatted),
        "details": {
            "name": subject.request.name or _read_generate_name(subject.request),
            "group": subject.request.group,
            "kind": subject.request.kind,
            "causes": [
                {"field": problem.field, "reason": problem.reason.value, "message": problem.text}
                for problem in formatted[:_MAX_CAUSES]
            ],
        },
    }


def create_retry_status(request: AdmissionRequest, retry_after_seconds: int, reason: str) -> dict[str, Any]:
    """The `status` that sends a client away for a moment: nothing was decided, and trying again is right."""
    return {
        "status": "Failure",
        "code": TOO_MANY_REQUESTS,
        "reason": "TooManyRequests",
        "message": f"{reason}; nothing was decided: try again in {retry_after_seconds} s",
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
    """A problem as it is told: `text` says all but the field."""

    field: str
    reason: Reason
    text: str

    def __str__(self) -> str:
        """The sentence for a person."""
        return f"{self.field}: {self.text}" if self.field else self.text


def _format_problems(problems: Iterable[Problem], reasons: PolicyReasons) -> list[_FormattedProblem]:
    """What is told of problems: the admin's own reason stands with the first that a rule or cap has found."""
    explained: set[str] = set()
    return [
        _FormattedProblem(
            problem.field, problem.reason, _format_problem(problem, _take_reason(explained, problem.rule, reasons))
        )
        for problem in problems
    ]


def _take_reason(explained: set[str], rule: str, reasons: PolicyReasons) -> str:
    """The reason of a rule or cap the first time, and nothing afterwards."""
    if rule in explained:
        return ""
    explained.add(rule)
    return reasons.get(rule, "")


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
    return f"{_describe_object(request)} has {len(problems)} problems:\n" + "\n".join(f"- {each}" for each in shown)


def _describe_object(request: AdmissionRequest) -> str:
    """The object, in words that stay the same from phase to phase and from try to try.

    The end that is made up for a name when an object is created says nothing while the object does not exist.
    """
    prefix = _read_generate_name(request) if request.operation == CREATE else ""
    name = f"{prefix}…" if prefix else request.name
    return (f'{request.kind} "{name}"' if name else request.kind).translate(_CONTROL_CHARACTERS)


def _read_generate_name(request: AdmissionRequest) -> str:
    try:
        metadata = msgspec.json.decode(request.object, type=PartialObjectMetadata).metadata
    except msgspec.DecodeError:  # judged by a part of it that can be read
        return ""
    return (metadata.generate_name if metadata else None) or ""


def _truncate(texts: Iterable[str], max_length: int) -> tuple[str, ...]:
    """The texts that fit whole, one line each, and a last one that says how many did not."""
    kept: list[str] = []
    remaining = max_length - len(_format_omitted(0)) - 8
    texts = [text.translate(_CONTROL_CHARACTERS) for text in texts]
    for text in texts:
        if len(text) > remaining:
            return (*kept, _format_omitted(len(texts) - len(kept)))
        kept.append(text)
        remaining -= len(text)
    return tuple(kept)


def _format_omitted(count: int) -> str:
    return f"and {count} more that there is no room for here; `tallygate check` lists them all"
