"""The manifest of the krew plugin, from the archives of a release.

Its form is that of krew's API (krew.googlecontainertools.github.com/v1alpha2, pkg/index/types.go); krew's own validator
reads it in tests/release/test_krew_manifest.py.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from tests.release.standalone import StandaloneArchive

FILE_NAME: Final = "tallygate.yaml"
"""The name of the plugin, by which krew's index has it."""

_DESCRIPTION: Final = """\
Shows what would happen to pods and workloads that request GPUs, licences and
other things that Kubernetes counts: `check` reads manifests without a cluster,
`ask` has the gate's own answer, `predict` explains why a pod is Pending, and
`usage` shows the limits of caps and what is used of them.
"""


def describe_plugin(version: str, homepage: str, url: str, archives: Iterable[Path]) -> str:
    """Return the manifest of a version as YAML; the archives are downloaded from the address `url`.

    Raises:
        ReleaseError: if the name of an archive has no known platform.
    """
    described: dict[str, Any] = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": FILE_NAME.removesuffix(".yaml")},
        "spec": {
            "version": f"v{version}",
            "homepage": homepage,
            "shortDescription": "Ask about GPUs and other counted resources",
            "description": _DESCRIPTION,
            "platforms": [_describe_archive(StandaloneArchive.read(each), url) for each in sorted(archives)],
        },
    }
    return yaml.safe_dump(described, sort_keys=False, width=120)


def _describe_archive(archive: StandaloneArchive, url: str) -> dict[str, Any]:
    return {
        "selector": {"matchLabels": {"os": archive.system, "arch": archive.machine}},
        "uri": f"{url.rstrip('/')}/{archive.name}",
        "sha256": archive.sha256,
        "files": [{"from": "tallygate/*", "to": "."}],
        "bin": "tallygate",
    }
