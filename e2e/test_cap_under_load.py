"""A load of pods on a cap: with eight clients at once, exactly what fits is stored."""

import re
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from e2e.load import STORED, Clients
from e2e.pods import list_stored, pod
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Gate, Site

_HARD = 20
_PODS = 200
_CAP = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: dongles}}
spec:
  namespaces: {{include: ["case-*"]}}
  hard: {{example.com/dongle: {_HARD}}}
"""


@pytest.fixture(autouse=True)
def _apply_cap(gate: Gate) -> Iterator[None]:
    gate.write_policies(SHIPPED_FILES | {"dongles.yaml": _CAP})
    yield
    gate.write_policies(SHIPPED_FILES)


_CONSUMERS = re.compile(
    r"; top consumers: Pod [a-z]+-\d+ \(\d, reserved\)(, Pod [a-z]+-\d+ \(\d, reserved\)){2}(?=\. )"
)


def _drop_consumers(message: str) -> str:
    """Return a rejection without its top consumers, which depend on the order of the requests."""
    text, found = _CONSUMERS.subn("", message)
    assert found == 1, message
    return text


def _refusal(name: str, asks: int, reserved: int) -> str:
    """Return the rejection of a request while an amount is reserved, without its top consumers."""
    free = _HARD - reserved
    advice = f"Request {free} or less, or wait until pods end" if free else "Wait until pods end"
    return (
        f'admission webhook "validate.tallygate.dev" denied the request: Pod "{name}": cap dongles of this namespace '
        f"exceeded: requested {asks} example.com/dongle, used 0, reserved {reserved}, hard {_HARD}, free {free}. "
        f"{advice} "
        "(TG201, cap dongles)"
    )


def test_a_cap_of_twenty_stores_twenty_of_two_hundred_pods(site: Site, namespace: str) -> None:
    names = [f"pod-{number}" for number in range(_PODS)]
    with Clients(site.cluster, namespace) as clients:
        answers = dict(zip(names, clients.create([pod(site, name) for name in names]), strict=True))
    statuses = Counter(answer.status for answer in answers.values())
    assert statuses == {STORED: _HARD, HTTPStatus.FORBIDDEN: _PODS - _HARD}
    assert list_stored(site, namespace) == {name for name, answer in answers.items() if answer.status == STORED}
    refused = {name: _drop_consumers(answer.message) for name, answer in answers.items() if answer.status != STORED}
    assert refused == {name: _refusal(name, 1, _HARD) for name in refused}


def test_pods_that_do_not_divide_a_cap_leave_its_rest_to_smaller_ones(site: Site, namespace: str) -> None:
    """Store six threes, and two ones after them; each rejection names what is free then."""
    with Clients(site.cluster, namespace) as clients:
        threes = clients.create([pod(site, f"three-{number}", "3") for number in range(_PODS // 2)])
        ones = clients.create([pod(site, f"one-{number}") for number in range(_PODS // 2)])
    assert Counter(answer.status for answer in threes) == {STORED: 6, HTTPStatus.FORBIDDEN: _PODS // 2 - 6}
    assert Counter(answer.status for answer in ones) == {STORED: 2, HTTPStatus.FORBIDDEN: _PODS // 2 - 2}
    for answers, asks, reserved in ((threes, 3, 18), (ones, 1, _HARD)):
        refused = {
            answer.pod["metadata"]["name"]: _drop_consumers(answer.message) for answer in answers if answer.message
        }
        assert refused == {name: _refusal(name, asks, reserved) for name in refused}
