"""The definitions of CapLedger and CapUsage in deploy/. `python -m tests.state.kubernetes.generate` writes them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tallygate.state.kubernetes.crd import create_crd, create_usage_crd

_COMPONENTS: Final = Path(__file__).parents[3] / "deploy" / "kustomize" / "components"
_HEADER = "# Made by `python -m tests.state.kubernetes.generate`; tallygate.state.kubernetes.crd says why it is so.\n"


def generate_definitions() -> dict[Path, str]:
    """Return the content of each file."""
    definitions = {"cluster-access": create_crd(), "publish-usage": create_usage_crd()}
    return {_COMPONENTS / component / "crd.yaml": _dump(content) for component, content in definitions.items()}


def _dump(definition: Mapping[str, Any]) -> str:
    return _HEADER + yaml.dump(definition, Dumper=_Whole, sort_keys=False, width=120)


class _Whole(yaml.SafeDumper):
    """A dumper that repeats a value instead of an anchor, which a reader would have to look up."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # none
        """Return True: no value is shared."""
        return True


if __name__ == "__main__":
    for path, text in generate_definitions().items():
        path.write_text(text, encoding="utf-8")
