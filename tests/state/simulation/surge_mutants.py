"""The mutants of the rules for surges, and of limits that end while pods surge."""

from collections.abc import Mapping

from tests.schedules import Mutant
from tests.state.simulation import mutant_surge_rules as wrong
from tests.state.simulation.runner import mutate
from tests.state.simulation.scenario import Cap, Scenario
from tests.state.simulation.scenarios import ROLLOUTS, SCENARIOS

_ROLLOUTS, _FAULTS = SCENARIOS["rollouts"], SCENARIOS["rollouts and faults"]
_LIMITS, _CLAIMS = SCENARIOS["rollouts while limits change"], SCENARIOS["rollouts and claims"]
_FILTERED = Scenario(
    caps=(Cap(2, is_filtered=True, surge=1),),
    rollouts=((0, 2, 1),),
    sizes=(1, 2),
    weights={**ROLLOUTS, "change": 5, "create": 2},
    steps=300,
)
_EXPIRES = Scenario(
    caps=(Cap(3, surge=3, surge_ticks=2),),
    rollouts=((0, 3, 1),),
    weights={**ROLLOUTS, "lose": 3, "expire": 25, "give_up": 4, "tick": 8},
    steps=400,
)
_RELEASES = Scenario(
    caps=(Cap(3, surge=3, surge_ticks=2), Cap(4, surge=1, surge_ticks=2)),
    rollouts=((0, 3, 1),),
    weights=ROLLOUTS,
    steps=300,
)

SURGE_MUTANTS: Mapping[str, Mutant] = {
    "surges_for_ever": mutate(12, "ends no surge", _ROLLOUTS, 4, reserve=wrong.surge_for_ever),
    "begins_at_each_write": mutate(
        12, "begins the time again with each pod that surges", _ROLLOUTS, 27, reserve=wrong.begin_at_each_write
    ),
    "begins_at_repetition": mutate(
        12, "begins the time again with a second attempt of a pod", _ROLLOUTS, 81, reserve=wrong.begin_at_repetition
    ),
    "begins_at_second_pod": mutate(
        12, "begins the time with the second pod above the limit", _ROLLOUTS, 56, reserve=wrong.begin_at_second_pod
    ),
    "recount_forgets": mutate(
        12, "forgets in a recount when the surge began", _ROLLOUTS, 4, recount=wrong.recount_and_forget
    ),
    "recount_keeps": mutate(
        12, "keeps the time of a surge that a recount ends", _ROLLOUTS, 0, recount=wrong.recount_and_keep
    ),
    "ends_by_used": mutate(
        12,
        "ends a surge when the used amounts are at the limit, without the reserved ones",
        _ROLLOUTS,
        4,
        recount=wrong.end_by_used,
    ),
    "release_forgets": mutate(
        12, "forgets in a release when the surge began", _RELEASES, 20, release=wrong.release_and_forget
    ),
    "release_keeps": mutate(
        12, "keeps the time of a surge that a release ends", _RELEASES, 18, release=wrong.release_and_keep
    ),
    "expiry_forgets": mutate(
        12, "forgets in an expiry when the surge began", _EXPIRES, 46, expire=wrong.expire_and_forget
    ),
    "expiry_keeps": mutate(
        12, "keeps the time of a surge that an expiry ends", _EXPIRES, 1, expire=wrong.expire_and_keep
    ),
    "limits_forget": mutate(
        12,
        "forgets when the surge began as the leader writes limits",
        _LIMITS,
        5,
        apply_limits=wrong.limit_and_forget,
    ),
    "limits_keep": mutate(
        12, "keeps the time of a surge that a higher limit ends", _LIMITS, 0, apply_limits=wrong.limit_and_keep
    ),
    "limits_patched": mutate(
        12, "writes limits and surge as a patch of whatever ledger is stored", _LIMITS, 98, compares_limits=False
    ),
    "own_surge_only": mutate(
        12, "uses its own surge if that of the ledger is smaller", _LIMITS, 107, reserve=wrong.ignore_ledger_surge
    ),
    "ledger_surge_only": mutate(
        12, "uses the surge of the ledger if its own is smaller", _LIMITS, 27, reserve=wrong.ignore_own_surge
    ),
    "larger_limit": mutate(
        12, "adds the surge to the larger one of both limits", _LIMITS, 14, reserve=wrong.ignore_ledger_limit
    ),
    "smaller_surge": mutate(
        12, "adds the smaller surge to the smaller limit", _LIMITS, 1, reserve=wrong.add_smaller_surge
    ),
    "surges_twice": mutate(
        12, "adds the surge of the policy to that of the ledger", _ROLLOUTS, 22, reserve=wrong.add_surges
    ),
    "any_controller": mutate(12, "lets the pods of any controller surge", _ROLLOUTS, 1, is_rolling=wrong.rolls_always),
    "any_pod_shows": mutate(
        12, "takes pods of the same revision for those of a rollout", _ROLLOUTS, 1, is_rolling=wrong.rolls_with_any_pod
    ),
    "other_workload_shows": mutate(
        12, "takes pods of another workload for those of a rollout", _FAULTS, 8, is_rolling=wrong.rolls_beside_others
    ),
    "no_way_back": mutate(
        12,
        "takes only pods of an earlier revision for those of a rollout",
        _ROLLOUTS,
        6,
        is_rolling=wrong.rolls_from_earlier,
    ),
    "ended_pods_show": mutate(
        12, "takes pods that have ended for those of a rollout", _ROLLOUTS, 62, shows_rollout=wrong.show_ended_pods
    ),
    "uncounted_pods_show": mutate(
        12,
        "takes pods that the cap does not count for those of a rollout",
        _FILTERED,
        47,
        shows_rollout=wrong.show_uncounted_pods,
    ),
    "changes_surge": mutate(12, "lets a change of a pod surge", _ROLLOUTS, 60, may_surge=wrong.changes_surge),
    "claims_surge": mutate(
        12, "lets a claim surge", _CLAIMS, 0, may_surge=wrong.claims_surge, is_rolling=wrong.rolls_always
    ),
}
