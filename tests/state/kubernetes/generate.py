"""The definition of CapLedger in deploy/. `python -m tests.state.kubernetes.generate` writes it."""

from pathlib import Path

import yaml

from webhook.state.kubernetes.crd import create_crd

PATH = Path(__file__).parents[3] / "deploy" / "kustomize" / "components" / "cluster-access" / "crd.yaml"
_MADE = "# Made by `python -m tests.state.kubernetes.generate`; webhook/state/kubernetes/crd.py says why it is so.\n"


def generated() -> str:
    """What is to be in it."""
    return _MADE + yaml.dump(create_crd(), Dumper=_Whole, sort_keys=False, width=120)


class _Whole(yaml.SafeDumper):
    """Writes what occurs twice twice: an anchor says nothing to a reader."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # none
        """Nothing is shared."""
        return True


if __name__ == "__main__":
    PATH.write_text(generated(), encoding="utf-8")
