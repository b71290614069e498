"""The small interface that every provider gives the suite: a cluster, a node in it, and the gate it calls."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Protocol

from tallygate.admission.webhook_configuration import WebhookTarget


class NotHereError(Exception):
    """This provider cannot do that; the text says why. A case that needs it is skipped."""


class Cluster(Protocol):
    """A Kubernetes cluster, used as its administrator."""

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
        """Variables of kubectl beside the user's own."""
        ...

    def kubectl(self, *args: str, stdin: str | None = None) -> CompletedProcess[str]:
        """Run kubectl; the caller evaluates its output and its exit code."""
        ...

    def restart_api_server(self) -> None:
        """Kill the API server, and wait until a new one is ready.

        Raises:
            NotHereError: if this one is not ours to restart.
        """
        ...


class Gate(Protocol):
    """The gate that the cluster calls, wherever it runs. It is made stopped."""

    @property
    def reached(self) -> WebhookTarget:
        """The target by which the API server calls it."""
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

    def freeze(self) -> AbstractContextManager[None]:
        """Freeze it for as long as the block runs: it takes connections and answers nothing.

        Raises:
            NotHereError: if its processes are out of reach.
        """
        ...

    def write_policies(self, files: Mapping[str, str]) -> None:
        """Write these policy files, by name, in place of the former ones; return once the gate has them."""
        ...

    def reload_certificate(self) -> None:
        """Return once it serves with the files that are in `certificates` now."""
        ...

    def readiness(self) -> dict[str, Any]:
        """Return the content of its `/readyz`, ready or not."""
        ...

    def log(self) -> str:
        """Return its log, as far as it is available."""
        ...


Resources = Mapping[str, str]
"""Quantities by the names of resources."""


@dataclass(frozen=True, slots=True)
class AdvertisedResources:
    """The resources that a node advertises beside those that its kubelet finds by itself, as in its status."""

    capacity: Resources = field(default_factory=dict)
    allocatable: Resources = field(default_factory=dict)

    def __or__(self, more: Resources) -> "AdvertisedResources":
        """Return this and more resources, all of which are allocatable."""
        return AdvertisedResources({**self.capacity, **more}, {**self.allocatable, **more})


@dataclass(frozen=True)
class Site:
    """The site that the cases run on.

    `node` is the name of a node that has four dongles, `image` an image whose containers stay (there need be none on
    the local control plane), and `own` what the node advertises by itself, which cases leave or get back.
    """

    cluster: Cluster
    gate: Gate
    node: str
    image: str
    own: AdvertisedResources = field(default_factory=AdvertisedResources)
