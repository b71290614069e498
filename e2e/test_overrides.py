"""A raised limit on a real control plane: it ends by itself, without a change of a file, and its pods stay."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from e2e.extra_gates import run_ledger_gate
from e2e.gates.process import GateProcess
from e2e.ledgers import list_ledgers
from e2e.namespaces import new_namespace
from e2e.pods import DONGLE, list_stored, submit_decided
from e2e.ports import Site
from e2e.waiting import until

_CAP = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: raised}}
spec:
  namespaces: {{include: ["case-*"]}}
  hard: {{{DONGLE}: 2}}
"""
_LONG, _SHORT = timedelta(minutes=10), timedelta(seconds=6)
"""How long the raise lasts: until it was seen, then until its end."""
_WITHIN = 60.0  # seconds
_FORBIDDEN, _STORED = 403, 201


@pytest.fixture
def own_namespace(site: Site) -> Iterator[str]:
    """Return the gate's own namespace, which has its ledgers."""
    with new_namespace(site.cluster, "gate-") as own:
        yield own


@pytest.fixture
def ledger_gate(site: Site, tmp_path: Path, own_namespace: str) -> Iterator[GateProcess]:
    """Run a gate on this machine that watches the cluster with its ledgers there, registered."""
    with run_ledger_gate(site, tmp_path / "g", {"raised.yaml": _CAP}, own_namespace) as gate:
        yield gate


def _raise_until(gate: GateProcess, namespace: str, end: datetime) -> None:
    override = f"{{namespaces: [{namespace}], hard: {{{DONGLE}: 3}}, until: {end:%Y-%m-%dT%H:%M:%SZ}}}"
    gate.write_policies({"raised.yaml": f"{_CAP}  overrides: [{override}]\n"})


def _read_limit(site: Site, own_namespace: str, namespace: str) -> str:
    ledgers = list_ledgers(site.cluster, own_namespace)
    (found,) = [each for each in ledgers if each["spec"]["namespace"] == namespace]
    return str(found["status"]["hard"][DONGLE])


def test_a_raise_admits_one_more_pod_until_its_end_and_the_pod_stays(
    site: Site, namespace: str, own_namespace: str, ledger_gate: GateProcess
) -> None:
    assert [submit_decided(site, namespace, name).status for name in ("one", "two")] == [_STORED, _STORED]
    assert submit_decided(site, namespace, "three").status == _FORBIDDEN
    _raise_until(ledger_gate, namespace, datetime.now(UTC) + _LONG)
    until("the raise is active", lambda: submit_decided(site, namespace, "three").status == _STORED, _WITHIN)
    fourth = submit_decided(site, namespace, "four")
    assert fourth.status == _FORBIDDEN
    assert "hard 3 (until " in fourth.rejection
    assert ", then 2), free 0" in fourth.rejection
    _raise_until(ledger_gate, namespace, datetime.now(UTC) + _SHORT)
    until("the end", lambda: "hard 2 (was 3 until " in submit_decided(site, namespace, "five").rejection, _WITHIN)
    assert list_stored(site, namespace) == {"one", "two", "three"}
    until("the leader has written the limit", lambda: _read_limit(site, own_namespace, namespace) == "2", _WITHIN)
    assert list_stored(site, namespace) == {"one", "two", "three"}
