"""Providers that cannot run report it in one sentence, with exit code 2, and so does the building of the image."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.image import Python
from e2e.ports import Site
from tests.warm import run

_ROOT = Path(__file__).parent.parent
_MISUSE = 2
_WITHIN = 240.0  # seconds; a busy machine is slow


def _suite(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the suite itself as far as one case, and return the result; it need not rewrite what cases assert."""
    case = ("e2e/test_transcripts.py", "-k", "without", "-p", "no:cacheprovider", "--assert=plain")
    return run("pytest", (*case, *options), cwd=_ROOT, environment={**os.environ, **environment}, timeout=_WITHIN)


def _sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Return the sentence that the run ends with."""
    assert done.returncode == _MISUSE, done.stdout + done.stderr
    (line,) = (line for line in (done.stdout + done.stderr).splitlines() if "tallygate: " in line)
    return line


def test_a_machine_without_a_container_engine_gets_one_sentence(tmp_path: Path) -> None:
    sentence = _sentence(_suite("--provider=kind", PATH=str(tmp_path)))
    assert "there is no `docker` on PATH" in sentence
    assert "docs.docker.com/engine/install" in sentence


def _docker(folder: Path, script: str) -> None:
    """Write a `docker` without an engine behind it."""
    (folder / "docker").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "docker").chmod(0o700)


def test_an_engine_that_does_not_answer_is_reported(tmp_path: Path) -> None:
    _docker(tmp_path, "echo no daemon here >&2; exit 1")
    sentence = _sentence(_suite("--provider=kind", PATH=str(tmp_path)))
    assert "no container engine answers `docker version`: no daemon here; start it" in sentence


def test_a_machine_without_kind_and_go_gets_one_sentence_before_anything_is_built(tmp_path: Path) -> None:
    _docker(tmp_path, "test $1 = version && echo 28")
    sentence = _sentence(_suite("--provider=kind", PATH=str(tmp_path)))
    assert "`kind`, and there is neither that on PATH nor `go`" in sentence


def test_a_base_image_that_cannot_be_had_is_named_with_what_the_engine_says(tmp_path: Path) -> None:
    _docker(tmp_path, "test $1 = version && echo 28 && exit; echo no such image >&2; exit 125")
    done = subprocess.run(
        [sys.executable, "-m", "e2e.image", "--tag=tallygate:none", "--base=example.com/none:1"],
        cwd=_ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the base image example.com/none:1" in _sentence(done)
    assert done.stderr.endswith("no such image\n")


def test_wheels_are_chosen_for_the_glibc_of_the_image_and_for_older_ones() -> None:
    options = list(Python("3.13", "aarch64", 36).pip_options())
    assert options[:3] == ["--implementation=cp", "--python-version=3.13", "--platform=manylinux_2_36_aarch64"]
    assert "--platform=manylinux_2_17_aarch64" in options
    assert "--platform=manylinux_2_37_aarch64" not in options


def test_an_existing_cluster_needs_its_kubeconfig(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    sentence = _sentence(_suite("--provider=existing", f"--kubeconfig={nowhere}"))
    assert f"{nowhere}: there is no such kubeconfig; name the cluster's by --kubeconfig" in sentence


def test_a_context_that_the_kubeconfig_has_not_is_named(site: Site) -> None:
    sentence = _sentence(
        _suite("--provider=existing", f"--kubeconfig={site.cluster.kubeconfig}", "--context=production")
    )
    assert "production" in sentence


def test_a_cluster_that_does_not_answer_is_reported(site: Site, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(site.cluster.kubeconfig.read_text())
    name = site.cluster.kubectl("config", "view", "--output=jsonpath={.clusters[0].name}").stdout
    moved = site.cluster.kubectl(
        f"--kubeconfig={kubeconfig}", "config", "set-cluster", name, "--server=https://127.0.0.1:1"
    )
    assert moved.returncode == 0, moved.stderr
    sentence = _sentence(_suite("--provider=existing", f"--kubeconfig={kubeconfig}"))
    assert "the cluster does not answer `kubectl version`" in sentence


@pytest.mark.usefixtures("gate")
def test_a_cluster_with_a_gate_of_its_own_is_left_alone(site: Site) -> None:
    before = _registrations(site)
    sentence = _sentence(_suite("--provider=existing", f"--kubeconfig={site.cluster.kubeconfig}"))
    assert "validatingwebhookconfiguration.admissionregistration.k8s.io/tallygate is there already" in sentence
    assert _registrations(site) == before != ""


def _registrations(site: Site) -> str:
    return site.cluster.kubectl("get", "validatingwebhookconfigurations", "--output=yaml").stdout
