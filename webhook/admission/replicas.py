"""How many pods a workload runs at a time, and how many more a rollout of it starts.

As the controllers of Kubernetes v1.36 count: pkg/controller/deployment/util/deployment_util.go (ResolveFenceposts),
pkg/controller/job/job_controller.go, and the defaults of pkg/apis/apps/v1/defaults.go.
"""

import re
from dataclasses import dataclass

from webhook.admission.workloads import Judged
from webhook.objects.apps import CronJob, DeploymentStrategy, IntOrPercent, Workload, WorkloadSpec

_PERCENT = re.compile(r"(\d{1,9})%", re.ASCII)
_QUARTER = "25%"
_RECREATE = "Recreate"


@dataclass(frozen=True, slots=True)
class Replicas:
    """`count` pods at a time, called `word`.

    A rollout has up to `surge` more; with `held` it can end no old pod before one of those runs.
    """

    count: int
    word: str = "replicas"
    surge: int = 0
    held: bool = False


def replicas(kind: str, judged: Judged) -> Replicas | None:
    """The pods of a workload; None for what has none of its own, or has as many as there are nodes (then: at least 1).

    What the API server will refuse, such as a share that is none, counts as absent.
    """
    if isinstance(judged, CronJob):
        job = judged.spec.job_template if judged.spec else None
        return _of_job(job.spec) if job and job.spec else None
    if not isinstance(judged, Workload) or judged.spec is None:
        return None
    if kind == "Job":
        return _of_job(judged.spec)
    if kind == "DaemonSet":
        return Replicas(1, "pods")
    count = max(_or(judged.spec.replicas, 1), 0)
    return _rolled(count, judged.spec.strategy or DeploymentStrategy()) if kind == "Deployment" else Replicas(count)


def _of_job(spec: WorkloadSpec) -> Replicas:
    if spec.suspend:
        return Replicas(0)
    parallel = _or(spec.parallelism, 1)
    return Replicas(max(min(parallel, _or(spec.completions, parallel)), 0), "parallel pods")


def _rolled(count: int, strategy: DeploymentStrategy) -> Replicas:
    if strategy.type == _RECREATE:
        return Replicas(count)
    rolling = strategy.rolling_update
    surge = _share(rolling.max_surge if rolling else None, count, up=True)
    unavailable = _share(rolling.max_unavailable if rolling else None, count, up=False)
    # Where both come to nothing, one may be unavailable: a rollout could not go on otherwise.
    return Replicas(count, surge=surge, held=unavailable == 0 and surge > 0)


def _share(written: IntOrPercent | None, count: int, *, up: bool) -> int:
    if isinstance(written, int):
        return written
    found = _PERCENT.fullmatch(_QUARTER if written is None else written)
    whole = int(found[1]) * count if found else 0
    return -(-whole // 100) if up else whole // 100


def _or(written: int | None, default: int) -> int:
    return default if written is None else written
