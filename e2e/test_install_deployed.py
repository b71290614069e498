"""Overlays and the chart as they are meant: a Deployment, called through its Service, by what the pages say to type.

Installed by docs/install.md, upgraded and taken away by docs/upgrade.md. The overlay `cert-manager` is in
e2e/test_install_cert_manager.py, since it takes cert-manager, and what `ha` is for in e2e/test_install_replicas.py.
"""

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from e2e.helm.build import helm
from e2e.installation.desk import Desk
from e2e.installation.remains import remains
from e2e.installation.tried import (
    cap,
    created_meanwhile,
    fill,
    is_over,
    logged,
    over,
    pods,
    refuses,
    until_doctor_warns,
    until_it_refuses,
)
from e2e.installation.uninstalling import uninstall
from e2e.installation.vacated import Vacant, vacated
from e2e.installation.ways import Charted, Kustomized, Way
from e2e.load import STORED
from e2e.ports import Site
from e2e.said import said

_OWN = "tallygate-system"
_WAYS: tuple[Way, ...] = (
    Kustomized("standalone"),
    Kustomized("cluster"),
    Kustomized("ha"),
    Charted("standalone"),
    Charted("ha"),
)


@pytest.fixture(scope="module")
def vacant(site: Site) -> Iterator[Vacant]:
    """The cluster without the site's own gate."""
    with vacated(site) as found:
        yield found


@pytest.fixture
def empty(vacant: Vacant) -> Iterator[Vacant]:
    """The same; what a case has left when it failed is taken away."""
    yield vacant
    uninstall(vacant.cluster)


@pytest.mark.parametrize("way", _WAYS, ids=str)
def test_installed_as_the_pages_say_it_keeps_a_cap_is_upgraded_and_taken_away(
    site: Site, namespace: str, empty: Vacant, way: Way, tmp_path: Path
) -> None:
    cluster, desk = site.cluster, Desk(site.cluster, tmp_path, helm if isinstance(way, Charted) else None)
    way.install(desk, empty.image, cap(namespace))
    until_it_refuses(cluster)
    before = pods(cluster)
    assert len(before) == way.size.replicas
    fill(site, namespace, "first")
    assert is_over(over(site, namespace))
    if way.size.keeps:
        assert "tried" in said(cluster, "get", "capledgers", f"--namespace={_OWN}")
        assert "tried" in desk.type(f"tallygate usage --policies {way.policies}")
    until_doctor_warns(desk, way.size.warned)

    answers = created_meanwhile(site, namespace, lambda: way.upgrade(desk))
    failed = [answer for answer in answers if answer.status != STORED]
    if way.size.keeps:
        assert failed == []
        assert is_over(over(site, namespace))  # what was counted before is not forgotten
    else:
        assert {each.status for each in failed} <= {HTTPStatus.INTERNAL_SERVER_ERROR}
        until_it_refuses(cluster)
        fill(site, namespace, "second")  # what was promised in memory is, as the page says
        assert is_over(over(site, namespace))
    assert refuses(cluster)
    assert set(pods(cluster)).isdisjoint(before)
    heard = logged(cluster).lower()
    assert [word for word in ("forbidden", "traceback") if word in heard] == []

    way.uninstall(desk)
    assert sorted(set(remains(cluster)) - empty.before) == []
    assert not refuses(cluster)
