"""How many pods a workload runs at a time, and how many more a rollout of it starts.

As the controllers of Kubernetes v1.36 count: pkg/controller/deployment/util/deployment_util.go (ResolveFenceposts),
pkg/controller/job/job_controller.go, and the defaults of pkg/apis/apps/v1/defaults.go.
"""

import re
from dataclasses import dataclass

from webhook.admission.workloads import DecodedObject
from webhook.objects.apps import CronJob, DeploymentStrategy, IntOrPercent, Workload, WorkloadSpec

_PERCENT_PATTERN = re.compile(r"(\d{1,9})%", re.ASCII)
_DEFAULT_SHARE = "25%"
_RECREATE = "Recreate"


@dataclass(frozen=True, slots=True)
class ReplicaCount:
    """`count` pods at a time, called `word`.

    A rollout has up to `surge` more; with `held` it can end no old pod before one of those runs.
    """

    count: int
    noun: str = "replicas"
    surge: int = 0
    is_surge_required: bool = False


def count_replicas(kind: str, decoded_object: DecodedObject) -> ReplicaCount | None:
    """The pods of a workload; None for what has none of its own, or has as many as there are nodes (then: at least 1).

    What the API server will refuse, such as a share that is none, counts as absent.
    """
    if isinstance(decoded_object, CronJob):
        job = decoded_object.spec.job_template if decoded_object.spec else None
        return _count_job_pods(job.spec) if job and job.spec else None
    if not isinstance(decoded_object, Workload) or decoded_object.spec is None:
        return None
    if kind == "Job":
        return _count_job_pods(decoded_object.spec)
    if kind == "DaemonSet":
        return ReplicaCount(1, "pods")
    count = max(_get_or_default(decoded_object.spec.replicas, 1), 0)
    return (
        _count_deployment_pods(count, decoded_object.spec.strategy or DeploymentStrategy())
        if kind == "Deployment"
        else ReplicaCount(count)
    )


def _count_job_pods(spec: WorkloadSpec) -> ReplicaCount:
    if spec.suspend:
        return ReplicaCount(0)
    parallel = _get_or_default(spec.parallelism, 1)
    return ReplicaCount(max(min(parallel, _get_or_default(spec.completions, parallel)), 0), "parallel pods")


def _count_deployment_pods(count: int, strategy: DeploymentStrategy) -> ReplicaCount:
    if strategy.type == _RECREATE:
        return ReplicaCount(count)
    rolling = strategy.rolling_update
    surge = _resolve_share(rolling.max_surge if rolling else None, count, round_up=True)
    unavailable = _resolve_share(rolling.max_unavailable if rolling else None, count, round_up=False)
    # Where both come to nothing, one may be unavailable: a rollout could not go on otherwise.
    return ReplicaCount(count, surge=surge, is_surge_required=unavailable == 0 and surge > 0)


def _resolve_share(share: IntOrPercent | None, count: int, *, round_up: bool) -> int:
    if isinstance(share, int):
        return share
    percent_match = _PERCENT_PATTERN.fullmatch(_DEFAULT_SHARE if share is None else share)
    product = int(percent_match[1]) * count if percent_match else 0
    return -(-product // 100) if round_up else product // 100


def _get_or_default(value: int | None, default: int) -> int:
    return default if value is None else value
