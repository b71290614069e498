"""`python -m e2e.scheduling.replicas`: the number of replicas of a Deployment that are placed in random clusters.

The Deployment's own controllers create the pods; none of them may preempt others, because others have at least their
priority. Each Deployment is created several times: if the scheduler chooses among equal nodes, the number may differ.
"""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from e2e.errors import BuildError, ClusterError
from e2e.scheduling.api import Api, Object, RejectedError
from e2e.scheduling.base_objects import create_base_objects
from e2e.scheduling.draw.case import draw_case_from
from e2e.scheduling.draw.cluster_parts import DrawnCase
from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import BANANAS, GPU, HOSTNAME, IMAGE, ZONE
from e2e.scheduling.plane import plane
from e2e.scheduling.recorded_case import open_case_writer
from e2e.scheduling.scheduler_dumps import CacheDump, SchedulerDumps
from e2e.scheduling.stored_cluster import StoredCluster, create_cluster
from tallygate.cli.framework import EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR

_ABOUT = ("resources", "resources", "resources", "preemption", "taints", "ports", "company")
_CONTROLLERS = ("deployment-controller", "replicaset-controller")
_SET = {"example.com/set": "replicas"}
_LABEL = "example.com/set=replicas"
_REPETITIONS = 3  # creations of each Deployment
_STABLE_POLLS, _PAUSE, _WITHIN = 3, 0.05, 60.0  # seconds; polls without a change
_EVERY = 10  # cases between progress messages


@dataclass(frozen=True, slots=True)
class ReplicaCase:
    """A Deployment: its replicas and its cluster, whose incoming pod is the template."""

    name: str
    case: DrawnCase
    replicas: int


class ReplicaRunner:
    """A runner of Deployments on one control plane, one after the other."""

    def __init__(self, api: Api, dumps: SchedulerDumps) -> None:
        self._api = api
        self._dumps = dumps

    def run(self, replica_case: ReplicaCase) -> Object:
        """Run a case and return its record: the cluster, a replica as stored, and the number of placed replicas.

        Raises:
            RejectedError: if the API server rejects the Deployment or a pod of it.
            ClusterError: if the scheduler does not finish in time.
        """
        with create_cluster(self._api, self._dumps, replica_case.case) as cluster:
            self._api.try_out(replica_case.case.pod)  # the validation of a template misses some errors of a pod
            counts = []
            for _ in range(_REPETITIONS):
                replicas = self._create(replica_case, cluster)
                counts.append(sum("nodeName" in each["spec"] for each in replicas))
                self._delete(replica_case)
                cluster.wait_until_cached(self._dumps)
        whole = {
            "nodes": cluster.nodes,
            "pods": cluster.pods,
            "objects": cluster.objects,
            "pod": _strip_node(replicas[0]),
        }
        return whole | {
            "replicas": replica_case.replicas,
            "result": {"running": counts[0], "seen": sorted(set(counts))},
        }

    def _create(self, replica_case: ReplicaCase, cluster: StoredCluster) -> list[Object]:
        """Create the Deployment and return its replicas once each is placed or unschedulable, and stable."""
        self._api.make(_deployment(replica_case))
        deadline, quiet, last = time.monotonic() + _WITHIN, 0, None
        while quiet < _STABLE_POLLS:
            if time.monotonic() > deadline:
                raise ClusterError(f"the scheduler does not finish with {_deployment(replica_case)}: {last}")
            time.sleep(_PAUSE)
            now = self._dumps.read_dump()
            quiet = quiet + 1 if now == last and _is_finished(now, cluster, replica_case.replicas) else 0
            last = now
        return self._api.list_objects("Pod", _LABEL)

    def _delete(self, replica_case: ReplicaCase) -> None:
        """Delete the Deployment, and the objects that its controllers still create meanwhile."""
        namespaces, empty_polls = [replica_case.case.pod["metadata"]["namespace"]], 0
        while empty_polls < _STABLE_POLLS:
            for kind in ("Deployment", "ReplicaSet"):
                self._api.clear(kind, namespaces)
            self._api.clear("Pod", namespaces, _LABEL)
            time.sleep(_PAUSE)
            empty_polls = (
                0 if self._api.list_objects("ReplicaSet") or self._api.list_objects("Pod", _LABEL) else empty_polls + 1
            )


def draw_replica_case(seed: int, number: int) -> ReplicaCase:
    """Return the Deployment of a number."""
    dice = Dice(f"{seed}/{number}/replicas")
    case = draw_case_from(Dice(f"{seed}/{number}/cluster", frozenset(dice.sample(_ABOUT, 1, 2))))
    case.pod["metadata"]["labels"] |= _SET
    spec = case.pod["spec"]
    if dice.chance(0.7):
        spec = _draw_small_pod(dice) | _draw_spread(dice)
    case.pod["spec"] = {key: each for key, each in spec.items() if key not in ("priorityClassName", "schedulingGates")}
    return ReplicaCase(f"set-{number}", case, dice.pick_weighted({1: 1, 2: 1, 3: 2, 5: 3, 8: 4, 13: 4, 30: 4}))


def _draw_small_pod(dice: Dice) -> Object:
    """Return the spec of a pod with one small container, of which many fit."""
    requests = {"cpu": dice.pick(("100m", "250m", "500m", "1"))} | dice.pick(
        ({}, {"memory": "512Mi"}, {"memory": "1Gi"})
    )
    limits = dice.pick(({}, {}, {GPU: "1"}, {BANANAS: "1"}))
    container = {"name": "c0", "image": IMAGE, "resources": {"requests": requests | limits, "limits": limits}}
    anywhere = {"tolerations": [{"operator": "Exists"}]} if dice.chance(0.5) else {}
    return {"containers": [container], "automountServiceAccountToken": False, **anywhere}


def _draw_spread(dice: Dice) -> Object:
    """Return anti-affinity among the replicas, a spread constraint, or neither."""
    selector, topology = {"matchLabels": _SET}, dice.pick((HOSTNAME, ZONE))
    if dice.chance(0.2):
        term = {"labelSelector": selector, "topologyKey": topology}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        return {"affinity": apart}
    if dice.chance(0.5):
        spread = {"maxSkew": dice.count(1, 3), "topologyKey": topology, "whenUnsatisfiable": "DoNotSchedule"}
        fewest = {"minDomains": dice.count(1, 4)} if dice.chance(0.3) else {}
        policies = {each: dice.pick(("Honor", "Ignore")) for each in ("nodeAffinityPolicy", "nodeTaintsPolicy")}
        return {"topologySpreadConstraints": [{"labelSelector": selector, **spread, **fewest, **policies}]}
    return {}


def _is_finished(now: CacheDump, cluster: StoredCluster, replicas: int) -> bool:
    return (
        now.idle
        and len(now.pods - cluster.list_counted_uids()) + len(now.waiting - cluster.list_gated_uids()) == replicas
    )


def _deployment(replica_case: ReplicaCase) -> Object:
    pod = replica_case.case.pod
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": replica_case.name, "namespace": pod["metadata"]["namespace"]},
        "spec": {"replicas": replica_case.replicas, "selector": {"matchLabels": _SET}, "template": template},
    }


def _strip_node(replica: Object) -> Object:
    """Return a replica as it was before it had a node."""
    spec = {key: value for key, value in replica["spec"].items() if key != "nodeName"}
    return replica | {"spec": spec, "status": {"phase": "Pending"}}


def _run_cases(seed: int, cases: int) -> Iterator[Object]:
    click.echo("starting etcd, an API server, controllers and a scheduler …", err=True)
    with plane(*_CONTROLLERS) as cluster, ExitStack() as ends:
        api = Api(cluster.access)
        ends.callback(api.close)
        create_base_objects(api)
        runner = ReplicaRunner(api, SchedulerDumps(cluster))
        done, number = 0, 0
        while done < cases:
            try:
                yield {"case": f"{seed}/{number}", **runner.run(draw_replica_case(seed, number))}
                done += 1
            except RejectedError:
                pass
            number += 1
            if done % _EVERY == 0:
                click.echo(f"{done} of {cases} Deployments", err=True)


@click.command()
@click.option("--cases", default=200, show_default=True, help="Number of cases.")
@click.option("--seed", default=1, show_default=True, help="Seed of the cases.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Write each case as a line to this file.",
)
def main(cases: int, seed: int, out: Path) -> None:
    """Draw clusters and Deployments, and count the replicas that are placed; progress on stderr."""
    try:
        with open_case_writer(out) as write:
            for line in _run_cases(seed, cases):
                write(line)
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the shell ignores it
    main()
