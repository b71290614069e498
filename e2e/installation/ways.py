"""Ways to install the gate, upgrade it and take it away, by the commands of docs/install.md and docs/upgrade.md."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from e2e.installation.desk import Desk
from e2e.installation.pages import commands, in_passing, written
from e2e.installing import image_parts

POLICIES: Final = "gpus.yaml"
"""The file of somebody's own policies beside the shipped ones, called as the pages call it."""

_INSTALL, _UPGRADE = "install.md", "upgrade.md"
_MINE = "deploy/kustomize/mine"
_SHIPPED = "deploy/kustomize/base/policies/default.yaml"


@dataclass(frozen=True, slots=True)
class Size:
    """What is known of what comes of it: whether ledgers are in the cluster, and how many replicas there are.

    `by_hand` says that somebody makes its certificate, and `warned` of what `tallygate doctor` rightly warns.
    """

    keeps: bool
    replicas: int
    by_hand: bool = False
    warned: Mapping[str, str] = field(default_factory=dict)


_ALONE: Final = {"failure-policy": "WARN"}  # with one replica no pod can be created while it restarts
_SIZES: Final = {
    "standalone": Size(
        keeps=False, replicas=1, warned={**_ALONE, "quotas": "UNKNOWN"}
    ),  # nobody sees caps in its memory
    "cluster": Size(keeps=True, replicas=1, by_hand=True, warned=_ALONE),
    "ha": Size(keeps=True, replicas=2),
    "cert-manager": Size(keeps=True, replicas=2),
}


class Way(ABC):
    """One way; `policies` is where one's own policy file lies at the desk.

    Raises:
        ClusterError: a command fails, whichever method types it.
    """

    policies: str

    def __init__(self, name: str) -> None:
        """`name` is that of an overlay, or of the chart's size."""
        self.name = name
        self.size = _SIZES[name]

    @abstractmethod
    def install(self, desk: Desk, image: str, policies: str) -> None:
        """Install an image of the gate, with the shipped policies and these, and register it."""

    @abstractmethod
    def upgrade(self, desk: Desk) -> None:
        """Upgrade to what is the same but for an argument, so that other pods take over."""

    @abstractmethod
    def uninstall(self, desk: Desk) -> None:
        """Take all of it away."""


class Kustomized(Way):
    """By an overlay of one's own."""

    policies = f"{_MINE}/{POLICIES}"

    def __str__(self) -> str:
        return self.name

    def install(self, desk: Desk, image: str, policies: str) -> None:
        """Make the overlay first, and the certificate where that is made by hand."""
        desk.write(self.policies, policies)
        desk.write(f"{_MINE}/default.yaml", (desk.folder / _SHIPPED).read_text())
        desk.write(f"{_MINE}/kustomization.yaml", self._overlay(image))
        namespace, *rest = commands(_INSTALL, "3. Install")[0]
        make, publish = self._certificate()
        for command in (namespace, *make, *rest, *publish):
            desk.type(command)

    def upgrade(self, desk: Desk) -> None:
        """As any other: `tallygate doctor`, the last command, is the caller's."""
        file = desk.folder / _MINE / "kustomization.yaml"
        file.write_text(f"{file.read_text()}{_patch()}")
        _, steps, _ = commands(_UPGRADE, "Upgrade")
        for command in steps[:-1]:
            desk.type(command)

    def uninstall(self, desk: Desk) -> None:
        """By the five commands."""
        for command in commands(_UPGRADE, "Uninstall")[0]:
            desk.type(command)

    def _overlay(self, image: str) -> str:
        """That of the page, with another name and image."""
        shown = written(_INSTALL, "2. Your overlay")[0]
        named = ", ".join(f"{key}: {value}" for key, value in image_parts(image).items())
        usual = "newName: registry.example.com/tallygate, newTag: 0.1.0"
        return shown.replace("overlays/ha", f"overlays/{self.name}").replace(usual, named)

    def _certificate(self) -> tuple[list[str], list[str]]:
        """What makes it, before the second command, and what publishes it, after the last."""
        first = commands(_INSTALL, "Certificates")[0]
        return (first[:-1], first[-1:]) if self.size.by_hand else ([], [])


class Charted(Way):
    """By the chart, whose size has the name."""

    policies = POLICIES

    def __str__(self) -> str:
        return f"helm-{self.name}"

    def install(self, desk: Desk, image: str, policies: str) -> None:
        """With values for size, image and policies."""
        desk.write(self.policies, policies)
        own = in_passing(_INSTALL, "By Helm", rf"--set-file 'policies.gpus\.yaml={POLICIES}'")
        shipped = rf"--set-file 'policies.default\.yaml={_SHIPPED}'"
        namespace, install, register = commands(_INSTALL, "By Helm")[0]
        desk.type(namespace)
        desk.type(f"{_with_image(install, image)} --set size={self.name} {own} {shipped}")
        desk.type(register)

    def upgrade(self, desk: Desk) -> None:
        """To the same image: there is one."""
        (command,) = commands(_UPGRADE, "Upgrade")[2]
        desk.type(command.replace("image.tag=VERSION", "'arguments={--log-level=debug}'"))

    def uninstall(self, desk: Desk) -> None:
        """With Helm's two commands in place of the last."""
        instead = ("helm uninstall tallygate -n tallygate-system", "kubectl delete namespace tallygate-system")
        steps = commands(_UPGRADE, "Uninstall")[0][:-1]
        for command in (*steps, *(in_passing(_UPGRADE, "Uninstall", each) for each in instead)):
            desk.type(command)


def _with_image(command: str, image: str) -> str:
    parts = image_parts(image)
    values = [f"image.repository={parts['newName']}"]
    values += [f"image.{key}={parts[new]}" for key, new in (("tag", "newTag"), ("digest", "digest")) if new in parts]
    return command.replace("image.repository=registry.example.com/tallygate,image.tag=0.1.0", ",".join(values))


def _patch() -> str:
    """The patch of the page's overlay that adds an argument."""
    (shown,) = (each for each in written(_INSTALL, "More of it") if "--log-level=debug" in each)
    return shown[shown.index("patches:") :]
