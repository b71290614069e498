"""Policy files on disk, as authors and the kubelet write them, and the rules of a store."""

from datetime import UTC, datetime
from pathlib import Path

from tallygate.policy.store import PolicyStore

TIMEOUT_SECONDS = 20.0
"""Seconds to wait for a change; a later one counts as lost."""

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def rule_text(name: str, resource: str = "") -> str:
    """Return a ResourceRule of this name, for this resource or one of its own."""
    head = "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\n"
    return f"{head}metadata: {{name: {name}}}\nspec: {{resources: [{resource or f'{name}.example/x'}]}}\n"


def mount_config_map(folder: Path, version: str, files: dict[str, str]) -> None:
    """Mount a ConfigMap as the kubelet does: write a hidden folder, then rename a symlink over the old one.

    (kubernetes pkg/volume/util/atomic_writer.go, v1.36.)
    """
    hidden = folder / f"..{version}"
    hidden.mkdir()
    for name, text in files.items():
        (hidden / name).write_text(text)
    fresh = folder / "..data_tmp"
    fresh.symlink_to(hidden.name)
    fresh.rename(folder / "..data")
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)


def list_rule_names(store: PolicyStore) -> list[str]:
    """Return the names of the active rules of a store."""
    return [rule.name for rule in store.get_policies().rules]
