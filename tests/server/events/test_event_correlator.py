"""Series of events and their limits: their content and their rate, which no user can exceed."""

import re

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tallygate.server.events.event_message import EventMessage, Owner
from tallygate.server.events.event_recorder import (
    NAMESPACE_RATE,
    OWNER_RATE,
    TOTAL_RATE,
    Event,
    EventCorrelator,
)
from tallygate.server.token_buckets import TokenBuckets, TokenRate

_MESSAGE = EventMessage("team-a", Owner("apps/v1", "ReplicaSet", "web-1", "u-web"), "Rejected", "TG201", "no room")


def _create_message(uid: str, namespace: str = "team-a") -> EventMessage:
    return replace(_MESSAGE, namespace=namespace, owner=replace(_MESSAGE.owner, uid=uid))


def test_each_owner_and_code_has_one_series_that_counts_its_messages() -> None:
    correlator = EventCorrelator("one")
    first = correlator.correlate(_MESSAGE, 0.0, 1000.0)
    again = correlator.correlate(replace(_MESSAGE, text="still no room"), 1.0, 1001.0)
    assert first == Event(first.name if first else "", _MESSAGE, 1, 1000.0, 1000.0)
    assert again is not None
    assert first is not None
    assert (again.name, again.count, again.first_at, again.last_at) == (first.name, 2, 1000.0, 1001.0)
    assert again.message.text == "still no room"
    others = [
        replace(_MESSAGE, code="TG202"),
        replace(_MESSAGE, reason="Warned"),
        _create_message("u-other"),
    ]
    names = {event.name for each in others if (event := correlator.correlate(each, 2.0, 1002.0))}
    assert len(names | {first.name}) == 4


def test_another_process_has_its_own_series() -> None:
    one, other = (
        EventCorrelator("one").correlate(_MESSAGE, 0.0, 0.0),
        EventCorrelator("other").correlate(_MESSAGE, 0.0, 0.0),
    )
    assert one is not None
    assert other is not None
    assert one.name != other.name


def test_a_repeated_message_is_written_seldom_and_counted_always() -> None:
    correlator = EventCorrelator("one")
    events = [correlator.correlate(_MESSAGE, second * 0.01, second * 0.01) for second in range(6000)]  # for a minute
    written = [each for each in events if each]
    assert len(written) <= OWNER_RATE.burst + 60 / OWNER_RATE.interval
    assert written[-1].count > 4000


def test_forged_owners_use_up_the_rate_of_their_namespace_and_of_no_other() -> None:
    correlator = EventCorrelator("one")
    forged = [correlator.correlate(_create_message(f"u{each}", "team-evil"), 0.0, 0.0) for each in range(5000)]
    assert sum(each is not None for each in forged) == NAMESPACE_RATE.burst
    assert correlator.correlate(_create_message("u-honest"), 0.0, 0.0) is not None


def test_all_events_together_have_a_limit() -> None:
    correlator = EventCorrelator("one")
    events = [correlator.correlate(_create_message(f"u{each}", f"team-{each}"), 0.0, 0.0) for each in range(500)]
    assert sum(each is not None for each in events) == TOTAL_RATE.burst


def test_memory_is_bounded_and_a_dropped_series_starts_again() -> None:
    correlator = EventCorrelator("one", max_series=10)
    correlator.correlate(_MESSAGE, 0.0, 0.0)
    for each in range(10):
        correlator.correlate(_create_message(f"u{each}"), 100.0, 100.0)
    again = correlator.correlate(_MESSAGE, 1000.0, 1000.0)
    assert again is not None
    assert (again.count, again.first_at) == (1, 1000.0)


@given(st.text(min_size=1, max_size=253))
def test_the_name_of_an_event_is_valid_for_every_name_of_an_owner(name: str) -> None:
    event = EventCorrelator("one").correlate(replace(_MESSAGE, owner=replace(_MESSAGE.owner, name=name)), 0.0, 0.0)
    assert event is not None
    assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", event.name)


@given(st.lists(st.floats(0, 10), max_size=50))
def test_a_bucket_never_gives_more_than_its_rate(pauses: list[float]) -> None:
    buckets, now, taken = TokenBuckets(TokenRate(3, 2.0), 10), 0.0, 0
    for pause in pauses:
        now += pause
        taken += buckets.take_token("key", now)
    assert taken <= 3 + now / 2.0 + 1e-6
