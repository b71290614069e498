"""The pod requirements of a pod: spread over topologies, affinity and anti-affinity."""

from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import HOSTNAME, NAMESPACES, RACK, ZONE, Json, namespace_selector, pod_selector

_TOPOLOGIES = {HOSTNAME: 4.0, ZONE: 5.0, RACK: 1.5, "example.com/nowhere": 0.2}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def spread(dice: Dice) -> list[Json]:
    """Draw topology spread constraints; each pair of topology and `whenUnsatisfiable` once, as the API requires."""
    if not dice.often("spread", 0.04, 0.9):
        return []
    entries = [_constraint(dice) for _ in range(dice.pick_weighted({1: 5, 2: 3, 3: 1}))]
    return list({(each["topologyKey"], each["whenUnsatisfiable"]): each for each in entries}.values())


def company(dice: Dice, *, is_placed: bool) -> Json:
    """Draw pod affinity and anti-affinity; pods that are `settled` on a node have more anti-affinity."""
    wishes: Json = {}
    if dice.often("company", 0.03, 0.15 if is_placed else 0.5):
        wishes["podAffinity"] = _terms(dice)
    if dice.often("company", 0.03, 0.25 if is_placed else 0.5):
        wishes["podAntiAffinity"] = _terms(dice)
    return wishes


def _constraint(dice: Dice) -> Json:
    constraint: Json = {
        "maxSkew": dice.pick_weighted({1: 5, 2: 2, 3: 1}),
        "topologyKey": dice.pick_weighted(_TOPOLOGIES),
        "whenUnsatisfiable": dice.pick_weighted({"DoNotSchedule": 5, "ScheduleAnyway": 1}),
    }
    if dice.chance(0.95):
        constraint["labelSelector"] = pod_selector(dice)
        if dice.chance(0.2):
            constraint["matchLabelKeys"] = dice.sample(("rev", "tier"), 1, 2)
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" and dice.chance(0.4):
        constraint["minDomains"] = dice.count(1, 5)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if dice.chance(0.3):
            constraint[policy] = dice.pick(("Honor", "Ignore"))
    return constraint


def _terms(dice: Dice) -> Json:
    terms: Json = {_REQUIRED: [_term(dice) for _ in range(dice.pick_weighted({1: 5, 2: 2}))]}
    if dice.chance(0.15):
        terms[_PREFERRED] = [{"weight": dice.count(1, 100), "podAffinityTerm": _term(dice)}]
    return terms


def _term(dice: Dice) -> Json:
    term: Json = {"topologyKey": dice.pick_weighted(_TOPOLOGIES)}
    if dice.chance(0.96):
        term["labelSelector"] = pod_selector(dice)
        if dice.chance(0.2):
            term[dice.pick(("matchLabelKeys", "mismatchLabelKeys"))] = dice.sample(("rev", "tier"), 1, 2)
    if dice.chance(0.25):
        term["namespaces"] = dice.sample(tuple(NAMESPACES), 1, 2)
    if dice.chance(0.25):
        term["namespaceSelector"] = namespace_selector(dice)
    return term
