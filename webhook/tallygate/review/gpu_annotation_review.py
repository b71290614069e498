"""Pods that request GPUs by annotations which no cap over them counts, although a cap limits GPUs.

Such a pod requests no resource, so it costs nothing under the cap (`accounting.gpu_annotations`).
"""

from collections.abc import Collection, Iterable, Iterator

from tallygate.accounting.gpu_annotations import VENDOR, list_requested
from tallygate.accounting.problem import Problem, Reason
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.pod_view import PodView
from tallygate.admission.rule_codes import GPU_ANNOTATION_NOT_COUNTED
from tallygate.objects.core import Pod
from tallygate.policy.matching import counts_pod
from tallygate.review.applied_workload import ForecastPods


def find_uncounted_annotations(caps: Collection[ActiveCap], pod: Pod, view: PodView | None = None) -> Iterator[Problem]:
    """Yield a problem for each amount of GPUs that annotations of a pod request and no cap over it counts.

    There is one if a cap over the pod limits GPUs. `view` is the place of a template in its object.
    """
    requested = list_requested(pod.metadata.annotations) if caps and pod.metadata is not None else ()
    if not requested:
        return
    caps = [cap for cap in caps if not cap.is_selective or counts_pod(cap.definition.pods, pod)]
    counted = frozenset[str]().union(*(cap.annotations for cap in caps))
    limiting = next((cap for cap in caps if _list_gpu_names(cap)), None)
    for kind, annotation in requested:
        if kind not in counted and limiting is not None:
            yield _create_problem(limiting, kind, annotation, view)


def find_uncounted_of_workload(caps: Collection[ActiveCap], pod_sets: Iterable[ForecastPods]) -> Iterator[Problem]:
    """Yield the same for the pods of a workload, unless the template that a template replaces had the annotation."""
    for pods in pod_sets:
        before = () if pods.old_template is None else find_uncounted_annotations(caps, pods.old_template, pods.view)
        known = {*before}
        if pods.replicas.count:
            problems = find_uncounted_annotations(caps, pods.template, pods.view)
            yield from (problem for problem in problems if problem not in known)


def _create_problem(cap: ActiveCap, kind: str, annotation: str, view: PodView | None) -> Problem:
    name, field = cap.definition.name, f"metadata.annotations[{annotation}]"
    text = (
        f"the annotation requests GPUs of KAI-Scheduler or Run:ai, and no cap counts it: cap {name} counts "
        f"{', '.join(_list_gpu_names(cap))}, of which the pod costs none; count it by "
        f"`counts: {{NAME: {{annotation: {kind}}}}}`, with a limit of 0 to allow none"
    )
    field = field if view is None else view.locate(field)
    return Problem(field, GPU_ANNOTATION_NOT_COUNTED, Reason.FORBIDDEN, text, rule=name, policy_kind="cap")


def _list_gpu_names(cap: ActiveCap) -> list[str]:
    """Return the names of a cap that count GPUs of the vendor."""
    names = {*cap.definition.hard, *cap.definition.soft}
    counts = cap.definition.counts
    return sorted(
        name
        for name in names
        if any(VENDOR in resource for resource in (counts[name].resources if name in counts else (name,)))
    )
