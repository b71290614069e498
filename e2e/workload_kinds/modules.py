"""Go modules of other projects, of which files are read: the definitions of their kinds, and documented examples.

`go mod download` puts each once into the module cache and checks it by `go.sum` in this folder. Nothing of a module is
built or run here. Kinds of which no served module has a definition that works here have one in
`manifests/*-definition.yaml`: a schema that keeps all fields.
"""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from e2e.api import Object
from e2e.errors import BuildError
from e2e.go_program import find_cache
from e2e.progress import run_command

HERE = Path(__file__).parent
MANIFESTS = HERE / "manifests"
"""The folder of the manifests of our own, for kinds of which no module has any."""


@dataclass(frozen=True)
class Module:
    """A module, and the files in it that define kinds; a path may have wildcards."""

    path: str
    version: str
    definitions: tuple[str, ...]

    def find_folder(self) -> Path:
        """Return its folder in the module cache; download it if it is missing.

        Raises:
            BuildError: if there is no Go here, or the module cannot be downloaded.
        """
        return _download(f"{self.path}@{self.version}")


JOBSET = Module("sigs.k8s.io/jobset", "v0.11.1", ("config/components/crd/bases/*.yaml",))
LWS = Module("sigs.k8s.io/lws", "v0.8.0", ("config/crd/bases/*.yaml",))
TRAINING = Module("github.com/kubeflow/training-operator", "v1.9.3", ("manifests/base/crds/kubeflow.org_[!mk]*.yaml",))
MPI = Module("github.com/kubeflow/mpi-operator", "v0.8.0", ("manifests/base/kubeflow.org_mpijobs.yaml",))
TRAINER = Module("github.com/kubeflow/trainer/v2", "v2.1.0", ("manifests/base/crds/trainer*.yaml",))
VOLCANO = Module(
    "volcano.sh/volcano",
    "v1.15.1",
    ("config/crd/volcano/bases/batch.*.yaml", "config/crd/jobflow/bases/flow.volcano.sh_jobtemplates.yaml"),
)
KUEUE = Module("sigs.k8s.io/kueue", "v0.19.2", ("config/components/crd/bases/kueue.x-k8s.io_workloads.yaml",))
APP_WRAPPER = Module("github.com/project-codeflare/appwrapper", "v1.2.2", ("config/crd/bases/*.yaml",))
RAY = Module("github.com/ray-project/kuberay/ray-operator", "v1.6.2", ("config/crd/bases/*.yaml",))
ROLLOUTS = Module("github.com/argoproj/argo-rollouts", "v1.9.0", ("manifests/crds/*-crd.yaml",))
WORKFLOWS = Module(
    "github.com/argoproj/argo-workflows/v3",
    "v3.7.18",
    (
        "manifests/base/crds/minimal/argoproj.io_workflows.yaml",
        "manifests/base/crds/minimal/argoproj.io_*workflowtemplates.yaml",
        "manifests/base/crds/minimal/argoproj.io_cronworkflows.yaml",
    ),
)
KSERVE = Module(
    "github.com/kserve/kserve",
    "v0.20.0",
    (
        "config/crd/full/serving.kserve.io_inferenceservices.yaml",
        "config/crd/full/serving.kserve.io_*servingruntimes.yaml",
        "config/crd/minimal/llmisvc/serving*.yaml",
    ),
)
SPARK = Module("github.com/kubeflow/spark-operator/v2", "v2.5.2", ("config/crd/bases/*.yaml",))
KNATIVE = Module(
    "knative.dev/serving",
    "v0.51.0",
    tuple(f"config/core/300-resources/{kind}.yaml" for kind in ("service", "configuration", "revision")),
)
SANDBOX = Module(
    "sigs.k8s.io/agent-sandbox",
    "v0.5.6",
    ("k8s/crds/agents.x-k8s.io_sandboxes.yaml", "k8s/crds/extensions.agents.x-k8s.io_sandboxtemplates.yaml"),
)
AIBRIX = Module(
    "github.com/vllm-project/aibrix",
    "v0.7.0",
    tuple(
        f"config/crd/orchestration/orchestration.aibrix.ai_{kind}.yaml"
        for kind in ("stormservices", "rayclusterfleets")
    ),
)
DISAGGREGATED = Module(
    "sigs.k8s.io/lws", "v0.9.0", ("config/crd/bases/disaggregatedset.x-k8s.io_disaggregatedsets.yaml",)
)
KRUISE = Module("github.com/openkruise/kruise", "v1.8.0", ("config/crd/bases/apps.kruise.io_statefulsets.yaml",))
"""The other kinds of it get v1beta1 in later versions, which are not served."""
TEKTON = Module("github.com/tektoncd/pipeline", "v1.15.0", ())
"""Its definitions have other fields in each version, which only its webhook converts."""
KARPENTER = Module("sigs.k8s.io/karpenter", "v1.8.0", ("pkg/apis/crds/karpenter.sh_node[cp]*.yaml",))
"""No kind of it has pods; its NodePools and NodeClaims describe nodes."""
ARGO_CD = Module("github.com/argoproj/argo-cd/v3", "v3.5.7", ("manifests/crds/application-crd.yaml",))
FLUX_SOURCE = Module(
    "github.com/fluxcd/source-controller",
    "v1.9.6",
    ("config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml",),
)
FLUX_KUSTOMIZE = Module(
    "github.com/fluxcd/kustomize-controller",
    "v1.9.6",
    ("config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml",),
)
"""No kind of Argo CD and Flux has pods; theirs bring files into a cluster. Newer versions need Go 1.27."""

MODULES = (
    *(JOBSET, LWS, TRAINING, MPI, TRAINER, VOLCANO, KUEUE, APP_WRAPPER),
    *(RAY, ROLLOUTS, WORKFLOWS, KSERVE, SPARK, KNATIVE),
    *(SANDBOX, AIBRIX, DISAGGREGATED, KRUISE, TEKTON),
)
"""Every module of kinds with pods; the sources in `webhook/tallygate/policy/known_kinds.py` name the same versions."""


def read_definitions_of(module: Module) -> list[Object]:
    """Return the definitions of one module.

    Raises:
        BuildError: if it cannot be downloaded, or has no such file.
    """
    return [_strip(yaml.load(file.read_text(), yaml.CSafeLoader)) for file in _list_files_of(module)]


def read_definitions() -> list[Object]:
    """Return the definitions of the known kinds, without the descriptions of their fields, which are most of the text.

    They are converted to JSON once: to read the YAML takes half a minute.

    Raises:
        BuildError: if a module cannot be downloaded, or has no such file.
    """
    files = _list_files()
    content = repr(MODULES).encode() + b"".join(each.read_bytes() for each in _list_own_files())
    converted = find_cache() / f"workload-kinds-{hashlib.sha256(content).hexdigest()[:16]}.json"
    if not converted.exists():
        documents = (each for file in files for each in yaml.load_all(file.read_text(), yaml.CSafeLoader))
        definitions = [_strip(each) for each in documents if each]
        for each in definitions:
            each["spec"].pop("conversion", None)  # no webhook of another project runs here
        converted.parent.mkdir(parents=True, exist_ok=True)
        beside = converted.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(definitions))
        beside.rename(converted)
    found: list[Object] = json.loads(converted.read_text())
    return found


def _strip(value: Any) -> Any:
    """Return a value without descriptions, which are texts; a field of this name has a schema."""
    if isinstance(value, dict):
        return {key: _strip(each) for key, each in value.items() if key != "description" or not isinstance(each, str)}
    return [_strip(each) for each in value] if isinstance(value, list) else value


def _list_files() -> list[Path]:
    """Return the files that define the known kinds, ours first.

    Raises:
        BuildError: if a module cannot be downloaded, or has no such file.
    """
    files = _list_own_files()
    for module in MODULES:
        files += _list_files_of(module)
    return files


def _list_own_files() -> list[Path]:
    return sorted(MANIFESTS.glob("*-definition.yaml"))


def _list_files_of(module: Module) -> list[Path]:
    files: list[Path] = []
    for pattern in module.definitions:
        found = sorted(module.find_folder().glob(pattern))
        if not found:
            raise BuildError(f"{module.path} {module.version} has no file {pattern}")
        files += found
    return files


@cache
def _download(query: str) -> Path:
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            "the definitions of other projects' kinds come from their Go modules, and there is no `go` on PATH; "
            "install Go 1.26 or newer (https://go.dev/doc/install) and run this again"
        )
    done = run_command((go, "mod", "download", "-json", query), f"downloading {query} (once)", folder=HERE)
    answer = json.loads(done.stdout or "{}")
    if done.returncode or "Dir" not in answer:
        raise BuildError(f"the Go module {query} cannot be downloaded: {answer.get('Error') or done.stderr}")
    return Path(answer["Dir"])
