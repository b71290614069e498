"""Caps in percent at the gate: the limit follows the capacity, and without a known capacity there is no decision."""

import json

import pytest

from tallygate.admission.capacity_limits import Capacity
from tallygate.gate.decisions import UndecidedError
from tests.gate.gate_fixture import CAP, GPU, GateFixture

SHARE = CAP.replace(f"{GPU}: 4", f"{GPU}: 25%")


def _set_capacity(fixture: GateFixture, capacity: Capacity) -> None:
    fixture.cap_sources = fixture.cap_sources._replace(capacities={"gpus": {GPU: capacity}})


def _read_message(fixture: GateFixture, gpus: int) -> str:
    status = json.loads(fixture.create(gpus).body)["response"].get("status") or {}
    return str(status.get("message", ""))


def test_the_limit_follows_the_capacity_within_one_ledger() -> None:
    fixture = GateFixture(SHARE)
    _set_capacity(fixture, Capacity(16))
    assert _read_message(fixture, 4) == ""
    assert "hard 4 (25% of 16), free 0" in _read_message(fixture, 1)
    _set_capacity(fixture, Capacity(24))
    assert _read_message(fixture, 2) == ""
    assert "hard 6 (25% of 24), free 0" in _read_message(fixture, 1)
    _set_capacity(fixture, Capacity(8))
    assert "used 0, reserved 6, hard 2 (25% of 8), free 0" in _read_message(fixture, 1)


def test_without_a_known_capacity_there_is_no_decision_about_its_resource() -> None:
    fixture = GateFixture(SHARE)
    with pytest.raises(UndecidedError) as error:
        fixture.create(1)
    assert str(error.value) == (
        "cap gpus: hard 25% of nvidia.com/gpu is of a capacity that is not known: no nodes are known here"
    )
    assert fixture.create(0).record.verdict == "allow"
    assert fixture.find_ledger() is None
