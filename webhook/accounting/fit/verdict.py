"""What the scheduler comes to when it tries a pod once: a node, or a sentence and perhaps a promise.

Source: schedulingAlgorithm, schedulePod and findNodesThatFitPod in pkg/scheduler/schedule_one.go, RunPostFilterPlugins
in framework/runtime/framework.go, applySchedulingGatedCondition in pkg/registry/core/pod/strategy.go, v1.36.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit import strangers
from webhook.accounting.fit.filtering import Filtered, filtered
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.preemption.preempting import Preemption, preempted
from webhook.accounting.fit.preference import stumbling
from webhook.accounting.fit.priority import prioritised
from webhook.accounting.fit.sentence import sentence
from webhook.accounting.fit.volumes.unknown import unknown
from webhook.objects.scheduling import SchedulingPod

GATED = "Scheduling is blocked due to non-empty scheduling gates"
"""What the API server writes into the status of a pod that has gates."""

_NO_CLAIMS = "no new claims to deallocate"
# DynamicResources is the first to be asked when a pod fits nowhere. What it then misses is what it would have noted
# before the nodes were asked, had not an earlier plugin refused the pod: "not found" is about that note.
_NOT_ASKED = "not found"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`nodes` are those of which the scheduler takes one; if there are none, `sentence` is what it writes.

    `said` is what each node said, None if none was asked; `preemption` what came of asking others to leave, if that
    came up; `unknown` names what was not judged, without which nothing here is certain. `nominated` are nodes of which
    one is promised to a pod that fits nowhere: where room is made for it, or where it was made before.
    """

    nodes: tuple[str, ...]
    sentence: str = ""
    said: Filtered | None = None
    preemption: Preemption | None = None
    unknown: tuple[str, ...] = ()
    nominated: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether there is a node for it now."""
        return bool(self.nodes)


def verdict(pod: SchedulingPod, cluster: Cluster) -> Verdict:
    """What becomes of a pod that is tried on a cluster now.

    Raises:
        QuantityError: a quantity that the pod asks for, or the size of a claim or volume that it needs, is none.
        NoPriorityClassError: it names a class that is not there.
        SelectorError: a claim of it has a selector that is none.
    """
    incoming = Incoming.of(prioritised(pod, cluster.priority_classes))
    if incoming.spec.scheduling_gates:
        return Verdict((), GATED, nominated=_before(incoming))
    said = filtered(incoming, cluster)
    left_open = (*unknown(incoming, cluster), *strangers.unknown(incoming, cluster))
    return replace(told(incoming, cluster, said), said=said, unknown=left_open)


def told(pod: Incoming, cluster: Cluster, said: Filtered) -> Verdict:
    """What comes of what the nodes have said."""
    if said.fault:
        return Verdict((), said.fault)
    nodes = tuple(_taken_from(pod, cluster, said))
    if nodes:
        fault = stumbling(pod) if len(nodes) > 1 else ""
        return Verdict((), fault) if fault else Verdict(nodes)
    if not len(said.places):
        return Verdict((), sentence(said))
    if said.refused is not None:
        return Verdict((), sentence(said, _NOT_ASKED), nominated=_before(pod))
    preemption = preempted(pod, cluster, said)
    promised = tuple(cluster.nodes.get_name(each.place) for each in preemption.best)
    kept = _before(pod) if preemption.keeps_promise else ()
    return Verdict((), sentence(said, afterword(preemption)), preemption=preemption, nominated=promised or kept)


def _before(pod: Incoming) -> tuple[str, ...]:
    """The node that was promised to the pod."""
    return (pod.nominated,) if pod.nominated else ()


def afterword(preemption: Preemption) -> str:
    """What the scheduler adds to its sentence; nothing when somebody is asked to leave."""
    if not preemption.refusal:
        return ""
    came = f"preemption: {preemption.refusal}"
    return came if preemption.is_fault else f"{_NO_CLAIMS}, {came}"


def _taken_from(pod: Incoming, cluster: Cluster, said: Filtered) -> Iterator[str]:
    """The names of the nodes that fit; only the one that is promised to the pod, if it is among them."""
    names = [cluster.nodes.get_name(place) for place in said.fitting.tolist()]
    return iter([pod.nominated] if pod.nominated in names else names)
