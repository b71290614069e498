"""The answers of the server of asks: found, asked and read."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tallygate.answers.answer_records import AskAnswer
from tallygate.cli.ask.asked_objects import AskedObjects
from tallygate.cli.ask.gate_client import GateClient, GateError
from tallygate.manifests.manifest_objects import Manifest
from tallygate.server.asking.ask_request import MAX_BODY_BYTES

_ASK_PATH: Final = "/v1/ask"


class GateAnswer(NamedTuple):
    """An answer as plain data, with the places of findings in files, and the same as a record."""

    content: dict[str, Any]
    record: AskAnswer


def ask_gate(gate: GateClient, manifests: Sequence[Manifest], namespace: str) -> GateAnswer:
    """Return the answer about objects; `namespace` is that of objects that name none.

    Raises:
        GateError: if there is no answer.
        DocumentError: if an object cannot be written as JSON.
    """
    asked = AskedObjects(manifests)
    if len(asked.body) > MAX_BODY_BYTES:
        message = f"the objects have {len(asked.body)} bytes, and one ask is about at most {MAX_BODY_BYTES}"
        raise GateError(f"{message}: ask about fewer objects at a time")
    body = gate.exchange("POST", _ASK_PATH, {"namespace": namespace}, asked.body)
    try:
        content = msgspec.json.decode(body)
        msgspec.convert(content, AskAnswer)
        asked.restore_places(content)
        return GateAnswer(content, msgspec.convert(content, AskAnswer))
    except (ValueError, RecursionError) as error:
        raise GateError(f"{gate.url} sends no AskAnswer that this version reads: {error}") from None
