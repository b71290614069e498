"""What the overlay `ha` is for: a replica is deleted or killed while clients create pods, and somebody looks at all."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from uuid import uuid4

import pytest

from e2e.installation.desk import Desk
from e2e.installation.pages import commands
from e2e.installation.tried import WITHIN, cap, fill, logged, pods, refuses, until_it_refuses
from e2e.installation.vacated import Vacant, vacated
from e2e.installation.ways import Kustomized
from e2e.load import CLIENTS, STORED, Answer, Clients, until_more
from e2e.namespaces import new_namespace
from e2e.pods import Pod, pod
from e2e.ports import Cluster, Site
from e2e.said import said
from e2e.waiting import until

_OWN = "--namespace=tallygate-system"
_MEANWHILE = 100  # pods that are created before the next step
_FORCED = ("--force", "--grace-period=0")


@dataclass(frozen=True, slots=True)
class Ha:
    """The gate by the overlay `ha`, and a namespace whose pods its cap counts."""

    desk: Desk
    namespace: str


@pytest.fixture(scope="module")
def vacant(site: Site) -> Iterator[Vacant]:
    """The cluster without the site's own gate."""
    with vacated(site) as found:
        yield found


@pytest.fixture(scope="module")
def ha(site: Site, vacant: Vacant, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ha]:
    """Installed as the page says, with an open ledger."""
    desk, way = Desk(site.cluster, tmp_path_factory.mktemp("ha")), Kustomized("ha")
    with new_namespace(site.cluster) as namespace:
        way.install(desk, vacant.image, cap(namespace))
        until_it_refuses(site.cluster)
        fill(site, namespace, "first")
        yield Ha(desk, namespace)
        way.uninstall(desk)


def _keeper(cluster: Cluster) -> str:
    """The pod that keeps the ledgers, as its Lease says: its name, and what tells one process from another."""
    read = json.loads(said(cluster, "get", "lease", "tallygate-keeper", _OWN, "--output=json"))
    name: str = (read["spec"].get("holderIdentity") or "").partition("_")[0]
    return name


def _until_whole(cluster: Cluster) -> None:
    """Wait until two replicas are ready, and one of them keeps the ledgers."""
    said(cluster, "rollout", "status", "deployment/tallygate", _OWN, "--timeout=300s")
    until("one of them keeps", lambda: _keeper(cluster) in pods(cluster), WITHIN, partial(logged, cluster))


def _pod(site: Site, _: int) -> Pod:
    return pod(site, f"p-{uuid4().hex}", "0")


def _while_the_keeper_goes(site: Site, namespace: str, *how: str) -> list[Answer]:
    """What clients hear who were not served while it is deleted and another takes its place."""
    cluster = site.cluster
    _until_whole(cluster)
    keeper = _keeper(cluster)
    with Clients(cluster, namespace) as clients, clients.creating(partial(_pod, site)) as answers:
        until_more(answers, _MEANWHILE)
        said(cluster, "delete", "pod", keeper, _OWN, "--wait=false", *how)
        until_more(answers, _MEANWHILE)
        _until_whole(cluster)
        until_more(answers, _MEANWHILE)
    return [answer for answer in answers if answer.status != STORED]


def test_a_replica_that_is_deleted_leaves_another_that_refuses(site: Site, ha: Ha) -> None:
    _until_whole(site.cluster)
    ha.desk.type(f"kubectl {_OWN} delete pod {pods(site.cluster)[0]} --wait=false")
    assert all(refuses(site.cluster) for _ in range(20))


def test_while_the_keeper_is_deleted_no_create_fails(site: Site, ha: Ha) -> None:
    assert _while_the_keeper_goes(site, ha.namespace) == []


def test_a_keeper_that_is_deleted_by_force_takes_along_no_more_than_what_it_was_just_asked(site: Site, ha: Ha) -> None:
    lost = _while_the_keeper_goes(site, ha.namespace, *_FORCED)
    assert len(lost) <= CLIENTS
    assert {each.status for each in lost} <= {HTTPStatus.INTERNAL_SERVER_ERROR}
    with Clients(site.cluster, ha.namespace) as clients:
        assert {clients.create_one(each.pod).status for each in lost} <= {STORED}


def test_the_runbook_shows_the_readiness_of_every_replica(site: Site, ha: Ha) -> None:
    _until_whole(site.cluster)
    (command,) = (each for each in commands("operate.md", "By what is seen")[0] if "readyz" in each)
    said_of = dict(re.findall(r"^pod/(\S+)\n(\{.*\})$", ha.desk.type(command), re.MULTILINE))
    assert sorted(said_of) == pods(site.cluster)
    checks = [json.loads(text)["checks"] for text in said_of.values()]
    assert [each["leases"]["keeps"] for each in checks].count(True) == 1
