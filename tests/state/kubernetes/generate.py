"""The definition of CapLedger in deploy/. `python -m tests.state.kubernetes.generate` writes it."""

from pathlib import Path

import yaml

from tallygate.state.kubernetes.crd import create_crd

PATH = Path(__file__).parents[3] / "deploy" / "kustomize" / "components" / "cluster-access" / "crd.yaml"
_HEADER = "# Made by `python -m tests.state.kubernetes.generate`; tallygate.state.kubernetes.crd says why it is so.\n"


def generate() -> str:
    """Return the content of the file."""
    return _HEADER + yaml.dump(create_crd(), Dumper=_Whole, sort_keys=False, width=120)


class _Whole(yaml.SafeDumper):
    """A dumper that repeats a value instead of an anchor, which a reader would have to look up."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # none
        """Return True: no value is shared."""
        return True


if __name__ == "__main__":
    PATH.write_text(generate(), encoding="utf-8")
