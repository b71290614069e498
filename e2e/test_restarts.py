"""Restarts of the gate and the API server: which requests fail meanwhile, and what is known of caps afterwards."""

import re
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from e2e.gates.process import GateProcess
from e2e.load import CLIENTS, STORED, Answer, Clients, until_more
from e2e.pods import create, list_stored, pod
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Gate, Site
from e2e.waiting import until

_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: dongles}
spec:
  namespaces: {include: ["case-*"]}
  hard: {example.com/dongle: 2}
"""
_HALF = "1500m"
_WITHIN = 60.0  # seconds
_MEANWHILE = 200  # pods that are created before and after
_CALL = r'Internal error occurred: failed calling webhook "\w+\.tallygate\.dev": failed to call webhook: '
# No connection is made. Behind a Service, who says so first depends on their pace; and while kube-proxy
# changes its tables, its address leads out of the node, where another server may answer, which is not trusted.
_AWAY = re.compile(
    _CALL
    + r'(Post "[^"]+": dial tcp [^ ]+: .+|.*no endpoints available for service "\w+"'
    + r'|Post "[^"]+": tls: failed to verify certificate: x509: certificate is valid for .+, not [\w.-]+)'
)
# A connection was being made when the socket was closed.
_CUT = re.compile(
    _CALL
    + r'Post "[^"]+": (EOF|(read|write) tcp [^ ]+: (read: connection reset by peer'
    + r"|write: (broken pipe|connection reset by peer)))"
)


@pytest.fixture
def gate_with_cap(gate: Gate) -> Iterator[Gate]:
    """Run the gate with a cap of two dongles for every case's namespace."""
    gate.write_policies(SHIPPED_FILES | {"dongles.yaml": _CAP})
    yield gate
    gate.write_policies(SHIPPED_FILES)


def _is_full(site: Site, namespace: str, name: str) -> bool:
    """Return whether the cap rejects a further pod, with the names of the pods that have reservations."""
    text = create(site, namespace, name).stderr
    consumers = re.findall(r"Pod [a-z]+ \(1, reserved\)", text)
    return len(consumers) == 2 and text == (  # as many as the cap allows
        'Error from server (Forbidden): error when creating "STDIN": admission webhook "validate.tallygate.dev" denied '
        f'the request: Pod "{name}": cap dongles of this namespace exceeded: requested 1 example.com/dongle, used 0, '
        f"reserved 2, hard 2, free 0; top consumers: {', '.join(consumers)}. Wait until pods end (TG201, cap dongles)\n"
    )


def _is_away(text: str) -> bool:
    """Return whether no server listens; an open connection breaks a moment later."""
    return "connect: connection refused" in text


def _is_right(answer: Answer) -> bool:
    """Return whether a whole dongle was stored, or one and a half rejected."""
    asks = answer.pod["spec"]["containers"][0]["resources"]["requests"]["example.com/dongle"]
    return answer.status == (HTTPStatus.UNPROCESSABLE_ENTITY if asks == _HALF else STORED)


def test_a_gate_that_ends_in_order_under_load_gives_no_wrong_answer(site: Site, gate: Gate, namespace: str) -> None:
    """Show that with one replica no server listens for a while. Under Fail that is all that goes wrong."""
    with (
        Clients(site.cluster, namespace) as clients,
        clients.creating(lambda number: pod(site, f"pod-{number}", _HALF if number % 2 else "1")) as answers,
    ):
        until_more(answers, _MEANWHILE)
        gate.stop()
        gate.start()
        until_more(answers, _MEANWHILE)
    failures = [answer for answer in answers if not _is_right(answer)]
    assert {answer.status for answer in failures} == {HTTPStatus.INTERNAL_SERVER_ERROR}
    cut = [answer for answer in failures if not _AWAY.fullmatch(answer.message)]
    assert [answer for answer in cut if not _CUT.fullmatch(answer.message)] == []
    # Connections are made to the end: a Service leads to its last endpoint until that is not ready (KEP-1669). Who is
    # not yet accepted when the socket is closed is cut off by the kernel.
    assert len(cut) <= CLIENTS
    assert list_stored(site, namespace) == {
        answer.pod["metadata"]["name"] for answer in answers if answer.status == STORED
    }


@pytest.mark.usefixtures("gate_with_cap")
def test_caps_hold_when_the_api_server_restarts(site: Site, namespace: str) -> None:
    for name in ("first", "second"):
        assert create(site, namespace, name).stderr == ""
    assert _is_full(site, namespace, "third")
    site.cluster.restart_api_server()
    assert _is_full(site, namespace, "third")
    assert create(site, namespace, "half", _HALF).stderr.startswith('The Pod "half" is invalid: ')
    assert list_stored(site, namespace) == {"first", "second"}


def test_a_gate_that_was_killed_knows_nothing_of_the_pods_that_are_there(
    site: Site, gate_with_cap: Gate, namespace: str
) -> None:
    """Show what docs/concepts/caps.md says of ledgers in memory."""
    if not isinstance(gate_with_cap, GateProcess):
        pytest.skip("this gate is no process that could be killed")
    for name in ("first", "second"):
        assert create(site, namespace, name).stderr == ""
    assert _is_full(site, namespace, "third")
    gate_with_cap.kill()
    try:
        until("no server listens", lambda: _is_away(create(site, namespace, "third").stderr), _WITHIN)
    finally:
        gate_with_cap.start()
    for name in ("third", "fourth"):
        assert create(site, namespace, name).stderr == ""
    assert _is_full(site, namespace, "fifth")
    assert list_stored(site, namespace) == {"first", "second", "third", "fourth"}
