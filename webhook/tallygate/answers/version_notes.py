"""Notes about the version of Kubernetes whose rules an answer applies: why they may not be those of the cluster."""

from collections.abc import Iterator

from tallygate.accounting.kubernetes_versions.version import KubernetesVersion, parse_minor


def list_version_notes(version: KubernetesVersion, git_version: str | None, unreported: str = "") -> Iterator[str]:
    """Yield why the answers of a version may not be those of the cluster.

    `git_version` is what its API server reports, None where the user has chosen the version, or it is not known;
    `unreported` is then the text that says so, empty for a version that was chosen.
    """
    if git_version is None and unreported:
        yield f"{unreported}: the rules of kube-scheduler {version} apply"
    if version.is_preliminary:
        yield (
            f"the rules of Kubernetes {version} are preliminary: they are those of a pre-release, and no release has "
            "been compared with them"
        )
    if git_version is not None and parse_minor(git_version) != version.minor:
        yield (
            f"the cluster runs Kubernetes {git_version}, and the rules of kube-scheduler {version} apply here: "
            "verdicts and messages of that version may differ"
        )
