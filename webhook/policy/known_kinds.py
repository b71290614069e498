"""The kinds of other projects whose pods are read without a policy: where their templates are, and how many pods start.

Each entry names the source of its counts. A number that a controller decides later, such as that of an autoscaler, is
the number at the start.
"""

from collections.abc import Mapping, Sequence

from tallygate.webhook.policy.workload_kinds import (
    CountFactor,
    CountField,
    FieldPath,
    PodForm,
    PodSetDefinition,
    WorkloadKind,
)


def _count(path: str, default: int | None = 1, *, minus: int = 0) -> CountFactor:
    return (CountField(FieldPath.parse(path), default, minus),)


def _pods(  # each is a choice of the definition
    *templates: str,
    counts: Sequence[CountFactor] = (),
    most: Sequence[CountFactor] = (),
    autoscaled: str = "",
    form: PodForm = PodForm.TEMPLATE,
    noun: str = "pods",
) -> PodSetDefinition:
    return PodSetDefinition(
        tuple(map(FieldPath.parse, templates)),
        tuple(counts),
        tuple(most),
        FieldPath.parse(autoscaled) if autoscaled else None,
        form,
        noun,
    )


def _count_parallel_pods(job_spec: str) -> tuple[CountFactor, ...]:
    """Return the number of pods of a Job that run at a time (pkg/controller/job/job_controller.go)."""
    parallelism = CountField(FieldPath.parse(f"{job_spec}.parallelism"))
    return ((parallelism, CountField(FieldPath.parse(f"{job_spec}.completions"), default=None)),)


def _create_training_kind(kind: str, resource: str, field: str) -> WorkloadKind:
    """Return a kind of the training operator: one set of replicas for each role."""
    specs = f"spec.{field}.*"
    return WorkloadKind(
        "kubeflow.org",
        kind,
        resource,
        ("v1",),
        (_pods(f"{specs}.template", counts=[_count(f"{specs}.replicas")], noun="replicas"),),
        (FieldPath.parse("spec.runPolicy.suspend"),),
    )


def _list_ray_pods(cluster: str) -> tuple[PodSetDefinition, ...]:
    """Return the pods of a RayCluster (ray-operator/controllers/ray/raycluster_controller.go, v1.3)."""
    groups = f"{cluster}.workerGroupSpecs[*]"
    hosts = _count(f"{groups}.numOfHosts")
    return (
        _pods(f"{cluster}.headGroupSpec.template", noun="head pods"),
        _pods(
            f"{groups}.template",
            counts=[_count(f"{groups}.replicas"), hosts],
            most=[_count(f"{groups}.maxReplicas", 0), hosts],
            autoscaled=f"{cluster}.enableInTreeAutoscaling",
            noun="workers",
        ),
    )


_SUSPEND = (FieldPath.parse("spec.suspend"),)
_JOBS = "spec.replicatedJobs[*]"
_LEADER_WORKERS = "spec.leaderWorkerTemplate"
_REVISION_ANNOTATIONS = "spec.template.metadata.annotations"

KNOWN_KINDS: tuple[WorkloadKind, ...] = (
    # pkg/controllers/jobset_controller.go of sigs.k8s.io/jobset v0.8: `replicas` Jobs of each
    WorkloadKind(
        "jobset.x-k8s.io",
        "JobSet",
        "jobsets",
        ("v1alpha2",),
        (
            _pods(
                f"{_JOBS}.template.spec.template",
                counts=[_count(f"{_JOBS}.replicas"), *_count_parallel_pods(f"{_JOBS}.template.spec")],
            ),
        ),
        _SUSPEND,
    ),
    # pkg/controllers/leaderworkerset_controller.go of sigs.k8s.io/lws v0.6: a leader and size - 1 workers per replica
    WorkloadKind(
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        "leaderworkersets",
        ("v1",),
        (
            _pods(
                f"{_LEADER_WORKERS}.leaderTemplate",
                f"{_LEADER_WORKERS}.workerTemplate",
                counts=[_count("spec.replicas")],
                noun="leaders",
            ),
            _pods(
                f"{_LEADER_WORKERS}.workerTemplate",
                counts=[_count("spec.replicas"), _count(f"{_LEADER_WORKERS}.size", minus=1)],
                noun="workers",
            ),
        ),
    ),
    _create_training_kind("PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs"),
    _create_training_kind("TFJob", "tfjobs", "tfReplicaSpecs"),
    _create_training_kind("XGBoostJob", "xgboostjobs", "xgbReplicaSpecs"),
    _create_training_kind("PaddleJob", "paddlejobs", "paddleReplicaSpecs"),
    _create_training_kind("JAXJob", "jaxjobs", "jaxReplicaSpecs"),
    # pkg/apis/kubeflow/v2beta1/default.go of mpi-operator v0.6: one launcher, no worker by default
    WorkloadKind(
        "kubeflow.org",
        "MPIJob",
        "mpijobs",
        ("v2beta1", "v1"),
        (
            _pods("spec.mpiReplicaSpecs.Launcher.template", counts=[_count("spec.mpiReplicaSpecs.Launcher.replicas")]),
            _pods(
                "spec.mpiReplicaSpecs.Worker.template",
                counts=[_count("spec.mpiReplicaSpecs.Worker.replicas", 0)],
                noun="workers",
            ),
        ),
        (FieldPath.parse("spec.runPolicy.suspend"),),
    ),
    # api/trainer/v1alpha1 of kubeflow/trainer v2: the template is in a runtime, the resources of its nodes here
    WorkloadKind(
        "trainer.kubeflow.org",
        "TrainJob",
        "trainjobs",
        ("v1alpha1",),
        (
            _pods(
                "spec.trainer.resourcesPerNode",
                counts=[_count("spec.trainer.numNodes")],
                form=PodForm.RESOURCES,
                noun="nodes",
            ),
        ),
        _SUSPEND,
    ),
    WorkloadKind("ray.io", "RayCluster", "rayclusters", ("v1",), _list_ray_pods("spec"), _SUSPEND),
    WorkloadKind(
        "ray.io",
        "RayJob",
        "rayjobs",
        ("v1",),
        (*_list_ray_pods("spec.rayClusterSpec"), _pods("spec.submitterPodTemplate", noun="submitters")),
        _SUSPEND,
    ),
    WorkloadKind("ray.io", "RayService", "rayservices", ("v1",), _list_ray_pods("spec.rayClusterConfig")),
    WorkloadKind(
        "argoproj.io",
        "Rollout",
        "rollouts",
        ("v1alpha1",),
        (_pods("spec.template", counts=[_count("spec.replicas")], noun="replicas"),),
    ),
    # each template makes one pod for each step that names it: one is the least
    WorkloadKind(
        "argoproj.io",
        "Workflow",
        "workflows",
        ("v1alpha1",),
        (_pods("spec.templates[*]", form=PodForm.WORKFLOW),),
        _SUSPEND,
    ),
    WorkloadKind(
        "argoproj.io",
        "WorkflowTemplate",
        "workflowtemplates",
        ("v1alpha1",),
        (_pods("spec.templates[*]", form=PodForm.WORKFLOW),),
    ),
    WorkloadKind(
        "argoproj.io",
        "ClusterWorkflowTemplate",
        "clusterworkflowtemplates",
        ("v1alpha1",),
        (_pods("spec.templates[*]", form=PodForm.WORKFLOW),),
        is_namespaced=False,
    ),
    WorkloadKind(
        "argoproj.io",
        "CronWorkflow",
        "cronworkflows",
        ("v1alpha1",),
        (_pods("spec.workflowSpec.templates[*]", form=PodForm.WORKFLOW),),
        _SUSPEND,
    ),
    # pkg/controllers/job of volcano v1.10
    WorkloadKind(
        "batch.volcano.sh",
        "Job",
        "jobs",
        ("v1alpha1",),
        (_pods("spec.tasks[*].template", counts=[_count("spec.tasks[*].replicas")]),),
    ),
    WorkloadKind(
        "kueue.x-k8s.io",
        "Workload",
        "workloads",
        ("v1beta2", "v1beta1"),
        (_pods("spec.podSets[*].template", counts=[_count("spec.podSets[*].count")]),),
    ),
    WorkloadKind("kubeflow.org", "Notebook", "notebooks", ("v1", "v1beta1"), (_pods("spec.template"),)),
    # pkg/apis/serving/v1beta1 of kserve v0.15: each component is a pod spec with bounds of its replicas
    WorkloadKind(
        "serving.kserve.io",
        "InferenceService",
        "inferenceservices",
        ("v1beta1",),
        tuple(
            _pods(
                f"spec.{component}",
                counts=[_count(f"spec.{component}.minReplicas")],
                most=[_count(f"spec.{component}.maxReplicas", 0)],
                form=PodForm.SPEC,
                noun=f"{component} pods",
            )
            for component in ("predictor", "transformer", "explainer")
        ),
    ),
    WorkloadKind(
        "sparkoperator.k8s.io",
        "SparkApplication",
        "sparkapplications",
        ("v1beta2",),
        (
            _pods("spec.driver.template", noun="drivers"),
            _pods("spec.executor.template", counts=[_count("spec.executor.instances")], noun="executors"),
        ),
    ),
    # a revision starts with one pod unless its annotation says more
    WorkloadKind(
        "serving.knative.dev",
        "Service",
        "services",
        ("v1",),
        (
            _pods(
                "spec.template",
                counts=[_count(f'{_REVISION_ANNOTATIONS}["autoscaling.knative.dev/min-scale"]', 1)],
                most=[_count(f'{_REVISION_ANNOTATIONS}["autoscaling.knative.dev/max-scale"]', 0)],
            ),
        ),
    ),
)
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
