"""What an event says: read from a review and its answer, which both are bytes by then."""

from collections.abc import Sequence

import msgspec

from webhook.admission.change import CREATE, Phase
from webhook.gate.decisions import Decision, DecisionRecord

REFUSED = "Refused"
WARNED = "Warned"

_LONGEST = 1024  # bytes; what client-go cuts messages to (tools/events, maxLengthOfNote; v1.36)
_CUT = "…"
_LONGEST_NAME = 253


class Owner(msgspec.Struct, rename="camel", frozen=True):
    """The controller of a pod, as its `ownerReferences` name it."""

    api_version: str
    kind: str
    name: str
    uid: str


class Said(msgspec.Struct, frozen=True):
    """One thing to say of an owner: `code` is the first that the answer gave, `reason` `Refused` or `Warned`."""

    namespace: str
    owner: Owner
    reason: str
    code: str
    message: str


class _Reference(Owner, frozen=True):
    controller: bool | None = None


class _Metadata(msgspec.Struct, rename="camel", frozen=True):
    owner_references: tuple[_Reference, ...] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata | None = None


class _Request(msgspec.Struct, frozen=True):
    object: _Object | None = None


class _Review(msgspec.Struct, frozen=True):
    request: _Request


class _Status(msgspec.Struct, frozen=True):
    message: str = ""


class _Response(msgspec.Struct, frozen=True):
    status: _Status = _Status()
    warnings: tuple[str, ...] = ()


class _Answered(msgspec.Struct, frozen=True):
    response: _Response


_REVIEW = msgspec.json.Decoder(_Review)
_ANSWER = msgspec.json.Decoder(_Answered)


def said(review: bytes, answer: Decision) -> Said | None:
    """What is to be said of the owner of a new pod; None where there is nothing to say, or nobody to say it of.

    Refusals are told of in either phase, since the first one ends the create. Warnings are told of in the validating
    phase, which sees them all. `busy` is no refusal: the controller comes again.
    """
    record = answer.record
    codes = _codes(record)
    if not codes or not _is_new_pod(record):
        return None
    owner = _controller(review)
    if owner is None:
        return None
    told = _ANSWER.decode(answer.body).response
    refused = record.verdict == "deny"
    text = told.status.message if refused else "\n".join(told.warnings)
    return Said(record.namespace, owner, REFUSED if refused else WARNED, codes[0], _cut(text))


def _codes(record: DecisionRecord) -> Sequence[str]:
    if record.verdict == "deny":
        return record.codes
    return record.warnings if record.verdict == "allow" and record.phase is Phase.VALIDATING else ()


def _is_new_pod(record: DecisionRecord) -> bool:
    return record.kind == "Pod" and record.operation == CREATE and not record.dry_run and bool(record.namespace)


def _controller(review: bytes) -> Owner | None:
    """The one owner that is the controller. A kubelet's node is none that people would ask about a pod."""
    try:
        found = _REVIEW.decode(review).request.object
    except (msgspec.DecodeError, RecursionError):  # no API server stores what it cannot decode either
        return None
    references = (found.metadata.owner_references if found and found.metadata else None) or ()
    for each in references:
        if each.controller and each.kind != "Node" and _is_named(each):
            return Owner(each.api_version, each.kind, each.name, each.uid)
    return None


def _is_named(owner: Owner) -> bool:
    """Whether there could be such an object; a longer name than any is nobody's."""
    return all(0 < len(text) <= _LONGEST_NAME for text in (owner.api_version, owner.kind, owner.name, owner.uid))


def _cut(text: str) -> str:
    """The text within what an event takes, never in the middle of a character."""
    if len(text.encode()) <= _LONGEST:
        return text
    return text.encode()[: _LONGEST - len(_CUT.encode())].decode(errors="ignore") + _CUT
