"""Argo CD and Flux: the API server accepts the objects by which, as a page says, they bring policies into a cluster.

The kinds have the definitions of their Go modules. Neither Argo CD nor Flux runs.
"""

import re
from collections.abc import Iterator

import pytest
import yaml

from e2e.api import Object
from e2e.definitions import serve_kinds_of
from e2e.ports import Cluster, Site
from e2e.workload_kinds.modules import ARGO_CD, FLUX_KUSTOMIZE, FLUX_SOURCE, Module
from tests.pages.page import DOCS, Page

_PAGE = Page(DOCS / "concepts" / "why-files.md")
_MODULES: dict[str, tuple[Module, str]] = {
    "Application": (ARGO_CD, "Argo CD"),
    "GitRepository": (FLUX_SOURCE, "source-controller"),
    "Kustomization": (FLUX_KUSTOMIZE, "kustomize-controller"),
}
"""By kind: the module that defines it, and the name of its program on the page."""


@pytest.fixture(scope="module")
def cluster(site: Site) -> Iterator[Cluster]:
    """Define the kinds of the page."""
    with serve_kinds_of(site.cluster, *(module for module, _ in _MODULES.values())):
        yield site.cluster


def _read_text(kind: str) -> str:
    """Return the block of the page with an object of this kind."""
    (text,) = (block[2] for block in _PAGE.list_blocks("yaml") if f"\nkind: {kind}\n" in block[2])
    return text


def _apply(cluster: Cluster, text: str, namespace: str) -> str:
    """Apply an object in this namespace, in a dry run that rejects fields that its kind does not have."""
    content: Object = yaml.safe_load(text)
    content["metadata"]["namespace"] = namespace  # those of Argo CD and Flux are not there
    done = cluster.kubectl(
        "apply", "--filename=-", "--validate=strict", "--dry-run=server", stdin=yaml.safe_dump(content)
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("kind", _MODULES)
def test_the_object_of_the_page_is_accepted(cluster: Cluster, namespace: str, kind: str) -> None:
    answer = _apply(cluster, _read_text(kind), namespace)
    assert re.fullmatch(rf"{kind.lower()}\.\S+/tallygate created \(server dry run\)\n", answer), answer


@pytest.mark.parametrize(
    ("kind", "change", "answer"),
    [
        ("Application", ("selfHeal:", "selfHeel:"), 'unknown field "spec.syncPolicy.automated.selfHeel"'),
        ("GitRepository", ("branch:", "brunch:"), 'unknown field "spec.ref.brunch"'),
        ("Kustomization", ("prune:", "prone:"), 'unknown field "spec.prone"'),
        ("Kustomization", ("kind: GitRepository", "kind: GitRepo"), 'kind: Unsupported value: "GitRepo"'),
    ],
)
def test_a_mistake_in_it_would_be_found(
    cluster: Cluster, namespace: str, kind: str, change: tuple[str, str], answer: str
) -> None:
    text = _read_text(kind)
    assert text.count(change[0]) == 1
    assert answer in _apply(cluster, text.replace(*change), namespace)


@pytest.mark.parametrize("kind", _MODULES)
def test_the_page_names_the_version_of_the_definition(kind: str) -> None:
    module, program = _MODULES[kind]
    minor = ".".join(module.version.removeprefix("v").split(".")[:2])
    assert f"{program} {minor}" in " ".join(_PAGE.read().split())
