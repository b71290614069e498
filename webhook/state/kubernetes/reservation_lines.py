"""The reservations of a CapLedger as text: short lines without quotes, under a heading for those with much in common.

    # requested=nvidia.com/gpu:1 attempt=5f0c9d1e2a3b4c5d- namespace=team-a
    4fGWOBMJSpC_3XDSN7esqQ train-0 3e4
    ## web-7d9f8b6c5d-
    2_lZ4t-PT1uKqkqbqGfTzA x2x4z 3f0 operation=update counted=nvidia.com/gpu:1

A line has the UID of the consumer in base64, its name, the end of the attempt's nonce, and what differs from the usual.
Below a heading for the begin of many names it has the rest of the name.
The time of a write in the API server grows with the bytes of the object: a thousand reservations as JSON in a JSON
string, where every quote is escaped, took four times as long as none (docs/design/performance.md).
"""

import base64
import re
from collections.abc import Callable, Container, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.accounting.charge import ConsumerKind
from tallygate.webhook.state.ledger.ledger import Operation, Reservation

_SAFE = "/.-_~+@()"
_PLAIN = re.compile(r"[A-Za-z0-9/.\-_~+@()]+")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SHORT_UID = re.compile(r"[A-Za-z0-9_-]{22}")
_DIGITS = re.compile(r"-?[0-9]{1,64}")
_EMPTY = "%"  # no quoted text is a lone percent sign
_OTHER_UID = "="  # before a UID that is no UUID
_HEADING = "# "
_NAME_HEADING = "## "
_MIN_NAMES = 4  # with the same begin, for a heading of their own
_SEVERAL = "several"
_MAX_CACHED = 20_000
_MAX_DECODED = 8_192  # lines
_MAX_HEADINGS = 1_024
_NO_AMOUNTS = Amounts()


Digits = Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,64}\Z")]


class _ReservationRecord(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """A reservation in the earlier form, a JSON object on each line: it is read, also from snapshots, and not written.

    The namespace is omitted if it is the ledger's own.
    """

    uid: str
    name: str
    requested: dict[str, Digits]
    attempt: str
    namespace: str | None = None
    counted: dict[str, Digits] = {}
    single_attempt: bool = True
    operation: Operation = Operation.CREATE
    kind: ConsumerKind = ConsumerKind.POD
    pod_uid: str = ""
    workload_kind: str = ""
    workload: str = ""
    taken: dict[str, Digits] = {}
    counted_pods: tuple[str, ...] = ()

    def to_reservation(self, ledger_namespace: str) -> Reservation:
        """Return the reservation."""
        counted, requested, taken = (
            Amounts({name: int(amount) for name, amount in each.items()})
            for each in (self.counted, self.requested, self.taken)
        )
        return Reservation(
            ledger_namespace if self.namespace is None else self.namespace,
            self.name,
            counted,
            requested,
            self.attempt,
            self.single_attempt,
            self.operation,
            self.kind,
            self.pod_uid,
            self.workload_kind,
            self.workload,
            taken,
            frozenset(self.counted_pods),
        )


_RECORD_DECODER = msgspec.json.Decoder(_ReservationRecord)


class _Line(NamedTuple):
    """The text of a reservation, and the reservation itself, so that no other one gets its address.

    `start` is the begin of the name, `short_text` the line below the heading for it.
    """

    reservation: Reservation
    uid: str
    heading: str
    start: str
    text: str
    short_text: str


_lines_by_address: dict[int, _Line] = {}
"""The lines of the reservations in the ledgers that were written last: most of them are in the next write, too."""


def encode_reservations(reservations: Mapping[str, Reservation], ledger_namespace: str) -> str:
    """Return the reservations as lines, those with the same heading together."""
    lines_by_heading: dict[str, dict[str, list[_Line]]] = {}
    if len(_lines_by_address) > _MAX_CACHED:
        _lines_by_address.clear()
    for uid, reservation in reservations.items():
        line = _lines_by_address.get(id(reservation))
        if line is None or line.uid != uid:
            line = _lines_by_address[id(reservation)] = _encode_reservation(uid, reservation)
        lines_by_start = lines_by_heading.get(line.heading)
        if lines_by_start is None:
            lines_by_start = lines_by_heading[line.heading] = {}
        lines = lines_by_start.get(line.start)
        if lines is None:
            lines = lines_by_start[line.start] = []
        lines.append(line)
    own, texts = f" namespace={_quote(ledger_namespace)}", list[str]()
    for heading, lines_by_start in lines_by_heading.items():
        texts.append(heading.removesuffix(own))
        texts += _list_texts(lines_by_start)
    return "\n".join(texts)


def _list_texts(lines_by_start: Mapping[str, list[_Line]]) -> Iterator[str]:
    """Yield the lines below a heading: first those with the whole name, then those whose names begin alike."""
    for start, lines in lines_by_start.items():
        if not start or len(lines) < _MIN_NAMES:
            yield from (line.text for line in lines)
    for start, lines in lines_by_start.items():
        if start and len(lines) >= _MIN_NAMES:
            yield f"{_NAME_HEADING}{start}"
            yield from (line.short_text for line in lines)


def decode_reservations(text: str, ledger_namespace: str) -> Iterator[tuple[str, Reservation]]:
    """Yield the UID and the reservation of each line.

    Raises:
        ValueError: if a line is invalid, or has a field that this version does not know.
    """
    if text.startswith("{"):
        for record in _RECORD_DECODER.decode_lines(text):
            yield record.uid, record.to_reservation(ledger_namespace)
        return
    heading = start = ""
    for line in text.split("\n") if text else ():
        if line.startswith(_HEADING):
            heading, start = line, ""
        elif line.startswith(_NAME_HEADING):
            start = line.removeprefix(_NAME_HEADING)
        elif not heading:
            raise ValueError(f"a reservation without a heading: {line[:80]!r}")
        else:
            yield _decode_reservation(line, start, heading, ledger_namespace)


def _encode_reservation(uid: str, reservation: Reservation) -> _Line:
    start, dash, end = reservation.attempt.rpartition("-")
    heading = (
        f"{_HEADING}requested={_encode_amounts(reservation.requested)} attempt={_quote(start + dash)} "
        f"namespace={_quote(reservation.namespace)}"
    )
    name_start, name_dash, name_end = reservation.name.rpartition("-")
    name = _quote(name_start + name_dash) if name_dash and name_end else ""
    fields = [_quote(name_end if name else reservation.name), _quote(end)]
    for field, encode in _FIELDS.items():
        if value := encode(reservation):
            fields.append(f"{field}={value}")
    short_uid, rest = _encode_uid(uid), " ".join(fields)
    return _Line(reservation, uid, heading, name, f"{short_uid} {name}{rest}", f"{short_uid} {rest}")


def _encode_amounts(amounts: Mapping[str, int]) -> str:
    return ",".join(f"{_quote(name)}:{amount}" for name, amount in amounts.items())


_FIELDS: Mapping[str, Callable[[Reservation], str]] = {
    "counted": lambda each: _encode_amounts(each.counted),
    "attempts": lambda each: "" if each.single_attempt else _SEVERAL,
    "operation": lambda each: "" if each.operation is Operation.CREATE else each.operation.value,
    "kind": lambda each: "" if each.kind is ConsumerKind.POD else each.kind.value,
    "pod": lambda each: each.pod_uid and _quote(each.pod_uid),
    "workloadKind": lambda each: each.workload_kind and _quote(each.workload_kind),
    "workload": lambda each: each.workload and _quote(each.workload),
    "taken": lambda each: _encode_amounts(each.taken),
    "countedPods": lambda each: ",".join(map(_quote, sorted(each.counted_pods))),
}
_HEADING_FIELDS = frozenset({"requested", "attempt", "namespace"})


@lru_cache(maxsize=_MAX_DECODED)
def _decode_reservation(line: str, start: str, heading: str, ledger_namespace: str) -> tuple[str, Reservation]:
    """Return the UID and the reservation of a line; most lines of a ledger were in its last version, too."""
    namespace, requested, attempt = _decode_heading(heading, ledger_namespace)
    uid, name, end, *rest = line.split(" ") if line.count(" ") > 1 else ("", "", "")
    if not (uid and name and end):
        raise ValueError(f"a reservation without UID, name and attempt: {line[:80]!r}")
    fields = _split_fields(rest, _FIELDS)
    if fields.get("attempts", _SEVERAL) != _SEVERAL:
        raise ValueError(f"attempts={fields['attempts']}")
    counted_pods = fields.get("countedPods", "")
    reservation = Reservation(
        namespace,
        _unquote(start + name),
        _decode_amounts(fields["counted"]) if "counted" in fields else _NO_AMOUNTS,
        requested,
        attempt + _unquote(end),
        "attempts" not in fields,
        Operation(fields["operation"]) if "operation" in fields else Operation.CREATE,
        ConsumerKind(fields["kind"]) if "kind" in fields else ConsumerKind.POD,
        _unquote(fields.get("pod", "")),
        _unquote(fields.get("workloadKind", "")),
        _unquote(fields.get("workload", "")),
        _decode_amounts(fields["taken"]) if "taken" in fields else _NO_AMOUNTS,
        frozenset(map(_unquote, counted_pods.split(","))) if counted_pods else frozenset(),
    )
    return _decode_uid(uid), reservation


@lru_cache(maxsize=_MAX_HEADINGS)
def _decode_heading(heading: str, ledger_namespace: str) -> tuple[str, Amounts, str]:
    """Return namespace, requested amounts and begin of the nonce of the reservations below a heading."""
    fields = _split_fields(heading.removeprefix(_HEADING).split(" "), _HEADING_FIELDS)
    namespace = _unquote(fields["namespace"]) if "namespace" in fields else ledger_namespace
    return namespace, _decode_amounts(fields.get("requested", "")), _unquote(fields.get("attempt", ""))


def _split_fields(fields: list[str], known: Container[str]) -> dict[str, str]:
    """Return the values of fields by their names.

    Raises:
        ValueError: if a field is unknown or repeated: a newer version may have written it for a purpose.
    """
    values: dict[str, str] = {}
    for field in fields:
        name, sign, value = field.partition("=")
        if not sign or name not in known or name in values:
            raise ValueError(f"unknown or repeated field of a reservation: {field[:80]!r}")
        values[name] = value
    return values


def _decode_amounts(text: str) -> Amounts:
    amounts: dict[str, int] = {}
    for each in text.split(",") if text else ():
        name, _, digits = each.rpartition(":")
        if not name or not _DIGITS.fullmatch(digits):
            raise ValueError(f"an amount of a reservation: {each[:80]!r}")
        amounts[_unquote(name)] = int(digits)
    return Amounts(amounts)


def _encode_uid(uid: str) -> str:
    if not _UUID.fullmatch(uid):
        return _OTHER_UID + _quote(uid)
    return base64.urlsafe_b64encode(bytes.fromhex(uid.replace("-", ""))).decode()[:22]


def _decode_uid(text: str) -> str:
    if text.startswith(_OTHER_UID):
        return _unquote(text.removeprefix(_OTHER_UID))
    if not _SHORT_UID.fullmatch(text):
        raise ValueError(f"the UID of a reservation: {text[:80]!r}")
    digits = base64.urlsafe_b64decode(text + "==").hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _quote(text: str) -> str:
    """Return text without spaces and signs of this form: other characters by their percent codes."""
    if _PLAIN.fullmatch(text):
        return text
    return quote(text, safe=_SAFE, errors="surrogatepass") or _EMPTY


def _unquote(text: str) -> str:
    if "%" not in text:
        return text
    return "" if text == _EMPTY else unquote(text, errors="surrogatepass")
