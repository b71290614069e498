"""The PodGroup that the Job controller makes for the pods of a Job, where its feature gate WorkloadWithJob is on.

It makes one for each Job that it manages, that no other controller owns, and whose pods name no PodGroup: with the
policy of `spec.scheduling`, else with one that lets the pods start one by one. The quorum of a gang is by default the
number of parallel pods.

Source: getManagementMode and buildWorkloadItem in pkg/controller/job/job_scheduling_manager.go, WorkloadItemForJob in
pkg/api/job/util.go, newPodGroup in component-helpers/scheduling/schedulingv1/workloadbuilder/podgroup.go, v1.37.
"""

from contextlib import suppress
from typing import Final

import msgspec

from tallygate.documents.syntax_tree import Limits
from tallygate.documents.to_json import to_json
from tallygate.manifests.manifest_objects import Manifest
from tallygate.objects.meta import ObjectMeta, OwnerReference
from tallygate.objects.scheduling import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupResourceClaim,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    SchedulingPod,
    SchedulingPodSpec,
)

_JOB: Final = ("batch", "Job")
_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
_DELEGATED: Final = "scheduling.k8s.io/group-template-name"
"""The annotation of a Job for which its owner leaves the PodGroup to the Job controller."""


class _Gang(msgspec.Struct, rename="camel"):
    min_count: int | None = None


class _Policy(msgspec.Struct):
    gang: _Gang | None = None


class _Scheduling(msgspec.Struct, rename="camel"):
    scheduling_policy: _Policy | None = None
    scheduling_constraints: dict[str, msgspec.Raw] | None = None
    resource_claims: list[PodGroupResourceClaim] | None = None


class _JobSpec(msgspec.Struct, rename="camel"):
    parallelism: int | None = None
    managed_by: str | None = None
    scheduling: _Scheduling | None = None


class _JobMeta(msgspec.Struct, rename="camel"):
    owner_references: list[OwnerReference] | None = None
    annotations: dict[str, str] | None = None


class _Job(msgspec.Struct):
    metadata: _JobMeta | None = None
    spec: _JobSpec | None = None


class JobGroup(msgspec.Struct, frozen=True):
    """The PodGroup of a Job; None if the owner of the Job decides about it.

    It `is_written` if the Job has `spec.scheduling`: then its pods have one wherever the field is not dropped.
    """

    group: PodGroup | None
    is_written: bool


_DECODER: Final = msgspec.json.Decoder(_Job)


def find_job_group(
    manifest: Manifest, pod: SchedulingPod, meta: ObjectMeta, count: int | None, limits: Limits
) -> JobGroup | None:
    """Return the PodGroup of a Job with these pods; None if the Job controller makes none.

    `meta` has the name and the namespace of the Job. `count` are its parallel pods, None for those in the manifest.

    Raises:
        DocumentError: if aliases expand beyond the limits.
    """
    spec = pod.spec or SchedulingPodSpec()
    if (manifest.group, manifest.kind) != _JOB or spec.scheduling_group is not None:
        return None
    job = _Job()
    with suppress(msgspec.ValidationError):  # no API server could decode it, which the check of the manifest reports
        job = _DECODER.decode(to_json(manifest.node, limits.expanded))
    job_meta, job_spec = job.metadata or _JobMeta(), job.spec or _JobSpec()
    if job_spec.managed_by not in {None, _JOB_CONTROLLER}:
        return None
    if any(owner.controller for owner in job_meta.owner_references or ()):
        return JobGroup(None, is_written=True) if _DELEGATED in (job_meta.annotations or {}) else None
    # the name of the Workload's template, which the real name has within; no stored name ends with a hyphen
    named = ObjectMeta(name=f"{meta.name}-pgt-0-", namespace=meta.namespace)
    return JobGroup(PodGroup(named, _create_spec(job_spec, spec, count)), is_written=job_spec.scheduling is not None)


def _create_spec(job: _JobSpec, pod: SchedulingPodSpec, count: int | None) -> PodGroupSpec:
    scheduling = job.scheduling or _Scheduling()
    gang = (scheduling.scheduling_policy or _Policy()).gang
    parallel = (1 if job.parallelism is None else job.parallelism) if count is None else count
    policy = PodGroupSchedulingPolicy()
    if gang is not None:
        policy = PodGroupSchedulingPolicy(
            GangSchedulingPolicy(max(1, parallel) if gang.min_count is None else gang.min_count)
        )
    return PodGroupSpec(
        scheduling_policy=policy,
        scheduling_constraints=scheduling.scheduling_constraints,
        resource_claims=scheduling.resource_claims,
        priority_class_name=pod.priority_class_name,
    )
