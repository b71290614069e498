"""The message of an event, read from the bytes of a review and of its response."""

from collections.abc import Sequence

import msgspec

from tallygate.admission.request import CREATE, Phase
from tallygate.admission.response import SEE
from tallygate.cluster.refusal_events import REJECTED
from tallygate.gate.decisions import Decision, DecisionRecord

WARNED = "Warned"

_MAX_PAGE_LENGTH = 400  # of an address; a namespace has at most 63 characters of it
_MAX_MESSAGE_BYTES = 1024  # client-go truncates messages to this (tools/events, maxLengthOfNote; v1.36)
_ELLIPSIS = "…"
_MAX_NAME_LENGTH = 253


class Owner(msgspec.Struct, rename="camel", frozen=True):
    """The controller of a pod, as its `ownerReferences` name it."""

    api_version: str
    kind: str
    name: str
    uid: str


class EventMessage(msgspec.Struct, frozen=True):
    """One message about the owner of a pod: `code` is the first of the decision, `reason` is `Rejected` or `Warned`."""

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
    """Return the message for the owner of a new pod, or None without a code to report or without a controller.

    Denials are reported in both phases, since the first one ends the create. Warnings are reported in the validating
    phase, which has all of them. The verdict `retry` is not reported: the controller retries.
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
    return EventMessage(record.namespace, owner, REJECTED if is_denied else WARNED, codes[0], _truncate(text))


def _list_codes(record: DecisionRecord) -> Sequence[str]:
    if record.verdict == "deny":
        return record.codes
    return record.warnings if record.verdict == "allow" and record.phase is Phase.VALIDATING else ()


def _is_new_pod(record: DecisionRecord) -> bool:
    return record.kind == "Pod" and record.operation == CREATE and not record.dry_run and bool(record.namespace)


def _find_controller(review: bytes) -> Owner | None:
    """Return the owner that is the pod's controller, or None. A Node does not count: users do not look there."""
    try:
        pod = _REVIEW_DECODER.decode(review).request.object
    except (msgspec.DecodeError, RecursionError):  # an API server does not store an invalid object either
        return None
    references = (pod.metadata.owner_references if pod and pod.metadata else None) or ()
    for reference in references:
        if reference.controller and reference.kind != "Node" and _is_valid_owner(reference):
            return Owner(reference.api_version, reference.kind, reference.name, reference.uid)
    return None


def _is_valid_owner(owner: Owner) -> bool:
    """Return whether an object with these fields can exist: no field is empty or longer than any name may be."""
    return all(0 < len(text) <= _MAX_NAME_LENGTH for text in (owner.api_version, owner.kind, owner.name, owner.uid))


def _truncate(text: str) -> str:
    """Return the text, truncated to the 1024 bytes of an event message, at a character and before a page's address."""
    if len(text.encode()) <= _MAX_MESSAGE_BYTES:
        return text
    kept, see, page = text.rpartition(SEE)
    end = _ELLIPSIS + see + page if see and len(page) <= _MAX_PAGE_LENGTH else _ELLIPSIS
    return (kept or text).encode()[: _MAX_MESSAGE_BYTES - len(end.encode())].decode(errors="ignore") + end
