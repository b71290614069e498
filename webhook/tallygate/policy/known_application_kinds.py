"""The known kinds of applications: clusters of Ray, pipelines, rollouts, models, Spark, services, sandboxes, sets."""

from tallygate.policy import workload_kinds
from tallygate.policy.kind_builders import (
    create_count,
    create_counts,
    create_expectation,
    create_job_counts,
    create_kind,
    create_pod_set,
)

_RAY = "github.com/ray-project/kuberay/ray-operator v1.6.2, controllers/ray/utils/util.go"
_ROLLOUTS = "github.com/argoproj/argo-rollouts v1.9.0"
_WORKFLOWS = "github.com/argoproj/argo-workflows/v3 v3.7.18, workflow/controller"
_KSERVE = "github.com/kserve/kserve v0.20.0, pkg/apis/serving"
_SPARK = "github.com/kubeflow/spark-operator/v2 v2.5.2, api/v1beta2/defaults.go"
_KNATIVE = "knative.dev/serving v0.51.0, pkg/apis/autoscaling/register.go"
_SANDBOX = "sigs.k8s.io/agent-sandbox v0.5.6"
_AIBRIX = "github.com/vllm-project/aibrix v0.7.0, pkg/controller"
_ROLE_GROUPS = "sigs.k8s.io/rbgs v0.7.0, pkg/reconciler"
_DISAGGREGATED = "sigs.k8s.io/lws v0.9.0, pkg/controllers/disaggregatedset/executor.go"
_KRUISE = "github.com/openkruise/kruise v1.8.0"
_DYNAMO = "github.com/ai-dynamo/dynamo v1.5.0, deploy/operator/api/v1beta1/dynamocomponentdeployment_types.go"
_NIM = "github.com/NVIDIA/k8s-nim-operator v3.1.2, api/apps/v1alpha1/nimservice_types.go"
_TEKTON = "github.com/tektoncd/pipeline v1.15.0, pkg/pod/pod.go"
_NOTEBOOK = "github.com/kubeflow/kubeflow v1.10.0, components/notebook-controller/controllers/notebook_controller.go"

_BASES = "spec.baseRefs"
_TERMINATE = ("spec.terminate",)
_SUSPEND = ("spec.suspend",)
_STOPPED_MODEL = ('metadata.annotations["serving.kserve.io/stop"]',)


_RAY_MANAGED = (create_expectation("spec.managedBy", "ray.io/kuberay-operator"),)


def _list_ray_pods(
    cluster: str,
    selector: tuple[str, ...] = (),
    doubled: workload_kinds.ExpectedValue | None = None,
    clusters: tuple[workload_kinds.CountFactor, ...] = (),
) -> tuple[workload_kinds.PodSetDefinition, ...]:
    """Return the pods of a cluster of Ray, or of several `clusters`; none if a `selector` names another cluster."""
    groups = f"{cluster}.workerGroupSpecs[*]"
    replicas = workload_kinds.CountField(
        workload_kinds.FieldPath.parse(f"{groups}.replicas"),
        0,
        floors=(workload_kinds.FieldPath.parse(f"{groups}.minReplicas"),),
    )
    maximum = workload_kinds.CountField(workload_kinds.FieldPath.parse(f"{groups}.maxReplicas"), default=None)
    hosts = create_count(f"{groups}.numOfHosts")
    return (
        create_pod_set(
            f"{cluster}.headGroupSpec.template", counts=clusters, noun="head pods", suspended=selector, doubled=doubled
        ),
        create_pod_set(
            f"{groups}.template",
            counts=[*clusters, (replicas, maximum), hosts],
            most=[*clusters, create_count(f"{groups}.maxReplicas", 0), hosts],
            autoscaled=f"{cluster}.enableInTreeAutoscaling",
            noun="workers",
            suspended=(*selector, f"{groups}.suspend"),
            doubled=doubled,
        ),
    )


def _list_ray_job_pods(job: str) -> tuple[workload_kinds.PodSetDefinition, ...]:
    """Return the pods of a RayJob; a submitter that has no template here gets a small one from the operator."""
    submitter = create_pod_set(
        f"{job}.submitterPodTemplate",
        noun="submitters",
        expected=(create_expectation(f"{job}.submissionMode", "K8sJobMode"),),
    )
    return (*_list_ray_pods(f"{job}.rayClusterSpec", (f"{job}.clusterSelector",)), submitter)


def _list_workflow_pods(spec: str, *, is_used: bool = True) -> tuple[workload_kinds.PodSetDefinition, ...]:
    """Return the pods of a Workflow: each template makes one for each step that names it, or item of the step."""
    template = f"{spec}.templates[*]"
    return (
        *(
            create_pod_set(
                path,
                form=workload_kinds.PodForm.WORKFLOW,
                is_separate=True,
                workflow=spec,
                is_used=is_used,
                is_part=not is_used,
                completed_by=f"{spec}.workflowTemplateRef",
            )
            for path in (template, f"{template}.steps[*][*].inline", f"{template}.dag.tasks[*].inline")
        ),
        create_pod_set(f"{spec}.templateDefaults", form=workload_kinds.PodForm.WORKFLOW, is_used=False, is_part=True),
    )


def _create_component(component: str, noun: str, *, is_scaled: bool = True) -> workload_kinds.PodSetDefinition:
    """Return the pods of a component of an InferenceService."""
    return create_pod_set(
        component,
        counts=[f"{component}.minReplicas"],
        most=[create_count(f"{component}.maxReplicas", 0)] if is_scaled else (),
        form=workload_kinds.PodForm.COMPONENT,
        noun=noun,
    )


def _list_model_pods(spec: str, noun: str, *, is_used: bool) -> tuple[workload_kinds.PodSetDefinition, ...]:
    """Return the pods of a model by LLMInferenceService: a leader for each replica, and the others of its group."""
    replicas = create_count(f"{spec}.replicas", floors=(f"{spec}.scaling.minReplicas",))
    most = create_count(f"{spec}.scaling.maxReplicas", 0)
    parallelism = f"{spec}.parallelism"
    workers = create_count(
        f"{parallelism}.pipeline", minus=1, quotient=(f"{parallelism}.data", f"{parallelism}.dataLocal")
    )
    return (
        create_pod_set(
            f"{spec}.template",
            counts=[replicas],
            most=[most],
            form=workload_kinds.PodForm.SPEC,
            noun=f"{noun} pods",
            is_used=is_used,
            is_part=not is_used,
            completed_by=_BASES,
        ),
        create_pod_set(
            f"{spec}.worker",
            counts=[replicas, workers],
            most=[most, workers],
            form=workload_kinds.PodForm.SPEC,
            noun=f"{noun} workers",
            is_used=is_used,
            is_part=not is_used,
            completed_by=_BASES,
        ),
    )


def _list_llm_pods(*, is_used: bool = True) -> tuple[workload_kinds.PodSetDefinition, ...]:
    scheduler = "spec.router.scheduler"
    return (
        *_list_model_pods("spec", "model", is_used=is_used),
        *_list_model_pods("spec.prefill", "prefill", is_used=is_used),
        create_pod_set(
            f"{scheduler}.template",
            counts=[f"{scheduler}.replicas"],
            form=workload_kinds.PodForm.SPEC,
            noun="scheduler pods",
            is_used=is_used,
            is_part=not is_used,
            completed_by=_BASES,
        ),
    )


def _list_spark_pods(
    spec: str, driver: str = "driver", executors: int = 1
) -> tuple[workload_kinds.PodSetDefinition, ...]:
    """Return the pods of an application: Spark itself starts the executors, by default as many as `executors`."""
    allocation = f"{spec}.dynamicAllocation"
    floors = (f"{allocation}.initialExecutors", f"{allocation}.minExecutors")
    return (
        create_pod_set(f"{spec}.{driver}", form=workload_kinds.PodForm.SPARK_POD, noun=f"{driver}s"),
        create_pod_set(
            f"{spec}.executor",
            counts=[create_count(f"{spec}.executor.instances", executors)],
            scaled=[create_count(f"{spec}.executor.instances", 0, floors=floors)],
            most=[create_count(f"{allocation}.maxExecutors", 0)],
            autoscaled=f"{allocation}.enabled",
            form=workload_kinds.PodForm.SPARK_POD,
            noun="executors",
        ),
    )


def _create_revision(template: str, annotations: str, form: workload_kinds.PodForm) -> workload_kinds.PodSetDefinition:
    """Return the pods of a Knative revision: it starts with one unless an annotation says more."""
    prefix = f'{annotations}["autoscaling.knative.dev/'
    return create_pod_set(
        template,
        counts=[create_count(f'{prefix}initial-scale"]', floors=(f'{prefix}min-scale"]',))],
        most=[create_count(f'{prefix}max-scale"]', 0)],
        form=form,
    )


def _list_group_pods(role: str, *factors: workload_kinds.CountFactor) -> tuple[workload_kinds.PodSetDefinition, ...]:
    """Return the pods of a LeaderWorkerSet below a role: a leader and size - 1 workers for each replica."""
    template = f"{role}.spec.leaderWorkerTemplate"
    replicas = (*factors, create_count(f"{role}.spec.replicas"))
    return (
        create_pod_set(f"{template}.leaderTemplate", f"{template}.workerTemplate", counts=replicas, noun="leaders"),
        create_pod_set(
            f"{template}.workerTemplate", counts=[*replicas, create_count(f"{template}.size", minus=1)], noun="workers"
        ),
    )


def _list_role_pods(roles: str) -> tuple[workload_kinds.PodSetDefinition, ...]:
    """Return the pods of the roles of a RoleBasedGroup, by their patterns or by the fields that v1alpha1 has instead.

    A role may refer to one of the templates of the group in place of its own, and change it by a patch. A patch is a
    part of a template: it is checked, and counts nothing, since what it replaces is not known.
    """
    role = f"{roles}.roles[*]"
    replicas, group = f"{role}.replicas", f"{role}.leaderWorkerPattern"
    sized = {
        f"{role}.standalonePattern": (replicas,),
        group: (replicas, create_count(f"{group}.size")),
        role: (replicas, create_count(f"{role}.leaderWorkerSet.size")),
    }
    return (
        *(create_pod_set(f"{role_path}.template", counts=counts) for role_path, counts in sized.items()),
        *(
            create_pod_set(f"{component_path}.template", counts=[replicas, f"{component_path}.size"], noun="components")
            for component_path in (f"{role}.customComponentsPattern.components[*]", f"{role}.components[*]")
        ),
        create_pod_set(
            f"{roles}.roleTemplates[*].template",
            references=[
                workload_kinds.TemplateReference(
                    workload_kinds.FieldPath.parse(f"{role_path}.templateRef.name"), create_counts(counts)
                )
                for role_path, counts in sized.items()
            ],
            is_part=True,
        ),
        create_pod_set(
            *(f"{node}.templateRef.patch" for node in sized),
            *(f"{group}.{role_name}TemplatePatch" for role_name in ("leader", "worker")),
            *(f"{role}.leaderWorkerSet.patch{role_name}Template" for role_name in ("Leader", "Worker")),
            f"{role}.templatePatch",
            is_used=False,
            is_part=True,
        ),
    )


def _list_pipeline_pods(spec: str, *, is_used: bool = True) -> tuple[workload_kinds.PodSetDefinition, ...]:
    """Return the pods of the tasks in a pipeline of Tekton: one for each, at different times."""
    return tuple(
        create_pod_set(
            f"{spec}.{tasks}[*].taskSpec",
            form=workload_kinds.PodForm.TASK,
            is_separate=True,
            is_used=is_used,
            is_part=not is_used,
            completed_by="spec.taskRunSpecs",
        )
        for tasks in ("tasks", "finally")
    )


_METRIC_JOB = "spec.metrics[*].provider.job.spec"
_METRIC_COUNTS = create_job_counts(_METRIC_JOB)
_REVISION = _create_revision(
    "spec.template", "spec.template.metadata.annotations", workload_kinds.PodForm.EXTENDED_TEMPLATE
)

APPLICATION_KINDS: tuple[workload_kinds.WorkloadKind, ...] = (
    create_kind(
        "RayCluster.ray.io",
        "rayclusters",
        "v1 v1alpha1",
        *_list_ray_pods("spec"),
        source=_RAY,
        suspended=_SUSPEND,
        expected=_RAY_MANAGED,
        starts_together=True,
    ),
    create_kind(
        "RayJob.ray.io",
        "rayjobs",
        "v1 v1alpha1",
        *_list_ray_job_pods("spec"),
        source=_RAY,
        suspended=(*_SUSPEND, "spec.rayClusterSpec.suspend"),
        expected=_RAY_MANAGED,
        starts_together=True,
    ),
    create_kind(
        "RayCronJob.ray.io",
        "raycronjobs",
        "v1",
        *_list_ray_job_pods("spec.jobTemplate"),
        source=_RAY,
        suspended=(*_SUSPEND, "spec.jobTemplate.suspend", "spec.jobTemplate.rayClusterSpec.suspend"),
    ),
    create_kind(
        "RayService.ray.io",
        "rayservices",
        "v1 v1alpha1",
        *_list_ray_pods("spec.rayClusterConfig", doubled=create_expectation("spec.upgradeStrategy.type", "NewCluster")),
        source=_RAY,
        suspended=("spec.rayClusterConfig.suspend",),
        expected=_RAY_MANAGED,
    ),
    create_kind(
        "Rollout.argoproj.io",
        "rollouts",
        "v1alpha1",
        create_pod_set("spec.template", counts=["spec.replicas"], noun="replicas", rollout="spec.strategy"),
        source=f"{_ROLLOUTS}, utils/replicaset/replicaset.go",
    ),
    create_kind(
        "Experiment.argoproj.io",
        "experiments",
        "v1alpha1",
        create_pod_set("spec.templates[*].template", counts=["spec.templates[*].replicas"]),
        source=f"{_ROLLOUTS}, utils/experiment/experiment.go",
        suspended=_TERMINATE,
    ),
    *(
        create_kind(
            f"{kind}.argoproj.io",
            f"{kind.lower()}s",
            "v1alpha1",
            create_pod_set(
                f"{_METRIC_JOB}.template", counts=_METRIC_COUNTS, is_used=kind == "AnalysisRun", is_of_job=True
            ),
            source=f"{_ROLLOUTS}, metricproviders/job/job.go",
            suspended=_TERMINATE if kind == "AnalysisRun" else (),
            is_namespaced=not kind.startswith("Cluster"),
        )
        for kind in ("AnalysisRun", "AnalysisTemplate", "ClusterAnalysisTemplate")
    ),
    create_kind(
        "Workflow.argoproj.io",
        "workflows",
        "v1alpha1",
        *_list_workflow_pods("spec"),
        source=_WORKFLOWS,
        suspended=(*_SUSPEND, "spec.shutdown"),
    ),
    *(
        create_kind(
            f"{kind}.argoproj.io",
            f"{kind.lower()}s",
            "v1alpha1",
            *_list_workflow_pods("spec", is_used=False),
            source=_WORKFLOWS,
            is_namespaced=not kind.startswith("Cluster"),
        )
        for kind in ("WorkflowTemplate", "ClusterWorkflowTemplate")
    ),
    create_kind(
        "CronWorkflow.argoproj.io",
        "cronworkflows",
        "v1alpha1",
        *_list_workflow_pods("spec.workflowSpec"),
        source=_WORKFLOWS,
        suspended=(*_SUSPEND, "spec.workflowSpec.suspend", "spec.workflowSpec.shutdown"),
    ),
    create_kind(
        "Notebook.kubeflow.org",
        "notebooks",
        "v1 v1beta1 v1alpha1",
        create_pod_set("spec.template"),
        source=_NOTEBOOK,
        suspended=("metadata.annotations.kubeflow-resource-stopped",),
    ),
    create_kind(
        "InferenceService.serving.kserve.io",
        "inferenceservices",
        "v1beta1",
        *(
            _create_component(f"spec.{component_name}", f"{component_name} pods")
            for component_name in ("predictor", "transformer", "explainer")
        ),
        _create_component("spec.canary[*].predictor", "canary pods", is_scaled=False),
        create_pod_set(
            "spec.predictor.workerSpec",
            counts=[
                "spec.predictor.minReplicas",
                create_count("spec.predictor.workerSpec.pipelineParallelSize", minus=1),
            ],
            form=workload_kinds.PodForm.SPEC,
            noun="workers",
            is_part=True,
        ),
        source=f"{_KSERVE}/v1beta1/component.go, predictor.go",
        suspended=_STOPPED_MODEL,
    ),
    create_kind(
        "LLMInferenceService.serving.kserve.io",
        "llminferenceservices",
        "v1alpha2 v1alpha1",
        *_list_llm_pods(),
        source=f"{_KSERVE}/v1alpha2/llm_inference_service_types_func.go",
        suspended=_STOPPED_MODEL,
    ),
    create_kind(
        "LLMInferenceServiceConfig.serving.kserve.io",
        "llminferenceserviceconfigs",
        "v1alpha2 v1alpha1",
        *_list_llm_pods(is_used=False),
        source=f"{_KSERVE}/v1alpha2/llm_inference_service_types.go",
    ),
    *(
        create_kind(
            f"{kind}.serving.kserve.io",
            f"{kind.lower()}s",
            "v1alpha1",
            *(
                create_pod_set(field, form=workload_kinds.PodForm.SPEC, is_used=False, is_part=True)
                for field in ("spec", "spec.workerSpec")
            ),
            source=f"{_KSERVE}/v1alpha1/servingruntime_types.go",
            is_namespaced=not kind.startswith("Cluster"),
        )
        for kind in ("ServingRuntime", "ClusterServingRuntime")
    ),
    create_kind(
        "SparkApplication.sparkoperator.k8s.io",
        "sparkapplications",
        "v1beta2",
        *_list_spark_pods("spec"),
        source=_SPARK,
        suspended=_SUSPEND,
    ),
    create_kind(
        "ScheduledSparkApplication.sparkoperator.k8s.io",
        "scheduledsparkapplications",
        "v1beta2",
        *_list_spark_pods("spec.template"),
        source=_SPARK,
        suspended=(*_SUSPEND, "spec.template.suspend"),
    ),
    create_kind(
        "SparkConnect.sparkoperator.k8s.io",
        "sparkconnects",
        "v1alpha1",
        *_list_spark_pods("spec", "server", executors=2),
        source="github.com/kubeflow/spark-operator/v2 v2.5.2, internal/controller/sparkconnect/reconciler.go",
    ),
    create_kind("Service.serving.knative.dev", "services", "v1", _REVISION, source=_KNATIVE),
    create_kind("Configuration.serving.knative.dev", "configurations", "v1", _REVISION, source=_KNATIVE),
    create_kind(
        "Revision.serving.knative.dev",
        "revisions",
        "v1",
        _create_revision("spec", "metadata.annotations", workload_kinds.PodForm.SPEC),
        source=_KNATIVE,
    ),
    # v1alpha1 has replicas, 0 or 1, and v1beta1 the operating mode
    create_kind(
        "Sandbox.agents.x-k8s.io",
        "sandboxes",
        "v1beta1 v1alpha1",
        create_pod_set("spec.podTemplate", counts=["spec.replicas"]),
        source=f"{_SANDBOX}, controllers/sandbox_controller.go",
        expected=(create_expectation("spec.operatingMode", "Running"),),
    ),
    create_kind(
        "SandboxTemplate.extensions.agents.x-k8s.io",
        "sandboxtemplates",
        "v1beta1 v1alpha1",
        create_pod_set("spec.podTemplate", is_used=False),
        source=f"{_SANDBOX}, extensions/api/v1beta1/sandboxtemplate_types.go",
    ),
    create_kind(
        "RoleBasedGroup.workloads.x-k8s.io",
        "rolebasedgroups",
        "v1alpha2 v1alpha1",
        *_list_role_pods("spec"),
        source=f"{_ROLE_GROUPS}/lws_reconciler.go",
    ),
    create_kind(
        "StormService.orchestration.aibrix.ai",
        "stormservices",
        "v1alpha1",
        create_pod_set(
            "spec.template.spec.roles[*].template",
            counts=[
                "spec.replicas",
                create_count("spec.template.spec.roles[*].replicas", 0),
                "spec.template.spec.roles[*].podGroupSize",
            ],
        ),
        source=f"{_AIBRIX}/stormservice/sync.go, roleset/utils.go",
    ),
    create_kind(
        "RayClusterFleet.orchestration.aibrix.ai",
        "rayclusterfleets",
        "v1alpha1",
        *_list_ray_pods("spec.template.spec", clusters=(create_count("spec.replicas"),)),
        source=f"{_AIBRIX}/rayclusterfleet/sync.go",
        suspended=("spec.template.spec.suspend",),
    ),
    create_kind(
        "DisaggregatedSet.disaggregatedset.x-k8s.io",
        "disaggregatedsets",
        "v1",
        *_list_group_pods("spec.roles[*]", create_count("spec.slices")),
        source=_DISAGGREGATED,
    ),
    *(
        create_kind(
            f"{kind}.apps.kruise.io",
            f"{kind.lower()}s",
            "v1beta1 v1alpha1",
            create_pod_set("spec.template", counts=["spec.replicas"], noun="replicas"),
            source=f"{_KRUISE}, apis/apps/defaults/v1alpha1.go",
        )
        for kind in ("CloneSet", "StatefulSet")
    ),
    # one pod on each node: at least one
    create_kind(
        "DaemonSet.apps.kruise.io",
        "daemonsets",
        "v1beta1 v1alpha1",
        create_pod_set("spec.template"),
        source=f"{_KRUISE}, pkg/controller/daemonset",
    ),
    create_kind(
        "BroadcastJob.apps.kruise.io",
        "broadcastjobs",
        "v1beta1 v1alpha1",
        create_pod_set("spec.template"),
        source=f"{_KRUISE}, pkg/controller/broadcastjob",
        suspended=("spec.paused",),
    ),
    create_kind(
        "NIMService.apps.nvidia.com",
        "nimservices",
        "v1alpha1",
        create_pod_set(
            "spec",
            counts=["spec.replicas", "spec.multiNode.parallelism.pipeline"],
            scaled=["spec.scale.hpa.minReplicas", "spec.multiNode.parallelism.pipeline"],
            most=[create_count("spec.scale.hpa.maxReplicas", 0), "spec.multiNode.parallelism.pipeline"],
            autoscaled="spec.scale.enabled",
            form=workload_kinds.PodForm.NIM_SERVICE,
            noun="replicas",
        ),
        source=_NIM,
    ),
    # the operator adds defaults to the container main, as of limits
    *(
        create_kind(
            f"{kind}.nvidia.com",
            f"{kind.lower()}s",
            "v1beta1",
            create_pod_set(
                f"{path}.podTemplate",
                counts=[f"{path}.replicas", f"{path}.multinode.nodeCount"],
                is_part=True,
                noun="replicas",
            ),
            source=_DYNAMO,
        )
        for kind, path in (("DynamoGraphDeployment", "spec.components[*]"), ("DynamoComponentDeployment", "spec"))
    ),
    create_kind(
        "TaskRun.tekton.dev",
        "taskruns",
        "v1 v1beta1",
        create_pod_set("spec", form=workload_kinds.PodForm.TASK_RUN),
        source=_TEKTON,
        suspended=("spec.status",),
    ),
    create_kind(
        "Task.tekton.dev",
        "tasks",
        "v1 v1beta1",
        create_pod_set("spec", form=workload_kinds.PodForm.TASK, is_used=False, is_part=True),
        source=_TEKTON,
    ),
    create_kind(
        "PipelineRun.tekton.dev",
        "pipelineruns",
        "v1 v1beta1",
        *_list_pipeline_pods("spec.pipelineSpec"),
        source=_TEKTON,
        suspended=("spec.status",),
    ),
    create_kind(
        "Pipeline.tekton.dev", "pipelines", "v1 v1beta1", *_list_pipeline_pods("spec", is_used=False), source=_TEKTON
    ),
)
"""The known kinds of applications; `known_kinds` has all kinds."""
