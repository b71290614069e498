"""Devices by attributes and capacities in commands that read a cluster: live, watched, and without the permission.

`cases` has what is counted in a snapshot.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.admission.cap_index import CapIndex
from tallygate.answers.usage_report import LedgerChoice, compute_usage
from tallygate.cli.app import root
from tallygate.cli.sources.cluster_source import StateNeeds, read_api_server
from tallygate.cli.sources.state_watch import watch_state
from tallygate.cli.usage.verify import Drift, find_drift, find_incomparable
from tallygate.cluster.cluster_state import ClusterState
from tallygate.kube.config import load_kubeconfig
from tallygate.state.kubernetes.cap_ledger import encode_ledger
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ledger.recount import recount
from tallygate.state.ports import LedgerKey
from tests.accounting.claims import claim_object, exactly, result
from tests.admission.case import parse_policies
from tests.cli.usage.clusters import Object, load_snapshot, namespace
from tests.cli.usage.test_usage_of_devices import CLAIMS, CLASS, CLASSES, read_used, run
from tests.kube.kubeconfig import write_kubeconfig
from tests.server.small_cluster import SmallCluster, run_small_cluster
from tests.state.informers.slices import DRIVER, POOL, create_device, create_slice

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
GIB = 1 << 30
CAP = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: models}}
spec:
  namespaces: {{include: ["team-*"]}}
  hard: {{h100: 8, gpu-memory: 640Gi}}
  devices:
    h100: {{selector: 'device.attributes["{DRIVER}"].model == "h100"'}}
    gpu-memory: {{sum: memory}}
"""
POLICIES = parse_policies(CAP)
FORBIDDEN = "resourceslices may not be listed: the API server says 403"


def create_claim(name: str, *devices: str, revision: int = 60) -> Object:
    """Return a claim with these devices."""
    results = [result(driver=DRIVER, pool=POOL, device=each) for each in devices]
    identity = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": str(revision)}
    stored = claim_object(exactly(1), results=results or None, **identity)
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **stored}


def create_stored_slice(revision: int, *devices: Object) -> Object:
    """Return a slice as an item of a list of several kinds."""
    return {"apiVersion": "resource.k8s.io/v1", **create_slice(revision, *devices)}


@pytest.fixture
def cluster() -> Iterator[SmallCluster]:
    """Yield a cluster with two devices of each model, three of them allocated."""
    secret: Object = {
        "basic": {"attributes": {"token": {"string": "hunter2"}}},
        "bindingFailureConditions": ["hunter2"],
    }
    devices = [create_device("h-0", **secret), create_device("h-1"), create_device("a-0", "a100", "40Gi")]
    with run_small_cluster(namespaces=[namespace("team-a")]) as made:
        made.objects |= {
            CLASSES: [CLASS],
            CLAIMS: [create_claim("two", "h-0", "a-0"), create_claim("one", "h-1"), create_claim("waiting")],
            SLICES: [create_slice(10, *devices)],
        }
        yield made


def test_a_snapshot_gives_the_amounts_of_the_cluster(cluster: SmallCluster, tmp_path: Path) -> None:
    """Leave out the fields of a device by which no cap counts, and no scheduler allocates."""
    (tmp_path / "models.yaml").write_text(CAP)
    usage = ("usage", "--policies", str(tmp_path / "models.yaml"), "-o", "json")
    now = tmp_path / "now.json"
    live = run(cluster, tmp_path, *usage)
    assert read_used(live) == [200 * GIB, 2]
    assert run(cluster, tmp_path, "snapshot", str(now)).exit_code == 0
    stored = CliRunner().invoke(root, [*usage, "--snapshot", str(now)])
    assert json.loads(stored.stdout)["items"] == json.loads(live.stdout)["items"]
    assert "hunter2" not in now.read_text()


def test_slices_are_listed_after_claims_and_only_for_caps_that_need_them(cluster: SmallCluster, tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(CAP)
    run(cluster, tmp_path, "usage", "--policies", str(tmp_path / "models.yaml"))
    assert cluster.paths[-2:] == [CLAIMS, SLICES]
    cluster.paths.clear()
    for command in ("usage", "audit"):
        assert run(cluster, tmp_path, command, "--policies", str(tmp_path / "cap.yaml")).exit_code == 0
    assert SLICES not in cluster.paths


@pytest.mark.parametrize("arguments", [("usage",), ("usage", "--explain", "models"), ("audit",)], ids=" ".join)
def test_forbidden_slices_are_one_clear_note(cluster: SmallCluster, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Never count them as zero."""
    (tmp_path / "models.yaml").write_text(CAP)
    cluster.error_statuses[SLICES] = 403
    shown = run(cluster, tmp_path, *arguments, "--policies", str(tmp_path / "models.yaml"))
    assert shown.exit_code == 0, shown.output
    notes = [line for line in shown.stderr.splitlines() if FORBIDDEN in line]
    assert len(notes) == 1
    assert "allocated devices are not counted under gpu-memory, h100" in notes[0]


def test_a_snapshot_without_the_permission_for_slices_says_that_it_has_none(
    cluster: SmallCluster, tmp_path: Path
) -> None:
    (tmp_path / "models.yaml").write_text(CAP)
    cluster.error_statuses[SLICES] = 403
    written = run(cluster, tmp_path, "snapshot", str(tmp_path / "now.json"))
    assert "tallygate: resourceslices are left out: the API server says 403" in written.stderr
    options = ("--policies", str(tmp_path / "models.yaml"), "--snapshot", str(tmp_path / "now.json"))
    shown = CliRunner().invoke(root, ["usage", *options, "-o", "json"])
    report = json.loads(shown.stdout)
    assert [line["used"] for line in report["items"]] == [None, None]
    assert "the snapshot has no resourceslices" in report["notes"][-1]


def test_a_watched_cluster_has_the_same_amounts(cluster: SmallCluster, tmp_path: Path) -> None:
    assert list_watched(cluster, tmp_path) == [("gpu-memory", 200 * GIB), ("h100", 2)]


@pytest.mark.parametrize("path", [SLICES, CLAIMS])
def test_a_watched_cluster_without_a_permission_has_no_amounts(
    cluster: SmallCluster, tmp_path: Path, path: str
) -> None:
    cluster.error_statuses[path] = 403
    assert list_watched(cluster, tmp_path) == [("gpu-memory", None), ("h100", None)]


def list_watched(cluster: SmallCluster, folder: Path) -> list[tuple[str, int | None]]:
    """Return the first used amounts of a watched cluster."""
    config = load_kubeconfig(write_kubeconfig(folder, cluster.server))
    with watch_state(config, read_api_server(config, StateNeeds(ledgers=True, slices=True))) as watched:
        current, _ = next(watched.iterate_changes())
        lines = compute_usage(current, current.index_caps(POLICIES, None), LedgerChoice()).lines
    return [(line.name, line.used) for line in lines]


COUNTED = (
    create_claim("two", "h-0", "a-0"),
    create_claim("one", "h-1"),
    create_claim("waiting"),
    create_stored_slice(10, create_device("h-0"), create_device("h-1"), create_device("a-0", "a100", "40Gi")),
)
ALLOCATED_LATER = create_claim("waiting", "h-2", revision=150)
ALL_H100 = create_stored_slice(10, create_device("h-0"), create_device("h-1"), create_device("a-0"))
WITHOUT_H1 = create_stored_slice(10, create_device("h-0"), create_device("a-0", "a100", "40Gi"))
KEPT = MappingProxyType({"uid-one": Amounts({"h100": 1, "gpu-memory": 80 * GIB})})


def create_ledger(cluster: ClusterState) -> Ledger:
    """Return the ledger of team-a as a gate counts it."""
    (cap,) = cluster.index_caps(POLICIES, None).list_caps()
    empty = Ledger(cap.hard, pods_revision=1)
    snapshot = cluster.usage_lister.take_snapshot(cap, LedgerKey(cap.key, "team-a"), empty)
    assert snapshot is not None
    counted = recount(empty, snapshot)
    assert isinstance(counted, Ledger)
    return counted


def verify(folder: Path, ledger: Ledger, *items: Object) -> tuple[list[Drift], dict[str, str]]:
    """Return the drifts of a ledger beside these objects, and what cannot be compared."""
    (cap,) = CapIndex(POLICIES, None).list_caps()
    now = datetime(2026, 11, 23, tzinfo=UTC)
    stored: Object = json.loads(encode_ledger(LedgerKey(cap.key, "team-a"), ledger, "system", None, now).body)
    stored["metadata"] |= {"uid": "l", "resourceVersion": "120"}
    cluster = load_snapshot(folder, [namespace("team-a"), CLASS, stored, *items], 200)
    assert not cluster.ledgers.problems
    (chosen,) = LedgerChoice().list_ledgers(cluster, cluster.index_caps(POLICIES, None))
    return list(find_drift(cluster, chosen)), find_incomparable(cluster, chosen)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return a ledger that counted these claims."""
    return create_ledger(load_snapshot(tmp_path, [namespace("team-a"), CLASS, *COUNTED], 100))


@pytest.mark.parametrize(
    "items",
    [
        pytest.param(COUNTED, id="nothing-changed"),
        pytest.param((*COUNTED[:2], ALLOCATED_LATER, COUNTED[3]), id="an-allocation-after-the-recount"),
    ],
)
def test_a_ledger_of_the_gate_has_no_drift(tmp_path: Path, ledger: Ledger, items: tuple[Object, ...]) -> None:
    drifts, incomparable = verify(tmp_path, ledger, *items)
    assert not drifts
    assert incomparable.keys() <= {"gpu-memory"}  # of a device that is not published yet


@pytest.mark.parametrize(
    ("change", "items", "names"),
    [
        pytest.param({"used": Amounts({"h100": 1, "gpu-memory": 200 * GIB})}, COUNTED, ["h100"], id="too-little"),
        pytest.param({"used": Amounts({"h100": 2, "gpu-memory": 201 * GIB})}, COUNTED, ["gpu-memory"], id="too-much"),
        pytest.param({}, (*COUNTED[:3], ALL_H100), ["gpu-memory", "h100"], id="changed-slices-are-not-counted"),
        pytest.param({}, COUNTED[1:], ["gpu-memory", "h100"], id="a-deleted-claim-still-counts"),
        pytest.param(
            {"used": Amounts({"h100": 1}), "unpublished": KEPT},
            (*COUNTED[:3], WITHOUT_H1),
            ["gpu-memory", "h100"],
            id="less-than-what-the-ledger-itself-keeps",
        ),
    ],
)
def test_a_ledger_that_counts_devices_otherwise_than_slices_say_has_drift(
    tmp_path: Path, ledger: Ledger, change: dict[str, Any], items: tuple[Object, ...], names: list[str]
) -> None:
    drifts, incomparable = verify(tmp_path, replace(ledger, **change), *items)
    assert [each.name for each in drifts] == names
    assert not incomparable


def test_an_unpublished_device_is_compared_by_what_the_ledger_keeps(tmp_path: Path, ledger: Ledger) -> None:
    """Without that, a sum cannot be compared, and a count may have any amount up to one for the device."""
    items = (*COUNTED[:3], WITHOUT_H1)
    assert verify(tmp_path, replace(ledger, unpublished=KEPT), *items) == ([], {})
    reason = {"gpu-memory": "the attributes and capacities of some devices are unknown"}
    assert verify(tmp_path, ledger, *items) == ([], reason)
    less = replace(ledger, used=Amounts({"h100": 1}))
    assert verify(tmp_path, less, *items) == ([], reason)


def test_a_reservation_of_an_allocation_is_based_on_what_its_claim_counts(tmp_path: Path, ledger: Ledger) -> None:
    def reserve(counted: int) -> Ledger:
        reservation = Reservation(
            "team-a",
            "one",
            Amounts({"h100": counted, "gpu-memory": 80 * GIB}),
            Amounts({"h100": 1, "gpu-memory": 80 * GIB}),
            "n",
            single_attempt=True,
            operation=Operation.UPDATE,
            kind=ConsumerKind.CLAIM,
        )
        return ledger.with_reservation("uid-one", reservation)

    assert not verify(tmp_path, reserve(1), *COUNTED)[0]
    (drift,) = verify(tmp_path, reserve(0), *COUNTED)[0]
    assert (drift.consumer, drift.name, drift.ledger, drift.stored) == ("team-a/one", "h100", 0, 1)


def test_a_name_that_the_ledger_does_not_count_is_not_reported_as_fine(tmp_path: Path, ledger: Ledger) -> None:
    uncounted = replace(ledger, resources=ledger.resources - {"gpu-memory"})
    assert verify(tmp_path, uncounted, *COUNTED) == ([], {"gpu-memory": "the ledger does not count it"})
