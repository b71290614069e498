"""A tenant creates a pod under a name that exists, again and again, under a shared cap: others are not affected."""

import json
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from e2e.extra_gates import require_gate_process, run_watching_gate
from e2e.ledgers import define_ledgers, delete_ledgers, list_ledgers
from e2e.load import STORED, Answer, Clients, until_more
from e2e.namespaces import new_namespace
from e2e.pods import Pod, pod, submit
from e2e.ports import Site
from e2e.waiting import until
from tallygate.webhook.state.kubernetes.cap_ledger import decode_ledger
from tallygate.webhook.state.ports import LedgerKey

_WITHIN = 240.0  # seconds
_SHARE = 750
"""The number of reservations of one namespace, a quarter of those of a ledger."""
_HARD = 40
_VICTIMS = 20
_CAP = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: repeated}}
spec:
  namespaces: {{include: ["sender-*", "victim-*"]}}
  shared: true
  hard: {{example.com/dongle: {_HARD}}}
"""


@pytest.fixture(autouse=True)
def _run_gate(site: Site, namespace: str, tmp_path: Path) -> Iterator[None]:
    """Run a gate with its ledgers in the cluster and the in-flight bound of production: reservations last for it."""
    require_gate_process(site)
    define_ledgers(site.cluster)
    arguments = ("--ledgers=kubernetes", f"--namespace={namespace}")
    with run_watching_gate(site, tmp_path / "gate", {"repeated.yaml": _CAP}, arguments=arguments):
        yield
    delete_ledgers(site.cluster, namespace)


def _count_reservations(site: Site, namespace: str) -> Counter[str]:
    """Return the number of reservations of each namespace in the shared ledger."""
    (found,) = list_ledgers(site.cluster, namespace)
    key = LedgerKey(found["spec"]["cap"], found["spec"].get("namespace", ""))
    return Counter(
        each.namespace for each in decode_ledger(json.dumps(found).encode(), key).ledger.reservations.values()
    )


def test_every_create_of_another_namespace_is_admitted_beside_a_sender_of_names_that_exist(
    site: Site, namespace: str
) -> None:
    with new_namespace(site.cluster, "sender-") as sender, new_namespace(site.cluster, "victim-") as other:

        def is_enforced() -> bool:
            return "cap repeated" in submit(site, other, "too-large", str(_HARD + 1)).rejection

        def is_deferred(answers: list[Answer]) -> bool:
            return any("too many pods of this namespace" in each.message for each in answers[-100:])

        def make(_number: int) -> Pod:
            return pod(site, "taken")

        until("the cap is enforced", is_enforced, _WITHIN)
        until("the name is taken", lambda: submit(site, sender, "taken").is_done, _WITHIN)
        with Clients(site.cluster, sender) as senders, senders.creating(make, pause=0.0) as answers:
            until("the sender has its share of the reservations", lambda: is_deferred(answers), _WITHIN)
            with Clients(site.cluster, other) as clients:
                victims = [clients.create_one(pod(site, f"victim-{number}")) for number in range(_VICTIMS)]
            counts = _count_reservations(site, namespace)
            until_more(answers, 1)
    assert [each.message for each in victims if each.status != STORED] == []
    assert counts[sender] <= _SHARE
    statuses = Counter(each.status for each in answers)
    assert statuses.keys() == {HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}
    assert statuses[HTTPStatus.CONFLICT] >= _SHARE
