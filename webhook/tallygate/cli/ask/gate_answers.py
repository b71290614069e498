"""The answers of the server of asks: found, asked and read."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tallygate.answers.answer_records import AskAnswer, AskHeadroom, UnhealthyRecord
from tallygate.answers.usage_records import AskHours, UsageItemRecord
from tallygate.answers.usage_report import UsageReport
from tallygate.cli.ask.asked_objects import AskedObjects
from tallygate.cli.ask.gate_client import GateClient, GateError
from tallygate.manifests.manifest_objects import Manifest
from tallygate.server.asking.ask_request import MAX_BODY_BYTES

_ASK_PATH: Final = "/v1/ask"
_HEADROOM_PATH: Final = "/v1/headroom"
_USAGE_PATH: Final = "/v1/usage"
_HOURS_PATH: Final = "/v1/hours"


class GateAnswer(NamedTuple):
    """An answer as plain data, with the places of findings in files, and the same as a record."""

    content: dict[str, Any]
    record: AskAnswer


def ask_gate(gate: GateClient, manifests: Sequence[Manifest], namespace: str) -> GateAnswer:
    """Return the answer about objects; `namespace` is that of objects that name none.

    Raises:
        GateError: if there is no answer.
        UsageError: if an object cannot be written as JSON.
    """
    asked = AskedObjects(manifests)
    body = _send_objects(gate, _ASK_PATH, asked, namespace)
    try:
        content = msgspec.json.decode(body)
        msgspec.convert(content, AskAnswer)
        asked.restore_places(content)
        return GateAnswer(content, msgspec.convert(content, AskAnswer))
    except (ValueError, RecursionError) as error:
        raise GateError(f"{gate.url} sends no AskAnswer that this version reads: {error}") from None


class HeadroomOfGate(NamedTuple):
    """The numbers of further copies as plain data, and the same as a record."""

    content: dict[str, Any]
    record: AskHeadroom


def ask_headroom(gate: GateClient, manifests: Sequence[Manifest], namespace: str) -> HeadroomOfGate:
    """Return the answer about further copies of the pods of objects; `namespace` is that of objects that name none.

    Raises:
        GateError: if there is no answer.
        UsageError: if an object cannot be written as JSON.
    """
    body = _send_objects(gate, _HEADROOM_PATH, AskedObjects(manifests), namespace)
    try:
        content = msgspec.json.decode(body)
        return HeadroomOfGate(content, msgspec.convert(content, AskHeadroom))
    except (ValueError, RecursionError) as error:
        raise GateError(f"{gate.url} sends no AskHeadroom that this version reads: {error}") from None


def _send_objects(gate: GateClient, path: str, asked: AskedObjects, namespace: str) -> bytes:
    """Send objects to a path of the gate, and return its answer.

    Raises:
        GateError: if they are too large for one ask, or there is no answer.
    """
    if len(asked.body) > MAX_BODY_BYTES:
        message = f"the objects have {len(asked.body)} bytes, and one ask is about at most {MAX_BODY_BYTES}"
        raise GateError(f"{message}: ask about fewer objects at a time")
    return gate.exchange("POST", path, {"namespace": namespace}, asked.body)


class _AskUsage(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of an `AskUsage` that a table has."""

    as_of: str
    items: Sequence[UsageItemRecord]
    notes: Sequence[str]
    unhealthy: Sequence[UnhealthyRecord]


def read_usage(gate: GateClient, namespace: str) -> UsageReport:
    """Return the usage of a namespace as the gate answers it.

    Raises:
        GateError: if there is no answer, or it cannot be read.
    """
    body = gate.exchange("GET", _USAGE_PATH, {"namespace": namespace})
    try:
        usage = msgspec.json.decode(body, type=_AskUsage)
    except (ValueError, RecursionError) as error:
        raise GateError(f"{gate.url} sends no AskUsage that this version reads: {error}") from None
    unhealthy = tuple(each.to_devices() for each in usage.unhealthy)
    return UsageReport(tuple(line.to_line() for line in usage.items), tuple(usage.notes), unhealthy)


def read_hours(gate: GateClient, namespace: str, by: str) -> AskHours:
    """Return the hours of devices in a namespace, of all if it is empty, as the gate answers them.

    Raises:
        GateError: if there is no answer, or it cannot be read.
    """
    body = gate.exchange("GET", _HOURS_PATH, {"by": by} | ({"namespace": namespace} if namespace else {}))
    try:
        return msgspec.json.decode(body, type=AskHours)
    except (ValueError, RecursionError) as error:
        raise GateError(f"{gate.url} sends no AskHours that this version reads: {error}") from None
