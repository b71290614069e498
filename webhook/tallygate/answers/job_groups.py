"""The PodGroup that the Job controller makes for the pods of a Job, where its feature gate WorkloadWithJob is on.

It has the policy of `spec.scheduling`, else one that lets the pods start one by one. The quorum of a gang is by default
the number of parallel pods.

Source: buildWorkloadItem in pkg/controller/job/job_scheduling_manager.go, WorkloadItemForJob in pkg/api/job/util.go,
newPodGroup in component-helpers/scheduling/schedulingv1/workloadbuilder/podgroup.go, v1.37.
"""

import msgspec

from tallygate.admission.job_pod_groups import JobGroupSource
from tallygate.admission.kinds import DecodedObject
from tallygate.admission.pod_view import PodView
from tallygate.objects.apps import JobScheduling, JobSchedulingPolicy, Workload, WorkloadSpec
from tallygate.objects.core import PodGroupReference, PodResourceClaim
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupResourceClaim,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    SchedulingPod,
    SchedulingPodSpec,
)


def find_job_group(
    content: DecodedObject, view: PodView, pod: SchedulingPod, count: int | None
) -> tuple[SchedulingPod, PodGroup | None]:
    """Return the pods of a template as their API server has them, and the PodGroup that is made for them.

    With `spec.scheduling` they await one wherever that field is not dropped; its controller names it once it makes it.
    `count` are the parallel pods, None for those in the manifest. `pod` has the name and the namespace of the object.
    """
    source = view.group_source
    if source in {JobGroupSource.OWNED, JobGroupSource.UNKNOWN}:
        return _await_group(pod), None
    if source is JobGroupSource.NONE or not isinstance(content, Workload) or content.spec is None:
        return pod, None
    group = _create_job_group(content.spec, pod, count)
    return (pod if content.spec.scheduling is None else _await_group(pod)), group


def _create_job_group(job: WorkloadSpec, pod: SchedulingPod, count: int | None) -> PodGroup:
    scheduling, spec = job.scheduling or JobScheduling(), pod.spec or SchedulingPodSpec()
    gang = (scheduling.scheduling_policy or JobSchedulingPolicy()).gang
    parallel = (1 if job.parallelism is None else job.parallelism) if count is None else count
    policy = PodGroupSchedulingPolicy()
    if gang is not None:
        policy = PodGroupSchedulingPolicy(
            GangSchedulingPolicy(max(1, parallel) if gang.min_count is None else gang.min_count)
        )
    meta, claims = pod.metadata or ObjectMeta(), scheduling.resource_claims
    group_spec = PodGroupSpec(
        scheduling_policy=policy,
        scheduling_constraints=scheduling.scheduling_constraints,
        resource_claims=None if claims is None else [_convert_claim(claim) for claim in claims],
        priority_class_name=spec.priority_class_name,
    )
    # the name of the Workload's template, which the real name has within; no stored name ends with a hyphen
    return PodGroup(ObjectMeta(name=f"{meta.name}-pgt-0-", namespace=meta.namespace), group_spec)


def _convert_claim(claim: PodResourceClaim) -> PodGroupResourceClaim:
    return PodGroupResourceClaim(claim.name or "", claim.resource_claim_name, claim.resource_claim_template_name)


def _await_group(pod: SchedulingPod) -> SchedulingPod:
    spec = pod.spec or SchedulingPodSpec()
    group = spec.scheduling_group or PodGroupReference()
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, scheduling_group=group))
