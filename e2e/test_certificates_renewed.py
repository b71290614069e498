"""Certificates made anew while clients create pods: nobody is refused because of it."""

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import pytest

from certs.authority import CA_LIFETIME, create_ca, create_serving_certificate
from certs.cert_files import read_serving_pair, write_ca, write_serving_pair
from certs.certificate_names import read_names
from certs.renewal import renew
from e2e.gates.process import GateProcess
from e2e.load import STORED, Answer, Clients, until_more
from e2e.pods import Pod, pod
from e2e.ports import Gate, Site
from e2e.registering import publish, registered
from e2e.waiting import until

_WITHIN = 240.0  # seconds, until the clients have got on
_MEANWHILE = 100  # pods that are created before the next step
_PAUSE = 0.03  # seconds: nothing else is waited for


@pytest.fixture
def serving(site: Site, started: Gate) -> Iterator[Gate]:
    """The gate, running and registered."""
    with registered(site.cluster, started):
        yield started


def _serve_by_another_authority(gate: Gate) -> None:
    """Nobody has been told of it, and it needs a successor within a year."""
    now = datetime.now(UTC)
    authority = create_ca(now - CA_LIFETIME + timedelta(days=360))
    names = read_names(read_serving_pair(gate.certificates).certificate)
    write_ca(gate.certificates, authority)
    write_serving_pair(gate.certificates, create_serving_certificate(authority, names, now))
    gate.take_up_certificate()


def _dongles(site: Site) -> Callable[[int], Pod]:
    return lambda number: pod(site, f"pod-{number}")


def _not_stored(answers: list[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.status != STORED]


def test_new_serving_certificates_are_taken_up_and_no_create_fails(site: Site, serving: Gate, namespace: str) -> None:
    times = 10 if isinstance(serving, GateProcess) else 1  # a kubelet takes its time to hand over a Secret
    with Clients(site.cluster, namespace) as clients, clients.creating(_dongles(site), _PAUSE) as answers:
        for each in range(times):
            # Each expires at another second, by which one is told from another.
            renew(serving.certificates, datetime.now(UTC) + timedelta(seconds=each), force=True)
            serving.take_up_certificate()
            until_more(answers, _MEANWHILE)
    assert _not_stored(answers) == []


def test_an_authority_is_succeeded_and_no_create_fails(site: Site, serving: Gate, namespace: str) -> None:
    with Clients(site.cluster, namespace) as clients:
        _serve_by_another_authority(serving)
        publish(site.cluster, serving)
        _until_stored(site, clients)
        with clients.creating(_dongles(site), _PAUSE) as answers:
            (made,) = renew(serving.certificates, datetime.now(UTC)).actions
            assert made == "made a new authority; publish ca.crt, which trusts it and the old one"
            publish(site.cluster, serving)
            until_more(answers, _MEANWHILE)  # known before it signs: `renew` without force gives it a day for that
            renew(serving.certificates, datetime.now(UTC), force=True)
            serving.take_up_certificate()
            until_more(answers, _MEANWHILE)
    assert _not_stored(answers) == []


def test_a_certificate_of_an_authority_that_was_not_published_is_refused_until_it_is(
    site: Site, serving: Gate, namespace: str
) -> None:
    """What the order of the case above is for: the API server takes each new certificate at its first connection."""
    with Clients(site.cluster, namespace) as clients:
        assert clients.create_one(pod(site, "before")).status == STORED
        _serve_by_another_authority(serving)
        refused = _until_refused(site, clients)
        assert refused.status == HTTPStatus.INTERNAL_SERVER_ERROR
        assert refused.message.startswith('Internal error occurred: failed calling webhook "')
        assert refused.message.endswith(
            ": tls: failed to verify certificate: x509: certificate signed by unknown authority"
        )
        publish(site.cluster, serving)
        _until_stored(site, clients)


def _until_refused(site: Site, clients: Clients) -> Answer:
    """The first answer that is not from a connection of before: as many of those are kept as were ever used at once."""
    pods = (pod(site, f"pod-{number}") for number in itertools.count())
    return next(answer for answer in map(clients.create_one, itertools.islice(pods, _MEANWHILE)) if answer.message)


def _until_stored(site: Site, clients: Clients) -> None:
    """Wait until the API server trusts what it was told to."""
    pods = (pod(site, f"probe-{number}") for number in itertools.count())
    until("the API server trusts the gate", lambda: clients.create_one(next(pods)).status == STORED, _WITHIN)
