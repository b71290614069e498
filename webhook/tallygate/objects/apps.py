"""The built-in kinds that contain a pod template."""

import msgspec

from tallygate.objects.core import Pod, PodResourceClaim
from tallygate.objects.meta import ObjectMeta

IntOrPercent = int | str
"""A number of pods, or a percentage of them as `25%` (apimachinery intstr.IntOrString)."""


class RollingUpdate(msgspec.Struct, rename="camel", frozen=True):
    """`spec.strategy.rollingUpdate` of a Deployment."""

    max_surge: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None


class DeploymentStrategy(msgspec.Struct, rename="camel", frozen=True):
    """`spec.strategy` of a Deployment."""

    type: str | None = None
    rolling_update: RollingUpdate | None = None


class JobGang(msgspec.Struct, rename="camel", frozen=True):
    """`spec.scheduling.schedulingPolicy.gang` of a Job; without a number it is that of its parallel pods."""

    min_count: int | None = None


class JobSchedulingPolicy(msgspec.Struct, frozen=True):
    """`spec.scheduling.schedulingPolicy` of a Job; without `gang` its pods start one by one."""

    gang: JobGang | None = None


class JobScheduling(msgspec.Struct, rename="camel", frozen=True):
    """`spec.scheduling` of a Job, whose pods are one group; they share the claims that are listed here."""

    scheduling_policy: JobSchedulingPolicy | None = None
    scheduling_constraints: dict[str, msgspec.Raw] | None = None
    resource_claims: list[PodResourceClaim] | None = None


class WorkloadSpec(msgspec.Struct, rename="camel", frozen=True):
    """`spec` of a Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController or Job."""

    template: Pod | None = None
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None
    managed_by: str | None = None
    strategy: DeploymentStrategy | None = None
    scheduling: JobScheduling | None = None
    active_deadline_seconds: int | None = None


class Workload(msgspec.Struct, rename="camel", frozen=True):
    """A kind with its template at `spec.template`."""

    metadata: ObjectMeta | None = None
    spec: WorkloadSpec | None = None


class CronJobSpec(msgspec.Struct, rename="camel", frozen=True):
    """`spec` of a CronJob; its job template has a template of its own."""

    job_template: Workload | None = None
    suspend: bool | None = None


class CronJob(msgspec.Struct, rename="camel", frozen=True):
    """A CronJob, with its template at `spec.jobTemplate.spec.template`."""

    metadata: ObjectMeta | None = None
    spec: CronJobSpec | None = None


class PodTemplate(msgspec.Struct, rename="camel", frozen=True):
    """A PodTemplate, with its template at `template`."""

    metadata: ObjectMeta | None = None
    template: Pod | None = None
