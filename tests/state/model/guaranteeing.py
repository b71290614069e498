"""Member namespaces of a shared cap have guarantees, which two replicas may read from different policies (rule 15).

Each write of the ledger is one step, since it compares versions (rule 1). Pods are created, stored or lost, and end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from tests.state.model.rules import Mutants

HARD = 3
_PODS = "aabbcc"
"""The namespace of each pod."""
_NAMESPACES = "abc"
_NOTHING: Mapping[str, int] = MappingProxyType({})
Amounts = tuple[tuple[str, int], ...]


class Ledger(NamedTuple):
    """The used and guaranteed amounts by namespace, the pods with a reservation, and what it counts for each namespace.

    `parts` is what it knows of single namespaces: those with a guarantee as it was counted.
    """

    used: Amounts = ()
    parts: Amounts = ()
    reserved: frozenset[int] = frozenset()
    guaranteed: Amounts = ()


class State(NamedTuple):
    """The phase of each pod, the ledger, the version of the policy of each replica, and the invariant violated."""

    phases: tuple[str, ...] = ("idle",) * len(_PODS)
    ledger: Ledger = Ledger()
    versions: tuple[int, int] = (0, 0)
    mistake: str = ""


Step = tuple[str, State]


@dataclass(frozen=True)
class Guaranteeing:
    """Two replicas; `versions` are the guarantees of the policies, of which the first are in the ledger at first."""

    mutants: Mutants = frozenset()
    versions: tuple[Mapping[str, int], Mapping[str, int]] = (_NOTHING, _NOTHING)

    def start(self) -> State:
        """Return the state before any request."""
        parts = tuple((name, 0) for name in sorted(self.versions[0]))
        return State(ledger=Ledger(parts=parts, guaranteed=tuple(sorted(self.versions[0].items()))))

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold."""
        claims = sum(_count_claims(state).values())
        return f"over: {claims} of {HARD}" if claims > HARD else state.mistake

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        return ((name, _order_pods(after)) for name, after in self._list_steps(state))

    def _list_steps(self, state: State) -> Iterator[Step]:
        for replica, version in enumerate(state.versions):
            if not version:
                versions = (1, state.versions[1]) if replica == 0 else (state.versions[0], 1)
                yield f"replica {replica} loads the other policy", state._replace(versions=versions)
            yield f"replica {replica} counts", state._replace(ledger=self._recount(state, replica))
            yield from self._write(state, replica)
            for pod, phase in enumerate(state.phases):
                if phase == "idle":
                    yield from self._reserve(state, replica, pod)
        for pod, phase in enumerate(state.phases):
            if phase == "allowed":
                yield f"pod {pod} is stored", _set_phase(state, pod, "stored")
                yield f"pod {pod} is lost", _set_phase(state, pod, "lost")
            elif phase == "stored":
                yield f"pod {pod} ends", _set_phase(state, pod, "ended")
            elif phase == "lost" and pod in state.ledger.reserved:
                ledger = state.ledger._replace(reserved=state.ledger.reserved - {pod})
                yield f"the reservation of pod {pod} expires", state._replace(ledger=ledger)

    def _recount(self, state: State, replica: int) -> Ledger:
        ledger = state.ledger
        counted = dict.fromkeys(_NAMESPACES, 0)
        for pod, phase in enumerate(state.phases):
            counted[_PODS[pod]] += phase == "stored"
        names = {*dict(ledger.guaranteed), *self.versions[state.versions[replica]]}
        known = dict(ledger.parts) if "keeps_parts" in self.mutants else {}
        parts = {name: known.get(name, counted[name]) for name in names}
        reserved = frozenset(pod for pod in ledger.reserved if state.phases[pod] not in {"stored", "ended"})
        return ledger._replace(used=_sort(counted), parts=_sort(parts), reserved=reserved)

    def _write(self, state: State, replica: int) -> Iterator[Step]:
        """Yield the write of the guarantees of the policy of a replica, which leads."""
        own, ledger = self.versions[state.versions[replica]], state.ledger
        if own.keys() <= dict(ledger.parts).keys() or "uncounted_is_unused" in self.mutants:
            after = ledger._replace(guaranteed=_sort(own))
            yield f"replica {replica} writes its guarantees", state._replace(ledger=after)

    def _reserve(self, state: State, replica: int, pod: int) -> Iterator[Step]:
        own, ledger = self.versions[state.versions[replica]], state.ledger
        if not own.keys() <= dict(ledger.parts).keys() and "uncounted_is_unused" not in self.mutants:
            return  # it is counted first
        name, policies = f"replica {replica} reserves for pod {pod} of {_PODS[pod]}", (dict(ledger.guaranteed), own)
        used = dict(ledger.used)
        charged = sum(used.values()) + len(ledger.reserved) + 1
        truth = max(_sum_unspent(policy, _charge(used, ledger), {_PODS[pod]}) for policy in policies)
        if charged + self._compute_unspent(policies, ledger, _PODS[pod]) > HARD:
            mistake = "" if charged + truth > HARD else f"refused: pod {pod} of {_PODS[pod]} has room"
            yield f"{name}, and is refused", state._replace(mistake=mistake)
            return
        after = _set_phase(state, pod, "allowed")._replace(ledger=ledger._replace(reserved=ledger.reserved | {pod}))
        claims = _count_claims(after)
        needed = max(_sum_unspent(policy, claims, {_PODS[pod]}) for policy in policies) + sum(claims.values())
        if needed > HARD:
            after = after._replace(mistake=f"taken: {needed} of {HARD} with what is guaranteed to others")
        yield name, after

    def _compute_unspent(self, policies: tuple[Mapping[str, int], ...], ledger: Ledger, namespace: str) -> int:
        """Return what is guaranteed to other namespaces and not charged to them."""
        if "forgets_unspent" in self.mutants:
            return 0
        if "owner_takes_all" in self.mutants and any(namespace in policy for policy in policies):
            return 0
        if "ledger_only" in self.mutants:
            policies = policies[:1]
        if "own_only" in self.mutants:
            policies = policies[1:]
        charged = _charge(dict(ledger.parts), ledger)
        if "counts_spent" in self.mutants:
            charged = {}
        if "counts_used_only" in self.mutants:
            charged = dict(ledger.parts)
        besides = set[str]() if "guards_itself" in self.mutants else {namespace}
        choose: Callable[[Iterable[int]], int] = min if "takes_smaller" in self.mutants else max
        return choose([_sum_unspent(policy, charged, besides) for policy in policies])


def _charge(used: Mapping[str, int], ledger: Ledger) -> dict[str, int]:
    """Return what is used, and what the reservations add to it."""
    return {name: used.get(name, 0) + sum(_PODS[pod] == name for pod in ledger.reserved) for name in _NAMESPACES}


def _sum_unspent(guaranteed: Mapping[str, int], charged: Mapping[str, int], besides: set[str]) -> int:
    left = (max(0, amount - charged.get(name, 0)) for name, amount in guaranteed.items() if name not in besides)
    return sum(left)


def _count_claims(state: State) -> dict[str, int]:
    """Return the pods by namespace that are stored, or may be."""
    claims = dict.fromkeys(_NAMESPACES, 0)
    for pod, phase in enumerate(state.phases):
        claims[_PODS[pod]] += phase in {"allowed", "stored"}
    return claims


def _order_pods(state: State) -> State:
    """Return the state with the pods of each namespace in the order of their phases: they are alike.

    Of a pod that has ended, or is lost, nothing matters without its reservation.
    """
    pods = [
        (namespace, "over" if phase in {"ended", "lost"} and not is_reserved else phase, is_reserved)
        for pod, (namespace, phase) in enumerate(zip(_PODS, state.phases, strict=True))
        for is_reserved in [pod in state.ledger.reserved]
    ]
    pods.sort()
    reserved = frozenset(number for number, (_, _, is_reserved) in enumerate(pods) if is_reserved)
    return state._replace(phases=tuple(phase for _, phase, _ in pods), ledger=state.ledger._replace(reserved=reserved))


def _set_phase(state: State, pod: int, phase: str) -> State:
    return state._replace(phases=(*state.phases[:pod], phase, *state.phases[pod + 1 :]))


def _sort(amounts: Mapping[str, int]) -> Amounts:
    return tuple(sorted(amounts.items()))
