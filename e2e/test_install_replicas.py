"""What the overlay `ha` is for: a replica is deleted or killed while clients create pods, and somebody looks at all."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from uuid import uuid4

import pytest

from e2e.installation.desk import Desk
from e2e.installation.pages import commands
from e2e.installation.tried import WITHIN, cap, fill, logged, pods, readiness, refuses, until_it_refuses
from e2e.installation.vacated import Vacant, vacated
from e2e.installation.ways import Kustomized
from e2e.kind.cluster import KindCluster
from e2e.load import CLIENTS, STORED, Answer, Clients, until_more
from e2e.namespaces import new_namespace
from e2e.pods import Pod, pod
from e2e.ports import Cluster, NotHereError, Site
from e2e.said import said
from e2e.waiting import until

_OWN = "--namespace=tallygate-system"
_MEANWHILE = 100  # pods that are created before the next step


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


def _keepers(cluster: Cluster) -> list[bool]:
    """Of each replica that is ready, whether it keeps the ledgers, as it says itself: a Lease outlives a process."""
    checks = (readiness(cluster, name) for name in pods(cluster))
    return [each["leases"]["keeps"] for each in checks if each]


def _keeper(cluster: Cluster) -> str:
    """The pod that keeps the ledgers."""
    (name,) = (name for name in pods(cluster) if readiness(cluster, name)["leases"]["keeps"])
    return name


def _until_whole(cluster: Cluster) -> None:
    """Wait until two replicas are ready, and one of them keeps the ledgers."""
    whole = [False, True]
    until("one of two keeps", lambda: sorted(_keepers(cluster)) == whole, WITHIN, partial(logged, cluster))


def _pod(site: Site, _: int) -> Pod:
    return pod(site, f"p-{uuid4().hex}", "0")


def _while_the_keeper_goes(site: Site, namespace: str, go: Callable[[str], object]) -> list[Answer]:
    """What clients hear who are not served while `go` ends it, by its name, and until two are ready again."""
    cluster = site.cluster
    _until_whole(cluster)
    keeper = _keeper(cluster)
    with Clients(cluster, namespace) as clients, clients.creating(partial(_pod, site)) as answers:
        until_more(answers, _MEANWHILE)
        go(keeper)
        until_more(answers, _MEANWHILE)
        _until_whole(cluster)
        begun = len(answers)
        until_more(answers, _MEANWHILE)
    lost = [answer for answer in answers if answer.status != STORED]
    assert [answer for answer in answers[begun:] if answer.status != STORED] == []
    assert {each.status for each in lost} <= {HTTPStatus.INTERNAL_SERVER_ERROR}
    with Clients(cluster, namespace) as clients:
        assert {clients.create_one(each.pod).status for each in lost} <= {STORED}
    return lost


def _deleted(cluster: Cluster, *how: str) -> Callable[[str], object]:
    return lambda name: said(cluster, "delete", "pod", name, _OWN, "--wait=false", *how)


def _read(cluster: Cluster, name: str) -> Pod:
    found: Pod = json.loads(said(cluster, "get", "pod", name, _OWN, "--output=json"))
    return found


def _restarts(found: Pod) -> int:
    number: int = found["status"]["containerStatuses"][0]["restartCount"]
    return number


def _kill(cluster: KindCluster, name: str) -> None:
    """Kill the process in a pod; return once another runs there and is ready, as the pod's status says."""
    before = _read(cluster, name)
    cluster.node(before["spec"]["nodeName"]).kill(before["metadata"]["uid"], "tallygate")

    def is_restarted() -> bool:
        return _restarts(_read(cluster, name)) > _restarts(before)

    until("its container is started again", is_restarted, WITHIN, partial(logged, cluster))
    said(cluster, "wait", "--for=condition=Ready", f"pod/{name}", _OWN, "--timeout=240s")


def test_a_replica_that_is_deleted_leaves_another_that_refuses(site: Site, ha: Ha) -> None:
    _until_whole(site.cluster)
    ha.desk.type(f"kubectl {_OWN} delete pod {pods(site.cluster)[0]} --wait=false")
    assert all(refuses(site.cluster) for _ in range(20))


def test_while_the_keeper_is_deleted_no_create_fails(site: Site, ha: Ha) -> None:
    assert _while_the_keeper_goes(site, ha.namespace, _deleted(site.cluster)) == []


def test_a_keeper_that_is_deleted_by_force_takes_along_no_more_than_what_it_was_just_asked(site: Site, ha: Ha) -> None:
    """It still hears of its end, and has a second or two for what it was asked."""
    forced = _deleted(site.cluster, "--force", "--grace-period=0")
    assert len(_while_the_keeper_goes(site, ha.namespace, forced)) <= CLIENTS


def test_a_keeper_that_is_killed_loses_who_is_sent_to_it_until_the_kubelet_has_seen_it(site: Site, ha: Ha) -> None:
    """As by the kernel, for want of memory. Until then the Service leads there; the other serves on."""
    cluster = site.cluster
    if not isinstance(cluster, KindCluster):
        raise NotHereError("the gate's processes run on a node out of the suite's reach")
    _while_the_keeper_goes(site, ha.namespace, partial(_kill, cluster))


def test_the_runbook_shows_the_readiness_of_every_replica(site: Site, ha: Ha) -> None:
    _until_whole(site.cluster)
    (command,) = (each for each in commands("operate.md", "By what is seen")[0] if "readyz" in each)
    said_of = dict(re.findall(r"^pod/(\S+)\n(\{.*\})$", ha.desk.type(command), re.MULTILINE))
    assert sorted(said_of) == pods(site.cluster)
    checks = [json.loads(text)["checks"] for text in said_of.values()]
    assert [each["leases"]["keeps"] for each in checks].count(True) == 1
