"""The mutants of rule 14: when a cap is active for which the API servers must ask, and when they ask no more."""
# ruff: noqa: SLF001  # the replaced functions are private to the replicas of the simulation

from collections.abc import Mapping
from unittest.mock import patch

from tests.gate.simulation.registrations import LAG, AskedCap, AskedCaps, RegisteredReplica
from tests.gate.simulation.runner import create_mutant
from tests.schedules import Mutant

_MIX = "registrations"
_find_asked = AskedCaps._find_asked
_find_listed_at = AskedCaps.find_listed_at
_list_listed = RegisteredReplica.list_listed


def _list_loaded(replica: RegisteredReplica) -> Mapping[str, float]:
    return {cap.key: replica._loaded_at[cap.key] for cap in replica.policy.caps.list_caps()}


def _list_loaded_unless_leading(replica: RegisteredReplica) -> Mapping[str, float]:
    return _list_listed(replica) if replica.leads else _list_loaded(replica)


def _find_again_after_start(asked: AskedCaps, before: Mapping[str, AskedCap] | None, cap: str, number: int) -> AskedCap:
    return _find_asked(asked, before or {}, cap, number)


def _is_listed_at(asked: AskedCaps, cap: str) -> float | None:
    found = (asked._asked or {}).get(cap)
    return found.since if found is not None else None


def _find_asked_without(asked: AskedCaps, before: Mapping[str, AskedCap] | None, cap: str, number: int) -> AskedCap:
    return AskedCap(number, -LAG, is_early=True) if before == {} else _find_asked(asked, before, cap, number)


def _find_listed_without(asked: AskedCaps, cap: str) -> float | None:
    return _find_listed_at(asked, cap) if asked._asked else 0.0


REGISTRATION_MUTANTS: Mapping[str, Mutant] = {
    "enforces_before_asked": create_mutant(
        14,
        "lists a cap as soon as it is loaded, whether or not the API servers ask about it",
        patch.object(RegisteredReplica, "list_listed", _list_loaded),
        mix=_MIX,
        seed=7,
    ),
    "trusts_every_server": create_mutant(
        14,
        "takes a cap for asked about as soon as the registration covers it",
        patch.object(AskedCaps, "find_listed_at", _is_listed_at),
        mix=_MIX,
        seed=106,
    ),
    "unregistered_is_asked": create_mutant(
        14,
        "takes every cap for asked about until the first registration, and the covered ones from then on",
        patch.multiple(AskedCaps, _find_asked=_find_asked_without, find_listed_at=_find_listed_without),
        mix=_MIX,
        seed=7,
    ),
    "inherits_from_unregistered": create_mutant(
        14,
        "waits for no API server after the first registration",
        patch.object(AskedCaps, "_find_asked", _find_asked_without),
        mix=_MIX,
        seed=18,
    ),
    "leader_waits_alone": create_mutant(
        14,
        "lets only the replica that leads wait for the API servers",
        patch.object(RegisteredReplica, "list_listed", _list_loaded_unless_leading),
        mix=_MIX,
        seed=654,
    ),
    "narrows_at_once": create_mutant(
        14,
        "narrows the registration at once, although a replica has the cap",
        patch.object(RegisteredReplica, "may_drop", lambda _replica, _cap, _now: True),
        mix=_MIX,
        seed=374,
    ),
    "waits_again": create_mutant(
        14,
        "admits without a recorded cap for a time after each start",
        patch.object(AskedCaps, "_find_asked", _find_again_after_start),
        mix=_MIX,
        seed=41,
    ),
}
