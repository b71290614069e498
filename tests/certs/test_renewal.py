"""Renewal: its time, its order, and its compatibility with clients that use the published bundle of the day before."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate_certs.authority import CA_LIFETIME, SERVING_LIFETIME, create_ca, create_serving_certificate
from tallygate_certs.ca_bundle import read_ca_bundle
from tallygate_certs.cert_files import (
    CA_FILE,
    CA_KEY_FILE,
    CHAIN_FILE,
    KEY_FILE,
    read_ca_certificates,
    read_serving_pair,
)
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.certificate_status import find_chain_problem, inspect_certificates
from tallygate_certs.errors import CertsError
from tallygate_certs.renewal import get_renewal_reason, is_ca_due, issue, renew, select_trusted_cas
from tests.certs.damaged_certificates import DAMAGES, damage_certificate
from tests.effort import examples

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = parse_names(["gate.tally.svc", "10.1.2.3"])
CA = create_ca(START)
SERVING_PAIR = create_serving_certificate(CA, NAMES, START)


@dataclass(frozen=True)
class RenewalCase:
    """A serving certificate created at the start, and the reason for its renewal `days` later."""

    days: float
    reason: str
    force: bool = False


RENEWAL_CASES = {
    "a new certificate stays": RenewalCase(0, ""),
    "with a month and a day left it stays": RenewalCase(59, ""),
    "with exactly a third left it stays": RenewalCase(60, ""),
    "with less than a third left it is renewed": RenewalCase(60.1, "29 days left"),
    "on its last day it is renewed": RenewalCase(89.5, "0 days left"),
    "when expired it is renewed": RenewalCase(90, "expired"),
    "on request it is renewed": RenewalCase(0, "asked for", force=True),
}


@pytest.mark.parametrize("name", RENEWAL_CASES)
def test_a_serving_certificate_is_renewed_when_it_is_due(name: str) -> None:
    case = RENEWAL_CASES[name]
    actual = get_renewal_reason(
        SERVING_PAIR.certificate, CA.certificate, START + timedelta(days=case.days), force=case.force
    )
    assert case.reason in actual
    assert bool(case.reason) == bool(actual)


ROTATION_CASES = {
    "a new CA signs nothing at first": (0.5, 40.0, ""),
    "after a day it signs": (1.1, 40.0, "predecessor"),
    "a certificate that expires within that day is signed at once": (0.1, 0.5, "predecessor"),
    "an expired certificate is signed at once": (0.1, -1.0, "expired"),
    "a certificate that is due waits for the day to pass": (0.5, 20.0, ""),
}


@pytest.mark.parametrize("name", ROTATION_CASES)
def test_a_new_ca_signs_after_its_propagation(name: str) -> None:
    age, left, reason = ROTATION_CASES[name]
    now = START + SERVING_LIFETIME - timedelta(days=left)
    successor = create_ca(now - timedelta(days=age)).certificate
    assert reason in get_renewal_reason(SERVING_PAIR.certificate, successor, now)
    assert bool(reason) == bool(get_renewal_reason(SERVING_PAIR.certificate, successor, now))


def test_a_ca_is_due_a_year_before_its_end() -> None:
    year_before = START + CA_LIFETIME - timedelta(days=365)
    assert not is_ca_due(CA.certificate, year_before)
    assert is_ca_due(CA.certificate, year_before + timedelta(minutes=1))


@given(st.integers(0, 200))
@settings(max_examples=examples(30), deadline=None)
def test_a_replaced_ca_is_trusted_for_the_lifetime_of_its_certificates(days: int) -> None:
    kept = select_trusted_cas([CA.certificate], START, START + timedelta(days=days))
    assert bool(kept) == (timedelta(days=days) < SERVING_LIFETIME)


def test_issue_creates_a_ca_once(tmp_path: Path) -> None:
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


def test_issue_with_an_expired_ca_names_the_remedy(tmp_path: Path) -> None:
    issue(tmp_path, NAMES, START)
    with pytest.raises(CertsError, match="certs renew"):
        issue(tmp_path, NAMES, START + CA_LIFETIME)


def test_renew_without_certificates_names_the_remedy(tmp_path: Path) -> None:
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
    serving_pair = inspect_certificates(tmp_path, START).serving
    assert serving_pair is not None
    assert serving_pair.names == NAMES.to_texts()


def test_a_certificate_requested_during_a_rotation_is_signed_by_the_published_ca(
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


def test_a_client_with_the_bundle_of_the_day_before_is_served_for_twelve_years(tmp_path: Path) -> None:
    """Allow a day for the publication of `ca.crt`: the bundle of yesterday must trust the certificate of today."""
    issue(tmp_path, NAMES, START)
    published: tuple[x509.Certificate, ...] = read_ca_certificates(tmp_path)
    succeeded, max_cas = 0, 0
    for day in [*range(0, 3250, 25), *range(3250, 3500), *range(3500, 4380, 25)]:
        now = START + timedelta(days=day)
        succeeded += any("new authority" in what for what in renew(tmp_path, now).actions)
        assert find_chain_problem(read_serving_pair(tmp_path).certificate, published, now) == ""
        published = read_ca_certificates(tmp_path)
        max_cas = max(max_cas, len(published))
    assert (succeeded, max_cas, len(published)) == (1, 2, 1)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "the key is of another certificate": (
        lambda folder: (folder / KEY_FILE).write_bytes((folder / CA_KEY_FILE).read_bytes()),
        "is not the key of",
    ),
    "the key is missing": (lambda folder: (folder / KEY_FILE).unlink(), "No such file"),
    "the key is no key": (lambda folder: (folder / KEY_FILE).write_text("x"), "not an unencrypted private key"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_show_reports_damaged_files(tmp_path: Path, name: str) -> None:
    damage, message = DAMAGE[name]
    issue(tmp_path, NAMES, START)
    damage(tmp_path)
    overview = inspect_certificates(tmp_path, START)
    assert any(message in problem for problem in overview.problems)
    assert overview.serving is not None


def test_show_rejects_an_invalid_certificate(tmp_path: Path) -> None:
    issue(tmp_path, NAMES, START)
    (tmp_path / CHAIN_FILE).write_text("nonsense")
    with pytest.raises(CertsError, match="not a certificate in PEM"):
        inspect_certificates(tmp_path, START)


@pytest.mark.parametrize("file", [CA_FILE, CHAIN_FILE])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_certificate_raises_no_error_of_the_library(tmp_path: Path, damage: str, file: str) -> None:
    issue(tmp_path, NAMES, START)
    (tmp_path / file).write_bytes(damage_certificate((tmp_path / file).read_bytes(), *DAMAGES[damage]))
    for command in (inspect_certificates, read_ca_bundle, renew):
        with suppress(CertsError):
            command(tmp_path, START)


def test_show_prints_the_days_left_and_whether_renewal_is_due(tmp_path: Path) -> None:
    issue(tmp_path, NAMES, START)
    young, old, dead = (inspect_certificates(tmp_path, START + timedelta(days=days)) for days in (1, 80, 100))
    assert [view.serving.days_left for view in (young, old, dead) if view.serving] == [89, 10, -10]
    assert [view.is_renewal_due for view in (young, old, dead)] == [False, True, True]
    assert [bool(view.problems) for view in (young, old, dead)] == [False, False, True]


def test_show_of_an_empty_folder_names_the_missing_files(tmp_path: Path) -> None:
    overview = inspect_certificates(tmp_path, START)
    assert (overview.ca_certificates, overview.serving) == ((), None)
    assert any("certs issue" in problem for problem in overview.problems)
