"""One case put to the scheduler: the pod is created once all is quiet, and the first answer taken."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

from e2e.errors import ClusterError
from e2e.scheduling.api import Api, Object, without_noise
from e2e.scheduling.asked import Asked, Result
from e2e.scheduling.cached import Mind
from e2e.scheduling.draw.case import Drawn
from e2e.scheduling.plane import Plane
from e2e.scheduling.scene import is_over, scene, uid
from e2e.scheduling.standing import make_standing

_LOOKS, _LOOKS_IN_VAIN, _PAUSE = 20, 60, 0.02  # seconds between looks; victims are deleted one after the other


class Asker:
    """Asks the scheduler of one plane, one case after the other."""

    def __init__(self, api: Api, mind: Mind) -> None:
        self._api = api
        self._mind = mind

    def ask(self, case: Drawn) -> Asked:
        """What becomes of the pod; nothing of the case is left afterwards.

        Raises:
            RefusedError: the API server does not take the pod.
            ClusterError: the scheduler does not come to know the cluster, or says nothing.
        """
        with scene(self._api, self._mind, case) as made:
            begun = self._mind.now()
            pod = self._api.make(case.pod)
            result = self._result(pod, made.pods, begun)
            return Asked(made.nodes, made.pods, made.objects, _unanswered(pod), result)

    def _result(self, pod: Object, before: list[Object], begun: int) -> Result:
        """The first answer: a gated pod has it at once, another's is the first change that says something."""
        for now in chain((pod,), self._api.changes(pod)):
            node, made_room = now["spec"].get("nodeName", ""), now["status"].get("nominatedNodeName", "")
            refusal = next((each for each in now["status"].get("conditions", ()) if _is_refusal(each)), None)
            if refusal is not None:
                victims = self._victims(before) if made_room else ()
                return Result(scheduled=False, nominated=made_room, message=refusal["message"], victims=victims)
            if node:
                feasible = self._mind.feasible(_full_name(pod), node, begun)
                return Result(scheduled=True, node=node, feasible=feasible)
            # A pod whose volumes are still to be bound is told its node first (NominatedNodeNameForExpectation).
            if made_room:
                return Result(scheduled=True, node=made_room)
        raise ClusterError("nobody said what became of the pod")

    def _victims(self, before: list[Object]) -> tuple[str, ...]:
        """Who is deleted, or gone; they go one after the other, so that it is looked at until nothing more happens."""
        last, quiet = set[str](), 0
        while quiet < (_LOOKS if last else _LOOKS_IN_VAIN):  # all may be going already
            time.sleep(_PAUSE)
            staying = {uid(each) for each in self._api.listed("Pod") if "deletionTimestamp" not in each["metadata"]}
            now = {_full_name(each) for each in before if _is_live(each) and uid(each) not in staying}
            quiet = quiet + 1 if now == last else 0
            last = now
        return tuple(sorted(last))


@contextmanager
def asker(plane: Plane) -> Iterator[Asker]:
    """Who asks the scheduler of this plane."""
    api = Api(plane.access)
    try:
        make_standing(api)
        yield Asker(api, Mind(plane))
    finally:
        api.close()


def _is_refusal(condition: Object) -> bool:
    return bool(condition["type"] == "PodScheduled" and condition["status"] == "False")


def _is_live(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and not is_over(pod)


def _full_name(it: Object) -> str:
    return f"{it['metadata']['namespace']}/{it['metadata']['name']}"


def _unanswered(pod: Object) -> Object:
    """The pod without what would give the answer away."""
    status = {key: value for key, value in pod["status"].items() if key != "conditions"}
    return without_noise(pod | {"status": status})
