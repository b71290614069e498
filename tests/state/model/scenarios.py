"""Who acts in which world, and the wrong variants that it shows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.state.model.entering import Entering
from tests.state.model.returning import Returning
from tests.state.model.rules import Wrong
from tests.state.model.searching import Searched, search
from tests.state.model.stalling import Stalling
from tests.state.model.world import Requests, Spec


@dataclass(frozen=True)
class Scenario:
    """A world, made for wrong rules or none, those that break it, and whether it is small enough for every run."""

    says: str
    world: Callable[[Wrong], Any]
    variants: tuple[str, ...] = ()
    quick: bool = False

    def searched(self, most: int, *wrong: str) -> Searched:
        """What is found in at most so many states."""
        return search(self.world(frozenset(wrong)), most)


def _requests(*specs: Spec, **more: Any) -> Callable[[Wrong], Requests]:
    world = Requests(specs=specs, **more)
    return lambda wrong: replace(world, wrong=wrong)


def _create(uid: str, to: int, *caps: int) -> Spec:
    return Spec(uid, creates=True, to=to, caps=caps or (0,))


def _change(uid: str, to: int, *caps: int) -> Spec:
    return Spec(uid, creates=False, to=to, caps=caps or (0,))


_ONE = (("+", "p", 1),)
_TWO = (("+", "p", 2),)
_THREE = (("+", "p", 3),)

SCENARIOS: Mapping[str, Scenario] = {
    "create": Scenario(
        "two pods are created where one fits; two observers, one of which lists anew",
        _requests(_create("u", 1), _create("w", 1), hard=(1,), ticks=4, observers=2, ends=1, restarts=1, crashes=True),
        ("no_as_of", "no_live_read", "short_bound", "settle_one_by_one"),
    ),
    "end": Scenario(
        "the same, and pods end",
        _requests(_create("u", 1), _create("w", 1), hard=(1,), observers=2, ends=2, crashes=True),
    ),
    "two caps": Scenario(
        "a pod under two caps, and one under the first",
        _requests(_create("u", 1, 0, 1), _create("w", 1), hard=(1, 1), crashes=True),
        ("release_by_uid", "retry_without_write"),
    ),
    "resize": Scenario(
        "a pod grows while another is created",
        _requests(_change("p", 3), _create("w", 2), hard=(3,), ticks=4, before=_ONE, crashes=True),
        ("settle_on_sight", "expire_needs_absence", "expire_change_by_get", "no_live_read"),
    ),
    "two resizes": Scenario(
        "a pod is changed twice at once while another is created",
        _requests(_change("p", 3), _change("p", 2), _create("w", 1), hard=(3,), before=_ONE),
        ("change_first_wins", "change_replaces"),
    ),
    "shrunk": Scenario(
        "a pod that was large becomes small, and is then to become large after all, while another is created",
        _requests(_change("p", 1), _change("p", 3), _create("w", 1), hard=(3,), ticks=0, before=_TWO),
        ("guards_growth",),
        quick=True,
    ),
    "old promise": Scenario(
        "two changes of one pod, of which the first may come to nothing",
        _requests(_change("p", 3), _change("p", 2), _create("w", 1), hard=(3,), ticks=5, before=_ONE, attempts=1),
        ("age_by_uid", "expire_change_by_get"),
    ),
    "two resizes, two caps": Scenario(
        "a pod is changed twice at once under two caps while another is created under one",
        _requests(
            _change("p", 3, 0, 1),
            _change("p", 3, 0, 1),
            _create("w", 2),
            hard=(3, 3),
            ticks=2,
            before=_ONE,
            attempts=1,
            crashes=True,
        ),
        ("release_by_last", "release_by_uid"),
    ),
    "each pod": Scenario(
        "two changes of one pod under two caps; each pod's charge is looked at",
        _requests(
            _change("p", 3, 0, 1), _change("p", 2, 0, 1), hard=(9, 9), ends=1, before=_ONE, strict=True, crashes=True
        ),
        ("release_by_last",),
    ),
    "created and changed": Scenario(
        "a pod is created and changed twice; each pod's charge is looked at",
        _requests(
            _create("u", 2),
            _change("u", 3),
            _change("u", 1),
            hard=(9,),
            ticks=4,
            observers=2,
            ends=1,
            restarts=1,
            strict=True,
        ),
        ("change_replaces", "settle_on_sight"),
    ),
    "base": Scenario(
        "a pod is to grow and to shrink; each pod's charge is looked at",
        _requests(_change("p", 4), _change("p", 1), hard=(9,), ticks=2, before=_THREE, strict=True),
        ("merge_keeps_base",),
        quick=True,
    ),
    "entering": Scenario("a namespace comes under a shared cap", Entering, ("no_ns_guard",), quick=True),
    "returning": Scenario(
        "a namespace returns to a shared cap with a pod that no cap counted", Returning, ("no_pods_guard",), quick=True
    ),
    "stalling": Scenario("etcd stalls for longer than the bound", Stalling, ("read_then_drop",), quick=True),
}


def every() -> Iterator[tuple[str, str]]:
    """Each scenario, with the rules as they are (empty), and with each wrong one that it shows."""
    for name, scenario in SCENARIOS.items():
        for wrong in ("", *scenario.variants):
            yield name, wrong
