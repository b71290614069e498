"""`python -m e2e.scheduling.replicas`: how many replicas of a Deployment find a node in random clusters.

The Deployment's own controllers make the pods; none of them may turn others out, for others have at least their
priority. Each Deployment is put up several times: where the scheduler chooses among equal nodes, the number may differ.
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
from e2e.scheduling.api import Api, Object, RefusedError
from e2e.scheduling.asked import writing
from e2e.scheduling.cached import Belief, Mind
from e2e.scheduling.draw.case import Drawn, drawn_about
from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.words import BANANAS, GPU, HOSTNAME, IMAGE, ZONE
from e2e.scheduling.plane import plane
from e2e.scheduling.scene import Scene, scene
from e2e.scheduling.standing import make_standing
from webhook.cli.framework import EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR

_ABOUT = ("resources", "resources", "resources", "preemption", "taints", "ports", "company")
_CONTROLLERS = ("deployment-controller", "replicaset-controller")
_SET = {"example.com/set": "replicas"}
_LABEL = "example.com/set=replicas"
_TIMES = 3  # that each Deployment is put up
_LOOKS, _PAUSE, _WITHIN = 3, 0.05, 60.0  # seconds; looks at which nothing has changed
_EVERY = 10  # cases between words


@dataclass(frozen=True, slots=True)
class Crowd:
    """A Deployment: its replicas and the cluster it comes to, whose newcomer is the template."""

    name: str
    case: Drawn
    replicas: int


class Replicas:
    """Puts Deployments up on one plane, one after the other."""

    def __init__(self, api: Api, mind: Mind) -> None:
        self._api = api
        self._mind = mind

    def line(self, crowd: Crowd) -> Object:
        """The case as it is written: what there was, a replica as it was stored, and how many ran, each time.

        Raises:
            RefusedError: the API server does not take the Deployment, or a pod of it.
            ClusterError: the scheduler does not come to an end.
        """
        with scene(self._api, self._mind, crowd.case) as made:
            self._api.try_out(crowd.case.pod)  # not all that is wrong with a pod is said of a template
            seen = []
            for _ in range(_TIMES):
                replicas = self._put_up(crowd, made)
                seen.append(sum("nodeName" in each["spec"] for each in replicas))
                self._take_down(crowd)
                made.until_known(self._mind)
        whole = {"nodes": made.nodes, "pods": made.pods, "objects": made.objects, "pod": _template(replicas[0])}
        return whole | {"replicas": crowd.replicas, "result": {"running": seen[0], "seen": sorted(set(seen))}}

    def _put_up(self, crowd: Crowd, made: Scene) -> list[Object]:
        """The replicas, when each has a node or cannot have one, and nothing moves any more."""
        self._api.make(_deployment(crowd))
        deadline, quiet, last = time.monotonic() + _WITHIN, 0, None
        while quiet < _LOOKS:
            if time.monotonic() > deadline:
                raise ClusterError(f"the scheduler comes to no end with {_deployment(crowd)}: {last}")
            time.sleep(_PAUSE)
            now = self._mind.belief()
            quiet = quiet + 1 if now == last and _is_settled(now, made, crowd.replicas) else 0
            last = now
        return self._api.listed("Pod", _LABEL)

    def _take_down(self, crowd: Crowd) -> None:
        """What a controller still makes meanwhile, in the belief that it is wanted, goes as well."""
        namespaces, gone = [crowd.case.pod["metadata"]["namespace"]], 0
        while gone < _LOOKS:
            for kind in ("Deployment", "ReplicaSet"):
                self._api.clear(kind, namespaces)
            self._api.clear("Pod", namespaces, _LABEL)
            time.sleep(_PAUSE)
            gone = 0 if self._api.listed("ReplicaSet") or self._api.listed("Pod", _LABEL) else gone + 1


def crowd(seed: int, number: int) -> Crowd:
    """The Deployment of this number."""
    dice = Dice(f"{seed}/{number}/replicas")
    case = drawn_about(Dice(f"{seed}/{number}/cluster", frozenset(dice.some(_ABOUT, 1, 2))))
    case.pod["metadata"]["labels"] |= _SET
    spec = case.pod["spec"]
    if dice.chance(0.7):
        spec = _shape(dice) | _company(dice)
    case.pod["spec"] = {key: each for key, each in spec.items() if key not in ("priorityClassName", "schedulingGates")}
    return Crowd(f"set-{number}", case, dice.weighted({1: 1, 2: 1, 3: 2, 5: 3, 8: 4, 13: 4, 30: 4}))


def _shape(dice: Dice) -> Object:
    """One small container, of which many fit."""
    requests = {"cpu": dice.pick(("100m", "250m", "500m", "1"))} | dice.pick(
        ({}, {"memory": "512Mi"}, {"memory": "1Gi"})
    )
    limits = dice.pick(({}, {}, {GPU: "1"}, {BANANAS: "1"}))
    container = {"name": "c0", "image": IMAGE, "resources": {"requests": requests | limits, "limits": limits}}
    anywhere = {"tolerations": [{"operator": "Exists"}]} if dice.chance(0.5) else {}
    return {"containers": [container], "automountServiceAccountToken": False, **anywhere}


def _company(dice: Dice) -> Object:
    """Some stay away from each other, some spread."""
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


def _is_settled(now: Belief, made: Scene, replicas: int) -> bool:
    return now.idle and len(now.pods - made.counted()) + len(now.waiting - made.kept_back()) == replicas


def _deployment(crowd: Crowd) -> Object:
    pod = crowd.case.pod
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": crowd.name, "namespace": pod["metadata"]["namespace"]},
        "spec": {"replicas": crowd.replicas, "selector": {"matchLabels": _SET}, "template": template},
    }


def _template(replica: Object) -> Object:
    """A replica as it was before it had a node."""
    spec = {key: value for key, value in replica["spec"].items() if key != "nodeName"}
    return replica | {"spec": spec, "status": {"phase": "Pending"}}


def _lines(seed: int, cases: int) -> Iterator[Object]:
    click.echo("starting etcd, an API server, controllers and a scheduler …", err=True)
    with plane(*_CONTROLLERS) as made, ExitStack() as ends:
        api = Api(made.access)
        ends.callback(api.close)
        make_standing(api)
        replicas = Replicas(api, Mind(made))
        done, number = 0, 0
        while done < cases:
            try:
                yield {"case": f"{seed}/{number}", **replicas.line(crowd(seed, number))}
                done += 1
            except RefusedError:
                pass
            number += 1
            if done % _EVERY == 0:
                click.echo(f"{done} of {cases} Deployments", err=True)


@click.command()
@click.option("--cases", default=200, show_default=True, help="How many.")
@click.option("--seed", default=1, show_default=True, help="What they are drawn from.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Write each as a line here."
)
def main(cases: int, seed: int, out: Path) -> None:
    """Draw clusters and Deployments, and count the replicas that find a node; progress on stderr."""
    try:
        with writing(out) as write:
            for line in _lines(seed, cases):
                write(line)
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    main()
