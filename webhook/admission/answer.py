"""The answer to a review: a verdict as status, causes, warnings and audit annotations.

Everything the API server would call invalid or drop is kept out here: a validating answer has no patch, warnings hold
no control characters and stay within the sizes at which they would be cut (apiserver endpoints/filters/warning.go).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from webhook.accounting.problem import Problem, Reason
from webhook.admission.change import CREATE, Change, Phase
from webhook.admission.review import encode
from webhook.admission.verdict import ALLOWED, Verdict
from webhook.objects.meta import PartialObjectMetadata

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


class Matter(NamedTuple):
    """What an answer is about: the change, and the admins' own reasons by the name of rule or cap."""

    change: Change
    whys: Whys


def rules_answer(uid: str, matter: Matter, verdict: Verdict, phase: Phase) -> bytes:
    """The answer to a change that was judged by the rules."""
    status = denial(matter, UNPROCESSABLE, "Invalid", verdict.problems) if verdict.problems else None
    return answer(uid, matter, verdict, phase, status)


def answer(uid: str, matter: Matter, verdict: Verdict, phase: Phase, status: Mapping[str, Any] | None) -> bytes:
    """Write the answer: denied with `status`, allowed without."""
    if verdict is ALLOWED:
        return encode(uid, status=status)
    return encode(
        uid,
        status=status,
        warnings=_bounded((*_warnings(matter, verdict), *verdict.unknown), _WARNINGS_TOTAL),
        annotations=_annotations(verdict),
        patch=verdict.patch if phase is Phase.MUTATING and status is None else (),
    )


def _warnings(matter: Matter, verdict: Verdict) -> list[str]:
    """Each with its object: of a file with twenty, kubectl shows a text only once, and not what it is about."""
    told = _told(verdict.warnings, matter.whys)
    return [f"{_who(matter.change)}: {each}" for each in told] if told else []


def _annotations(verdict: Verdict) -> dict[str, str]:
    """For the cluster's audit log; the API server puts the webhook's name in front of each key."""
    audits = _bounded((str(problem) for problem in verdict.audits), _ANNOTATION_LENGTH)
    age = "" if verdict.age is None else f"{verdict.age:.1f}s"
    written = {"audit": "; ".join(audits), "exceeded-caps": ",".join(verdict.exceeded), "cluster-age": age}
    return {key: text for key, text in written.items() if text}


def denial(matter: Matter, code: int, reason: str, problems: Sequence[Problem]) -> dict[str, Any]:
    """The `status` of a refusal (metav1.Status): every problem in the message and among the causes.

    kubectl shows one or the other. Of a single object that is Invalid it prints kind, name and causes; of one among
    several, and of anything else, the message, without saying which object that is about (checkErr in
    k8s.io/kubectl/pkg/cmd/util/helpers.go, v1.36). So both have everything: the object, all problems, the reasons.
    """
    told = _told(problems, matter.whys)
    return {
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": _message(matter.change, told),
        "details": {
            "name": matter.change.name or _generate_name(matter.change),
            "group": matter.change.group,
            "kind": matter.change.kind,
            "causes": [
                {"field": each.field, "reason": each.reason.value, "message": each.text} for each in told[:_CAUSES]
            ],
        },
    }


def busy(change: Change, seconds: int, why: str) -> dict[str, Any]:
    """The `status` that sends a client away for a moment: nothing was decided, and trying again is right."""
    return {
        "status": "Failure",
        "code": TOO_MANY_REQUESTS,
        "reason": "TooManyRequests",
        "message": f"{why}; nothing was decided: try again in {seconds} s",
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


class _Told(NamedTuple):
    """A problem as it is told: `text` says all but the field."""

    field: str
    reason: Reason
    text: str

    def __str__(self) -> str:
        """The sentence for a person."""
        return f"{self.field}: {self.text}" if self.field else self.text


def _told(problems: Iterable[Problem], whys: Whys) -> list[_Told]:
    """What is told of problems: the admin's own reason stands with the first that a rule or cap has found."""
    said: set[str] = set()
    return [_Told(each.field, each.reason, _text(each, _once(said, each.rule, whys))) for each in problems]


def _once(said: set[str], rule: str, whys: Whys) -> str:
    """The reason of a rule or cap the first time, and nothing afterwards."""
    if rule in said:
        return ""
    said.add(rule)
    return whys.get(rule, "")


def _text(problem: Problem, why: str) -> str:
    because = f": {' '.join(why.split())}" if why else ""
    return f"{problem.message} ({problem.origin}{because})"


def _message(change: Change, told: Sequence[_Told]) -> str:
    shown = [str(each) for each in told[:_SHOWN]]
    if len(told) > _SHOWN:
        which = f", the first {_CAUSES} of all" if len(told) > _CAUSES else ","
        shown.append(f"and {len(told) - _SHOWN} more{which} among the causes in the status")
    if len(shown) == 1:
        return f"{_who(change)}: {shown[0]}"
    return f"{_who(change)} has {len(told)} problems:\n" + "\n".join(f"- {each}" for each in shown)


def _who(change: Change) -> str:
    """The object, in words that stay the same from phase to phase and from try to try.

    The end that is made up for a name when an object is created says nothing while the object does not exist.
    """
    prefix = _generate_name(change) if change.operation == CREATE else ""
    name = f"{prefix}…" if prefix else change.name
    return (f'{change.kind} "{name}"' if name else change.kind).translate(_CONTROL)


def _generate_name(change: Change) -> str:
    try:
        metadata = msgspec.json.decode(change.object, type=PartialObjectMetadata).metadata
    except msgspec.DecodeError:  # judged by a part of it that can be read
        return ""
    return (metadata.generate_name if metadata else None) or ""


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
