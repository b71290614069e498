"""Policies edited while the gate serves: what is active, what is rejected, and what a broken edit leaves."""

import itertools
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from e2e.gates.process import GateProcess
from e2e.load import STORED, Clients
from e2e.pods import pod, submit
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Gate, Site
from e2e.waiting import until

_NAME = "dongles.yaml"
_ONE = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: few-dongles}
spec:
  resources: [example.com/dongle]
  checks:
    perContainer: {max: 1}
"""
_TWO = _ONE.replace("max: 1", "max: 2")
_MISTAKEN = _ONE.replace("max: 1", "max: one")
_MISTAKE = (
    f'{_NAME}:7:25: error: spec.checks.perContainer.max: "one" is not a quantity: a number with at most one suffix is '
    "expected; write one as in 8, 1500m, 64Gi or 1e3 (TG311)"
)
_WITHIN = 120.0  # seconds until readiness shows an edit
_EDITS = 20


@pytest.fixture(autouse=True, scope="module")
def _restore_shipped_policies(gate: Gate) -> Iterator[None]:
    yield
    gate.write_policies(SHIPPED_FILES)


@pytest.fixture
def folder(site: Site, gate: Gate) -> Path:
    """Return the folder of the gate's policies, if it is on this machine, with at most one dongle active."""
    if not isinstance(site.gate, GateProcess):
        pytest.skip("the policies of this gate are not files that a case could edit")
    gate.write_policies({_NAME: _ONE})
    return site.gate.policies


def _refusal(limit: int) -> str:
    path = "spec.containers[0].resources.requests[example.com/dongle]"
    return (
        f"{path}: {limit + 1} is more than one container may have of example.com/dongle: "
        f"request {limit} or less (TG105, rule few-dongles)"
    )


def _allows_up_to(site: Site, namespace: str, limit: int) -> None:
    """Check that containers may have this number of dongles, and not one more."""
    name = f"pod-{uuid4().hex[:8]}"
    assert submit(site, namespace, f"{name}-less", str(limit)).messages == ""
    assert submit(site, namespace, f"{name}-more", str(limit + 1)).rejection.endswith(_refusal(limit))


def _until_broken(gate: Gate, folder: Path, expected: str) -> None:
    """Wait until readiness reports exactly one finding that begins so; its path is relative to the folder.

    An edit in several steps shows other findings meanwhile.
    """

    def list_findings() -> list[str]:
        readiness = gate.readiness()
        assert readiness["status"] == "ready"
        findings = readiness["checks"]["policies"].get("broken", ())
        return [each.removeprefix(f"{folder}/") for each in findings]

    def is_reported() -> bool:
        findings = list_findings()
        return len(findings) == 1 and findings[0].startswith(expected)

    until(f"readiness reports {expected}", is_reported, _WITHIN, lambda: f"{list_findings()}")


def _until_mended(gate: Gate) -> None:
    until("policies are active", lambda: "broken" not in gate.readiness()["checks"]["policies"], _WITHIN)


def test_the_next_request_sees_a_stricter_set(site: Site, gate: Gate, namespace: str) -> None:
    gate.write_policies({_NAME: _TWO})
    _allows_up_to(site, namespace, 2)
    gate.write_policies({_NAME: _ONE})
    _allows_up_to(site, namespace, 1)


def test_the_next_request_sees_a_laxer_set(site: Site, gate: Gate, namespace: str) -> None:
    gate.write_policies({_NAME: _ONE})
    _allows_up_to(site, namespace, 1)
    gate.write_policies({_NAME: _TWO})
    _allows_up_to(site, namespace, 2)


def test_every_edit_on_disk_is_active_soon(site: Site, folder: Path, namespace: str) -> None:
    """Write in place, as by `echo >`; readiness is not read."""
    with Clients(site.cluster, namespace) as clients:
        for edit in range(_EDITS):
            may_have_two = edit % 2 == 0
            asks = (pod(site, f"pod-{edit}-{number}", "2") for number in itertools.count())
            (folder / _NAME).write_text(_TWO if may_have_two else _ONE)
            start = time.monotonic()
            while (clients.create_one(next(asks)).status == STORED) is not may_have_two:
                assert time.monotonic() - start < _WITHIN


def test_a_broken_edit_leaves_the_last_good_set_active_and_readiness_names_the_place(
    site: Site, gate: Gate, namespace: str
) -> None:
    gate.write_policies({_NAME: _ONE})
    digest = gate.readiness()["checks"]["policies"]["digest"]
    gate.write_policies({_NAME: _MISTAKEN})
    readiness = gate.readiness()
    assert (readiness["status"], readiness["checks"]["policies"]["digest"]) == ("ready", digest)
    (finding,) = readiness["checks"]["policies"]["broken"]
    assert finding.endswith(f"/{_MISTAKE}")
    _allows_up_to(site, namespace, 1)
    gate.write_policies({_NAME: _TWO})
    assert "broken" not in gate.readiness()["checks"]["policies"]
    _allows_up_to(site, namespace, 2)


def test_a_broken_file_keeps_the_good_ones_beside_it_out(site: Site, gate: Gate, namespace: str) -> None:
    gate.write_policies({_NAME: _ONE})
    gate.write_policies({"another.yaml": "x: [", _NAME: _TWO})  # in this order: two dongles are never allowed alone
    _allows_up_to(site, namespace, 1)
    gate.write_policies({_NAME: _TWO})
    _allows_up_to(site, namespace, 2)


def test_an_emptied_file_is_broken_and_lifts_no_rule(site: Site, gate: Gate, folder: Path, namespace: str) -> None:
    (folder / _NAME).write_text("")
    _until_broken(gate, folder, f"{_NAME}:1:1: error: it has no policy, and neither has any other file (TG301)")
    _allows_up_to(site, namespace, 1)
    (folder / _NAME).write_text(_TWO)
    _until_mended(gate)
    _allows_up_to(site, namespace, 2)


def test_a_half_written_file_is_broken_until_it_is_whole(site: Site, gate: Gate, folder: Path, namespace: str) -> None:
    half = len(_TWO) - len("2}\n")
    with (folder / _NAME).open("w") as file:
        file.write(_TWO[:half])
        file.flush()
        _until_broken(
            gate,
            folder,
            f"{_NAME}:7:25: error: not YAML: while parsing a flow node that began at line 7: "
            "expected the node content, but found '<stream end>' (TG303)",
        )
        _allows_up_to(site, namespace, 1)
        file.write(_TWO[half:])
    _until_mended(gate)
    _allows_up_to(site, namespace, 2)


def test_a_deleted_folder_leaves_the_last_good_set_active(site: Site, gate: Gate, folder: Path, namespace: str) -> None:
    shutil.rmtree(folder)
    _until_broken(gate, folder, f"{folder}:1:1: error: cannot be read: No such file or directory;")
    _allows_up_to(site, namespace, 1)
    folder.mkdir()
    (folder / _NAME).write_text(_TWO)
    _until_mended(gate)
    _allows_up_to(site, namespace, 2)
