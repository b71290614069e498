"""A program of another project, built from its Go module once for each content, and cached beside the control plane."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.errors import BuildError
from e2e.progress import run_command

_SHOWN_OUTPUT = 2000  # characters of a failed build


def find_cache() -> Path:
    """Return the folder of what is built or converted once."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path in it is to be ignored (XDG Base Directory Specification).
    cache = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return cache / "tallygate"


@dataclass(frozen=True)
class GoProgram:
    """`package`, built in the module in `source`; `title` is its usual name.

    `tags` leave parts of it out, and `values` go in at link time by the full name of their variable.
    """

    name: str
    title: str
    package: str
    source: Path
    tags: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()

    def find_built(self) -> Path | None:
        """Return its path, if it was built from these versions before."""
        program = self._program()
        return program if program.exists() else None

    def program(self) -> Path:
        """Return its path; build it if it is missing: some minutes on a cold machine.

        Raises:
            BuildError: if there is no Go here, or the build fails.
        """
        program = self._program()
        if not program.exists():
            self._build(program)
        return program

    def _program(self) -> Path:
        ours = sorted(self.source.glob("*.go"))
        content = b"".join(file.read_bytes() for file in (self.source / "go.mod", self.source / "go.sum", *ours))
        digest = hashlib.sha256(content + " ".join(self._options()).encode()).hexdigest()[:16]
        return find_cache() / f"{self.name}-{digest}" / self.name

    def _options(self) -> tuple[str, ...]:
        linked = " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in self.values)])
        return ("-buildvcs=false", f"-tags={','.join(self.tags)}", f"-ldflags={linked}")

    def _build(self, program: Path) -> None:
        """Build beside and rename, so that a program of that name is always whole; of two builds, one stays."""
        go = shutil.which("go")
        if go is None:
            raise BuildError(
                f"{self.title} is built from its Go module, and there is no `go` on PATH; "
                "install Go 1.26 or newer (https://go.dev/doc/install) and run this again"
            )
        program.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=program.parent) as folder:
            made = Path(folder) / self.name
            command = (go, "build", *self._options(), "-o", str(made), self.package)
            environment = {**os.environ, "GOWORK": "off", "TMPDIR": folder, "GOTMPDIR": folder}
            done = run_command(command, f"building {self.title} (once)", folder=self.source, environment=environment)
            if done.returncode:
                raise BuildError(
                    f"{self.title} cannot be built; `go build` in {self.source} says:\n{done.stderr[-_SHOWN_OUTPUT:]}"
                )
            made.rename(program)
