"""The worlds of the model, the requests in them, and the mutants that each one shows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.state.model.activating import Activating
from tests.state.model.claiming import Claiming
from tests.state.model.entering import Entering
from tests.state.model.following import Following
from tests.state.model.grouping import Grouping
from tests.state.model.guaranteeing import Guaranteeing
from tests.state.model.joining import Joining
from tests.state.model.naming import Naming
from tests.state.model.owning import SECOND_STORED, Owning
from tests.state.model.registering import Registering
from tests.state.model.remapping import CLAIM_BY_CLASS, POD_BY_RESOURCE, Remapping
from tests.state.model.returning import Returning
from tests.state.model.rules import Mutants
from tests.state.model.search import SearchResult, search
from tests.state.model.sharing import Sharing
from tests.state.model.stalling import Stalling
from tests.state.model.surging import Surging
from tests.state.model.world import Requests, Spec


@dataclass(frozen=True)
class Scenario:
    """A world, the mutants that it shows, and whether it is small enough for every test run."""

    description: str
    create_world: Callable[[Mutants], Any]
    mutants: tuple[str, ...] = ()
    is_small: bool = False

    def search(self, max_states: int, *mutants: str) -> SearchResult:
        """Search the world with the rules, or with mutants of them."""
        return search(self.create_world(frozenset(mutants)), max_states)


def _requests(*specs: Spec, **settings: Any) -> Callable[[Mutants], Requests]:
    world = Requests(specs=specs, **settings)
    return lambda mutants: replace(world, mutants=mutants)


def _create(uid: str, requested: int, *caps: int) -> Spec:
    return Spec(uid, creates=True, requested=requested, caps=caps or (0,))


def _change(uid: str, requested: int, *caps: int) -> Spec:
    return Spec(uid, creates=False, requested=requested, caps=caps or (0,))


_ONE = (("+", "p", 1),)
_TWO = (("+", "p", 2),)
_THREE = (("+", "p", 3),)

SCENARIOS: Mapping[str, Scenario] = {
    "create": Scenario(
        "two pods are created where one fits; two observers, one of which lists again",
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
        "a large pod is made small, and an earlier request makes it large again, while another is created",
        _requests(_change("p", 1), _change("p", 3), _create("w", 1), hard=(3,), ticks=0, before=_TWO),
        ("guards_growth",),
        is_small=True,
    ),
    "old reservation": Scenario(
        "two changes of one pod, the first of which may never be stored",
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
        "two changes of one pod under two caps; each pod's charge is checked",
        _requests(
            _change("p", 3, 0, 1),
            _change("p", 2, 0, 1),
            hard=(9, 9),
            ends=1,
            before=_ONE,
            checks_pods=True,
            crashes=True,
        ),
        ("release_by_last",),
    ),
    "created and changed": Scenario(
        "a pod is created and changed twice; each pod's charge is checked",
        _requests(
            _create("u", 2),
            _change("u", 3),
            _change("u", 1),
            hard=(9,),
            ticks=4,
            observers=2,
            ends=1,
            restarts=1,
            checks_pods=True,
        ),
        ("change_replaces", "settle_on_sight"),
    ),
    "base": Scenario(
        "a pod is made larger and smaller; each pod's charge is checked",
        _requests(_change("p", 4), _change("p", 1), hard=(9,), ticks=2, before=_THREE, checks_pods=True),
        ("merge_keeps_base",),
        is_small=True,
    ),
    "entering": Scenario("a namespace enters a shared cap", Entering, ("no_ns_guard",), is_small=True),
    "returning": Scenario(
        "a namespace returns to a shared cap with a pod that no cap counted",
        Returning,
        ("no_pods_guard",),
        is_small=True,
    ),
    "claiming": Scenario(
        "claims are allocated, and allocations end",
        Claiming,
        (
            "first_alternative",
            "free_until_allocated",
            "settles_when_allowed",
            "no_recount",
            "allocation_unchecked",
            "skips_reservations",
        ),
        is_small=True,
    ),
    "owning": Scenario(
        "a tenant replaces the claim that the scheduler made for a pod by a copy",
        Owning,
        ("trusts_owner", "trusts_name", "charges_both"),
        is_small=True,
    ),
    "ending": Scenario(
        "a pod ends, and its claim is stored later or is not seen",
        partial(Owning, hard=1, others=frozenset()),
        ("own_uncharged", "own_uncharged_until_seen", "own_unchecked", "stays_covered"),
        is_small=True,
    ),
    "starting again": Scenario(
        "a scheduler that starts again makes a second claim for a pod",
        partial(Owning, others=frozenset({SECOND_STORED})),
        ("covers_twice", "recount_covers_twice", "covers_beside_counted"),
        is_small=True,
    ),
    "joining": Scenario(
        "the pods of two workloads of two take over what is reserved for them, where three fit",
        Joining,
        (
            "foreign_takes",
            "taken_twice",
            "taken_again",
            "counted_falls",
            "half_back",
            "takes_unreserved",
            "ends_in_flight",
            "expires_at_once",
            "kept_for_ever",
        ),
        is_small=True,
    ),
    "grouping": Scenario(
        "the first pod of each of two groups of two reserves for both, where three fit; pods end and are lost",
        partial(Grouping, losses=1),
        ("reserves_each", "joins_by_name", "reserves_again", "half_at_first"),
        is_small=True,
    ),
    "regrouping": Scenario(
        "the same, and a group is deleted and made again under its name",
        partial(Grouping, ends=0, is_remade=True),
        ("takes_over_by_name", "expires_by_name"),
        is_small=True,
    ),
    "surging": Scenario(
        "a controller rolls under a full cap of two with a surge of one, and another controller has a pod",
        Surging,
        ("any_controller", "twice", "ignores_smaller", "keeps_begin"),
        is_small=True,
    ),
    "surging on": Scenario(
        "the same with a surge of two: the cap is exceeded for longer than a surge may last",
        partial(Surging, surge=2, larger_surge=3),
        ("never_ends", "renews", "recount_forgets"),
        is_small=True,
    ),
    "naming": Scenario(
        "two creations of one name, the pod of one is changed, and another pod is created",
        Naming,
        (
            "sums",
            "by_last",
            "first_stays",
            "releases_name",
            "exists",
            "gone_with_another",
            "any_name",
            "creations_only",
        ),
        is_small=True,
    ),
    "following": Scenario(
        "two creations of one name follow each other, and the scheduler makes a claim for the pod of the first",
        Following,
        (
            "ignores_next",
            "covers_both",
            "covers_beside_counted",
            "covers_beside_reserved",
            "covers_by_newer",
            "stays_covered",
            "adds_counted",
        ),
        is_small=True,
    ),
    "sharing": Scenario(
        "creations of one namespace fail after the gate, and fill the reservations of a shared ledger",
        Sharing,
        ("amounts_only", "guarded_only", "by_kind", "of_all", "counts_repeated"),
        is_small=True,
    ),
    "guarantees": Scenario(
        "three namespaces share a cap of three; a guarantee of one is raised, and that of another ends",
        partial(Guaranteeing, versions=({"a": 1, "b": 1}, {"a": 2})),
        (
            "forgets_unspent",
            "counts_spent",
            "counts_used_only",
            "owner_takes_all",
            "guards_itself",
            "ledger_only",
            "own_only",
            "takes_smaller",
            "keeps_parts",
        ),
        is_small=True,
    ),
    "guarantees of others": Scenario(
        "the same; a guarantee ends, and two others begin, of namespaces that the ledger did not count by themselves",
        partial(Guaranteeing, versions=({"a": 1}, {"b": 1, "c": 1})),
        ("uncounted_is_unused", "ledger_only", "own_only", "takes_smaller", "keeps_parts"),
        is_small=True,
    ),
    "activating": Scenario(
        "a new cap counts first, and enforces then; its ledger may be lost",
        Activating,
        (
            "absence_is_new",
            "cached_record",
            "trusts_the_ledger",
            "admits_without_reservation",
            "no_bound",
            "records_later",
        ),
        is_small=True,
    ),
    "activating, three pods": Scenario(
        "the same with three pods, the replica of one of which freezes while the cap becomes active",
        partial(Activating, pods=3, ticks=6),
        ("trusts_the_ledger",),
    ),
    "registering": Scenario(
        "a new cap is active only once two API servers, of which one lags, ask about it",
        partial(Registering, ticks=4),
        ("enforces_before_asked", "no_lag"),
        is_small=True,
    ),
    "registering, a replica starts again": Scenario(
        "the same, and a replica starts again",
        partial(Registering, restarts=1),
        ("waits_after_start",),
    ),
    "registering, both replicas start again": Scenario(
        "the same, and both replicas start again at once",
        partial(Registering, ticks=3, restarts=2),
        ("lists_at_start",),
    ),
    "registering, another leader": Scenario(
        "the same, and another replica leads, which has the cap later",
        partial(Registering, ticks=4, leads=1),
        ("leader_only", "records_unread", "misses_narrowing"),
    ),
    "registering, restored": Scenario(
        "a recorded cap is taken out of the policies and put back, and the registration is narrowed meanwhile",
        partial(Registering, is_new=False, removals=1, ticks=4),
        ("narrows_at_once", "begins_at_load", "misses_narrowing", "keeps_ledger"),
    ),
    "remapping": Scenario(
        "a class of devices comes, goes and leads elsewhere, under a cap of its extended resource",
        Remapping,
        (
            "forgets_missing",
            "maps_by_today",
            "decides_no_allocation",
            "older_count",
            "forgets_reserved",
            "confirms_early",
            "confirms_above",
        ),
        is_small=True,
    ),
    "remapping by class": Scenario(
        "the same under a cap of the devices of the class, with pods by its extended resource",
        partial(Remapping, consumers=(CLAIM_BY_CLASS, POD_BY_RESOURCE)),
        ("admits_unseen", "forgets_missing", "maps_by_today"),
        is_small=True,
    ),
    "stalling": Scenario("etcd stalls for longer than the bound", Stalling, ("read_then_drop",), is_small=True),
}


def list_searches() -> Iterator[tuple[str, str]]:
    """Yield each scenario with the rules (an empty text) and with each mutant that it shows."""
    for name, scenario in SCENARIOS.items():
        for mutant in ("", *scenario.mutants):
            yield name, mutant
