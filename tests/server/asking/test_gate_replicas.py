"""The replicas of the gate, by the Leases of its namespace: a live read, kept for a while."""

from datetime import UTC, datetime
from pathlib import Path

from tallygate.kube.config import load_kubeconfig
from tallygate.server.asking.gate_replicas import GateReplica, ReplicaReader
from tests.kube.kubeconfig import write_kubeconfig
from tests.kube.scripted_server import FakeClock
from tests.server.small_cluster import Object, run_small_cluster

LEASES = "/apis/coordination.k8s.io/v1/namespaces/gates/leases"
NOW = datetime(2026, 1, 1, 10, tzinfo=UTC)


def create_lease(name: str, holder: str | None, renewed: str | None = "2026-01-01T10:00:00.000000Z") -> Object:
    """Return a Lease as the gate writes it."""
    return {"metadata": {"name": name}, "spec": {"holderIdentity": holder, "renewTime": renewed}}


def read(folder: Path, *leases: Object, status: int = 200) -> tuple[GateReplica, ...] | None:
    """Return the replicas that these Leases show."""
    with run_small_cluster() as cluster:
        cluster.objects[LEASES] = list(leases)
        if status != 200:
            cluster.error_statuses[LEASES] = status
        config = load_kubeconfig(write_kubeconfig(folder, cluster.server))
        return ReplicaReader(config, "gates", FakeClock().now).read()


def test_the_holder_of_the_leaders_lease_leads_and_each_replica_has_its_own(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        create_lease("tallygate-replica-b", "gate-2", None),
        create_lease("tallygate-leader", "gate-1"),
        create_lease("tallygate-replica-a", "gate-1"),
        create_lease("tallygate-active-caps", "gate-9"),
    )
    assert found == (
        GateReplica("gate-1", is_leader=True, renewed=NOW),
        GateReplica("gate-2", is_leader=False, renewed=None),
    )


def test_a_leader_without_a_lease_of_its_own_is_a_replica(tmp_path: Path) -> None:
    assert read(tmp_path, create_lease("tallygate-leader", "gate-1")) == (
        GateReplica("gate-1", is_leader=True, renewed=NOW),
    )


def test_leases_without_a_holder_or_a_time_are_no_errors(tmp_path: Path) -> None:
    assert read(tmp_path, create_lease("tallygate-leader", None)) == ()
    assert read(tmp_path, create_lease("tallygate-replica-a", "x", "soon")) == (
        GateReplica("x", is_leader=False, renewed=None),
    )


def test_replicas_are_unknown_where_leases_may_not_be_listed(tmp_path: Path) -> None:
    assert read(tmp_path, status=403) is None


def test_leases_are_read_again_only_after_a_while(tmp_path: Path) -> None:
    clock = FakeClock()
    with run_small_cluster() as cluster:
        cluster.objects[LEASES] = [create_lease("tallygate-leader", "gate-1")]
        reader = ReplicaReader(load_kubeconfig(write_kubeconfig(tmp_path, cluster.server)), "gates", clock.now)
        reader.read()
        reader.read()
        assert cluster.paths == [LEASES]
        clock.sleep(11)
        reader.read()
    assert cluster.paths == [LEASES, LEASES]
