"""The guards of the steps: shell lines that refuse a step while pods remain that request an old name.

The scripts have kubectl alone, so a template of Go selects the pods. Pods that have ended use nothing.
"""

import json
from collections.abc import Mapping
from typing import Final

from tallygate.cli.migrate.old_name_uses import MigrationStep

TEMPLATE_NAME: Final = "pods-left.gotmpl"
"""The file with the template, beside the script of a step."""

_SCRIPT: Final = """\
left=$(kubectl "$@" get pods --all-namespaces -o go-template-file={name})
if [ -n "$left" ]; then
  echo "refused, and nothing was changed: these pods request {names}; let them end, or recreate them:" >&2
  echo "$left" >&2
  exit 1
fi
"""
_NAMES: Final[Mapping[MigrationStep, str]] = {
    MigrationStep.REQUEST_NEW: "an old name without the new one",
    MigrationStep.WITHDRAW: "an old name",
}


def create_guard(step: MigrationStep, new_by_old: Mapping[str, str]) -> tuple[str, str]:
    """Return the shell lines that guard a step, and the template that they use; both are empty without a guard."""
    if step not in _NAMES or not new_by_old:
        return "", ""
    checks = "".join(
        _create_check(old, new if step is MigrationStep.REQUEST_NEW else "", field)
        for old, new in sorted(new_by_old.items())
        for field in ("requests", "limits")
    )
    return _SCRIPT.format(name=TEMPLATE_NAME, names=_NAMES[step]), _create_template(checks)


def _create_check(old: str, new: str, field: str) -> str:
    """Return the part of the template that finds a container with the old name, and without the new one if given."""
    condition = f"index . {json.dumps(old)}"
    if new:
        condition = f"and ({condition}) (not (index . {json.dumps(new)}))"
    return f"{{{{ with .{field} }}}}{{{{ if {condition} }}}}{{{{ $found = true }}}}{{{{ end }}}}{{{{ end -}}}}\n"


def _create_template(checks: str) -> str:
    """Return the template that prints the namespace and the name of each pod with a container that the checks find."""
    containers = "".join(
        f"{{{{ range .spec.{field} }}}}{{{{ with .resources -}}}}\n{checks}{{{{ end }}}}{{{{ end -}}}}\n"
        for field in ("initContainers", "containers")
    )
    return (
        "{{ range .items }}{{ $found := false -}}\n"
        '{{ if not (or (eq .status.phase "Succeeded") (eq .status.phase "Failed")) -}}\n'
        f"{containers}"
        "{{ end -}}\n"
        '{{ if $found }}{{ .metadata.namespace }}/{{ .metadata.name }}{{ "\\n" }}{{ end }}{{ end -}}\n'
    )
