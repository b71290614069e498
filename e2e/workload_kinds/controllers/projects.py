"""The projects: the module of each, its program, and the manifests in it that its controller needs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from e2e.errors import BuildError
from e2e.go_program import GoProgram
from e2e.installation.third_party_kinds import module_folder

_HERE: Final = Path(__file__).parent


@dataclass(frozen=True)
class Installation:
    """The names that the installation of a project gives.

    Its webhooks are behind `service` in `namespace`, and their certificate is in the Secret `secret`. `configurations`
    has the names of their configurations by kind.
    """

    namespace: str
    service: str
    secret: str
    configurations: Mapping[str, str]


@dataclass(frozen=True)
class Project:
    """A project whose Go module has a controller.

    `definitions`, `webhooks` and `conversions` are its manifests, as paths in the module; the last are patches of its
    definitions. `webhook_kinds` are the resources whose webhooks are registered; all if empty. `arguments` are those of
    the program, with the fields `settings`, `health` and `port`; `settings` is the API version of its settings.
    """

    name: str
    module: str
    package: str
    definitions: str
    webhooks: str
    installation: Installation
    arguments: tuple[str, ...]
    settings: str = ""
    frameworks: tuple[str, ...] = ()
    conversions: str = ""
    webhook_kinds: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The version that its go.mod here requires.

        Raises:
            BuildError: if that file requires none.
        """
        file = _HERE / self.name / "go.mod"
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
    def program(self) -> GoProgram:
        """Its controller."""
        return GoProgram(self.name, self.name, f"{self.module}{self.package}", _HERE / self.name)


def _install_by_prefix(prefix: str) -> Installation:
    """Return the names that the kustomizations of Kubernetes' own projects give."""
    configurations = {
        f"{name.title()}WebhookConfiguration": f"{prefix}-{name}-webhook-configuration"
        for name in ("mutating", "validating")
    }
    return Installation(
        f"{prefix}-system", f"{prefix}-webhook-service", f"{prefix}-webhook-server-cert", configurations
    )


JOBSET: Final = Project(
    "jobset",
    "sigs.k8s.io/jobset",
    "",
    "config/components/crd/bases/*.yaml",
    "config/components/webhook/manifests.yaml",
    _install_by_prefix("jobset"),
    ("--config={settings}", "--leader-elect=false"),
    "config.jobset.x-k8s.io/v1alpha1",
)
LWS: Final = Project(
    "lws",
    "sigs.k8s.io/lws",
    "/cmd",
    "config/crd/bases/*.yaml",
    "config/webhook/manifests.yaml",
    _install_by_prefix("lws"),
    ("--config={settings}", "--leader-elect=false"),
    "config.lws.x-k8s.io/v1alpha1",
)
TRAINING: Final = Project(
    "training_operator",
    "github.com/kubeflow/training-operator",
    "/cmd/training-operator.v1",
    "manifests/base/crds/kubeflow.org_*.yaml",
    "manifests/base/webhook/manifests.yaml",
    Installation(
        "kubeflow",
        "training-operator",
        "training-operator-webhook-cert",
        {"ValidatingWebhookConfiguration": "validator.training-operator.kubeflow.org"},
    ),
    ("--metrics-bind-address=0", "--health-probe-bind-address={health}", "--webhook-server-port={port}"),
)
KUEUE: Final = Project(
    "kueue",
    "sigs.k8s.io/kueue",
    "/cmd/kueue",
    "config/components/crd/bases/*.yaml",
    "config/components/webhook/manifests.yaml",
    _install_by_prefix("kueue"),
    ("--config={settings}", "--feature-gates=VisibilityOnDemand=false"),
    "config.kueue.x-k8s.io/v1beta2",
    ("batch/job", "jobset.x-k8s.io/jobset", "kubeflow.org/pytorchjob"),
    "config/components/crd/patches/webhook_in_[!r]*.yaml",  # the kustomization leaves that of resourceflavors out
    ("workloads", "clusterqueues", "resourceflavors", "cohorts", "jobs", "jobsets", "pytorchjobs"),
)
PROJECTS: Final = (JOBSET, LWS, TRAINING, KUEUE)
"""The projects in the order in which their controllers start: Kueue's needs the kinds of the others."""
