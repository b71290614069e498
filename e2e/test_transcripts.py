"""What people see at the terminal, without the gate and with it: one file for each case, in `e2e/cases`."""

import json
from pathlib import Path

import pytest

from e2e.ports import Site
from e2e.transcript_run import replay_case

_CASES = Path(__file__).parent / "cases"
_WITHOUT = sorted((_CASES / "without").glob("*.console"))
_WITH = sorted((_CASES / "with").glob("*.console"))
_OF_KUBECTL = {"debug": 36, "rollout": 36}
"""The minor of the first kubectl whose warnings a case has."""


def _read_kubectl_minor(site: Site) -> int:
    version = json.loads(site.cluster.kubectl("version", "--client", "--output=json").stdout)
    return int(version["clientVersion"]["minor"])


def test_what_kubernetes_alone_does_is_shown_beside_what_it_does_with_the_gate() -> None:
    assert _WITHOUT
    assert {case.name for case in _WITHOUT} <= {case.name for case in _WITH}


@pytest.mark.parametrize("case", _WITHOUT, ids=lambda case: case.stem)
def test_without_the_gate(case: Path, site: Site, namespace: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    replay_case(site, case, namespace, tmp_path, record=pytestconfig.getoption("--record"))


@pytest.mark.parametrize("case", _WITH, ids=lambda case: case.stem)
@pytest.mark.usefixtures("gate")
def test_with_the_gate(case: Path, site: Site, namespace: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    if _read_kubectl_minor(site) < _OF_KUBECTL.get(case.stem, 0):
        pytest.skip("an older kubectl prints other warnings")
    replay_case(site, case, namespace, tmp_path, record=pytestconfig.getoption("--record"))
