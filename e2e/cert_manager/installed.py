"""cert-manager as people have it: its chart installed by Helm, in images that hold the program that is built here."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from e2e.cert_manager.running import CERT_MANAGER
from e2e.command_output import run_kubectl
from e2e.engine import engine
from e2e.errors import BuildError
from e2e.installation.rendered import run_helm
from e2e.installation.third_party_kinds import CERT_MANAGER_MODULE, module_folder
from e2e.kind.cluster import KindCluster
from e2e.progress import run_command

_OWN: Final = "cert-manager"
_PARTS: Final = {"controller": "", "cainjector": "cainjector.", "webhook": "webhook."}
"""What the program is called with, and the beginning of the values that say where its image is."""

_DOCKERFILE = """\
FROM scratch
COPY cert-manager /cert-manager
USER 65532:65532
ENTRYPOINT ["/cert-manager", "{part}"]
"""
_WITHOUT = ("startupapicheck.enabled=false", "livenessProbe.enabled=false")
"""A Job of its own image, and what the program's controllers do not answer."""

_OPTIONS = ("crds.enabled=true", "crds.keep=false", *_WITHOUT)


@contextmanager
def install_cert_manager(cluster: KindCluster, folder: Path) -> Iterator[None]:
    """Its controllers, its CA injector and its webhook in a namespace of theirs, with the rights that its chart gives.

    Raises:
        BuildError: if there is no engine, Go or Helm here, or an image cannot be built.
        ClusterError: if something is not ready in time; the text is Helm's.
    """
    folder.mkdir(parents=True)
    tag, docker = uuid4().hex[:12], engine()
    images = {part: f"tallygate-e2e/cert-manager-{part}:{tag}" for part in _PARTS}
    chart = module_folder(CERT_MANAGER_MODULE) / "deploy" / "charts" / "cert-manager"
    own = f"--namespace={_OWN}"
    try:
        _build(docker, images, folder)
        cluster.load(*images.values())
    finally:
        run_command((docker, "image", "rm", "--force", *images.values()), "taking the images away")
    try:
        values = [f"--set={option}" for option in _OPTIONS]
        values += [
            f"--set={begins}image.repository=tallygate-e2e/cert-manager-{part}" for part, begins in _PARTS.items()
        ]
        values += [f"--set-string={begins}image.tag={tag}" for begins in _PARTS.values()]
        run_helm(cluster, "install", _OWN, str(chart), own, "--create-namespace", "--wait", *values)
        yield
    finally:
        run_helm(cluster, "uninstall", _OWN, own, "--ignore-not-found", "--wait")
        run_kubectl(cluster, "delete", "namespace", _OWN, "--ignore-not-found")


def _build(docker: str, images: dict[str, str], folder: Path) -> None:
    shutil.copy(CERT_MANAGER.program(), folder / "cert-manager")
    for part, image in images.items():
        file = folder / f"Dockerfile.{part}"
        file.write_text(_DOCKERFILE.format(part=part))
        done = run_command(
            (docker, "build", f"--tag={image}", f"--file={file}", str(folder)), f"building the image {image}"
        )
        if done.returncode:
            raise BuildError(f"the image {image} cannot be built:\n{(done.stdout + done.stderr)[-2000:].strip()}")
