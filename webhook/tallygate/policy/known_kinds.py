"""The kinds of other projects whose pods are read without a policy: where their templates are, and how many pods start.

This module has those of batch jobs. Each entry names the source of its counts. A number that a controller decides
later, such as that of an autoscaler, is the number at the start.
"""

from collections.abc import Mapping

from tallygate.policy.kind_builders import (
    create_count,
    create_expectation,
    create_job_counts,
    create_kind,
    create_pod_set,
)
from tallygate.policy.known_application_kinds import APPLICATION_KINDS
from tallygate.policy.workload_kinds import PodForm, PodSetDefinition, WorkloadKind

_JOBSET = "sigs.k8s.io/jobset v0.11.1, pkg/controllers/jobset_controller.go"
_LWS = "sigs.k8s.io/lws v0.8.0, pkg/controllers/leaderworkerset_controller.go"
_TRAINING = "github.com/kubeflow/training-operator v1.9.3, pkg/apis/kubeflow.org/v1"
_MPI = "github.com/kubeflow/mpi-operator v0.8.0, pkg/apis/kubeflow/v2beta1/default.go"
_TRAINER = "github.com/kubeflow/trainer/v2 v2.1.0, pkg/apis/trainer/v1alpha1"
_VOLCANO = "volcano.sh/volcano v1.15.1, pkg/controllers/job/job_controller_actions.go"
_KUEUE = "sigs.k8s.io/kueue v0.19.2, apis/kueue/v1beta2/workload_types.go"
_APP_WRAPPER = "github.com/project-codeflare/appwrapper v1.2.2, pkg/utils/utils.go"

_LEADER_WORKERS = "spec.leaderWorkerTemplate"
_MPI_SPECS = "spec.mpiReplicaSpecs"
_RUN_POLICY = ("spec.runPolicy.suspend",)
_SUSPEND = ("spec.suspend",)
_TRAINING_OPERATOR = "kubeflow.org/training-operator"


def _create_job_set(spec: str, *, is_used: bool = True) -> PodSetDefinition:
    """Return the pods of a JobSet; a runtime that is not used has a part of them, and a TrainJob the others."""
    jobs = f"{spec}.replicatedJobs[*]"
    counts = [create_count(f"{jobs}.replicas"), *create_job_counts(f"{jobs}.template.spec")]
    template = f"{jobs}.template.spec.template"
    return create_pod_set(template, counts=counts, is_used=is_used, is_part=not is_used, is_of_job=True)


def _create_training_kind(
    kind: str, resource: str, field: str, *elastic: PodSetDefinition, is_delegated: bool = True
) -> WorkloadKind:
    """Return a kind of the training operator: one set of replicas for each role.

    If it is `delegated`, the operator makes no pods of jobs that another controller manages.
    """
    specs = f"spec.{field}.*"
    replicas = create_pod_set(f"{specs}.template", counts=[f"{specs}.replicas"], noun="replicas")
    return create_kind(
        f"{kind}.kubeflow.org",
        resource,
        "v1",
        replicas,
        *elastic,
        source=_TRAINING,
        suspended=_RUN_POLICY,
        expected=[create_expectation("spec.runPolicy.managedBy", _TRAINING_OPERATOR)] if is_delegated else (),
        starts_together=True,
    )


def _create_elastic_workers(field: str) -> PodSetDefinition:
    """Return the workers that a HorizontalPodAutoscaler scales, which the operator makes if there are metrics."""
    return create_pod_set(
        f"spec.{field}.Worker.template",
        counts=[f"spec.{field}.Worker.replicas"],
        most=[create_count("spec.elasticPolicy.maxReplicas", 0)],
        autoscaled="spec.elasticPolicy.metrics",
        noun="workers",
    )


def _create_volcano_tasks(spec: str, *, is_used: bool = True) -> PodSetDefinition:
    tasks = f"{spec}.tasks[*]"
    return create_pod_set(f"{tasks}.template", counts=[create_count(f"{tasks}.replicas", 0)], is_used=is_used)


_BATCH_KINDS: tuple[WorkloadKind, ...] = (
    create_kind(
        "JobSet.jobset.x-k8s.io",
        "jobsets",
        "v1alpha2",
        _create_job_set("spec"),
        source=_JOBSET,
        suspended=_SUSPEND,
        expected=(create_expectation("spec.managedBy", "jobset.sigs.k8s.io/jobset-controller"),),
        starts_together=True,
    ),
    # a leader and size - 1 workers per replica
    create_kind(
        "LeaderWorkerSet.leaderworkerset.x-k8s.io",
        "leaderworkersets",
        "v1",
        create_pod_set(
            f"{_LEADER_WORKERS}.leaderTemplate",
            f"{_LEADER_WORKERS}.workerTemplate",
            counts=["spec.replicas"],
            noun="leaders",
        ),
        create_pod_set(
            f"{_LEADER_WORKERS}.workerTemplate",
            counts=["spec.replicas", create_count(f"{_LEADER_WORKERS}.size", minus=1)],
            noun="workers",
        ),
        source=_LWS,
        starts_together=True,
    ),
    _create_training_kind(
        "PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs", _create_elastic_workers("pytorchReplicaSpecs")
    ),
    _create_training_kind("TFJob", "tfjobs", "tfReplicaSpecs"),
    _create_training_kind("XGBoostJob", "xgboostjobs", "xgbReplicaSpecs"),
    _create_training_kind(
        "PaddleJob", "paddlejobs", "paddleReplicaSpecs", _create_elastic_workers("paddleReplicaSpecs")
    ),
    _create_training_kind("JAXJob", "jaxjobs", "jaxReplicaSpecs", is_delegated=False),
    # v2beta1 is that of the MPI operator, v1 that of the training operator; both count alike
    create_kind(
        "MPIJob.kubeflow.org",
        "mpijobs",
        "v2beta1 v1",
        create_pod_set(f"{_MPI_SPECS}.Launcher.template", counts=[f"{_MPI_SPECS}.Launcher.replicas"], noun="launchers"),
        create_pod_set(
            f"{_MPI_SPECS}.Worker.template", counts=[create_count(f"{_MPI_SPECS}.Worker.replicas", 0)], noun="workers"
        ),
        source=_MPI,
        suspended=_RUN_POLICY,
        expected=(create_expectation("spec.runPolicy.managedBy", "kubeflow.org/mpi-operator", _TRAINING_OPERATOR),),
        starts_together=True,
    ),
    # The template of a TrainJob is in its runtime, and the resources of its nodes are in the TrainJob. Only its JobSet
    # states all its pods, so this one reserves for them.
    create_kind(
        "TrainJob.trainer.kubeflow.org",
        "trainjobs",
        "v1alpha1",
        create_pod_set(
            "spec.trainer.resourcesPerNode", counts=["spec.trainer.numNodes"], form=PodForm.RESOURCES, noun="nodes"
        ),
        source=f"{_TRAINER}/trainjob_types.go",
        suspended=_SUSPEND,
    ),
    create_kind(
        "TrainingRuntime.trainer.kubeflow.org",
        "trainingruntimes",
        "v1alpha1",
        _create_job_set("spec.template.spec", is_used=False),
        source=f"{_TRAINER}/trainingruntime_types.go",
    ),
    create_kind(
        "ClusterTrainingRuntime.trainer.kubeflow.org",
        "clustertrainingruntimes",
        "v1alpha1",
        _create_job_set("spec.template.spec", is_used=False),
        source=f"{_TRAINER}/trainingruntime_types.go",
        is_namespaced=False,
    ),
    create_kind(
        "Job.batch.volcano.sh", "jobs", "v1alpha1", _create_volcano_tasks("spec"), source=_VOLCANO, starts_together=True
    ),
    create_kind(
        "CronJob.batch.volcano.sh",
        "cronjobs",
        "v1alpha1",
        _create_volcano_tasks("spec.jobTemplate.spec"),
        source=_VOLCANO,
        suspended=_SUSPEND,
    ),
    create_kind(
        "JobTemplate.flow.volcano.sh",
        "jobtemplates",
        "v1alpha1",
        _create_volcano_tasks("spec", is_used=False),
        source=_VOLCANO,
    ),
    create_kind(
        "Workload.kueue.x-k8s.io",
        "workloads",
        "v1beta2 v1beta1",
        create_pod_set(
            "spec.podSets[*].template",
            counts=[create_count("spec.podSets[*].count", assigned="status.admission.podSetAssignments")],
        ),
        source=_KUEUE,
        expected=(create_expectation("spec.active", "true"),),
    ),
    create_kind(
        "AppWrapper.workload.codeflare.dev",
        "appwrappers",
        "v1beta2",
        create_pod_set("spec.components[*].template", form=PodForm.OBJECT, declared="spec.components[*].podSets"),
        source=_APP_WRAPPER,
        suspended=_SUSPEND,
        expected=(create_expectation("spec.managedBy", "workload.codeflare.dev/appwrapper-controller"),),
        starts_together=True,
    ),
)

KNOWN_KINDS: tuple[WorkloadKind, ...] = (*_BATCH_KINDS, *APPLICATION_KINDS)
"""The known kinds; a policy of `kind: WorkloadKind` adds others."""

BUILT_IN_KINDS: Mapping[str, str] = {
    "Pod": "",
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "Job": "batch",
    "CronJob": "batch",
    "ReplicationController": "",
    "PodTemplate": "",
    "Node": "",
    "ResourceQuota": "",
    "LimitRange": "",
    "ResourceClaim": "resource.k8s.io",
    "ResourceClaimTemplate": "resource.k8s.io",
}
"""The kinds of Kubernetes itself that are read, and the API group of each."""
