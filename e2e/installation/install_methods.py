"""Methods to install, upgrade and uninstall the gate, by the commands of the pages about these."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from e2e.installation.admin_shell import AdminShell
from e2e.installation.pages import read_commands, read_inline_command, read_yaml
from e2e.installing import image_parts

POLICIES: Final = "gpus.yaml"
"""The file of a user's own policies beside the shipped ones, named as on the pages."""

_INSTALL, _INSTALLATION, _UPGRADE = "install.md", "installation.md", "upgrade.md"
_MINE = "deploy/kustomize/mine"
_SHIPPED = "deploy/kustomize/base/policies/default.yaml"


@dataclass(frozen=True, slots=True)
class InstallSize:
    """What an installation comes to: whether ledgers are in the cluster, and the number of replicas.

    `by_hand` means that the user makes its certificate; `warnings` are those of `tallygate doctor` that are right.
    """

    has_ledgers: bool
    replicas: int
    by_hand: bool = False
    warnings: Mapping[str, str] = field(default_factory=dict)


_OPEN: Final = {"callers": "WARN"}  # the addresses of the API servers are unknown to an installation
_ALONE: Final = _OPEN | {"failure-policy": "WARN"}  # with one replica no pod can be created while it restarts
_SIZES: Final = {
    "standalone": InstallSize(has_ledgers=False, replicas=1, warnings=_ALONE),
    "by-hand": InstallSize(has_ledgers=True, replicas=2, by_hand=True, warnings=_OPEN),
    "ha": InstallSize(has_ledgers=True, replicas=2, warnings=_OPEN),
    "cert-manager": InstallSize(has_ledgers=True, replicas=2, warnings=_OPEN),
}

_OVERLAY_VALUES: Final = {
    "standalone": "replicas=1,ledgers=memory,networkPolicy.enabled=false,flowControl.enabled=false"
}
"""The chart's values for an overlay; `ha` has none."""


class InstallMethod(ABC):
    """One method; `policies` is the path of the user's own policy file in the shell.

    Raises:
        ClusterError: if a command fails.
    """

    policies: str

    def __init__(self, name: str) -> None:
        """Set the name: of an overlay, of the chart's size, or `by-hand` for certificates that the user makes."""
        self.name = name
        self.size = _SIZES[name]

    @abstractmethod
    def install(self, shell: AdminShell, image: str, policies: str) -> None:
        """Install an image of the gate, with the shipped policies and these, and register it."""

    @abstractmethod
    def upgrade(self, shell: AdminShell) -> None:
        """Upgrade to the same version with another argument, so that other pods take over."""

    @abstractmethod
    def uninstall(self, shell: AdminShell) -> None:
        """Uninstall all of it."""


class KustomizeInstall(InstallMethod):
    """Installation by an overlay of one's own."""

    policies = f"{_MINE}/{POLICIES}"

    def __init__(self, name: str, *components: str) -> None:
        """Set the name of the overlay, and the names of further components."""
        super().__init__(name)
        self._components = components

    def __str__(self) -> str:
        return self.name

    def install(self, shell: AdminShell, image: str, policies: str) -> None:
        """Make the overlay first, and the certificate where that is made by hand."""
        shell.write(self.policies, policies)
        shell.write(f"{_MINE}/default.yaml", (shell.folder / _SHIPPED).read_text())
        shell.write(f"{_MINE}/kustomization.yaml", self._overlay(image))
        make, publish = self._certificate()
        for command in (*make, *read_commands(_INSTALL, "3. Install")[0], *publish):
            shell.run(command)

    def upgrade(self, shell: AdminShell) -> None:
        """Upgrade as the page does; `tallygate doctor`, its last command, is the caller's."""
        file = shell.folder / _MINE / "kustomization.yaml"
        file.write_text(f"{file.read_text()}{_patch()}")
        _, steps, _ = read_commands(_UPGRADE, "Upgrade")
        for command in steps[:-1]:
            shell.run(command)

    def uninstall(self, shell: AdminShell) -> None:
        """Uninstall by the command of the page."""
        for command in read_commands(_UPGRADE, "Uninstall")[0]:
            shell.run(command)

    def _overlay(self, image: str) -> str:
        """Return the overlay of the page, with another name and image."""
        shown = read_yaml(_INSTALL, "2. Your overlay")[0]
        named = ", ".join(f"{key}: {value}" for key, value in image_parts(image).items())
        usual = "newName: registry.example.com/tallygate, newTag: 0.1.0"
        folder, components = self._parts()
        more = "".join(f"- ../components/{each}\n" for each in components)
        listed = f"components:\n{more}" if more else ""
        return f"{shown.replace('overlays/ha', folder).replace(usual, named)}{listed}"

    def _parts(self) -> tuple[str, list[str]]:
        """Return the folder that the overlay extends and its components: those of the page for certificates by hand."""
        if not self.size.by_hand:
            return f"overlays/{self.name}", list(self._components)
        shown = yaml.safe_load(read_yaml(_INSTALLATION, "Certificates by hand")[0])
        listed = [each.removeprefix("../components/") for each in shown["components"]]
        return shown["resources"][0].removeprefix("../"), [*listed, *self._components]

    def _certificate(self) -> tuple[list[str], list[str]]:
        """Return the commands that make the certificate, before the others, and publish it, after them."""
        first = read_commands(_INSTALLATION, "Certificates by hand")[0]
        return (first[:-1], first[-1:]) if self.size.by_hand else ([], [])


class HelmInstall(InstallMethod):
    """Installation by the chart, with the values that a page has for the overlay of the name; `ha` is the default."""

    policies = POLICIES

    def __str__(self) -> str:
        return f"helm-{self.name}"

    def install(self, shell: AdminShell, image: str, policies: str) -> None:
        """Install with values for the overlay, the image and the policies."""
        shell.write(self.policies, policies)
        own = read_inline_command(_INSTALL, "3. Install", rf"--set-file 'policies.gpus\.yaml={POLICIES}'")
        shipped = rf"--set-file 'policies.default\.yaml={_SHIPPED}'"
        (install,) = read_commands(_INSTALL, "3. Install")[1]
        values = _OVERLAY_VALUES.get(self.name)
        given = f"--set {read_inline_command(_INSTALLATION, 'The chart', values)}" if values else ""
        shell.run(f"{_with_image(install, image)} {given} {own} {shipped}")

    def upgrade(self, shell: AdminShell) -> None:
        """Upgrade to the same image: there is one."""
        (command,) = read_commands(_UPGRADE, "Upgrade")[2]
        shell.run(command.replace("image.tag=VERSION", "'extraArgs={--log-level=debug}'"))

    def uninstall(self, shell: AdminShell) -> None:
        """Uninstall with Helm's two commands."""
        commands = ("helm uninstall tallygate -n tallygate-system", "kubectl delete namespace tallygate-system")
        for command in commands:
            shell.run(read_inline_command(_UPGRADE, "Uninstall", command))


def _with_image(command: str, image: str) -> str:
    parts = image_parts(image)
    values = [f"image.repository={parts['newName']}"]
    values += [f"image.{key}={parts[new]}" for key, new in (("tag", "newTag"), ("digest", "digest")) if new in parts]
    return command.replace("image.repository=registry.example.com/tallygate,image.tag=0.1.0", ",".join(values))


def _patch() -> str:
    """Return the patch of the page's overlay that adds an argument."""
    (shown,) = (each for each in read_yaml(_INSTALLATION, "Components") if "--log-level=debug" in each)
    return shown[shown.index("patches:") :]
