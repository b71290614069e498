"""The ways out that docs/operate.md tells of: typed as they stand there, while no gate answers."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from e2e.ledgers import define_ledgers
from e2e.namespaces import gates_namespace
from e2e.pods import create
from e2e.ports import Cluster, Gate, Site
from e2e.registering import registered
from e2e.said import said
from e2e.waiting import until
from tests.state.attempts import Put, room
from tests.state.contract import soon
from webhook.state.batching import BatchedLedgers
from webhook.state.kubernetes import KubernetesLedgers
from webhook.state.kubernetes.naming import object_name
from webhook.state.ports import LedgerKey
from webhook.state.watch.connect import connect

_PAGE = Path(__file__).parents[1] / "docs" / "operate.md"
_WITHIN = 120.0  # seconds
_CALL = 'failed calling webhook "validate.tallygate.dev"'


@pytest.fixture
def away(site: Site, started: Gate) -> Iterator[Gate]:
    """The gate, registered and ended: it answers nobody."""
    with registered(site.cluster, started):
        started.stop()
        yield started
        started.start()


def _typed(cluster: Cluster, section: str) -> str:
    """What the command of a section prints when somebody types it."""
    found = re.search(rf"<!-- {section}: begin -->\n```console\n\$ (.+)\n```", _PAGE.read_text())
    assert found, f"docs/operate.md has no section {section}"
    path = f"{cluster.kubectl_program.parent}:{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S603  the page's own command
        ["/bin/sh", "-c", found[1]],
        env={**os.environ, **cluster.environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("section", ["way out", "let through"])
def test_pods_are_created_again_after_what_the_runbook_says(section: str, site: Site, namespace: str) -> None:
    assert _CALL in create(site, namespace, "before").stderr
    _typed(site.cluster, section)
    until("pods are created", lambda: create(site, namespace, f"p-{uuid4().hex[:8]}").returncode == 0, _WITHIN)


def test_ledgers_let_go_of_their_namespace_by_what_the_runbook_says(site: Site) -> None:
    cluster = site.cluster
    define_ledgers(cluster)
    home, key = gates_namespace(cluster), LedgerKey(f"runbook-{uuid4().hex[:8]}", "team-a")
    store = KubernetesLedgers(connect(cluster.kubeconfig), home, lambda: datetime.now(UTC))
    BatchedLedgers(store, time.monotonic).transact(key, Put(lambda _: room(1)), soon())
    name, there = object_name(key), ("get", "capledgers", f"--namespace={home}", "--output=name")
    said(cluster, "delete", "capledger", name, f"--namespace={home}", "--wait=false")
    assert name in said(cluster, *there)
    _typed(cluster, "ledgers")
    until("it is gone", lambda: name not in said(cluster, *there), _WITHIN)
