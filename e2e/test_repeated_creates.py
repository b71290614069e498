"""A tenant creates a pod under a name that exists, again and again: others are not affected, and no cap is exceeded."""

import json
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from e2e.api import api
from e2e.extra_gates import require_gate_process, run_watching_gate
from e2e.ledgers import define_ledgers, delete_ledgers, list_ledgers
from e2e.load import STORED, Answer, Clients, until_more
from e2e.namespaces import new_namespace
from e2e.pods import DONGLE, Pod, list_stored, pod, submit
from e2e.ports import Site
from e2e.waiting import until
from tallygate.state.kubernetes.cap_ledger import decode_ledger
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey

_WITHIN = 240.0  # seconds
_SHARE = 750
"""The number of reservations of one namespace, a quarter of those of a ledger."""
_HARD = 40
_VICTIMS = 20
_NAMED_HARD = 4
_ROUNDS = 12
"""The number of times that a name is deleted and created again with other amounts."""
_CAP = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: repeated}}
spec:
  namespaces: {{include: ["sender-*", "victim-*"]}}
  shared: true
  hard: {{example.com/dongle: {_HARD}}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: named}}
spec:
  namespaces: {{include: ["named-*"]}}
  hard: {{example.com/dongle: {_NAMED_HARD}}}
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


def _decode_named(site: Site, namespace: str, tenant: str) -> Ledger:
    """Return the ledger of a namespace under the cap of each namespace."""
    found = next(each for each in list_ledgers(site.cluster, namespace) if each["spec"].get("namespace") == tenant)
    return decode_ledger(json.dumps(found).encode(), LedgerKey(found["spec"]["cap"], tenant)).ledger


def _until_named_is_enforced(site: Site, tenant: str) -> None:
    def is_enforced() -> bool:
        return "cap named" in submit(site, tenant, "too-large", str(_NAMED_HARD + 1)).rejection

    until("the cap is enforced", is_enforced, _WITHIN)


def test_creates_of_a_counted_name_end_in_409_and_leave_the_rest_of_the_cap_to_others(
    site: Site, namespace: str
) -> None:
    """Admit a pod of 2 under a cap of 4, at once, beside a counted one of 2 that was created twice more."""
    with new_namespace(site.cluster, "named-") as tenant:
        _until_named_is_enforced(site, tenant)
        assert submit(site, tenant, "p", "2").is_done
        until(
            "the pod is counted",
            lambda: _decode_named(site, namespace, tenant).used.get(DONGLE) == 2,
            _WITHIN,
        )
        with Clients(site.cluster, tenant) as clients:
            again = [clients.create_one(pod(site, "p", "2")) for _ in range(2)]
            other = clients.create_one(pod(site, "q", "2"))
            full = clients.create_one(pod(site, "p", "2"))
            larger = clients.create_one(pod(site, "p", "3"))
        assert [each.status for each in (*again, full)] == [HTTPStatus.CONFLICT] * 3
        assert (other.status, other.message) == (STORED, "")
        assert larger.status == HTTPStatus.FORBIDDEN
        assert "A pod of this name exists and is counted until it is deleted" in larger.message
        assert _decode_named(site, namespace, tenant).compute_charged().get(DONGLE) == _NAMED_HARD


def test_no_cap_is_exceeded_while_a_name_is_deleted_and_created_again_with_other_amounts(site: Site) -> None:
    """Let eight clients create one name with 1 to 4, and other pods of 1, while the pod of that name is deleted."""
    with new_namespace(site.cluster, "named-") as tenant:
        path = f"/api/v1/namespaces/{tenant}/pods"
        _until_named_is_enforced(site, tenant)

        def sum_dongles() -> int:
            stored = api(site.cluster.kubeconfig).items(path)
            return sum(int(each["spec"]["containers"][0]["resources"]["limits"][DONGLE]) for each in stored)

        def make(number: int) -> Pod:
            if number % 4 == 3:
                return pod(site, f"other-{number}")
            return pod(site, "p", str(1 + number * 7 // 4 % _NAMED_HARD))

        sums = [0]
        with Clients(site.cluster, tenant) as clients, clients.creating(make, pause=0.0) as answers:
            for number in range(_ROUNDS):
                until_more(answers, 12)
                sums.append(sum_dongles())
                for name in sorted(list_stored(site, tenant))[: 3 if number % 3 == 2 else 0] or ["p"]:
                    api(site.cluster.kubeconfig).delete(f"{path}/{name}?gracePeriodSeconds=0")
                sums.append(sum_dongles())
        statuses = Counter(each.status for each in answers)
    assert max(sums) <= _NAMED_HARD
    assert max(sums) > _NAMED_HARD // 2
    assert statuses[STORED] >= _ROUNDS // 2
    assert statuses[HTTPStatus.CONFLICT]
    assert statuses.keys() <= {STORED, HTTPStatus.CONFLICT, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}
