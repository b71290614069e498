"""The pending pods that the arguments of `tallygate predict` name, as `kubectl get` would: `pod/NAME`, `pods`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tallygate.webhook.cli.framework import UsageError
from tallygate.webhook.cli.predict.cluster_input import ClusterInput
from tallygate.webhook.cli.predict.pods_to_place import PodsToPlace
from tallygate.webhook.objects.meta import ObjectMeta
from tallygate.webhook.objects.scheduling import SchedulingPod
from tallygate.webhook.policy.matching import matches_labels
from tallygate.webhook.policy.model import PolicyLabelSelector
from tallygate.webhook.policy.suggest import format_suggestion

_POD_WORDS = frozenset({"pod", "pods", "po"})
_MAX_NAMES = 10


@dataclass(frozen=True, slots=True)
class PodQuery:
    """The pending pods to predict: `names`, or all that the selector matches, in a namespace, or in all with None."""

    names: tuple[str, ...]
    namespace: str | None
    selector: PolicyLabelSelector | None = None


def split_pod_names(arguments: Sequence[str]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the names of pods in the arguments, and the other arguments, which are files.

    The names are empty for the word `pods` without names, which means all pending pods, and None without any pod.
    """
    if arguments and arguments[0] in _POD_WORDS:
        return tuple(arguments[1:]), ()
    references = [each for each in arguments if each.partition("/")[0] in _POD_WORDS and each.partition("/")[2]]
    files = tuple(each for each in arguments if each not in references)
    return tuple(each.partition("/")[2] for each in references) or None, files


def find_pending_pods(query: PodQuery, cluster_input: ClusterInput) -> list[PodsToPlace]:
    """Return the pods of the cluster that a query names and that have no node yet, in the order of scheduling.

    Raises:
        UsageError: if the namespace does not exist, or a named pod does not wait for a node.
    """
    _check_namespace(query, cluster_input)
    if query.names:
        return [_find_pending_pod(name, query.namespace or "", cluster_input) for name in query.names]
    chosen = [
        (_create_queue_key(pod), namespace, name, pod)
        for (namespace, name), pod in cluster_input.pending_pods.items()
        if query.namespace in (None, namespace) and matches_labels(query.selector, _get_metadata(pod).labels)
    ]
    return [
        PodsToPlace.from_pod(pod, namespace, name)
        for _, namespace, name, pod in sorted(chosen, key=lambda each: each[:3])
    ]


def _check_namespace(query: PodQuery, cluster_input: ClusterInput) -> None:
    """Check that the namespace exists, unless the source has no namespaces.

    Raises:
        UsageError: if it does not.
    """
    namespaces = cluster_input.cluster.namespaces
    known = sorted({*namespaces, *(namespace for namespace, _ in cluster_input.pending_pods)})
    if namespaces and query.namespace is not None and query.namespace not in known:
        raise UsageError(
            f"namespace {query.namespace} does not exist in the cluster{format_suggestion(query.namespace, known)}"
        )


def _create_queue_key(pod: SchedulingPod) -> tuple[int, str]:
    """Return the key that sorts pods as PrioritySort does: by priority, then by time (pkg/scheduler/framework)."""
    priority = (pod.spec.priority if pod.spec else None) or 0
    return -priority, _get_metadata(pod).creation_timestamp or ""


def _get_metadata(pod: SchedulingPod) -> ObjectMeta:
    return pod.metadata or ObjectMeta()


def _find_pending_pod(name: str, namespace: str, cluster_input: ClusterInput) -> PodsToPlace:
    pod = cluster_input.pending_pods.get((namespace, name))
    if pod is None:
        raise UsageError(f"pod/{name}: {_explain_missing_pod(name, namespace, cluster_input)}")
    return PodsToPlace.from_pod(pod, namespace, name)


def _explain_missing_pod(name: str, namespace: str, cluster_input: ClusterInput) -> str:
    for pod_info in cluster_input.cluster.list_pods():
        if (pod_info.namespace, pod_info.name) == (namespace, name) and pod_info.node:
            return f"it is on node {pod_info.node} already"
    hint = ", ".join(_list_waiting_names(namespace, cluster_input))
    return f"no pod of that name in namespace {namespace} is pending; " + (
        f"pending pods are {hint}" if hint else "no pod is pending"
    )


def _list_waiting_names(namespace: str, cluster_input: ClusterInput) -> Iterator[str]:
    """Yield the first pending pods, those of the namespace first, each as the arguments that name it."""
    waiting = sorted(cluster_input.pending_pods, key=lambda each: (each[0] != namespace, each))
    for pod_namespace, pod_name in waiting[:_MAX_NAMES]:
        yield f"pod/{pod_name} -n {pod_namespace}"
