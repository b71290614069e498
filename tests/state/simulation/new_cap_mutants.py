"""The mutants of the rules for new caps: how they differ from caps whose ledger is lost, and when they are active."""

from collections.abc import Mapping

from tests.schedules import Mutant
from tests.state.simulation.runner import mutate
from tests.state.simulation.scenario import Cap, Scenario
from tests.state.simulation.scenarios import SCENARIOS

_NEW_CAPS = SCENARIOS["new caps"]
_LATE = Scenario(
    caps=(Cap(3),), are_caps_new=True, steps=500,
    weights={
        **_NEW_CAPS.weights, "load": 1.5, "delete_ledger": 0, "create": 6, "change": 0, "call": 14, "proceed": 30,
        "store": 6, "tick": 8, "relist": 3, "watch": 1, "record": 12, "expire": 40, "delete": 0.2, "lose": 0,
        "freeze": 0, "stall": 0, "crash": 0,
    },
)  # fmt: skip
"""Watches that lag until the cap is recorded."""

NEW_CAP_MUTANTS: Mapping[str, Mutant] = {
    "absence_is_new": mutate(
        7, "takes a cap for new because its ledger is missing", _NEW_CAPS, 45, is_cap_new=lambda _was_recorded: True
    ),
    "active_before_record": mutate(
        7,
        "activates the ledger of a new cap before the record has the cap",
        _NEW_CAPS,
        98,
        may_be_active=lambda _is_new, _is_recorded: True,
    ),
    "lists_too_early": mutate(
        7,
        "activates the ledger of a new cap by a list from before all replicas had the cap for the bound",
        _LATE,
        4041,
        is_list_complete=lambda _listed_at, _loaded_at: True,
    ),
}
