"""A ledger as a CapLedger and back."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.state.attempts import GPU, room
from webhook.accounting.amounts import Amounts
from webhook.state.kubernetes.cap_ledger import (
    MAX_OBJECT_BYTES,
    StoredVersion,
    decode_ledger,
    encode_ledger,
    get_object_name,
)
from webhook.state.kubernetes.crd import create_crd
from webhook.state.ledger.ledger import Ledger, Operation, Reservation
from webhook.state.ports import LedgerFullError, LedgerKey, StoreUnavailableError

KEY = LedgerKey("gpus-0123456789", "team-a")
_ROW = ("namespace", "name", "counted", "requested", "attempt", "single_attempt", "operation")
NOW = datetime(2026, 11, 21, 12, 0, 0, 999, tzinfo=UTC)
PLACE = StoredVersion("uid-1", "7", "0", "")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
amounts = st.dictionaries(texts, st.integers(-(10**30), 10**30), max_size=3).map(Amounts)
revisions = st.integers(0, 2**64)
rows = st.builds(
    Reservation,
    namespace=texts | st.just("team-a"),
    name=texts,
    counted=amounts,
    requested=amounts,
    attempt=texts,
    single_attempt=st.booleans(),
    operation=st.sampled_from(Operation),
)
ledgers = st.builds(
    lambda held, **fields: Ledger(**fields).with_reservations(held.items()),
    held=st.dictionaries(texts, rows, max_size=3),
    hard=amounts,
    used=amounts,
    resources=st.frozensets(texts, max_size=3),
    pods_revision=revisions,
    namespaces_revision=revisions,
    namespaces_hash=texts,
    initializer=texts,
)
keys = st.builds(LedgerKey, texts, texts | st.just("team-a"))


def written(ledger: Ledger, key: LedgerKey = KEY, place: StoredVersion = PLACE) -> dict[str, Any]:
    """The object as JSON."""
    found: dict[str, Any] = json.loads(encode_ledger(key, ledger, "here", place, NOW).body)
    return found


def read(object_: dict[str, Any], key: LedgerKey = KEY) -> Ledger:
    """The ledger of an object."""
    return decode_ledger(json.dumps(object_).encode(), key).ledger


@given(keys, ledgers)
def test_a_ledger_comes_back_as_it_was(key: LedgerKey, ledger: Ledger) -> None:
    assert decode_ledger(encode_ledger(key, ledger, "here", PLACE, NOW).body, key).ledger == ledger


def test_every_field_of_a_ledger_and_a_row_is_among_those_that_come_back() -> None:
    summed = {"reserved", "reserved_by_namespace"}  # from the rows
    kept = {"hard", "used", "resources", "pods_revision", "namespaces_revision", "namespaces_hash", "initializer"}
    kept |= {"reservations"}
    assert {field.name for field in dataclasses.fields(Ledger)} == kept | summed
    assert {field.name for field in dataclasses.fields(Reservation)} == {*_ROW}


@given(keys, ledgers)
def test_what_is_written_is_what_the_definition_describes(key: LedgerKey, ledger: Ledger) -> None:
    schema = create_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    jsonschema.validate(written(ledger, key), schema)
    for part in ("spec", "status"):
        assert written(ledger, key)[part].keys() <= schema["properties"][part]["properties"].keys()


@given(ledgers, revisions, texts.filter(lambda text: "/" not in text))
def test_a_version_says_which_state_and_since_when_it_is_counted(ledger: Ledger, revision: int, uid: str) -> None:
    place = StoredVersion(uid, f"{revision}", f"{ledger.pods_revision}", "2026-01-01T00:00:00+00:00")
    version = decode_ledger(encode_ledger(KEY, ledger, "here", place, NOW).body, KEY).version
    assert StoredVersion.parse(version) == place


def test_a_count_from_newer_pods_is_stamped_and_any_other_write_keeps_the_stamp() -> None:
    counted = dataclasses.replace(room(4), pods_revision=5)
    first = encode_ledger(KEY, counted, "here", PLACE, NOW)
    assert (first.pods_revision, first.counted_at) == ("5", "2026-11-21T12:00:00+00:00")
    place = StoredVersion("uid-1", "8", first.pods_revision, first.counted_at)
    later = NOW + timedelta(hours=1)
    assert encode_ledger(KEY, counted, "here", place, later).counted_at == first.counted_at
    recounted = dataclasses.replace(counted, pods_revision=6)
    assert encode_ledger(KEY, recounted, "here", place, later).counted_at == "2026-11-21T13:00:00+00:00"
    assert written(counted, place=place)["status"]["summary"]["countedAt"] == "2026-11-21T12:00:00Z"


def test_people_read_amounts_as_they_write_them() -> None:
    hard = Amounts({"memory": 64 << 30, GPU: 8, "cpu": 1500})
    row = Reservation(
        "team-a", "p", Amounts(), Amounts({GPU: 2}), "n1", single_attempt=True, operation=Operation.CREATE
    )
    shown = written(Ledger(hard, used=Amounts({GPU: 3})).with_reservation("u", row))["status"]["summary"]
    assert shown == {
        "hard": "1500m cpu, 64Gi memory, 8 nvidia.com/gpu",
        "used": "3 nvidia.com/gpu",
        "reserved": "2 nvidia.com/gpu",
        "reservations": 1,
    }


def test_people_read_nothing_as_0() -> None:
    shown = written(room(4))["status"]["summary"]
    assert shown == {"hard": "4 nvidia.com/gpu", "used": "0", "reserved": "0", "reservations": 0}


def test_rows_are_lines_that_leave_out_what_goes_without_saying() -> None:
    row = Reservation(
        "team-a", "p", Amounts(), Amounts({GPU: 2}), "n1", single_attempt=True, operation=Operation.CREATE
    )
    changed = dataclasses.replace(row, namespace="b", counted=Amounts({"x": 1}), single_attempt=False)
    assert written(room(4).with_reservation("u1", row).with_reservation("u2", changed))["status"][
        "reservations"
    ].splitlines() == [
        '{"uid":"u1","name":"p","requested":{"nvidia.com/gpu":"2"},"attempt":"n1"}',
        '{"uid":"u2","name":"p","requested":{"nvidia.com/gpu":"2"},"attempt":"n1","namespace":"b","counted":{"x":"1"},"singleAttempt":false}',
    ]


def test_a_ledger_too_large_for_etcd_is_refused_before_it_is_sent() -> None:
    to = Amounts({f"example.com/{'x' * 60}{number}": 1 for number in range(50)})
    row = Reservation("team-a", "p" * 253, Amounts(), to, "n1", single_attempt=True, operation=Operation.CREATE)
    fits = room(4).with_reservations((f"u{each}", row) for each in range(200))
    assert len(encode_ledger(KEY, fits, "here", PLACE, NOW).body) < MAX_OBJECT_BYTES
    full = room(4).with_reservations((f"u{each}", row) for each in range(400))
    with pytest.raises(
        LedgerFullError, match=r"may have 1500000: it has reservations of 400 pods, of which some must be"
    ):
        encode_ledger(KEY, full, "here", PLACE, NOW)


def test_the_largest_number_of_rows_fits() -> None:
    row = Reservation(
        "team-a",
        "p" * 100,
        Amounts(),
        Amounts({GPU: 8}),
        "0123456789abcdef-fffff",
        single_attempt=True,
        operation=Operation.CREATE,
    )
    uid = "01234567-89ab-cdef-0123-4567"
    most = room(4).with_reservations((f"{uid}{each:08}", row) for each in range(3000))
    assert len(encode_ledger(KEY, most, "here", PLACE, NOW).body) < MAX_OBJECT_BYTES


@pytest.mark.parametrize(
    ("change", "says"),
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
        ({"reservations": '{"uid":"u","name":"p","requested":{},"attempt":"n"}\n' * 2}, "two reservations of one pod"),
        ({"reservations": "{" * 1000}, "malformed"),
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
def test_what_this_version_would_not_have_written_is_not_touched(change: dict[str, Any], says: str) -> None:
    object_ = written(room(4))
    object_["status"] |= change
    with pytest.raises(StoreUnavailableError, match="is left as it is") as caught:
        read(object_)
    assert says in str(caught.value)
    assert get_object_name(KEY) in str(caught.value)


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (
            {"tally": {GPU: "8"}, "counts": [GPU], "asOf": "100", "nsAsOf": "10", "shown": {"held": f"8 {GPU}"}},
            "unknown field `tally`",
        ),
        ({"rows": '{"uid":"u","name":"p","to":{},"by":"n"}\n'}, "unknown field `rows`"),
        ({"summary": {}, "reservations": '{"uid":"u","name":"p","to":{},"by":"n"}\n'}, "unknown field `to`"),
        ({}, "missing required field `summary`"),
    ],
    ids=["fields", "rows", "one reservation", "fields that the API server has pruned"],
)
def test_a_ledger_in_the_old_form_is_refused_with_the_way_out(status: dict[str, Any], says: str) -> None:
    object_ = written(room(4)) | {"status": {"hard": {GPU: "4"}, **status}}
    with pytest.raises(StoreUnavailableError, match="remove the object's finalizer and delete it") as caught:
        read(object_)
    assert says in str(caught.value)
    assert get_object_name(KEY) in str(caught.value)


@given(
    st.binary(max_size=64)
    | st.recursive(st.none() | st.booleans() | st.text(), st.lists).map(json.dumps).map(str.encode)
)
def test_no_bytes_are_more_than_unreadable(body: bytes) -> None:
    with pytest.raises(StoreUnavailableError):
        decode_ledger(body, KEY)


@pytest.mark.parametrize("key", [LedgerKey("other-0123456789", "team-a"), LedgerKey(KEY.cap, "")])
def test_an_object_that_says_it_is_another_ledger_is_not_touched(key: LedgerKey) -> None:
    with pytest.raises(StoreUnavailableError, match="a user created it"):
        read(written(room(4)), key)


def test_what_takes_the_place_of_an_object_has_the_tracking_of_fields_ended() -> None:
    made, replaced = (
        json.loads(encode_ledger(KEY, Ledger(Amounts()), "here", place, NOW).body)["metadata"]
        for place in (None, StoredVersion("uid-1", "7", "0", ""))
    )
    assert "managedFields" not in made
    assert replaced["managedFields"] == [{}]
