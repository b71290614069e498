"""`make release-rehearsal`: a release in dist/rehearsal, made, signed, verified and installed on this machine alone."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from e2e.cosign.build import COSIGN
from e2e.crane.build import CRANE
from e2e.helm.build import helm
from e2e.krew.build import KREW, KREW_VALIDATOR
from e2e.local.ports import free_ports
from e2e.waiting import until
from tests.release.chart import ChartRelease, package_chart
from tests.release.chart_key import CHART_KEY_FILE, find_gpg, make_chart_key
from tests.release.commands import ROOT, run_program
from tests.release.homebrew_formula import FORMULA_FILE, describe_formula
from tests.release.image_layout import ImageBuilder, try_image
from tests.release.installed_release import ReleaseFiles, try_installation
from tests.release.krew_manifest import FILE_NAME, describe_plugin
from tests.release.signed_files import (
    CHECKSUMS,
    describe_provenance,
    write_bill_of_materials,
    write_checksums,
    write_provenance,
)
from tests.release.standalone import build_archive, find_platform, try_commands, try_without_python

TARGET: Final = ROOT / "dist" / "rehearsal"
_PAGE: Final = ROOT / "docs" / "operate" / "verify.md"
_MANIFESTS: Final = ROOT / "e2e" / "manifests"
_MACHINES: Final = ("amd64", "arm64")
_WITHIN: Final = 30.0  # seconds until the registry answers
_BUNDLE: Final = "sigstore.json"
_PROVENANCE: Final = f"provenance.{_BUNDLE}"


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs with a key that is made for one rehearsal; `folder` has the private key, `public` is the other."""

    folder: Path
    public: Path

    @staticmethod
    def create(folder: Path) -> "Signer":
        """Make a key.

        Raises:
            ReleaseError: if cosign fails.
        """
        signer = Signer(folder, folder / "cosign.pub")
        signer.run("generate-key-pair")
        signer.run("signing-config", "create", "--out=services.json")  # none: no log and no authority is asked
        return signer

    def sign(self, command: str, *arguments: str | Path) -> None:
        """Sign by a command of cosign.

        Raises:
            ReleaseError: if it fails.
        """
        self.run(command, "--yes", "--key=cosign.key", "--signing-config=services.json", *arguments)

    def run(self, *arguments: str | Path) -> None:
        """Run cosign in the folder of the private key.

        Raises:
            ReleaseError: if it fails.
        """
        environment = {**os.environ, "COSIGN_PASSWORD": ""}
        run_program(COSIGN.program(), *arguments, folder=self.folder, environment=environment)


def rehearse(version: str, homepage: str, wheel: Path) -> None:
    """Make a release of a wheel and its sdist, sign and verify it, and install from it.

    Raises:
        BuildError: if a program of another project cannot be built here.
        ClusterError: if the installation does not reject what it has to.
        ReleaseError: if another step fails.
    """
    started = datetime.now(UTC)
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    for file in (wheel, wheel.with_name(f"tallygate-{version}.tar.gz")):
        shutil.copy(file, TARGET)
    own = TARGET / wheel.name
    with TemporaryDirectory(prefix="tallygate-rehearsal-") as name, _serve_registry() as registry:
        folder, image = Path(name), f"{registry}/tallygate"
        _report("the archive of the command")
        archive = build_archive(own, sys.executable, TARGET)
        _try_plugin(version, homepage, archive, folder)
        formula = describe_formula(version, homepage, f"{homepage}/releases", [archive])
        (TARGET / FORMULA_FILE).write_text(formula, encoding="utf-8")
        if sys.platform == "linux":
            try_without_python(archive, folder / "bare")
        _report("the bill of materials")
        write_bill_of_materials(own, sys.executable, TARGET)
        _report("the chart")
        chart = _package_chart(version, image, homepage)
        _report("the image, for amd64 and arm64")
        builder = ImageBuilder(CRANE.program(), image, folder)
        pushed = builder.build(own, version)
        builder.pull(pushed, TARGET / "image")
        _report("signatures")
        signer = Signer.create(folder)
        _sign(signer, pushed, _push_chart(chart, f"{image}/charts"), homepage, started)
        _report("the commands of docs/operate/verify.md")
        _verify(version, image, signer)
        _report("the image's own files")
        roots = {machine: folder / f"root-{machine}" for machine in _MACHINES}
        for machine, root in roots.items():
            builder.unpack(pushed, machine, root)
            try_image(root, machine, _MANIFESTS / "one-dongle.yaml", 0)
            try_image(root, machine, _MANIFESTS / "half.yaml", 1)
        _report("an installation of the chart, with the gate of the image")
        shutil.copy(signer.public, TARGET)
        own_machine = find_platform().partition("-")[2]
        builder.unpack(pushed, own_machine, asks := folder / "root-asks")
        try_installation(
            ReleaseFiles(archive, chart, roots[own_machine], asks), folder / "first-day", partial(click.echo, err=True)
        )
    click.echo("\n".join(sorted(str(each.relative_to(ROOT)) for each in TARGET.iterdir())))


@contextmanager
def _serve_registry() -> Iterator[str]:
    """Run a registry on loopback, in memory, and yield its host and port."""
    (port,) = free_ports(1)
    registry = f"127.0.0.1:{port}"
    command = [str(CRANE.program()), "registry", "serve", f"--address={registry}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:  # noqa: S603  built, no shell
        try:
            until("the registry answers", lambda: _answers(registry), _WITHIN)
            yield registry
        finally:
            server.terminate()


def _answers(registry: str) -> bool:
    command = [str(CRANE.program()), "catalog", registry]
    return not subprocess.run(command, capture_output=True, check=False).returncode  # noqa: S603  built, no shell


def _try_plugin(version: str, homepage: str, archive: Path, folder: Path) -> None:
    """Write the manifest of the plugin, and let krew validate it and install by it."""
    manifest = TARGET / FILE_NAME
    manifest.write_text(describe_plugin(version, homepage, f"{homepage}/releases", [archive]), encoding="utf-8")
    run_program(KREW_VALIDATOR.program(), f"-manifest={manifest}", "-skip-install")
    root = folder / "krew"
    environment = {"KREW_ROOT": str(root), "HOME": str(folder), "PATH": os.environ["PATH"]}
    run_program(KREW.program(), "install", f"--manifest={manifest}", f"--archive={archive}", environment=environment)
    try_commands(root / "bin" / "kubectl-tallygate")


def _package_chart(version: str, image: str, source: str) -> Path:
    """Package the chart, with a signature of Helm's own if there is a GnuPG here."""
    changes = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    if find_gpg() is None:
        _report("gpg is not on PATH: the chart has no signature that Helm verifies, and names no key")
    with nullcontext() if find_gpg() is None else make_chart_key() as key:
        return package_chart(ChartRelease(version, image, source, changes), TARGET, key)


def _push_chart(chart: Path, repository: str) -> str:
    """Push the chart, and return its name with its digest."""
    command = [str(helm()), "push", str(chart), f"oci://{repository}", "--plain-http"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  built, no shell
    (digest,) = re.findall(r"^Digest: (\S+)$", done.stdout + done.stderr, re.MULTILINE)
    return f"{repository}/tallygate@{digest}"


def _sign(signer: Signer, image: str, chart: str, source: str, started: datetime) -> None:
    """Sign the checksums, the provenance, the image of each machine, and the chart."""
    checksums = write_checksums(TARGET)
    files = [each for each in TARGET.iterdir() if each.is_file()]
    commit = run_program("git", "rev-parse", "HEAD").strip()
    statement = signer.folder / "provenance.json"
    write_provenance(describe_provenance(files, source, commit, started), statement)
    signer.sign("attest-blob", f"--statement={statement}", f"--bundle={TARGET / _PROVENANCE}")
    signer.sign("sign-blob", f"--bundle={TARGET / f'{CHECKSUMS}.{_BUNDLE}'}", checksums)
    signer.sign("sign", "--recursive", image)
    signer.sign("sign", chart)


def _verify(version: str, image: str, signer: Signer) -> None:
    """Run the commands of the page, with the key in place of the identity of a workflow."""
    found = re.findall(r"^```sh\n(.*?)^```$", _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    keyed = (TARGET / CHART_KEY_FILE).exists()
    commands = "".join(each for each in found if keyed or CHART_KEY_FILE not in each)
    who = f"--key={signer.public} --insecure-ignore-tlog=true"
    path = os.pathsep.join([str(COSIGN.program().parent), str(helm().parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "VERSION": version, "IMAGE": image, "WHO": who}
    run_program("sh", "-euxc", commands, folder=TARGET, environment=environment)
    if keyed:
        _pull_chart(version, image, signer.folder)
    for file in TARGET.glob("*.whl"):
        file.with_suffix(".changed").write_bytes(file.read_bytes() + b" ")
    changed = TARGET / f"tallygate-{version}-py3-none-any.changed"
    command = f'cosign verify-blob-attestation $WHO --bundle {_PROVENANCE} --type slsaprovenance1 "{changed.name}"'
    run_program("sh", "-euc", command, folder=TARGET, environment=environment, code=1)  # the commands can fail
    changed.unlink()


def _pull_chart(version: str, image: str, target: Path) -> None:
    """Pull the chart from the registry, and let Helm verify it by the keyring of the page's commands."""
    keyring = (TARGET / CHART_KEY_FILE).with_suffix(".gpg")
    options = (f"--version={version}", "--plain-http", f"--destination={target}", "--verify", f"--keyring={keyring}")
    run_program(helm(), "pull", f"oci://{image}/charts/tallygate", *options)
    keyring.unlink()


def _report(what: str) -> None:
    click.echo(f"{what} …", err=True)
