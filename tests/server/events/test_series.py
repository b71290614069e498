"""Series and their limits: what is written, how often, and that nobody can make it more."""

import re

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from webhook.server.events.event_correlator import (
    NAMESPACE_RATE,
    OWNER_RATE,
    TOTAL_RATE,
    Event,
    EventCorrelator,
    TokenBuckets,
    TokenRate,
)
from webhook.server.events.event_message import EventMessage, Owner

_SAID = EventMessage("team-a", Owner("apps/v1", "ReplicaSet", "web-1", "u-web"), "Refused", "TG201", "no room")


def _of(uid: str, namespace: str = "team-a") -> EventMessage:
    return replace(_SAID, namespace=namespace, owner=replace(_SAID.owner, uid=uid))


def test_one_series_for_each_owner_and_code_counts_what_was_said() -> None:
    series = EventCorrelator("one")
    first = series.correlate(_SAID, 0.0, 1000.0)
    again = series.correlate(replace(_SAID, text="still no room"), 1.0, 1001.0)
    assert first == Event(first.name if first else "", _SAID, 1, 1000.0, 1000.0)
    assert again is not None
    assert first is not None
    assert (again.name, again.count, again.first_at, again.last_at) == (first.name, 2, 1000.0, 1001.0)
    assert again.message.text == "still no room"
    others = [
        replace(_SAID, code="TG202"),
        replace(_SAID, reason="Warned"),
        _of("u-other"),
    ]
    names = {event.name for each in others if (event := series.correlate(each, 2.0, 1002.0))}
    assert len(names | {first.name}) == 4


def test_another_process_has_series_of_its_own() -> None:
    one, other = EventCorrelator("one").correlate(_SAID, 0.0, 0.0), EventCorrelator("other").correlate(_SAID, 0.0, 0.0)
    assert one is not None
    assert other is not None
    assert one.name != other.name


def test_an_owner_that_says_it_again_and_again_is_written_seldom_and_counted_always() -> None:
    series = EventCorrelator("one")
    events = [series.correlate(_SAID, second * 0.01, second * 0.01) for second in range(6000)]  # for a minute
    written = [each for each in events if each]
    assert len(written) <= OWNER_RATE.burst + 60 / OWNER_RATE.interval
    assert written[-1].count > 4000


def test_who_makes_up_owners_uses_up_what_his_namespace_has_and_nothing_of_others() -> None:
    series = EventCorrelator("one")
    forged = [series.correlate(_of(f"u{each}", "team-evil"), 0.0, 0.0) for each in range(5000)]
    assert sum(each is not None for each in forged) == NAMESPACE_RATE.burst
    assert series.correlate(_of("u-honest"), 0.0, 0.0) is not None


def test_all_together_are_limited_too() -> None:
    series = EventCorrelator("one")
    events = [series.correlate(_of(f"u{each}", f"team-{each}"), 0.0, 0.0) for each in range(500)]
    assert sum(each is not None for each in events) == TOTAL_RATE.burst


def test_memory_is_bounded_and_what_was_forgotten_begins_anew() -> None:
    series = EventCorrelator("one", max_series=10)
    series.correlate(_SAID, 0.0, 0.0)
    for each in range(10):
        series.correlate(_of(f"u{each}"), 100.0, 100.0)
    again = series.correlate(_SAID, 1000.0, 1000.0)
    assert again is not None
    assert (again.count, again.first_at) == (1, 1000.0)


@given(st.text(min_size=1, max_size=253))
def test_whatever_an_owner_is_called_the_name_of_the_event_is_one(name: str) -> None:
    event = EventCorrelator("one").correlate(replace(_SAID, owner=replace(_SAID.owner, name=name)), 0.0, 0.0)
    assert event is not None
    assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", event.name)


@given(st.lists(st.floats(0, 10), max_size=50))
def test_a_bucket_never_gives_more_than_its_rate(pauses: list[float]) -> None:
    buckets, now, taken = TokenBuckets(TokenRate(3, 2.0), 10), 0.0, 0
    for pause in pauses:
        now += pause
        taken += buckets.take_token("key", now)
    assert taken <= 3 + now / 2.0 + 1e-6
