"""A real server with the smallest gate there can be: `python -m tests.server.tiny [--FLAG VALUE …]`.

The gate answers every review whose `request.uid` it finds: it denies when the object is called `deny`, waits as many
milliseconds as `request.name` has after `wait-`, and fails when it is called `crash`, `undecided` or `unreachable`.
"""

import sys
import threading
from collections.abc import Callable
from functools import partial

import msgspec

from tallygate.admission.request import Phase, ReviewError
from tallygate.gate.decisions import Decision, DecisionRecord, UndecidedError
from tallygate.server.lifecycle import Lifecycle, exit_process
from tallygate.server.settings.sources import load_settings
from tallygate.server.telemetry.json_log import LineWriter, create_logger, open_standard_error
from tallygate.server.telemetry.metrics import ServerMetrics, Telemetry
from tallygate.server.web.flask_app import create_app


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


class _Request(msgspec.Struct):
    uid: str
    name: str = ""
    namespace: str = ""
    operation: str = ""
    kind: _Kind = _Kind()
    object: msgspec.Raw = msgspec.Raw(b"null")


class _Review(msgspec.Struct):
    request: _Request


_DECODER = msgspec.json.Decoder(_Review)


class TinyGate:
    """A gate that decides by the object's name. It records `deadlines`, and calls `on_wait` before it waits."""

    def __init__(self, on_wait: Callable[[], object] = lambda: None) -> None:
        self.deadlines: list[float] = []
        self._on_wait = on_wait

    def admit(self, body: bytes, phase: Phase, deadline: float) -> Decision:
        """Answer a review."""
        self.deadlines.append(deadline)
        try:
            request = _DECODER.decode(body).request
        except (RecursionError, ValueError) as error:
            raise ReviewError(f"the body is not a review: {error}") from None
        verdict = self._verdict(request.name, request.uid)
        response = {"uid": request.uid, "allowed": verdict == "allow", "warnings": [phase.value]}
        answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        codes = ("TG101",) if verdict == "deny" else ()
        kind = request.kind.kind
        record = DecisionRecord(
            uid=request.uid,
            user="someone",
            operation=request.operation,
            kind=kind,
            namespace=request.namespace,
            name=request.name,
            phase=phase,
            dry_run=False,
            verdict=verdict,
            codes=codes,
        )
        return Decision(msgspec.json.encode(answer), record)

    def _verdict(self, name: str, uid: str) -> str:
        if name == "crash":
            raise RuntimeError("the secret of the crash")
        if name == "undecided":
            raise UndecidedError("the ledger did not answer", uid)
        if name == "unreachable":
            raise UndecidedError("the store cannot be reached", uid, is_transient=True)
        if name.startswith("wait-"):
            self._on_wait()
            threading.Event().wait(int(name.removeprefix("wait-")) / 1000)
        return "deny" if name == "deny" else "allow"


def parse_flags(arguments: list[str]) -> dict[str, object]:
    """Return arguments as a mapping: `--a-b c` as `{"a_b": "c"}`."""
    pairs = zip(*[iter(arguments)] * 2, strict=True)
    return {flag.removeprefix("--").replace("-", "_"): value for flag, value in pairs}


def main(arguments: list[str]) -> int:
    """Serve until a signal comes."""
    settings = load_settings(parse_flags(arguments), {})
    metrics = ServerMetrics("0")
    lines = LineWriter(open_standard_error(), metrics.log_lines_dropped.inc)
    telemetry = Telemetry(create_logger(settings.log_level, line_writer=lines), metrics)
    gate = TinyGate(lambda: telemetry.log.warning("waiting"))
    code = Lifecycle(partial(create_app, gate.admit), settings, telemetry).run()
    lines.flush()
    return code


if __name__ == "__main__":
    exit_process(main(sys.argv[1:]))
