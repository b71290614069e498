"""A minor version of Kubernetes: how it is read from text, and which one stands for another.

The rules are those of the default configuration: they follow the code of the version, and the defaults of its feature
gates.
"""

import re
from dataclasses import dataclass

from tallygate.accounting.kubernetes_versions.switches import Switch

_GIT_VERSION = re.compile(r"v?1\.(\d{1,6})(?:[.+-].*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class KubernetesVersion:
    """A minor version, as 37 for 1.37.

    A version is preliminary as long as its release has not answered: its rules are read from a pre-release.
    """

    minor: int
    is_preliminary: bool = False

    def __str__(self) -> str:
        return f"1.{self.minor}"

    def has(self, switch: Switch) -> bool:
        """Return whether a rule of the table applies in this version."""
        return self.minor >= switch.value.since


MODELLED_VERSIONS = (KubernetesVersion(36), KubernetesVersion(37), KubernetesVersion(38, is_preliminary=True))
"""The modelled versions in ascending order."""

DEFAULT_VERSION = next(version for version in reversed(MODELLED_VERSIONS) if not version.is_preliminary)
"""The version that stands for a cluster whose own version is not known: the newest one that is released."""


def parse_minor(git_version: str) -> int | None:
    """Return the minor version of a `gitVersion`, as 37 for `v1.37.2-gke.1`; None if the text has another form."""
    match = _GIT_VERSION.fullmatch(git_version)
    return int(match[1]) if match else None


def find_modelled(text: str) -> KubernetesVersion | None:
    """Return the modelled version of a text, as `1.38` or `v1.38.0`; None if it is not modelled."""
    minor = parse_minor(text)
    return next((version for version in MODELLED_VERSIONS if version.minor == minor), None)


def select_version(minor: int | None) -> KubernetesVersion:
    """Return the modelled version that is nearest to a minor version, the default one for None."""
    if minor is None:
        return DEFAULT_VERSION
    return min(MODELLED_VERSIONS, key=lambda version: abs(version.minor - minor))
