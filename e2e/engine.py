"""The container engine of this machine: checked once, so that a missing one is reported in one sentence."""

import shutil
import subprocess

from e2e.errors import BuildError

_ANSWER = 30.0  # seconds; an engine that starts by its socket takes a moment
_SHOWN = 500  # characters of what it says


def engine() -> str:
    """Return the path of `docker`, if it reaches an engine.

    Raises:
        BuildError: if there is no such command here, or nothing answers it.
    """
    docker = shutil.which("docker")
    if docker is None:
        raise BuildError(
            "images are built and kind's clusters run by a container engine, and there is no `docker` on PATH; "
            "install one (https://docs.docker.com/engine/install) and run this again"
        )
    command = [docker, "version", "--format={{.Server.Version}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ANSWER)  # noqa: S603  no shell
    except subprocess.TimeoutExpired:
        raise BuildError(f"the container engine does not answer `docker version` within {_ANSWER:.0f} s") from None
    if done.returncode:
        raise BuildError(
            f"no container engine answers `docker version`: {done.stderr.strip()[:_SHOWN]}; "
            "start it, or let DOCKER_HOST name its socket"
        )
    return docker
