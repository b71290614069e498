"""Controllers that roll from one revision to the next, others that do not, and tenants who pose as one."""

from collections.abc import Mapping

from tallygate.state.ledger.ledger import Operation
from tests.gate.simulation.cluster_objects import UNIX_START, Limit, Owner
from tests.gate.simulation.environment import Environment, StepFunction
from tests.gate.simulation.requests import Request
from tests.gate.simulation.rollout_objects import MAX_SURGE, Deployment, PodSet

_NAMES = ("web", "api")
_LEADERS = ("StatefulSet", "llm-leaders")
"""Kind and name of the controller of the leaders of a LeaderWorkerSet."""
_SMALLEST, _SIZES, _TEMPLATES = 2, 3, 3
_LIMITS = (2, 5, 6, 6)
_MAX_LIMIT_SECONDS = 24


class Rollouts:
    """Deployments create pods of their newest revision, and delete old ones while enough pods run.

    Users create, change, pause and delete them. A new Deployment may have the name of a deleted one, whose pods are
    still stored.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._truth = environment.truth
        self._objects = environment.truth.rollouts
        self._uids = 0
        self.steps: Mapping[str, StepFunction] = {
            "deploy": self._deploy,
            "roll": self._roll,
            "make_new": self._make_new,
            "delete_old": self._delete_old,
            "pause": self._pause,
            "undeploy": self._undeploy,
            "make_other": self._make_other,
            "forge": self._forge,
            "try": self._try,
            "annotate": self._annotate,
        }

    def _deploy(self, a: int, b: int) -> str:
        namespace, name = list(self._truth.namespaces)[a % len(self._truth.namespaces)], _NAMES[b % len(_NAMES)]
        existing = {(each.namespace, each.name) for each in self._objects.deployments.values()}
        if (namespace, name) in existing:
            return ""
        deployment = Deployment(self._create_uid("d"), namespace, name, _SMALLEST + (b >> 2) % _SIZES)
        self._put(deployment)
        return f"deployment {deployment.uid} of {deployment.size} pods in {namespace}, of the name {name}"

    def _put(self, deployment: Deployment) -> None:
        """Store a Deployment, and the ReplicaSet of its newest revision."""
        self._objects.deployments[deployment.uid] = deployment
        if self._objects.find_newest_set(deployment) is None:
            owner = self._create_owner("ReplicaSet", deployment.set_name)
            self._objects.put_set(PodSet(deployment.namespace, owner, deployment.owner))

    def _create_owner(self, kind: str, name: str) -> Owner:
        return Owner(kind, name, self._create_uid("s"), name)

    def _roll(self, a: int, b: int) -> str:
        """Change the template of a Deployment, also to that of an earlier revision."""
        deployment = self._pick_deployment(a)
        return "" if deployment is None else self.roll(deployment, 1 + b % (_TEMPLATES - 1))

    def roll(self, deployment: Deployment, templates: int) -> str:
        """Let a Deployment roll to the template that comes as many places later; return the line of the story."""
        template = 1 + (deployment.template - 1 + templates) % _TEMPLATES
        self._put(deployment._replace(template=template))
        return f"deployment {deployment.uid} rolls to revision {template}"

    def _make_new(self, a: int, _b: int) -> str:
        wanting = [each for each in self._objects.deployments.values() if self._wants_pod(each)]
        pod_set = self._objects.find_newest_set(wanting[a % len(wanting)]) if wanting else None
        return "" if pod_set is None else self.make_pod(pod_set.namespace, pod_set.owner)

    def _wants_pod(self, deployment: Deployment) -> bool:
        return not deployment.is_paused and self.count_missing(deployment) > 0

    def count_missing(self, deployment: Deployment) -> int:
        """Return the number of pods that a Deployment creates now: those in flight may yet be stored."""
        pod_set = self._objects.find_newest_set(deployment)
        assert pod_set is not None
        pods = list(self._objects.list_pods(deployment, self._truth.pods))
        creations = [each for each in self._environment.requests if each.operation is Operation.CREATE]
        in_flight = [each for each in creations if each.namespace == deployment.namespace and not each.is_dry_run]
        coming = sum(each.owner == pod_set.owner for each in in_flight)
        new = sum(each.owner == pod_set.owner for each in pods) + coming
        return min(deployment.size - new, deployment.size + MAX_SURGE - len(pods) - coming)

    def _delete_old(self, a: int, _b: int) -> str:
        deployment = self._pick_deployment(a)
        return "" if deployment is None else self.delete_old_pod(deployment)

    def delete_old_pod(self, deployment: Deployment) -> str:
        """Delete a pod of another revision than the newest one if enough pods run; return the line of the story."""
        pod_set = self._objects.find_newest_set(deployment)
        pods = list(self._objects.list_pods(deployment, self._truth.pods))
        old = sorted(each.uid for each in pods if pod_set is None or each.owner != pod_set.owner)
        if not old or len(pods) <= deployment.size or self._truth.is_stalled:
            return ""
        self._truth.delete(old[0])
        return f"deployment {deployment.uid} deletes {old[0]} (revision {self._truth.revision})"

    def _pause(self, a: int, _b: int) -> str:
        """Let a Deployment stop, or continue."""
        deployment = self._pick_deployment(a)
        if deployment is None:
            return ""
        self._objects.deployments[deployment.uid] = deployment._replace(is_paused=not deployment.is_paused)
        return f"deployment {deployment.uid} {'continues' if deployment.is_paused else 'stops'}"

    def _undeploy(self, a: int, _b: int) -> str:
        deployment = self._pick_deployment(a)
        if deployment is None:
            return ""
        self._objects.delete_deployment(deployment.uid)
        return f"deployment {deployment.uid} is deleted, and its pods are not"

    def _make_other(self, a: int, b: int) -> str:
        """Let another controller create a pod of one of two revisions.

        It is a DaemonSet or a LeaderWorkerSet, or does not roll: a StatefulSet, or one of two ReplicaSets of no
        Deployment.
        """
        namespace, template = list(self._truth.namespaces)[a % len(self._truth.namespaces)], 1 + (b >> 1) % 2
        others = (("StatefulSet", "db"), ("ReplicaSet", f"bare-{template}"), ("DaemonSet", "agent"), _LEADERS)
        kind, name = others[(b >> 2) % len(others)]
        pod_set = self._objects.find_set(kind, namespace, name)
        if pod_set is None:
            parent = self._create_owner("LeaderWorkerSet", "llm") if (kind, name) == _LEADERS else None
            if parent is not None:
                self._objects.put_set(PodSet(namespace, parent, None))
            pod_set = PodSet(namespace, self._create_owner(kind, name), parent)
            self._objects.put_set(pod_set)
        return self.make_pod(namespace, pod_set.owner._replace(template=f"{name}-{template}"))

    def _forge(self, a: int, b: int) -> str:
        """Let a tenant create a pod that names a ReplicaSet of a Deployment, of any revision, without being of it.

        It states another UID, or the UID beside another name or kind, or it is in another namespace.
        """
        deployment = self._pick_deployment(a)
        pod_set = self._objects.find_newest_set(deployment) if deployment is not None else None
        if deployment is None or pod_set is None:
            return ""
        stored = (each.owner for each in self._objects.list_pods(deployment, self._truth.pods))
        owners = sorted({pod_set.owner, *(each for each in stored if each is not None)})
        owner, namespace = owners[(b >> 2) % len(owners)], deployment.namespace
        other_name = f"{deployment.name}-{1 + deployment.template % _TEMPLATES}"
        other_namespace = next((each for each in self._truth.namespaces if each != namespace), namespace)
        forgeries = (
            (namespace, owner._replace(uid=self._create_uid("forged"))),
            (namespace, owner._replace(name=other_name)),
            (namespace, owner._replace(kind="StatefulSet")),
            (other_namespace, owner),
        )
        return self.make_pod(*forgeries[b % len(forgeries)])

    def _try(self, a: int, b: int) -> str:
        """Let a user create a pod in a dry run: one of a Deployment, or one without a controller."""
        deployment = self._pick_deployment(a)
        pod_set = self._objects.find_newest_set(deployment) if deployment is not None else None
        if deployment is None or pod_set is None:
            return ""
        return self.make_pod(deployment.namespace, pod_set.owner if b % 2 else None, is_dry_run=True)

    def make_pod(self, namespace: str, owner: Owner | None, *, is_dry_run: bool = False) -> str:
        """Let a controller, or a user without one, create a pod; return the line of the story."""
        uid, now, token = self._create_uid("r"), self._truth.now, self._environment.token
        request = Request(Operation.CREATE, uid, namespace, 0, 1, now, token, owner=owner, is_dry_run=is_dry_run)
        if not self._environment.send(request):
            return ""
        return f"pod {uid} in {namespace} of {owner}{' in a dry run' if is_dry_run else ''}"

    def _annotate(self, a: int, b: int) -> str:
        """Let an administrator annotate a namespace with a limit, with or without an end, or remove the annotation."""
        if self._truth.is_stalled:
            return ""
        name = list(self._truth.namespaces)[a % len(self._truth.namespaces)]
        limit = None
        if b % 4:
            end = UNIX_START + int(self._truth.now) + 1 + (b >> 4) % _MAX_LIMIT_SECONDS
            limit = Limit(_LIMITS[(b >> 2) % len(_LIMITS)], end if b % 4 > 1 else None)
        self._truth.annotate(name, limit)
        return f"{name} has the annotation {limit}"

    def _pick_deployment(self, number: int) -> Deployment | None:
        deployments = list(self._objects.deployments.values())
        return deployments[number % len(deployments)] if deployments else None

    def _create_uid(self, prefix: str) -> str:
        self._uids += 1
        return f"{prefix}{self._uids}"
