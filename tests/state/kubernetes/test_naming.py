"""The names of ledgers' objects."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.state.kubernetes.cap_ledger import get_object_name
from tallygate.state.ports import LedgerKey

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@given(st.builds(LedgerKey, st.text(), st.text()))
def test_every_name_is_valid_in_kubernetes(key: LedgerKey) -> None:
    assert _SUBDOMAIN.fullmatch(get_object_name(key))


@given(st.lists(st.builds(LedgerKey, st.text("ab.-/", max_size=4), st.text("ab.-/", max_size=4)), unique=True))
def test_two_ledgers_have_different_names(keys: list[LedgerKey]) -> None:
    assert len({get_object_name(key) for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (LedgerKey("gpus-0123456789", "team-a"), "gpus-0123456789.team-a.82379c6922844a107424"),
        (LedgerKey("gpus-0123456789", ""), "gpus-0123456789.c0f2967941a99b5368a5"),
        (LedgerKey("gpus-0123456789=My_Team.a", ""), "gpus-0123456789-my-team-a.b1b6f892940eef23ecec"),
        (LedgerKey("v1.gpus-0123456789", "team-a"), "v1-gpus-0123456789.team-a.e357b5cc55d5e8d1b189"),
    ],
)
def test_a_name_contains_its_cap_and_namespace_and_is_stable(key: LedgerKey, name: str) -> None:
    assert get_object_name(key) == name


@given(st.builds(LedgerKey, st.text(min_size=300), st.text(min_size=300)))
def test_no_name_is_too_long(key: LedgerKey) -> None:
    assert len(get_object_name(key)) <= 253
