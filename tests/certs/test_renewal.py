"""Renewal: when, in which order, and that every client that trusts what was published is served all the way."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.authority import CA_LIFETIME, SERVING_LIFETIME, create_ca, create_serving_certificate
from certs.cert_files import CA_KEY_FILE, CHAIN_FILE, KEY_FILE, read_ca_certificates, read_serving_pair
from certs.certificate_names import parse_names
from certs.certificate_status import find_chain_problem, inspect_certificates
from certs.errors import CertsError
from certs.renewal import get_renewal_reason, is_ca_due, issue, renew, select_trusted_cas
from tests.effort import examples

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = parse_names(["gate.tally.svc", "10.1.2.3"])
AUTHORITY = create_ca(START)
LEAF = create_serving_certificate(AUTHORITY, NAMES, START)


@dataclass(frozen=True)
class LeafCase:
    """A leaf made at the start, and whether it is due so many days later."""

    days: float
    why: str
    force: bool = False


LEAF_CASES = {
    "a new leaf stays": LeafCase(0, ""),
    "with a month and a day left it stays": LeafCase(59, ""),
    "with exactly a third left it stays": LeafCase(60, ""),
    "with less than a third left it is made anew": LeafCase(60.1, "29 days left"),
    "on its last day it is made anew": LeafCase(89.5, "0 days left"),
    "when expired it is made anew": LeafCase(90, "expired"),
    "when it was asked for it is made anew": LeafCase(0, "asked for", force=True),
}


@pytest.mark.parametrize("name", LEAF_CASES)
def test_when_a_leaf_is_due(name: str) -> None:
    case = LEAF_CASES[name]
    why = get_renewal_reason(
        LEAF.certificate, AUTHORITY.certificate, START + timedelta(days=case.days), force=case.force
    )
    assert case.why in why
    assert bool(case.why) == bool(why)


SUCCESSION_CASES = {
    "a new authority signs nothing at first": (0.5, 40.0, ""),
    "after a day it signs": (1.1, 40.0, "predecessor"),
    "a leaf that would not live that day is signed at once": (0.1, 0.5, "predecessor"),
    "an expired leaf is signed at once": (0.1, -1.0, "expired"),
    "a leaf that is due waits for the day to pass": (0.5, 20.0, ""),
}


@pytest.mark.parametrize("name", SUCCESSION_CASES)
def test_when_a_successor_begins_to_sign(name: str) -> None:
    age, left, why = SUCCESSION_CASES[name]
    now = START + SERVING_LIFETIME - timedelta(days=left)
    successor = create_ca(now - timedelta(days=age)).certificate
    assert why in get_renewal_reason(LEAF.certificate, successor, now)
    assert bool(why) == bool(get_renewal_reason(LEAF.certificate, successor, now))


def test_an_authority_is_due_a_year_before_its_end() -> None:
    year_before = START + CA_LIFETIME - timedelta(days=365)
    assert not is_ca_due(AUTHORITY.certificate, year_before)
    assert is_ca_due(AUTHORITY.certificate, year_before + timedelta(minutes=1))


@given(st.integers(0, 200))
@settings(max_examples=examples(30), deadline=None)
def test_a_succeeded_authority_is_trusted_exactly_as_long_as_a_leaf_of_its_may_live(days: int) -> None:
    kept = select_trusted_cas([AUTHORITY.certificate], START, START + timedelta(days=days))
    assert bool(kept) == (timedelta(days=days) < SERVING_LIFETIME)


def test_issue_makes_an_authority_once(tmp_path: Path) -> None:
    issue(tmp_path, NAMES, START)
    first = read_ca_certificates(tmp_path)
    issue(tmp_path, parse_names(["other"]), START)
    assert read_ca_certificates(tmp_path) == first
    assert inspect_certificates(tmp_path, START).serving is not None
    assert inspect_certificates(tmp_path, START).problems == ()


def test_files_have_the_right_modes(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    issue(folder, NAMES, START)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_issue_under_an_expired_authority_says_what_helps(tmp_path: Path) -> None:
    issue(tmp_path, NAMES, START)
    with pytest.raises(CertsError, match="certs renew"):
        issue(tmp_path, NAMES, START + CA_LIFETIME)


def test_renew_without_certificates_says_what_helps(tmp_path: Path) -> None:
    with pytest.raises(CertsError, match="certs issue"):
        renew(tmp_path, START)


def test_renew_does_nothing_when_nothing_is_due(tmp_path: Path) -> None:
    issue(tmp_path, NAMES, START)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert renew(tmp_path, START + timedelta(days=30)).actions == ()
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}


def test_renew_keeps_the_names(tmp_path: Path) -> None:
    issue(tmp_path, NAMES, START)
    assert renew(tmp_path, START, force=True).actions == ("made a new serving certificate: it was asked for",)
    leaf = inspect_certificates(tmp_path, START).serving
    assert leaf is not None
    assert leaf.names == NAMES.to_texts()


def test_a_leaf_that_is_asked_for_as_the_authority_is_succeeded_is_one_that_everybody_trusts_already(
    tmp_path: Path,
) -> None:
    issue(tmp_path, NAMES, START)
    (published,) = read_ca_certificates(tmp_path)
    renewed = renew(tmp_path, START + CA_LIFETIME - timedelta(days=100), force=True)
    assert len(renewed.actions) == 2
    read_serving_pair(tmp_path).certificate.verify_directly_issued_by(published)
    assert len(read_ca_certificates(tmp_path)) == 2


def test_a_predecessor_that_is_about_to_expire_signs_no_more(tmp_path: Path) -> None:
    issue(tmp_path, NAMES, START)
    renew(tmp_path, START + CA_LIFETIME - timedelta(days=10), force=True)
    read_serving_pair(tmp_path).certificate.verify_directly_issued_by(read_ca_certificates(tmp_path)[0])


def test_for_twelve_years_of_daily_renewal_a_client_with_the_trust_of_the_day_before_is_served(tmp_path: Path) -> None:
    """Whoever publishes `ca.crt` has a day to do so: yesterday's trust must always take today's leaf."""
    issue(tmp_path, NAMES, START)
    published: tuple[x509.Certificate, ...] = read_ca_certificates(tmp_path)
    succeeded, most = 0, 0
    for day in [*range(0, 3250, 25), *range(3250, 3500), *range(3500, 4380, 25)]:
        now = START + timedelta(days=day)
        succeeded += any("new authority" in what for what in renew(tmp_path, now).actions)
        assert find_chain_problem(read_serving_pair(tmp_path).certificate, published, now) == ""
        published = read_ca_certificates(tmp_path)
        most = max(most, len(published))
    assert (succeeded, most, len(published)) == (1, 2, 1)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "the key is another's": (
        lambda folder: (folder / KEY_FILE).write_bytes((folder / CA_KEY_FILE).read_bytes()),
        "is not the key of",
    ),
    "the key is gone": (lambda folder: (folder / KEY_FILE).unlink(), "No such file"),
    "the key is no key": (lambda folder: (folder / KEY_FILE).write_text("x"), "not an unencrypted private key"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_show_tells_of_damage(tmp_path: Path, name: str) -> None:
    damage, words = DAMAGE[name]
    issue(tmp_path, NAMES, START)
    damage(tmp_path)
    overview = inspect_certificates(tmp_path, START)
    assert any(words in problem for problem in overview.problems)
    assert overview.serving is not None


def test_show_refuses_what_is_no_certificate(tmp_path: Path) -> None:
    issue(tmp_path, NAMES, START)
    (tmp_path / CHAIN_FILE).write_text("nonsense")
    with pytest.raises(CertsError, match="not a certificate in PEM"):
        inspect_certificates(tmp_path, START)


def test_show_tells_the_days_left_and_when_renewal_is_due(tmp_path: Path) -> None:
    issue(tmp_path, NAMES, START)
    young, old, dead = (inspect_certificates(tmp_path, START + timedelta(days=days)) for days in (1, 80, 100))
    assert [view.serving.days_left for view in (young, old, dead) if view.serving] == [89, 10, -10]
    assert [view.is_renewal_due for view in (young, old, dead)] == [False, True, True]
    assert [bool(view.problems) for view in (young, old, dead)] == [False, False, True]


def test_show_of_an_empty_folder_says_what_is_missing(tmp_path: Path) -> None:
    overview = inspect_certificates(tmp_path, START)
    assert (overview.ca_certificates, overview.serving) == ((), None)
    assert any("certs issue" in problem for problem in overview.problems)
