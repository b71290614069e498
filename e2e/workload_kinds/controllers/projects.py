"""The projects: the module of each, its program, and the manifests in it that its controller needs.

The folder of a project has its cases, and may have the file of settings and the objects that its controller reads.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from e2e.errors import BuildError
from e2e.go_program import GoProgram
from e2e.installation.third_party_kinds import module_folder

_HERE: Final = Path(__file__).parent


@dataclass(frozen=True)
class Webhooks:
    """The webhooks of a project, with the names that its installation gives.

    `manifests` is a file of the module, and `conversions` are patches of its definitions. The webhooks are behind
    `service` in `namespace`, and their certificate is in the Secret `secret`. `configurations` has the names of their
    configurations by kind. `resources` are those whose webhooks are registered; all if empty.
    """

    manifests: str
    namespace: str
    service: str
    secret: str
    configurations: Mapping[str, str]
    conversions: str = ""
    resources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Project:
    """A project whose Go module has a controller.

    `definitions` are its manifests, as paths in the module. `arguments` and `environment` are those of the program, and
    answers at `ready` say that it is ready: all with the fields `settings`, `health`, `health_port` and `port`. The
    controllers of the projects `needs` run beside it.
    """

    name: str
    module: str
    package: str
    definitions: tuple[str, ...]
    arguments: tuple[str, ...]
    webhooks: Webhooks | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    ready: str = "http://{health}/readyz"
    needs: tuple["Project", ...] = ()

    @property
    def version(self) -> str:
        """The version that its go.mod here requires.

        Raises:
            BuildError: if that file requires none.
        """
        file = self.path / "go.mod"
        found = re.search(rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)", file.read_text(), re.MULTILINE)
        if found is None:
            raise BuildError(f"{file}: it does not require {self.module}")
        return found[1]

    @cached_property
    def folder(self) -> Path:
        """The folder of its module on this machine.

        Raises:
            BuildError: if there is no Go here, or the module cannot be downloaded.
        """
        return module_folder(f"{self.module}@{self.version}")

    @property
    def path(self) -> Path:
        """Its folder here."""
        return _HERE / self.name

    @property
    def program(self) -> GoProgram:
        """Its controller."""
        return GoProgram(self.name, self.name, f"{self.module}{self.package}", self.path)


def _list_webhooks(prefix: str, manifests: str, conversions: str = "", resources: tuple[str, ...] = ()) -> Webhooks:
    """Return webhooks with the names that the kustomizations of Kubernetes' own projects give."""
    configurations = {
        f"{name.title()}WebhookConfiguration": f"{prefix}-{name}-webhook-configuration"
        for name in ("mutating", "validating")
    }
    service, secret = f"{prefix}-webhook-service", f"{prefix}-webhook-server-cert"
    return Webhooks(manifests, f"{prefix}-system", service, secret, configurations, conversions, resources)


JOBSET: Final = Project(
    "jobset",
    "sigs.k8s.io/jobset",
    "",
    ("config/components/crd/bases/*.yaml",),
    ("--config={settings}", "--leader-elect=false"),
    _list_webhooks("jobset", "config/components/webhook/manifests.yaml"),
)
LWS: Final = Project(
    "lws",
    "sigs.k8s.io/lws",
    "/cmd",
    ("config/crd/bases/*.yaml",),
    ("--config={settings}", "--leader-elect=false"),
    _list_webhooks("lws", "config/webhook/manifests.yaml"),
)
TRAINING: Final = Project(
    "training_operator",
    "github.com/kubeflow/training-operator",
    "/cmd/training-operator.v1",
    ("manifests/base/crds/kubeflow.org_*.yaml",),
    ("--metrics-bind-address=0", "--health-probe-bind-address={health}", "--webhook-server-port={port}"),
    Webhooks(
        "manifests/base/webhook/manifests.yaml",
        "kubeflow",
        "training-operator",
        "training-operator-webhook-cert",
        {"ValidatingWebhookConfiguration": "validator.training-operator.kubeflow.org"},
    ),
)
KUEUE: Final = Project(
    "kueue",
    "sigs.k8s.io/kueue",
    "/cmd/kueue",
    ("config/components/crd/bases/*.yaml",),
    ("--config={settings}", "--feature-gates=VisibilityOnDemand=false"),
    _list_webhooks(
        "kueue",
        "config/components/webhook/manifests.yaml",
        "config/components/crd/patches/webhook_in_[!r]*.yaml",  # the kustomization leaves that of resourceflavors out
        ("workloads", "clusterqueues", "resourceflavors", "cohorts", "jobs", "jobsets", "pytorchjobs"),
    ),
    needs=(JOBSET, TRAINING),
)
MPI: Final = Project(
    "mpi_operator",
    "github.com/kubeflow/mpi-operator",
    "/cmd/mpi-operator",
    ("manifests/base/kubeflow.org_mpijobs.yaml",),
    (),
    ready="http://127.0.0.1:8080/healthz",  # the port is fixed
)
TRAINER: Final = Project(
    "trainer",
    "github.com/kubeflow/trainer/v2",
    "/cmd/trainer-controller-manager",
    ("manifests/base/crds/trainer*.yaml",),
    ("--config={settings}",),
    Webhooks(
        "manifests/base/webhook/manifests.yaml",
        "kubeflow-system",
        "kubeflow-trainer-controller-manager",
        "kubeflow-trainer-webhook-cert",
        {"ValidatingWebhookConfiguration": "validator.trainer.kubeflow.org"},
    ),
    needs=(JOBSET,),
)
RAY: Final = Project(
    "ray_operator",
    "github.com/ray-project/kuberay/ray-operator",
    "",
    ("config/crd/bases/*.yaml",),
    ("--metrics-addr=0", "--health-probe-bind-address={health}", "--enable-leader-election=false"),
)
ROLLOUTS: Final = Project(
    "argo_rollouts",
    "github.com/argoproj/argo-rollouts",
    "/cmd/rollouts-controller",
    ("manifests/crds/*-crd.yaml",),
    ("--healthzPort={health_port}", "--metricsPort={port}", "--leader-elect=false"),
    ready="http://{health}/healthz",
)
WORKFLOWS: Final = Project(
    "argo_workflows",
    "github.com/argoproj/argo-workflows/v3",
    "/cmd/workflow-controller",
    ("manifests/base/crds/minimal/argoproj.io_*.yaml",),
    ("--executor-image=none",),
    environment={"LEADER_ELECTION_DISABLE": "true"},
    ready="http://127.0.0.1:6060/healthz",  # the port is fixed
)
APP_WRAPPER: Final = Project(
    "appwrapper",
    "github.com/project-codeflare/appwrapper",
    "/cmd",
    ("config/crd/bases/*.yaml",),
    (),
    environment={"NAMESPACE": "appwrapper-system"},
    ready="http://{health}/healthz",  # the other one starts the webhooks
)
PROJECTS: Final = (JOBSET, LWS, TRAINING, KUEUE, MPI, TRAINER, RAY, ROLLOUTS, WORKFLOWS, APP_WRAPPER)
"""All projects."""
