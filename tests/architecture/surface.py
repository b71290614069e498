"""The names that users see: flags, settings, metrics, log events, codes, and the fields of a CapLedger.

`python -m tests.architecture.surface` writes `surface.json`. A test compares it with the code, so that no name that
users see changes without its line in that file.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from tallygate.answers.code_catalog import list_codes
from tallygate.cli.app import root
from tallygate.server.settings.table import OPTIONS
from tallygate.state.kubernetes.crd import create_crd
from tests.logged_events import list_logged_events
from tests.server.all_metrics import list_metrics

PATH = Path(__file__).parent / "surface.json"


def list_surface() -> dict[str, Any]:
    """Return every name that users see, by its kind."""
    version = create_crd()["spec"]["versions"][0]
    return {
        "flags": {name: sorted(flags) for name, flags in sorted(_flags(root, "tallygate"))},
        "settings": sorted(option.name for option in OPTIONS),
        "metrics": {name: sorted(labels) for name, labels in sorted(list_metrics().items())},
        "log events": {event: sorted(levels) for event, levels in sorted(list_logged_events().items())},
        "codes": {code.number: code.slug for code in list_codes()},
        "CapLedger fields": sorted(_fields(version["schema"]["openAPIV3Schema"], "")),
        "CapLedger columns": [column["name"] for column in version["additionalPrinterColumns"]],
    }


def _flags(command: click.Command, name: str) -> Iterator[tuple[str, list[str]]]:
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    yield name, [flag for parameter in shown for flag in (*parameter.opts, *parameter.secondary_opts)]
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            if child is not None:
                yield from _flags(child, f"{name} {child_name}")


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _fields(field, f"{path}.{name}")


if __name__ == "__main__":
    PATH.write_text(json.dumps(list_surface(), indent=2, ensure_ascii=False) + "\n", "utf-8")
