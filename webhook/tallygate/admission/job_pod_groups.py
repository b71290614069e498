"""The PodGroup that the Job controller makes for the pods of a Job, where its feature gate WorkloadWithJob is on.

It makes one for each Job that it manages, that no other controller owns, and whose pods name no PodGroup. A Job that
another controller owns has one by `spec.scheduling` since 1.38, and none before. Annotations leave the PodGroup to a
template of a Workload, which is no part of the Job: in 1.37 one of them does for a Job with an owner, since 1.38 both
do for any.

Source: getManagementMode in pkg/controller/job/job_scheduling_manager.go, v1.37 and v1.38.0-beta.0.
"""

from enum import Enum
from typing import Final

from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.objects.apps import WorkloadSpec
from tallygate.objects.core import PodResourceClaim
from tallygate.objects.meta import ObjectMeta

_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
_TEMPLATE_NAME: Final = "scheduling.k8s.io/group-template-name"
_DELEGATIONS: Final = (_TEMPLATE_NAME, "scheduling.k8s.io/workload-name")


class JobGroupSource(Enum):
    """The source of the PodGroup of a Job.

    `JOB` is its own `spec.scheduling`, or the default without it. `OWNED` is what a Job has that another controller
    owns, as its version of Kubernetes decides it. `UNKNOWN` says that an object that is not read decides it.
    """

    NONE = "none"
    JOB = "job"
    OWNED = "owned"
    UNKNOWN = "unknown"

    def settle(self, version: KubernetesVersion) -> "JobGroupSource":
        """Return the source in this version."""
        if self is JobGroupSource.OWNED and not version.has(Switch.GROUPS_OWNED_JOBS):
            return JobGroupSource.NONE
        return self


def is_managed_elsewhere(spec: WorkloadSpec) -> bool:
    """Return whether another controller than Kubernetes' own manages a Job, perhaps in another cluster."""
    return (spec.managed_by or _JOB_CONTROLLER) != _JOB_CONTROLLER


def find_group_source(spec: WorkloadSpec, meta: ObjectMeta | None, *, is_owned: bool) -> JobGroupSource:
    """Return the source of the PodGroup of a Job with this `spec`; another controller may own the Job."""
    template = spec.template.spec if spec.template is not None else None
    if is_managed_elsewhere(spec) or (template is not None and template.scheduling_group is not None):
        return JobGroupSource.NONE
    annotations = (meta.annotations if meta else None) or {}
    is_delegated = any(name in annotations for name in _DELEGATIONS)
    if not is_owned:
        return JobGroupSource.UNKNOWN if is_delegated else JobGroupSource.JOB
    if _TEMPLATE_NAME in annotations:
        return JobGroupSource.UNKNOWN
    return JobGroupSource.OWNED if is_delegated or spec.scheduling is not None else JobGroupSource.NONE


def list_group_claims(spec: WorkloadSpec) -> tuple[PodResourceClaim, ...]:
    """Return the claims that are made from templates for the PodGroup of `spec.scheduling`.

    Each is made once, whether pods use it or not (syncPodGroup in pkg/controller/resourceclaim/controller.go, v1.37).
    The API server drops the field where its feature gate is off.
    """
    claims = spec.scheduling.resource_claims if spec.scheduling is not None else None
    return tuple(claim for claim in claims or () if claim.resource_claim_template_name)
