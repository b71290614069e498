"""What the overlay `ha` is for: a replica is deleted or killed while clients create pods, and somebody looks at all."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

import pytest

from e2e.installation.desk import Desk
from e2e.installation.going import Heard, delete, kill, until_whole, while_the_leader_goes
from e2e.installation.pages import commands
from e2e.installation.tried import cap, fill, pods, refuses, until_it_refuses
from e2e.installation.vacated import Vacant, vacated
from e2e.installation.ways import Kustomized
from e2e.load import CLIENTS, STORED, Answer, Clients
from e2e.namespaces import new_namespace
from e2e.ports import Site
from e2e.rolling import failed

_OWN = "--namespace=tallygate-system"


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


def _lost(site: Site, ha: Ha, heard: Heard) -> list[Answer]:
    """Who was not served: told of a fault of the cluster, and served when he asks again; afterwards all are."""
    lost = failed(heard.meanwhile)
    assert failed(heard.afterwards) == []
    assert {each.status for each in lost} <= {HTTPStatus.INTERNAL_SERVER_ERROR}
    with Clients(site.cluster, ha.namespace) as clients:
        assert {clients.create_one(each.pod).status for each in lost} <= {STORED}
    return lost


def test_a_replica_that_is_deleted_leaves_another_that_refuses(site: Site, ha: Ha) -> None:
    until_whole(site.cluster)
    ha.desk.type(f"kubectl {_OWN} delete pod {pods(site.cluster)[0]} --wait=false")
    assert all(refuses(site.cluster) for _ in range(20))


def test_while_the_leader_is_deleted_no_create_fails(site: Site, ha: Ha) -> None:
    assert _lost(site, ha, while_the_leader_goes(site, ha.namespace, delete(site.cluster))) == []


def test_a_leader_that_is_deleted_by_force_takes_along_no_more_than_what_it_was_just_asked(site: Site, ha: Ha) -> None:
    """It still hears of its end, and has a second or two for what it was asked."""
    forced = delete(site.cluster, "--force", "--grace-period=0")
    assert len(_lost(site, ha, while_the_leader_goes(site, ha.namespace, forced))) <= CLIENTS


def test_a_leader_that_is_killed_loses_who_is_sent_to_it_until_the_kubelet_has_seen_it(site: Site, ha: Ha) -> None:
    """As by the kernel, for want of memory. Until then the Service leads there; the other serves on."""
    _lost(site, ha, while_the_leader_goes(site, ha.namespace, kill(site.cluster)))


def test_the_runbook_shows_the_readiness_of_every_replica(site: Site, ha: Ha) -> None:
    until_whole(site.cluster)
    (command,) = (each for each in commands("operate.md", "By what is seen")[0] if "readyz" in each)
    said_of = dict(re.findall(r"^pod/(\S+)\n(\{.*\})$", ha.desk.type(command), re.MULTILINE))
    assert sorted(said_of) == pods(site.cluster)
    checks = [json.loads(text)["checks"] for text in said_of.values()]
    assert [each["leader-election"]["leader"] for each in checks].count(True) == 1
