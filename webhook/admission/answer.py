"""The answer to a review: a verdict as status, causes, warnings and audit annotations.

Everything the API server would call invalid or drop is kept out here: a validating answer has no patch, warnings hold
no control characters and stay within the sizes at which they would be cut (apiserver endpoints/filters/warning.go).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from webhook.accounting.problem import Problem, Reason
from webhook.admission.change import Change, Phase
from webhook.admission.review import encode
from webhook.admission.verdict import ALLOWED, Verdict

UNPROCESSABLE = 422
FORBIDDEN = 403
TOO_MANY_REQUESTS = 429

_WARNINGS_TOTAL = 4096  # beyond this the API server cuts each one to 256 characters
_ANNOTATION_LENGTH = 4096
_SHOWN = 20
_CAUSES = 200
_CONTROL = dict.fromkeys((*range(32), 127, *range(128, 160)), " ")

Whys = Mapping[str, str]
"""Rule or cap name to the admin's own reason."""


def rules_answer(uid: str, change: Change, verdict: Verdict, phase: Phase, whys: Whys) -> bytes:
    """The answer to a change that was judged by the rules."""
    status = denial(change, UNPROCESSABLE, "Invalid", verdict.problems, whys) if verdict.problems else None
    return answer(uid, verdict, phase, status)


def answer(uid: str, verdict: Verdict, phase: Phase, status: Mapping[str, Any] | None) -> bytes:
    """Write the answer: denied with `status`, allowed without."""
    if status is None and verdict is ALLOWED:
        return encode(uid)
    return encode(
        uid,
        status=status,
        warnings=_bounded((*map(str, verdict.warnings), *verdict.unknown), _WARNINGS_TOTAL),
        annotations=_annotations(verdict),
        patch=verdict.patch if phase is Phase.MUTATING and status is None else (),
    )


def _annotations(verdict: Verdict) -> dict[str, str]:
    """For the cluster's audit log; the API server puts the webhook's name in front of each key."""
    audits = _bounded((str(problem) for problem in verdict.audits), _ANNOTATION_LENGTH)
    written = {"audit": "; ".join(audits), "exceeded-caps": ",".join(verdict.exceeded)}
    return {key: text for key, text in written.items() if text}


def denial(change: Change, code: int, reason: str, problems: Sequence[Problem], whys: Whys) -> dict[str, Any]:
    """The `status` of a refusal (metav1.Status): every problem in the message and among the causes."""
    return {
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": _message(problems, whys),
        "details": {
            "name": change.name,
            "group": change.group,
            "kind": change.kind,
            "causes": [
                {"field": problem.field, "reason": problem.reason.value, "message": _unplaced(problem)}
                for problem in problems[:_CAUSES]
            ],
        },
    }


def busy(change: Change, seconds: int) -> dict[str, Any]:
    """The `status` that sends a client away for a moment: nothing was decided, and trying again is right."""
    return {
        "status": "Failure",
        "code": TOO_MANY_REQUESTS,
        "reason": "TooManyRequests",
        "message": f"the ledger of a cap is busy; nothing was decided: try again in {seconds} s",
        "details": {
            "name": change.name,
            "group": change.group,
            "kind": change.kind,
            "retryAfterSeconds": seconds,
            "causes": [
                {"field": "", "reason": Reason.INVALID.value, "message": "no decision was reached within the deadline"}
            ],
        },
    }


def _message(problems: Sequence[Problem], whys: Whys) -> str:
    shown = [str(problem) for problem in problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        which = f", the first {_CAUSES} of all" if len(problems) > _CAUSES else ","
        shown.append(f"and {len(problems) - _SHOWN} more{which} among the causes in the status")
    text = shown[0] if len(shown) == 1 else f"{len(problems)} problems:\n" + "\n".join(f"- {each}" for each in shown)
    return "\n".join((text, *_reasons(problems, whys)))


def _reasons(problems: Sequence[Problem], whys: Whys) -> Iterable[str]:
    """Each rule's own reason once, however many problems it found."""
    names = dict.fromkeys(problem.rule for problem in problems)
    return (f"{name}: {whys[name]}" for name in names if whys.get(name))


def _unplaced(problem: Problem) -> str:
    return f"{problem.message} ({problem.origin})"


def _bounded(texts: Iterable[str], most: int) -> tuple[str, ...]:
    """The texts that fit whole, one line each, and a last one that says how many did not."""
    kept: list[str] = []
    left = most - len(_omitted(0)) - 8
    texts = [text.translate(_CONTROL) for text in texts]
    for text in texts:
        if len(text) > left:
            return (*kept, _omitted(len(texts) - len(kept)))
        kept.append(text)
        left -= len(text)
    return tuple(kept)


def _omitted(count: int) -> str:
    return f"and {count} more that there is no room for here; `tallygate check` lists them all"
