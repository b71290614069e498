"""A control plane of a release that is newer than those of the suite, with a Go that plays the module proxy."""

import json
import os
from pathlib import Path

import pytest

from e2e.errors import BuildError
from e2e.local.releases import complete_requirements, list_releases, select_release

PUBLISHED = {
    "Go": "1.27.0",
    "Require": [
        {"Path": "github.com/spf13/cobra", "Version": "v1.10.2"},
        {"Path": "go.etcd.io/etcd/server/v3", "Version": "v3.7.3"},
    ],
    "Replace": [{"Old": {"Path": "k8s.io/api"}}, {"Old": {"Path": "k8s.io/kubectl"}}],
}
ABSENT = "{module}: reading {module}.info: 404 Not Found"


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which files say what Go prints and fails with, by its command; it notes its variables."""
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        f'cd {tmp_path}; echo "$2 $GOTOOLCHAIN $GOWORK" >> calls\n'
        'if [ -f "$2.error" ]; then cat "$2.error" >&2; exit 1; fi\n'
        'if [ "$2" = tidy ]; then file=${3#-modfile=}; echo sums > "${file%.mod}.sum"; fi\n'
        'if [ -f "$2.out" ]; then cat "$2.out"; fi\n'
    )
    program.chmod(0o755)
    (tmp_path / "download.out").write_text(json.dumps({"GoMod": "published.mod"}))
    (tmp_path / "edit.out").write_text(json.dumps(PUBLISHED))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GOTOOLCHAIN", raising=False)
    return tmp_path


def test_a_newer_release_gets_the_requirements_that_it_publishes(go: Path) -> None:
    """Build a release on the day on which it is served: its own requirements, and a newer Go."""
    release = select_release({"KUBERNETES": "1.99.0"})
    complete_requirements(release)
    complete_requirements(release)
    assert (release.minor, release.version) == ("1.99", "v1.99.0")
    written = release.requirements.read_text()
    assert "\tk8s.io/kubernetes v1.99.0\n" in written
    assert "\tgo.etcd.io/etcd/server/v3 v3.7.3\n" in written
    assert "\tk8s.io/api => k8s.io/api v0.99.0\n" in written
    assert release.checksums.read_text() == "sums\n"
    assert release.go_environment == {"GOTOOLCHAIN": "go1.27.3"}
    assert (go / "calls").read_text().splitlines() == [f"{each} go1.27.3 off" for each in ("download", "edit", "tidy")]
    assert {each.name for each in release.requirements.parent.iterdir()} == {"1.99.0.mod", "1.99.0.sum"}


@pytest.mark.parametrize(
    ("command", "module", "end"),
    [
        ("download", "k8s.io/kubernetes@v1.99.0", ""),
        ("tidy", "k8s.io/api@v0.99.0", ", which k8s.io/kubernetes v1.99.0 requires"),
    ],
    ids=["the release", "a part of it"],
)
def test_a_release_that_is_not_served_is_one_sentence(go: Path, command: str, module: str, end: str) -> None:
    (go / f"{command}.error").write_text(ABSENT.format(module=module))
    release = select_release({"KUBERNETES": "v1.99.0"})
    with pytest.raises(BuildError) as raised:
        complete_requirements(release)
    assert str(raised.value) == (
        f"KUBERNETES=1.99.0: the module proxy does not serve {module.replace('@', ' ')}{end}: this control plane can "
        "be built from the day on which it does"
    )
    assert not release.requirements.exists()


def test_another_failure_of_go_has_its_own_words(go: Path) -> None:
    (go / "tidy.error").write_text("go: no space left on device")
    with pytest.raises(BuildError, match=r"`go mod tidy .*` in .* says:\n.*no space left on device"):
        complete_requirements(select_release({"KUBERNETES": "1.99.0"}))


@pytest.mark.parametrize("wanted", ["1.12.0", "1.99", "1.99.0-", "2.0.0", "latest"])
def test_no_other_version_is_looked_for(go: Path, wanted: str) -> None:
    with pytest.raises(BuildError, match=f"KUBERNETES={wanted}: no control plane of that version can be built"):
        select_release({"KUBERNETES": wanted})
    assert not (go / "calls").exists()


def test_the_releases_of_the_suite_are_built_by_the_go_on_path() -> None:
    assert [release.go_environment for release in list_releases()] == [{}] * len(list_releases())
