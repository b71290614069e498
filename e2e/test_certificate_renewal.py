"""Certificates renewed while clients create pods: no create is rejected because of it."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import pytest

from e2e.gates.process import GateProcess
from e2e.load import STORED, Answer, Clients, until_more
from e2e.pods import pod
from e2e.ports import Gate, Site
from e2e.registering import keep_registered, publish
from e2e.rolling import create_dongle_pods, find_failed
from e2e.waiting import until
from tallygate_certs.authority import CA_LIFETIME, create_ca, create_serving_certificate
from tallygate_certs.cert_files import read_serving_pair, write_ca, write_serving_pair
from tallygate_certs.certificate_names import read_names
from tallygate_certs.renewal import renew

_WITHIN = 240.0  # seconds, until the clients have progressed
_MEANWHILE = 100  # pods that are created before the next step
_PAUSE = 0.03  # seconds: nothing else is waited for


@pytest.fixture
def serving_gate(site: Site, running_gate: Gate) -> Iterator[Gate]:
    """Run the gate, registered."""
    with keep_registered(site.cluster, running_gate):
        yield running_gate


def _serve_by_another_authority(gate: Gate) -> None:
    """Serve by an authority that is not published, and needs a successor within a year."""
    now = datetime.now(UTC)
    authority = create_ca(now - CA_LIFETIME + timedelta(days=360))
    names = read_names(read_serving_pair(gate.certificates).certificate)
    write_ca(gate.certificates, authority)
    write_serving_pair(gate.certificates, create_serving_certificate(authority, names, now))
    gate.reload_certificate()


def test_new_serving_certificates_are_reloaded_and_no_create_fails(
    site: Site, serving_gate: Gate, namespace: str
) -> None:
    times = 10 if isinstance(serving_gate, GateProcess) else 1  # a kubelet takes its time to hand over a Secret
    with Clients(site.cluster, namespace) as clients, clients.creating(create_dongle_pods(site), _PAUSE) as answers:
        for each in range(times):
            # Each expires at another second, which distinguishes them.
            renew(serving_gate.certificates, datetime.now(UTC) + timedelta(seconds=each), force=True)
            serving_gate.reload_certificate()
            until_more(answers, _MEANWHILE)
    assert find_failed(answers) == []


def test_the_authority_is_rotated_and_no_create_fails(site: Site, serving_gate: Gate, namespace: str) -> None:
    with Clients(site.cluster, namespace) as clients:
        _serve_by_another_authority(serving_gate)
        publish(site.cluster, serving_gate)
        _until_stored(site, clients)
        with clients.creating(create_dongle_pods(site), _PAUSE) as answers:
            (made,) = renew(serving_gate.certificates, datetime.now(UTC)).actions
            assert made == "made a new authority; publish ca.crt, which trusts it and the old one"
            publish(site.cluster, serving_gate)
            until_more(answers, _MEANWHILE)  # known before it signs: `renew` without force gives it a day for that
            renew(serving_gate.certificates, datetime.now(UTC), force=True)
            serving_gate.reload_certificate()
            until_more(answers, _MEANWHILE)
    assert find_failed(answers) == []


def test_a_certificate_of_an_unpublished_authority_is_rejected_until_it_is_published(
    site: Site, serving_gate: Gate, namespace: str
) -> None:
    """Show why the order above matters: the API server verifies each new certificate at its first connection."""
    with Clients(site.cluster, namespace) as clients:
        assert clients.create_one(pod(site, "before")).status == STORED
        _serve_by_another_authority(serving_gate)
        refused = _until_rejected(site, clients)
        assert refused.status == HTTPStatus.INTERNAL_SERVER_ERROR
        assert refused.message.startswith('Internal error occurred: failed calling webhook "')
        assert refused.message.endswith(
            ": tls: failed to verify certificate: x509: certificate signed by unknown authority"
        )
        publish(site.cluster, serving_gate)
        _until_stored(site, clients)


def _until_rejected(site: Site, clients: Clients) -> Answer:
    """Return the first rejection on a new connection: as many old ones stay open as were ever used at once."""
    pods = (pod(site, f"pod-{number}") for number in itertools.count())
    return next(answer for answer in map(clients.create_one, itertools.islice(pods, _MEANWHILE)) if answer.message)


def _until_stored(site: Site, clients: Clients) -> None:
    """Wait until the API server trusts the published authority."""
    pods = (pod(site, f"probe-{number}") for number in itertools.count())
    until("the API server trusts the gate", lambda: clients.create_one(next(pods)).status == STORED, _WITHIN)
