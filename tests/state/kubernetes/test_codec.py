"""A ledger as a CapLedger and back."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.state.kubernetes import reservation_lines
from tallygate.state.kubernetes.cap_ledger import (
    MAX_OBJECT_BYTES,
    StoredVersion,
    decode_ledger,
    encode_ledger,
    get_object_name,
)
from tallygate.state.kubernetes.crd import create_crd
from tallygate.state.ledger.guarantees import create_guarantees
from tallygate.state.ledger.ledger import (
    NO_REMAPPING,
    Activation,
    Ledger,
    Operation,
    Remapping,
    Reservation,
    Surge,
)
from tallygate.state.ports import LedgerFullError, LedgerKey, StoreUnavailableError
from tests.calls import count_calls
from tests.state.transitions import GPU, free_ledger

KEY = LedgerKey("gpus-0123456789", "team-a")
_OLD_STATUS: dict[str, Any] = json.loads((Path(__file__).parent / "old_status.json").read_text())
_RESERVATION_FIELDS = ("namespace", "name", "counted", "requested", "attempt", "single_attempt", "operation")
_CLAIM_FIELDS = ("kind", "pod_uid")
_WORKLOAD_FIELDS = ("workload_kind", "workload", "taken", "counted_pods")
NOW = datetime(2026, 11, 21, 12, 0, 0, 999, tzinfo=UTC)
VERSION = StoredVersion("uid-1", "7", "0", "")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
amounts = st.dictionaries(texts, st.integers(-(10**30), 10**30), max_size=3).map(Amounts)
revisions = st.integers(0, 2**64)
reservations = st.builds(
    Reservation,
    namespace=texts | st.just("team-a"),
    name=texts,
    counted=amounts,
    requested=amounts,
    attempt=texts,
    single_attempt=st.booleans(),
    operation=st.sampled_from(Operation),
    kind=st.sampled_from(ConsumerKind),
    pod_uid=texts,
    workload_kind=texts,
    workload=texts,
    taken=amounts,
    counted_pods=st.frozensets(texts, max_size=3),
)
ledgers = st.builds(
    lambda reservations, **fields: Ledger(**fields).with_reservations(reservations.items()),
    reservations=st.dictionaries(texts, reservations, max_size=3),
    hard=amounts,
    used=amounts,
    resources=st.frozensets(texts, max_size=3),
    pods_revision=revisions,
    namespaces_revision=revisions,
    namespaces_hash=texts,
    initializer=texts,
    claims_revision=revisions,
    unconfirmed=amounts,
    unpublished=st.dictionaries(texts, amounts, max_size=2).map(MappingProxyType),
    surge=st.builds(Surge, amounts, st.none() | st.integers(0, 2**33)),
    mappings=st.frozensets(st.tuples(texts, texts), max_size=3),
    remapping=st.just(NO_REMAPPING) | st.builds(Remapping, st.frozensets(texts, min_size=1, max_size=3), texts),
    activation=st.builds(Activation, st.booleans(), st.integers(0, 2**33)),
    guarantees=st.builds(
        lambda guaranteed, others: create_guarantees(
            guaranteed, {name: amount + amount for name, amount in guaranteed.items()} | others
        ),
        st.dictionaries(texts, amounts, max_size=3),
        st.dictionaries(texts, amounts, max_size=2),
    ),
)
keys = st.builds(LedgerKey, texts, texts | st.just("team-a"))


def encode(ledger: Ledger, key: LedgerKey = KEY, stored_version: StoredVersion = VERSION) -> dict[str, Any]:
    """Return the encoded object as JSON."""
    found: dict[str, Any] = json.loads(encode_ledger(key, ledger, "here", stored_version, NOW).body)
    return found


def encode_densely(ledger: Ledger, key: LedgerKey = KEY) -> dict[str, Any]:
    """Return the encoded object as if the ledger had many reservations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reservation_lines, "MAX_PLAIN_RESERVATIONS", 0)
        return encode(ledger, key)


def decode(object_: dict[str, Any], key: LedgerKey = KEY) -> Ledger:
    """Return the decoded ledger of an object."""
    return decode_ledger(json.dumps(object_).encode(), key).ledger


@given(keys, ledgers)
def test_a_decoded_ledger_equals_the_encoded_one(key: LedgerKey, ledger: Ledger) -> None:
    assert decode_ledger(encode_ledger(key, ledger, "here", VERSION, NOW).body, key).ledger == ledger


@given(keys, ledgers)
def test_a_ledger_that_is_read_from_the_dense_form_equals_the_encoded_one(key: LedgerKey, ledger: Ledger) -> None:
    assert decode(encode_densely(ledger, key), key) == ledger


def test_the_encoding_has_every_field_of_a_ledger_and_a_reservation() -> None:
    summed = {"reserved", "reserved_by_namespace", "attempts_by_name"}  # computed from the reservations, as these
    summed |= {"numbers_by_namespace", "linked"}
    stored = {"hard", "used", "resources", "pods_revision", "namespaces_revision", "namespaces_hash", "initializer"}
    stored |= {"reservations", "claims_revision", "unconfirmed", "unpublished", "surge", "mappings", "remapping"}
    stored |= {"activation", "guarantees"}
    assert set(Ledger.__struct_fields__) == stored | summed
    assert set(Reservation.__struct_fields__) == {*_RESERVATION_FIELDS, *_CLAIM_FIELDS, *_WORKLOAD_FIELDS}


@given(keys, ledgers)
def test_an_encoded_ledger_is_valid_by_the_definition(key: LedgerKey, ledger: Ledger) -> None:
    schema = create_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    jsonschema.validate(encode(ledger, key), schema)
    for part in ("spec", "status"):
        assert encode(ledger, key)[part].keys() <= schema["properties"][part]["properties"].keys()


@given(ledgers, revisions, texts.filter(lambda text: "/" not in text))
def test_a_version_has_the_state_and_the_time_of_the_count(ledger: Ledger, revision: int, uid: str) -> None:
    stored_version = StoredVersion(uid, f"{revision}", f"{ledger.pods_revision}", "2026-01-01T00:00:00+00:00")
    version = decode_ledger(encode_ledger(KEY, ledger, "here", stored_version, NOW).body, KEY).version
    assert StoredVersion.parse(version) == stored_version


def test_only_a_count_from_newer_pods_gets_a_new_time() -> None:
    counted = structs.replace(free_ledger(4), pods_revision=5)
    first = encode_ledger(KEY, counted, "here", VERSION, NOW)
    assert (first.pods_revision, first.counted_at) == ("5", "2026-11-21T12:00:00+00:00")
    stored_version = StoredVersion("uid-1", "8", first.pods_revision, first.counted_at)
    later = NOW + timedelta(hours=1)
    assert encode_ledger(KEY, counted, "here", stored_version, later).counted_at == first.counted_at
    recounted = structs.replace(counted, pods_revision=6)
    assert encode_ledger(KEY, recounted, "here", stored_version, later).counted_at == "2026-11-21T13:00:00+00:00"
    assert encode(counted, stored_version=stored_version)["status"]["summary"]["countedAt"] == "2026-11-21T12:00:00Z"


def test_the_summary_shows_amounts_as_users_write_them() -> None:
    hard = Amounts({"memory": 64 << 30, GPU: 8, "cpu": 1500})
    reservation = Reservation(
        "team-a", "p", Amounts(), Amounts({GPU: 2}), "n1", single_attempt=True, operation=Operation.CREATE
    )
    summary = encode(Ledger(hard, used=Amounts({GPU: 3})).with_reservation("u", reservation))["status"]["summary"]
    assert summary == {
        "hard": "1500m cpu, 64Gi memory, 8 nvidia.com/gpu",
        "used": "3 nvidia.com/gpu",
        "reserved": "2 nvidia.com/gpu",
        "reservations": 1,
    }


def test_the_summary_shows_an_empty_amount_as_0() -> None:
    summary = encode(free_ledger(4))["status"]["summary"]
    assert summary == {"hard": "4 nvidia.com/gpu", "used": "0", "reserved": "0", "reservations": 0}


UID = "e06c4638-1309-4a90-bfdd-70d237b7aca9"


def create_reservation(requested: int = 2, **more: Any) -> Reservation:
    """Return the reservation of a pod in the namespace of the ledger."""
    first = Reservation(
        "team-a", "p", Amounts(), Amounts({GPU: requested}), "5f0c-1e", single_attempt=True, operation=Operation.CREATE
    )
    return structs.replace(first, **more)


def test_reservations_are_lines_without_default_values_below_what_they_have_in_common() -> None:
    changed: dict[str, Any] = {"counted": Amounts({"x": 1}), "single_attempt": False, "operation": Operation.UPDATE}
    named = [
        (UID, create_reservation()),
        ("no uuid", create_reservation(namespace="b", name="", attempt="n1")),
        ("u3", create_reservation(attempt="5f0c-1f", **changed)),
    ]
    lines = [
        "# requested=nvidia.com/gpu:2 attempt=5f0c-",
        "4GxGOBMJSpC_3XDSN7esqQ p 1e",
        "=u3 p 1f counted=x:1 attempts=several operation=update",
        "# requested=nvidia.com/gpu:2 attempt=% namespace=b",
        "=no%20uuid % n1",
    ]
    ledger = free_ledger(4).with_reservations(named)
    assert encode(ledger)["status"]["reservations"].split("\n") == lines
    assert encode_densely(ledger)["status"]["reservations"].split(";") == [
        "~",
        lines[0],
        ":A}[X6A4O?zuj[sH@B,*p 1e",
        *lines[2:],
        "",
    ]


def test_names_that_begin_alike_have_a_heading_if_they_are_many() -> None:
    uids = [f"u{number}" for number in range(7)]
    names = ["web-0", "web-1", "web-2", "web-3", "db-0", "db-", ""]
    pairs = [(uid, create_reservation(name=name)) for uid, name in zip(uids, names, strict=True)]
    ledger = free_ledger(4).with_reservations(pairs)
    lines = [
        "# requested=nvidia.com/gpu:2 attempt=5f0c-",
        "=u4 db-0 1e",
        "=u5 db- 1e",
        "=u6 % 1e",
        "## web-",
        *(f"=u{number} {number} 1e" for number in range(4)),
    ]
    assert encode(ledger)["status"]["reservations"].split("\n") == lines
    assert encode_densely(ledger)["status"]["reservations"].split(";") == ["~", *lines, ""]
    assert decode(encode(ledger)) == decode(encode_densely(ledger)) == ledger


def test_the_number_of_an_attempt_is_left_out_after_the_one_before_it() -> None:
    attempts = ["5f0c-9", "5f0c-a", "5f0c-b", "5f0c-d", "5f0c-0e", "5f0c-f", "5f0c-10"]
    pairs = [(f"u{number}", create_reservation(attempt=each)) for number, each in enumerate(attempts)]
    pairs.append(("u7", create_reservation(attempt="5f0c-11", single_attempt=False)))
    pairs.append(("u8", create_reservation(attempt="5f0c-12")))
    ledger = free_ledger(4).with_reservations(pairs)
    assert encode_densely(ledger)["status"]["reservations"].split(";")[2:] == [
        "=u0 p 9",
        "=u1 p",
        "=u2 p",
        "=u3 p d",
        "=u4 p 0e",
        "=u5 p f",
        "=u6 p",
        "=u7 p 11 attempts=several",
        "=u8 p 12",
        "",
    ]
    assert decode(encode_densely(ledger)) == ledger


def test_no_text_of_a_thousand_reservations_needs_escapes_in_json() -> None:
    """Go escapes <, > and &, too."""
    pairs = [(f"{UID[:-6]}{number:06x}", create_reservation(name=f"a<b>&\n{number}")) for number in range(1000)]
    text = encode(free_ledger(4).with_reservations(pairs))["status"]["reservations"]
    assert not set('<>&"\\\n').intersection(text)
    assert text.isascii()


@given(st.lists(st.uuids(), min_size=1, max_size=5, unique=True))
def test_every_uuid_is_read_as_it_was_written(uids: list[UUID]) -> None:
    ledger = free_ledger(4).with_reservations((str(uid), create_reservation()) for uid in uids)
    assert decode(encode_densely(ledger)) == ledger


def test_the_work_of_the_next_encoding_grows_with_what_is_new() -> None:
    def count(number: int) -> int:
        pairs = {str(uuid4()): create_reservation(name=f"bench-{each}") for each in range(number)}
        ledger = free_ledger(4).with_reservations(pairs.items())
        encode_ledger(KEY, ledger, "here", VERSION, NOW)
        after = ledger.with_reservation(UID, create_reservation(name="web-0"))
        return count_calls(lambda: encode_ledger(KEY, after, "here", VERSION, NOW))

    # The lines of other tests may fill what is remembered, which is then forgotten once, between two encodings.
    assert min(count(2_000), count(2_000)) < count(300) + 100


def test_a_thousand_reservations_take_less_than_thirty_bytes_each() -> None:
    """Keep them short: the time of a write grows with its bytes."""
    many = {
        f"{UID[:-4]}{number:04}": create_reservation(name=f"bench-{number}", attempt=f"{UID[:8]}-{number:x}")
        for number in range(1000)
    }
    ledgers = free_ledger(4), free_ledger(4).with_reservations(many.items())
    empty, full = (len(encode_ledger(KEY, each, "here", VERSION, NOW).body) for each in ledgers)
    assert full - empty < 30_000


def test_an_earlier_version_reads_no_dense_reservation_wrongly() -> None:
    """Write one line without a heading: such a version splits lines at breaks, and rejects one before a heading."""
    ledger = free_ledger(4).with_reservation(UID, create_reservation())
    (line,) = encode_densely(ledger)["status"]["reservations"].split("\n")
    assert not line.startswith(("{", "# ", "## "))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("~;=u p 1e;", id="no heading"),
        pytest.param("~;# requested=x:1 attempt=a-;=u p 1e", id="no end"),
        pytest.param("~;# requested=x:1 attempt=a-;=u p;", id="no number, and none before"),
        pytest.param("~;# requested=x:1 attempt=a-;=u p 1;# requested=x:1 attempt=b-;=v p;", id="none below a heading"),
        pytest.param("~;# requested=x:1 attempt=a-;=u p x;=v p;", id="no number after another text"),
        pytest.param("~;# requested=x:1 attempt=a-;=u p 1 attempts=several;=v p;", id="no number after a field"),
        pytest.param("~;# requested=x:1 attempt=a-;=u p 1 unknown=1;", id="an unknown field"),
        pytest.param("~;# requested=x:1 attempt=a-;~~~~~~~~~~~~~~~~~~~~p 1;", id="no base85 of 128 bits"),
        pytest.param("~;# requested=x:1 attempt=a-;short 1;", id="too short a UID"),
    ],
)
def test_a_dense_text_with_an_error_is_not_read(text: str) -> None:
    object_ = encode(free_ledger(4))
    object_["status"]["reservations"] = text
    with pytest.raises(StoreUnavailableError, match="Another version of tallygate wrote it"):
        decode(object_)


def test_reservations_in_the_earlier_form_are_read() -> None:
    object_ = encode(free_ledger(4))
    lines = [
        '{"uid":"u1","name":"p","requested":{"nvidia.com/gpu":"2"},"attempt":"5f0c-1e"}',
        '{"uid":"u2","name":"p","requested":{"nvidia.com/gpu":"2"},"attempt":"5f0c-1e","namespace":"b","counted":{"x":"1"},"singleAttempt":false}',
    ]
    object_["status"]["reservations"] = "\n".join([*lines, ""])
    changed = create_reservation(namespace="b", counted=Amounts({"x": 1}), single_attempt=False)
    assert dict(decode(object_).reservations) == {"u1": create_reservation(), "u2": changed}


def test_the_line_of_a_reservation_belongs_to_its_consumer() -> None:
    """Lines are remembered by reservation: two consumers may have an equal one, and even the same object."""
    same = create_reservation()
    for uid in ("u1", "u2"):
        assert list(decode(encode(free_ledger(4).with_reservation(uid, same))).reservations) == [uid]


def test_a_ledger_too_large_for_etcd_is_rejected_before_it_is_sent() -> None:
    to = Amounts({f"example.com/{'x' * 60}{number}": 1 for number in range(50)})
    reservation = Reservation("team-a", "p" * 253, Amounts(), to, "n1", single_attempt=True, operation=Operation.CREATE)
    named = [(f"u{each}", structs.replace(reservation, attempt=f"n{each}-")) for each in range(400)]
    fits = free_ledger(4).with_reservations(named[:200])
    assert len(encode_ledger(KEY, fits, "here", VERSION, NOW).body) < MAX_OBJECT_BYTES
    full = free_ledger(4).with_reservations(named)
    with pytest.raises(LedgerFullError, match=r"may have 1500000: it has 400 reservations, of which some must be"):
        encode_ledger(KEY, full, "here", VERSION, NOW)


def test_the_maximum_number_of_reservations_fits() -> None:
    reservation = Reservation(
        "team-a",
        "p" * 100,
        Amounts(),
        Amounts({GPU: 8}),
        "0123456789abcdef-fffff",
        single_attempt=True,
        operation=Operation.CREATE,
    )
    uid = "01234567-89ab-cdef-0123-4567"
    most = free_ledger(4).with_reservations((f"{uid}{each:08}", reservation) for each in range(3000))
    assert len(encode_ledger(KEY, most, "here", VERSION, NOW).body) < MAX_OBJECT_BYTES


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "unknown field `format`"),
        (
            {"reservations": '{"uid":"u","name":"p","requested":{},"attempt":"n","lease":"x"}\n'},
            "unknown field `lease`",
        ),
        (
            {"reservations": '{"uid":"u","name":"p","requested":{},"attempt":"n","operation":"move"}\n'},
            "Invalid enum value 'move'",
        ),
        ({"reservations": '{"uid":"u"}\n'}, "missing required field `name`"),
        (
            {"reservations": '{"uid":"u","name":"p","requested":{},"attempt":"n"}\n' * 2},
            "two reservations of one consumer",
        ),
        ({"reservations": "{" * 1000}, "malformed"),
        ({"reservations": "=u p n"}, "a reservation without a heading"),
        ({"reservations": "# requested=x:1\n=u p"}, "a reservation without UID, name and attempt"),
        ({"reservations": "# requested=x:1\n=u  n"}, "a reservation without UID, name and attempt"),
        ({"reservations": "# requested=x:1\n=u p n lease=x"}, "unknown or repeated field of a reservation: 'lease=x'"),
        ({"reservations": "# lease=x\n=u p n"}, "unknown or repeated field of a reservation: 'lease=x'"),
        ({"reservations": "# requested=x:1\n=u p n taken=x:1 taken=x:1"}, "repeated field of a reservation"),
        ({"reservations": "# requested=x:1.5\n=u p n"}, "an amount of a reservation: 'x:1.5'"),
        ({"reservations": "# requested=x\n=u p n"}, "an amount of a reservation: 'x'"),
        ({"reservations": "# requested=x:1\nu p n"}, "the UID of a reservation: 'u'"),
        ({"reservations": "# requested=x:1\n=u p n operation=move"}, "'move' is not a valid Operation"),
        ({"reservations": "# requested=x:1\n=u p n attempts=two"}, "attempts=two"),
        ({"reservations": "# requested=x:1\n=u p n\n=u p n"}, "two reservations of one consumer"),
        ({"reservations": "[" * 100_000}, "cannot be read"),
        ({"reservations": 5}, "Expected `str`"),
        ({"hard": {"x": 1}}, "Expected `str`, got `int`"),
        ({"hard": {"x": "1.5"}}, "matching regex"),
        ({"hard": {"x": "1\n"}}, "matching regex"),
        ({"hard": {"x": "\N{ARABIC-INDIC DIGIT ONE}"}}, "matching regex"),
        ({"hard": {"x": "9" * 65}}, "matching regex"),
        ({"podsResourceVersion": "-1"}, "matching regex"),
        ({"initializing": None}, "Expected `str`"),
    ],
)
def test_an_object_that_this_version_would_not_write_is_left_unchanged(change: dict[str, Any], message: str) -> None:
    object_ = encode(free_ledger(4))
    object_["status"] |= change
    with pytest.raises(StoreUnavailableError, match="is left as it is") as caught:
        decode(object_)
    assert message in str(caught.value)
    assert get_object_name(KEY) in str(caught.value)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (_OLD_STATUS, "unknown field `tally`"),
        ({"rows": '{"uid":"u","name":"p","to":{},"by":"n"}\n'}, "unknown field `rows`"),
        ({"summary": {}, "reservations": '{"uid":"u","name":"p","to":{},"by":"n"}\n'}, "unknown field `to`"),
        ({}, "missing required field `summary`"),
    ],
    ids=["fields", "rows", "one reservation", "fields that the API server has pruned"],
)
def test_a_ledger_in_the_old_form_is_rejected_with_the_remedy(status: dict[str, Any], message: str) -> None:
    object_ = encode(free_ledger(4)) | {"status": {"hard": {GPU: "4"}, **status}}
    with pytest.raises(StoreUnavailableError, match="if it is an old one, delete the object") as caught:
        decode(object_)
    assert message in str(caught.value)
    assert get_object_name(KEY) in str(caught.value)


@given(
    st.binary(max_size=64)
    | st.recursive(st.none() | st.booleans() | st.text(), st.lists).map(json.dumps).map(str.encode)
)
def test_arbitrary_bytes_are_only_unreadable(body: bytes) -> None:
    with pytest.raises(StoreUnavailableError):
        decode_ledger(body, KEY)


@pytest.mark.parametrize("key", [LedgerKey("other-0123456789", "team-a"), LedgerKey(KEY.cap, "")])
def test_an_object_with_another_ledger_is_left_unchanged(key: LedgerKey) -> None:
    with pytest.raises(StoreUnavailableError, match="a user created it"):
        decode(encode(free_ledger(4)), key)


def test_a_replaced_object_has_no_managed_fields() -> None:
    made, replaced = (
        json.loads(encode_ledger(KEY, Ledger(Amounts()), "here", stored_version, NOW).body)["metadata"]
        for stored_version in (None, StoredVersion("uid-1", "7", "0", ""))
    )
    assert "managedFields" not in made
    assert replaced["managedFields"] == [{}]
