"""Documented examples of the known kinds: files of the modules, and manifests of our own where these have none.

The files are read as they are: none is a template of Helm or a patch of kustomize.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from e2e.api import Object
from e2e.workload_kinds import modules
from e2e.workload_kinds.modules import MANIFESTS, Module

_ROLLOUT_FILES = (
    "rollout-canary",
    "rollout-bluegreen",
    "rollout-rolling-update",
    "rollout-template-ref",
    "experiment-with-analysis",
    "traffic-management/job",
    "cluster-analysis-templates",
    "analysis-templates",
)
_WORKFLOW_FILES = (
    *("steps", "loops", "sidecar", "init-container", "dag-nested", "dag-inline-workflow", "ci", "secrets"),
    *("container-set-template/graph-workflow", "pod-gc-strategy", "pod-spec-yaml-patch"),
    *("workflow-template/templates", "ci-workflowtemplate", "dag-inline-workflowtemplate"),
    *("cluster-workflow-template/clustertemplates", "dag-inline-clusterworkflowtemplate"),
    *("cron-workflow", "dag-inline-cronworkflow", "cron-when"),
)
_RAY_FILES = (
    *("ray-cluster.sample", "ray-cluster.complete", "ray-cluster.autoscaler", "ray-cluster.custom-head-service"),
    *("ray-job.sample", "ray-job.sidecar-mode", "ray-job.batch-inference", "ray-job.interactive-mode"),
    *("ray-service.sample", "ray-service.deepseek", "ray-cronjob.sample"),
)
_TRAINING_FILES = (
    *("pytorch/simple", "pytorch/elastic/echo/echo", "pytorch/mnist/v1/pytorch_job_mnist_nccl"),
    *("tensorflow/simple", "tensorflow/distribution_strategy/multi_worker_tfjob", "xgboost/xgboostjob"),
    *("xgboost/xgboost-dist/xgboostjob_v1_iris_train", "paddlepaddle/simple-cpu", "paddlepaddle/simple-gpu"),
    *("jax/cpu-demo/demo", "jax/jax-dist-spmd-mnist/jaxjob_dist_spmd_mnist_gloo"),
)
_KSERVE_FILES = (
    *("fluid/kserve-isvc", "istio-dex/sklearn", "graph/switch"),
    *("llmisvc/single-node-gpu/llm-inference-service-qwen2-7b-gpu", "llmisvc/e2e-gpt-oss/inference_pd_disaggregation"),
    "llmisvc/single-node-gpu/llm-inference-service-pd-qwen2-7b-gpu",
)
_EXAMPLES: Mapping[Module, tuple[str, ...]] = {
    modules.LWS: tuple(f"docs/examples/{name}/lws.yaml" for name in ("sample", "vllm/GPU", "sglang", "llamacpp/k8s")),
    modules.TRAINING: tuple(f"examples/{name}.yaml" for name in _TRAINING_FILES),
    modules.MPI: tuple(
        f"examples/v2beta1/{name}.yaml"
        for name in ("pi/pi", "horovod/tensorflow-mnist", "tensorflow-benchmarks/tensorflow-benchmarks")
    ),
    modules.TRAINER: tuple(
        f"manifests/base/runtimes/{name}_distributed.yaml" for name in ("torch", "mlx", "deepspeed")
    ),
    modules.VOLCANO: tuple(
        f"example/{name}.yaml"
        for name in ("job", "task-start-dependency/mpi", "cronjob/cronjob", "jobflow/JobTemplate")
    ),
    modules.APP_WRAPPER: tuple(
        f"samples/wrapped-{name}.yaml"
        for name in ("pod", "job", "gpu-job", "deployment", "jobset", "pytorch-job", "leader-worker-set")
    ),
    modules.RAY: tuple(f"config/samples/{name}.yaml" for name in _RAY_FILES),
    modules.ROLLOUTS: tuple(f"examples/{name}.yaml" for name in _ROLLOUT_FILES),
    modules.WORKFLOWS: tuple(f"examples/{name}.yaml" for name in _WORKFLOW_FILES),
    modules.KSERVE: (
        *(f"docs/samples/{name}.yaml" for name in _KSERVE_FILES),
        *(f"config/runtimes/kserve-{name}.yaml" for name in ("tritonserver", "huggingfaceserver-multinode")),
        *(f"config/llmisvcconfig/config-llm-{name}.yaml" for name in ("template", "prefill-template")),
    ),
    modules.SPARK: (
        *(f"examples/spark-pi{name}.yaml" for name in ("", "-dynamic-allocation", "-pod-template", "-scheduled")),
        "config/samples/v1beta2_scheduledsparkapplication.yaml",
        "examples/sparkconnect/spark-connect.yaml",
    ),
    modules.SANDBOX: (
        "examples/analytics-tool/analytics-tool/sandbox-python.yaml",
        "examples/jupyterlab/jupyterlab.yaml",
        "examples/hpa-swp-scaling/python-sandbox-template.yaml",
    ),
    modules.AIBRIX: (
        "config/samples/orchestration_v1alpha1_rayclusterfleet.yaml",
        "development/tutorials/distributed/fleet.yaml",
        *(f"samples/disaggregation/sglang/{name}.yaml" for name in ("tp-1p1d", "replica")),
    ),
    modules.DISAGGREGATED: tuple(
        f"config/samples/disaggregatedset_v1_{name}.yaml" for name in ("disaggregatedset", "3role")
    ),
    modules.KRUISE: (
        *("config/samples/apps_v1alpha1_cloneset.yaml", "config/samples/apps_v1alpha1_statefulset.yaml"),
        "docs/tutorial/v1/guestbook-statefulset.yaml",
        *(f"config/samples/apps_v1alpha1_broadcastjob-{name}.yaml" for name in ("ttl", "never-complete")),
    ),
    modules.TEKTON: (
        *(f"examples/v1/taskruns/{name}.yaml" for name in ("dind-sidecar", "sidecar-ready")),
        *(f"examples/v1/pipelineruns/{name}.yaml" for name in ("pipelinerun-param-array-indexing",)),
    ),
    modules.KNATIVE: tuple(f"test/test_images/{name}.yaml" for name in ("runtime/service", "helloworld/helloworld")),
}


def list_files() -> list[Path]:
    """Return the files of all examples.

    Raises:
        BuildError: if a module cannot be downloaded.
    """
    files = [module.find_folder() / name for module, names in _EXAMPLES.items() for name in names]
    return [MANIFESTS / "examples.yaml", *files]


def read_objects(file: Path) -> Iterator[Object]:
    """Yield the objects of a file."""
    for whole in filter(None, yaml.load_all(file.read_text(), yaml.CSafeLoader)):
        yield from whole["items"] if whole["kind"] == "List" else [whole]
