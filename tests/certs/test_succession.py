"""The next step, one case for each; that their order is safe is shown by test_order.py."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import AUTHORITY_LIFETIME, new_authority, new_leaf
from certs.kept import MOST_AUTHORITIES, Kept, leaf_of
from certs.names import Names, names_of, parse_names
from certs.succession import Sight, What, complaint, forgotten_at, next_step

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = parse_names(["gate.tally.svc"])
AUTHORITY, OLD = new_authority(NOW), new_authority(NOW)
LEAF, OLD_LEAF = (leaf_of(new_leaf(each, NAMES, NOW)) for each in (AUTHORITY, OLD))
RIGHT = Kept(AUTHORITY, (), LEAF, NOW)
SUCCEEDED = Kept(AUTHORITY, (OLD.certificate,), OLD_LEAF, NOW)


def days(number: float) -> datetime:
    """So many after the beginning."""
    return NOW + timedelta(days=number)


def sight(kept: Kept | None, **other: object) -> Sight:
    """Of a replica that serves what is kept, where all is published and settled."""
    seen = Sight(
        kept=kept,
        published=kept.authorities if kept else (),
        is_published=True,
        settled=lambda _: True,
        served=kept.leaf if kept else None,
        names=NAMES,
        now=NOW,
    )
    return replace(seen, **other)  # type: ignore[arg-type]  # each case names fields of its own


@dataclass(frozen=True)
class Case:
    """What is seen, and what is to be done, and why."""

    seen: Sight
    what: What | None = None
    why: str = ""


_NEVER: Callable[[object], bool] = lambda _: False  # noqa: E731  # a value of a case

CASES = {
    "all is right": Case(sight(RIGHT)),
    "there is no secret": Case(sight(None), What.REBUILD, "no Secret"),
    "no authority signs": Case(sight(replace(RIGHT, authority=None)), What.REBUILD, "no authority"),
    "the authority has expired": Case(
        sight(RIGHT, now=NOW + AUTHORITY_LIFETIME), What.REBUILD, "no authority in it signs"
    ),
    "the authority came in by hand": Case(sight(replace(RIGHT, since=None)), What.TAKE_OVER, "new here"),
    "it is not published": Case(sight(RIGHT, is_published=False), What.PUBLISH, "trust"),
    "there is no leaf": Case(sight(replace(RIGHT, leaf=None)), What.CERTIFICATE, "cannot be used"),
    "the leaf is lost and another is served": Case(
        sight(replace(RIGHT, leaf=None), served=LEAF), What.CERTIFICATE, "served on"
    ),
    "the leaf has expired": Case(sight(RIGHT, now=days(90)), What.CERTIFICATE, "has expired"),
    "the leaf has a month left": Case(sight(RIGHT, now=days(60))),
    "the leaf has less than a month left": Case(sight(RIGHT, now=days(60.1)), What.CERTIFICATE, "29 days left"),
    "the leaf lacks a name": Case(sight(RIGHT, names=parse_names(["10.1.2.3"])), What.CERTIFICATE, "good for 10.1.2.3"),
    "a leaf is asked for": Case(sight(replace(RIGHT, asked="certificate")), What.CERTIFICATE, "asked for"),
    "an authority is asked for": Case(sight(replace(RIGHT, asked="authority")), What.SUCCESSOR, "asked for"),
    "nonsense is asked for": Case(sight(replace(RIGHT, asked="all"))),
    "the authority has less than a year left": Case(
        sight(
            replace(RIGHT, leaf=leaf_of(new_leaf(AUTHORITY, NAMES, days(3300)))),
            now=days(3300),
        ),
        What.SUCCESSOR,
        "less than a year",
    ),
    "a successor is not settled": Case(sight(SUCCEEDED, settled=_NEVER)),
    "a successor is not settled and another asked for": Case(
        sight(replace(SUCCEEDED, asked="authority"), settled=_NEVER)
    ),
    "a successor is settled": Case(sight(SUCCEEDED), What.CERTIFICATE, "trusted everywhere"),
    "what the old one has signed expires before that": Case(
        sight(SUCCEEDED, settled=_NEVER, now=days(90)), What.CERTIFICATE, "has expired"
    ),
    "the old ones may still be needed": Case(sight(replace(SUCCEEDED, leaf=LEAF), now=days(59))),
    "the old ones are needed no more": Case(
        sight(replace(SUCCEEDED, leaf=leaf_of(new_leaf(AUTHORITY, NAMES, days(60)))), now=days(91)), What.FORGET, "old"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_next_step(name: str) -> None:
    case = CASES[name]
    step = next_step(case.seen)
    assert (step.what if step else None) == case.what
    assert case.why in (step.why if step else "")


@pytest.mark.parametrize("name", CASES)
def test_steps_come_to_an_end(name: str) -> None:
    """Each is followed by others, and within a few nothing is left to be done, unless an API server has to be told."""
    seen, taken = CASES[name].seen, list[What]()
    while (step := next_step(seen)) and step.what is not What.PUBLISH:
        kept = step.kept or seen.kept
        assert kept
        seen = replace(seen, kept=kept, published=kept.authorities, served=kept.leaf)
        taken.append(step.what)
        assert len(taken) < 5


def test_an_old_authority_signs_no_more_from_when_it_is_succeeded() -> None:
    step = next_step(sight(replace(RIGHT, asked="authority")))
    assert step
    assert step.kept
    assert step.kept.authority
    assert step.kept.trusted == (AUTHORITY.certificate,)
    assert (step.kept.leaf, step.kept.asked, step.kept.since) == (LEAF, "", NOW)


def test_a_secret_made_anew_keeps_what_is_served_and_published() -> None:
    step = next_step(sight(None, published=(OLD.certificate,), served=OLD_LEAF))
    assert step
    assert step.kept
    assert (step.kept.leaf, step.kept.trusted) == (OLD_LEAF, (OLD.certificate,))


def test_a_leaf_that_nobody_trusts_is_not_kept_when_all_is_made_anew() -> None:
    step = next_step(sight(Kept(None, (), OLD_LEAF), published=(AUTHORITY.certificate,), served=None))
    assert step
    assert step.kept
    assert step.kept.authority
    assert step.kept.leaf
    assert step.kept.leaf.is_signed_by(step.kept.authority.certificate)


def test_a_new_leaf_is_good_for_all_names_that_the_old_one_was_good_for() -> None:
    other = Names(dns=("other.tally.svc",))
    step = next_step(sight(RIGHT, names=other))
    assert step
    assert step.kept
    assert step.kept.leaf
    assert names_of(step.kept.leaf.certificate) == other + NAMES


def test_no_more_authorities_are_made_than_a_bundle_takes_and_that_is_said() -> None:
    full = replace(RIGHT, trusted=(OLD.certificate,) * (MOST_AUTHORITIES - 1), asked="authority")
    assert next_step(sight(full)) is None
    assert complaint(full) == (
        "32 authorities are trusted, and no more can be: a new one is made after 2026-04-02, when the old ones are "
        "forgotten"
    )
    assert forgotten_at(NOW) == datetime(2026, 4, 2, tzinfo=UTC)


def test_what_is_published_by_others_fills_no_bundle_beyond_its_bounds() -> None:
    strangers = tuple(new_authority(NOW).certificate for _ in range(MOST_AUTHORITIES + 5))
    step = next_step(sight(None, published=strangers))
    assert step
    assert step.kept
    assert len(step.kept.authorities) == MOST_AUTHORITIES


def test_a_complaint_is_short_whatever_was_asked_for() -> None:
    assert len(complaint(replace(RIGHT, asked="x" * 100_000))) < 120
