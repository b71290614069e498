"""Policy files on disk, as authors and the kubelet write them, and what a store makes of them."""

from datetime import UTC, datetime
from pathlib import Path

from webhook.policy.store import PolicyStore

WAIT = 20.0
"""Seconds until a change that was not seen counts as lost."""

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def rule_text(name: str, resource: str = "") -> str:
    """A ResourceRule of this name, over this resource or one of its own."""
    head = "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\n"
    return f"{head}metadata: {{name: {name}}}\nspec: {{resources: [{resource or f'{name}.example/x'}]}}\n"


def mount(folder: Path, version: str, files: dict[str, str]) -> None:
    """What the kubelet does with a ConfigMap: write a hidden folder, then rename a symlink over the old one.

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


def in_force(store: PolicyStore) -> list[str]:
    """The names of the rules that a store goes by."""
    return [rule.name for rule in store.get_policies().rules]
