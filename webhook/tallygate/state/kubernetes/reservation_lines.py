"""The reservations of a CapLedger as text: short lines without quotes, under a heading for those with much in common.

    # requested=nvidia.com/gpu:1 attempt=5f0c9d1e2a3b4c5d- namespace=team-a
    4fGWOBMJSpC_3XDSN7esqQ train-0 3e4
    ## web-7d9f8b6c5d-
    2_lZ4t-PT1uKqkqbqGfTzA x2x4z 3f0 operation=update counted=nvidia.com/gpu:1

A line has the UID of the consumer in base64, its name, the end of the attempt's nonce, and what differs from the usual.
Below a heading for the begin of many names it has the rest of the name.

The time of a write in the API server grows with the bytes of the object: it decodes, encodes and copies them some ten
times. A thousand reservations as JSON in a JSON string, where every quote is escaped, took four times as long as none
(docs/design/performance.md). So more than 256 reservations have the dense form, with a quarter less:

    ~;# requested=nvidia.com/gpu:1 attempt=5f0c9d1e2a3b4c5d- namespace=team-a;
    PcM0VnZa1jZ!q@dTWk5itrain-0 3e4;
    e{5Uu(nI9zRb`K4%hJwXtrain-1;

A semicolon ends each line, and no break, which JSON escapes. The UID is in base85, and the name follows at once. The
end of the nonce is left out if it is the next number after that of the line before, and no field follows. Versions that
do not know the dense form read all other ledgers, and reject these.
"""

import base64
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, repeat
from operator import attrgetter
from typing import Annotated, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.ledger import Operation, Reservation

_SAFE = "/.-_~+@()"
_PLAIN = re.compile(r"[A-Za-z0-9/.\-_~+@()]+")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_BASE64_UID = re.compile(r"[A-Za-z0-9_-]{22}")
_UID_LENGTH = 20
# Go escapes <, > and & in JSON; the others have a meaning here. Neither these nor what replaces them is in base85.
_BASE85_SIGNS = str.maketrans("<>&;=", ".,/:[")
_BASE85_SIGNS_BACK = str.maketrans(".,/:[", "<>&;=")
_START = "~;"
"""The begin of the dense form. An earlier version takes it for a line without a heading, and reads nothing."""
MAX_PLAIN_RESERVATIONS = 256
"""The number of reservations above which a ledger is written in the dense form."""
_NUMBER = re.compile(r"0|[1-9a-f][0-9a-f]{0,15}")
_DIGITS = re.compile(r"-?[0-9]{1,64}")
_EMPTY = "%"  # no quoted text is a lone percent sign
_OTHER_UID = "="  # before a UID that is no UUID
_HEADING = "# "
_NAME_HEADING = "## "
_MIN_NAMES = 4  # with the same begin, for a heading of their own
_SEVERAL = "several"
_MAX_CACHED = 20_000
_MAX_DECODED = 8_192  # lines
_MAX_BLOCKS = 64
_MAX_HEADINGS = 1_024


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
        counted, requested, taken = (
            Amounts({name: int(amount) for name, amount in amounts.items()})
            for amounts in (self.counted, self.requested, self.taken)
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


class _Block(NamedTuple):
    """What the lines below one heading and one begin of names have in common."""

    heading: str
    start: str


class _Line(NamedTuple):
    """The text of a reservation, and the reservation itself, so that no other one gets its address.

    `name` is the rest of the name after the begin in the block, `end` the rest of the line. `number` is the end of the
    nonce if `end` has only that, otherwise -1.
    """

    reservation: Reservation | None
    uid: str | None
    block: _Block
    plain_uid: str
    dense_uid: str
    name: str
    end: str
    number: int


_get_uid: Callable[[_Line], str | None] = attrgetter("uid")
_get_block: Callable[[_Line], _Block] = attrgetter("block")
_share_block = lru_cache(maxsize=_MAX_DECODED)(_Block)
"""Blocks, each as one object: equal ones are then compared by their address."""

_NO_LINE = _Line(None, None, _Block("", ""), "", "", "", "", -1)

_lines_by_address: dict[int, _Line] = {}
"""The lines of the reservations in the ledgers that were written last: most of them are in the next write, too."""

_texts_by_lines: dict[tuple[int, ...], tuple[Sequence[_Line], str]] = {}
"""The dense texts of the blocks that were written last, by the addresses of their lines, which they keep."""


def encode_reservations(reservations: Mapping[str, Reservation], ledger_namespace: str) -> str:
    """Return the reservations as text, those with the same heading together."""
    if not reservations:
        return ""
    if len(_lines_by_address) > _MAX_CACHED:
        _lines_by_address.clear()
    uids, lines = list(reservations), list(map(_lines_by_address.get, map(id, reservations.values()), repeat(_NO_LINE)))
    for index in [index for index, line in enumerate(lines) if line is _NO_LINE]:
        lines[index] = _remember_line(uids[index], reservations[uids[index]])
    if list(map(_get_uid, lines)) != uids:  # one reservation of several consumers
        lines = [_encode_reservation(uid, reservation) for uid, reservation in reservations.items()]
    blocks: dict[str, dict[_Block, list[_Line]]] = {}
    for block, group in groupby(lines, _get_block):
        blocks.setdefault(block.heading, {}).setdefault(block, []).extend(group)
    is_dense = len(reservations) > MAX_PLAIN_RESERVATIONS
    own, texts = f" namespace={_quote(ledger_namespace)}", list[str]()
    for heading, lines_by_block in blocks.items():
        texts.append(heading.removesuffix(own))
        for block, group_lines in _arrange(heading, lines_by_block).items():
            if block.start:
                texts.append(f"{_NAME_HEADING}{block.start}")
            texts += (_encode_densely(block, group_lines),) if is_dense else _list_lines(block, group_lines)
    return ";".join(["~", *texts, ""]) if is_dense else "\n".join(texts)


def _arrange(heading: str, lines_by_block: Mapping[_Block, list[_Line]]) -> Mapping[_Block, list[_Line]]:
    """Return the lines below a heading: first those with the whole name, then those whose names begin alike."""
    whole: list[_Line] = []
    alike: dict[_Block, list[_Line]] = {}
    for block, lines in lines_by_block.items():
        if block.start and len(lines) >= _MIN_NAMES:
            alike[block] = lines
        else:
            whole += lines
    return {_Block(heading, ""): whole, **alike} if whole else alike


def _list_lines(block: _Block, lines: Iterable[_Line]) -> Iterator[str]:
    for line in lines:
        start = "" if block.start else line.block.start
        yield f"{line.plain_uid} {start}{line.name} {line.end}"


def _encode_densely(block: _Block, lines: Sequence[_Line]) -> str:
    """Return the text of lines, which is remembered: most of them change in no write."""
    key = (len(block.start), *map(id, lines))
    remembered = _texts_by_lines.get(key)
    if remembered is not None:
        return remembered[1]
    if len(_texts_by_lines) >= _MAX_BLOCKS:
        _texts_by_lines.clear()
    texts, expected = list[str](), -1
    for line in lines:
        name = line.name if block.start else f"{line.block.start}{line.name}"
        is_next = line.number >= 0 and line.number == expected
        texts.append(f"{line.dense_uid}{name}" if is_next else f"{line.dense_uid}{name} {line.end}")
        expected = line.number + 1 if line.number >= 0 else -1
    text = ";".join(texts)
    _texts_by_lines[key] = (tuple(lines), text)
    return text


def decode_reservations(text: str, ledger_namespace: str) -> Iterator[tuple[str, Reservation]]:
    """Yield the UID and the reservation of each line.

    Raises:
        ValueError: if a line is invalid, or has a field that this version does not know.
    """
    if text.startswith("{"):
        for record in _RECORD_DECODER.decode_lines(text):
            yield record.uid, record.to_reservation(ledger_namespace)
    elif text.startswith(_START):
        *lines, rest = text.removeprefix(_START).split(";")
        if rest:
            raise ValueError(f"a line of a reservation without an end: {rest[:80]!r}")
        yield from _decode_dense_lines(lines, ledger_namespace)
    elif text:
        yield from _decode_lines(text.split("\n"), ledger_namespace)


def _decode_dense_lines(lines: Iterable[str], ledger_namespace: str) -> Iterator[tuple[str, Reservation]]:
    heading, start, expected = "", "", -1
    for line in lines:
        if line.startswith((_HEADING, _NAME_HEADING)):
            is_heading = line.startswith(_HEADING)
            heading, start = (line, "") if is_heading else (heading, line.removeprefix(_NAME_HEADING))
            expected = -1
            continue
        if not heading:
            raise ValueError(f"a reservation without a heading: {line[:80]!r}")
        uid, reservation, expected = _decode_dense_line(line, expected, start, heading, ledger_namespace)
        yield uid, reservation


@lru_cache(maxsize=_MAX_DECODED)
def _decode_dense_line(
    line: str, expected: int, start: str, heading: str, ledger_namespace: str
) -> tuple[str, Reservation, int]:
    """Return the UID and the reservation of a line, and the number that the next line has without the end of a nonce.

    `expected` is that number for this line; -1 if there is no such number.
    """
    if line.startswith(_OTHER_UID):
        uid, _, tail = line.partition(" ")
    else:
        uid, tail = line[:_UID_LENGTH], line[_UID_LENGTH:]
    name, _, rest = tail.partition(" ")
    if not rest and expected >= 0:
        rest = f"{expected:x}"
    reservation = _create_reservation(name, rest, start, heading, ledger_namespace)
    return _decode_uid(uid), reservation, int(rest, 16) + 1 if _NUMBER.fullmatch(rest) else -1


def _decode_lines(lines: Iterable[str], ledger_namespace: str) -> Iterator[tuple[str, Reservation]]:
    heading = start = ""
    for line in lines:
        if line.startswith(_HEADING):
            heading, start = line, ""
        elif line.startswith(_NAME_HEADING):
            start = line.removeprefix(_NAME_HEADING)
        elif not heading:
            raise ValueError(f"a reservation without a heading: {line[:80]!r}")
        else:
            yield _decode_line(line, start, heading, ledger_namespace)


def _remember_line(uid: str, reservation: Reservation) -> _Line:
    line = _lines_by_address[id(reservation)] = _encode_reservation(uid, reservation)
    return line


def _encode_reservation(uid: str, reservation: Reservation) -> _Line:
    start, dash, end = reservation.attempt.rpartition("-")
    heading = (
        f"{_HEADING}requested={_encode_amounts(reservation.requested)} attempt={_quote(start + dash)} "
        f"namespace={_quote(reservation.namespace)}"
    )
    name_start, name_dash, name_end = reservation.name.rpartition("-")
    name = _quote(name_start + name_dash) if name_dash and name_end else ""
    fields = [_quote(end)]
    for field, encode in _FIELDS.items():
        if value := encode(reservation):
            fields.append(f"{field}={value}")
    number = int(end, 16) if len(fields) == 1 and _NUMBER.fullmatch(end) else -1
    return _Line(
        reservation,
        uid,
        _share_block(heading, name),
        _encode_uid(uid),
        _encode_uid_densely(uid),
        _quote(name_end if name else reservation.name),
        " ".join(fields),
        number,
    )


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
def _decode_line(line: str, start: str, heading: str, ledger_namespace: str) -> tuple[str, Reservation]:
    """Return the UID and the reservation of a line; most lines of a ledger were in its last version, too."""
    uid, name, rest = line.split(" ", 2) if line.count(" ") > 1 else ("", "", "")
    reservation = _create_reservation(name, rest, start, heading, ledger_namespace)
    return _decode_uid(uid), reservation


def _create_reservation(name: str, rest: str, start: str, heading: str, ledger_namespace: str) -> Reservation:
    """Return the reservation of a line: `rest` is what follows the name."""
    namespace, requested, attempt = _decode_heading(heading, ledger_namespace)
    end, *others = rest.split(" ")
    if not (name and end):
        raise ValueError(f"a reservation without UID, name and attempt: {f'{name} {rest}'[:80]!r}")
    fields = _split_fields(others, _FIELDS)
    if fields.get("attempts", _SEVERAL) != _SEVERAL:
        raise ValueError(f"attempts={fields['attempts']}")
    counted_pods = fields.get("countedPods", "")
    return Reservation(
        namespace,
        _unquote(start + name),
        _decode_amounts(fields["counted"]) if "counted" in fields else NO_AMOUNTS,
        requested,
        attempt + _unquote(end),
        "attempts" not in fields,
        Operation(fields["operation"]) if "operation" in fields else Operation.CREATE,
        ConsumerKind(fields["kind"]) if "kind" in fields else ConsumerKind.POD,
        _unquote(fields.get("pod", "")),
        _unquote(fields.get("workloadKind", "")),
        _unquote(fields.get("workload", "")),
        _decode_amounts(fields["taken"]) if "taken" in fields else NO_AMOUNTS,
        frozenset(map(_unquote, counted_pods.split(","))) if counted_pods else frozenset(),
    )


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
    for part in text.split(",") if text else ():
        name, _, digits = part.rpartition(":")
        if not name or not _DIGITS.fullmatch(digits):
            raise ValueError(f"an amount of a reservation: {part[:80]!r}")
        amounts[_unquote(name)] = int(digits)
    return Amounts(amounts)


def _encode_uid(uid: str) -> str:
    if not _UUID.fullmatch(uid):
        return _OTHER_UID + _quote(uid)
    return base64.urlsafe_b64encode(bytes.fromhex(uid.replace("-", ""))).decode()[:22]


def _encode_uid_densely(uid: str) -> str:
    """Return a UUID in 20 characters, and another UID with signs before and after it."""
    if not _UUID.fullmatch(uid):
        return f"{_OTHER_UID}{_quote(uid)} "
    return base64.b85encode(bytes.fromhex(uid.replace("-", ""))).decode().translate(_BASE85_SIGNS)


def _decode_uid(text: str) -> str:
    if text.startswith(_OTHER_UID):
        return _unquote(text.removeprefix(_OTHER_UID))
    if len(text) == _UID_LENGTH:
        digits = base64.b85decode(text.translate(_BASE85_SIGNS_BACK)).hex()
    elif _BASE64_UID.fullmatch(text):
        digits = base64.urlsafe_b64decode(text + "==").hex()
    else:
        raise ValueError(f"the UID of a reservation: {text[:80]!r}")
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
