"""What people do: to pods, to namespaces, and to the policies."""

from collections.abc import Mapping

from tests.gate.simulation.caps import NAMES, WITH, WITHOUT
from tests.gate.simulation.ground import Act, Ground
from tests.gate.simulation.requests import Request
from webhook.state.ledger.ledger import Operation

_MOST_REQUESTS = 6
_NEW_NAMESPACES = ("team-2", "team-3")


class Users:
    """Pods are asked for, changed, deleted and end; namespaces come, go and are relabelled; a policy is published."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._truth = ground.truth
        self._requests = ground.requests
        self._uids = 0
        self.acts: Mapping[str, Act] = {
            "create": self._create,
            "change": self._change,
            "delete": self._delete,
            "end": self._end,
            "bear": self._bear,
            "bury": self._bury,
            "relabel": self._relabel,
            "publish": self._publish,
        }

    def _create(self, a: int, b: int) -> str:
        self._uids += 1
        namespace = list(self._truth.namespaces)[a % len(self._truth.namespaces)]
        now, token = self._truth.now, self._ground.token
        return self._asked(Request(Operation.CREATE, f"u{self._uids}", namespace, 0, 1 + b % 3, now, token))

    def _change(self, a: int, b: int) -> str:
        pods = [pod for pod in self._truth.pods.values() if not pod.ended]
        if not pods:
            return ""
        pod = pods[a % len(pods)]
        now, token = self._truth.now, self._ground.token
        return self._asked(
            Request(Operation.UPDATE, pod.uid, pod.namespace, pod.size, 1 + b % 4, now, token, pod.revision)
        )

    def _asked(self, request: Request) -> str:
        if len(self._requests) >= _MOST_REQUESTS:
            return ""
        self._requests.append(request)
        return f"{request.kind} {request.uid} in {request.namespace}: {request.old} → {request.new}"

    def _delete(self, a: int, _b: int) -> str:
        if self._truth.stalled or not self._truth.pods:
            return ""
        uid = sorted(self._truth.pods)[a % len(self._truth.pods)]
        self._truth.remove(uid)
        return f"{uid} is deleted (revision {self._truth.revision})"

    def _end(self, a: int, _b: int) -> str:
        if self._truth.stalled or not self._truth.pods:
            return ""
        uid = sorted(self._truth.pods)[a % len(self._truth.pods)]
        self._truth.put(self._truth.pods[uid]._replace(ended=True))
        return f"{uid} ends (revision {self._truth.revision})"

    def _bear(self, a: int, _b: int) -> str:
        names = [each for each in _NEW_NAMESPACES if each not in self._truth.namespaces]
        if not names:
            return ""
        name = names[a % len(names)]
        self._truth.bear(name)
        return f"{name} is made (revision {self._truth.revision})"

    def _bury(self, a: int, _b: int) -> str:
        """A namespace goes. One of its name may come again, while some have not even seen that it went."""
        names = [each for each in _NEW_NAMESPACES if each in self._truth.namespaces]
        if not names or self._truth.stalled or self._truth.waiting:
            return ""
        name = names[a % len(names)]
        self._truth.bury(name)
        return f"{name} is deleted (revision {self._truth.revision})"

    def _relabel(self, a: int, b: int) -> str:
        """A namespace leaves a cap, or returns to it with the pods that it took in meanwhile."""
        if self._truth.stalled:
            return ""
        name, cap = list(self._truth.namespaces)[a % len(self._truth.namespaces)], NAMES[b % len(NAMES)]
        returns = self._truth.relabel(name, cap)
        if returns:
            self._ground.looking.returned(name, cap)
        return f"{name} {'returns to' if returns else 'leaves'} cap {cap} (revision {self._truth.revision})"

    def _publish(self, _a: int, _b: int) -> str:
        """The shared cap is taken out of the policies, or put back."""
        self._ground.caps = WITHOUT if self._ground.caps is WITH else WITH
        return f"a policy is published {'without' if self._ground.caps is WITHOUT else 'with'} the shared cap"
