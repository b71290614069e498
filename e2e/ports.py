"""The small interface that every provider gives the suite: a cluster, a node in it, and the gate it calls."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Protocol

from webhook.admission.webhook_configuration import WebhookTarget


class NotHereError(Exception):
    """This provider cannot do that; the text says why. A case that needs it is skipped."""


class Cluster(Protocol):
    """A Kubernetes cluster, talked to as its administrator."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        ...

    @property
    def kubectl_program(self) -> Path:
        """A kubectl that fits the cluster's version."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """What kubectl is to find in its environment beside the user's own."""
        ...

    def kubectl(self, *args: str, stdin: str | None = None) -> CompletedProcess[str]:
        """Run kubectl; what it says and its exit code are the caller's to judge."""
        ...

    def restart_api_server(self) -> None:
        """Kill the API server, and wait until a new one is ready.

        Raises:
            NotHereError: this one is not ours to restart.
        """
        ...


class Gate(Protocol):
    """The gate that the cluster calls, wherever it runs. It is made stopped."""

    @property
    def reached(self) -> WebhookTarget:
        """Where the API server calls it."""
        ...

    @property
    def certificates(self) -> Path:
        """The folder of its certificates, as `tallygate certs` keeps it."""
        ...

    def start(self) -> None:
        """Run it, and wait until it is ready."""
        ...

    def stop(self) -> None:
        """End it in order, and wait until it has ended; nothing happens when it does not run."""
        ...

    def frozen(self) -> AbstractContextManager[None]:
        """Hold it up for as long as the block runs: it takes connections and answers nothing.

        Raises:
            NotHereError: its processes are out of reach.
        """
        ...

    def write_policies(self, files: Mapping[str, str]) -> None:
        """Let these be the policy files, by name, in place of what was there; return once the gate has them."""
        ...

    def take_up_certificate(self) -> None:
        """Return once it serves with what is in `certificates` now."""
        ...

    def readiness(self) -> dict[str, Any]:
        """What its `/readyz` says, ready or not."""
        ...

    def log(self) -> str:
        """What it has logged, as far as it can be had."""
        ...


Resources = Mapping[str, str]
"""Quantities by the names of resources."""


@dataclass(frozen=True, slots=True)
class Advertised:
    """What a node advertises beside what its kubelet finds by itself, as it stands in its status."""

    capacity: Resources = field(default_factory=dict)
    allocatable: Resources = field(default_factory=dict)

    def __or__(self, more: Resources) -> "Advertised":
        """This and more, all of which pods may have."""
        return Advertised({**self.capacity, **more}, {**self.allocatable, **more})


@dataclass(frozen=True)
class Site:
    """What the cases run on.

    `node` is the name of a node that has four dongles, `image` an image whose containers stay (there need be none on
    the local control plane), and `own` what the node advertises by itself, which cases leave or get back.
    """

    cluster: Cluster
    gate: Gate
    node: str
    image: str
    own: Advertised = field(default_factory=Advertised)
