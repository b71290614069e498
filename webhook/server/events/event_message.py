"""What an event says: read from a review and its answer, which both are bytes by then."""

from collections.abc import Sequence

import msgspec

from webhook.admission.request import CREATE, Phase
from webhook.gate.decisions import Decision, DecisionRecord

REFUSED = "Refused"
WARNED = "Warned"

_MAX_MESSAGE_BYTES = 1024  # bytes; what client-go cuts messages to (tools/events, maxLengthOfNote; v1.36)
_ELLIPSIS = "…"
_MAX_NAME_LENGTH = 253


class Owner(msgspec.Struct, rename="camel", frozen=True):
    """The controller of a pod, as its `ownerReferences` name it."""

    api_version: str
    kind: str
    name: str
    uid: str


class EventMessage(msgspec.Struct, frozen=True):
    """One thing to say of an owner: `code` is the first that the answer gave, `reason` `Refused` or `Warned`."""

    namespace: str
    owner: Owner
    reason: str
    code: str
    text: str


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


class _ReviewAnswer(msgspec.Struct, frozen=True):
    response: _Response


_REVIEW_DECODER = msgspec.json.Decoder(_Review)
_ANSWER_DECODER = msgspec.json.Decoder(_ReviewAnswer)


def create_event_message(review: bytes, decision: Decision) -> EventMessage | None:
    """What is to be said of the owner of a new pod; None where there is nothing to say, or nobody to say it of.

    Refusals are told of in either phase, since the first one ends the create. Warnings are told of in the validating
    phase, which sees them all. `busy` is no refusal: the controller comes again.
    """
    record = decision.record
    codes = _list_codes(record)
    if not codes or not _is_new_pod(record):
        return None
    owner = _find_controller(review)
    if owner is None:
        return None
    response = _ANSWER_DECODER.decode(decision.body).response
    is_denied = record.verdict == "deny"
    text = response.status.message if is_denied else "\n".join(response.warnings)
    return EventMessage(record.namespace, owner, REFUSED if is_denied else WARNED, codes[0], _truncate(text))


def _list_codes(record: DecisionRecord) -> Sequence[str]:
    if record.verdict == "deny":
        return record.codes
    return record.warnings if record.verdict == "allow" and record.phase is Phase.VALIDATING else ()


def _is_new_pod(record: DecisionRecord) -> bool:
    return record.kind == "Pod" and record.operation == CREATE and not record.dry_run and bool(record.namespace)


def _find_controller(review: bytes) -> Owner | None:
    """The one owner that is the controller. A kubelet's node is none that people would ask about a pod."""
    try:
        pod = _REVIEW_DECODER.decode(review).request.object
    except (msgspec.DecodeError, RecursionError):  # no API server stores what it cannot decode either
        return None
    references = (pod.metadata.owner_references if pod and pod.metadata else None) or ()
    for reference in references:
        if reference.controller and reference.kind != "Node" and _is_valid_owner(reference):
            return Owner(reference.api_version, reference.kind, reference.name, reference.uid)
    return None


def _is_valid_owner(owner: Owner) -> bool:
    """Whether there could be such an object; a longer name than any is nobody's."""
    return all(0 < len(text) <= _MAX_NAME_LENGTH for text in (owner.api_version, owner.kind, owner.name, owner.uid))


def _truncate(text: str) -> str:
    """The text within what an event takes, never in the middle of a character."""
    if len(text.encode()) <= _MAX_MESSAGE_BYTES:
        return text
    return text.encode()[: _MAX_MESSAGE_BYTES - len(_ELLIPSIS.encode())].decode(errors="ignore") + _ELLIPSIS
