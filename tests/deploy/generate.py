"""The generated files of deploy/. `python -m tests.deploy.generate` writes them; `test_generated` fails when old."""

from pathlib import Path

import yaml

from tests.deploy.dashboard import dashboard
from webhook.admission.registration import Service, registration

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "kustomize" / "base"

_MADE = "# Made by `python -m tests.deploy.generate`; "
_WEBHOOKS = f"""\
{_MADE}webhook/admission/registration.py says why it is so.
# Without caBundle, which `tallygate certs publish` fills in.
"""
_POLICIES = f"{_MADE}the original is policies/default.yaml."


def generated() -> dict[Path, str]:
    """Every generated file, and what is to be in it."""
    return {
        BASE / "webhooks.yaml": _webhooks(),
        BASE / "policies" / "default.yaml": _policies(),
        ROOT / "deploy" / "grafana" / "tallygate.json": dashboard(),
    }


def _webhooks() -> str:
    return _WEBHOOKS + yaml.safe_dump_all(registration(Service()), sort_keys=False, width=120)


def _policies() -> str:
    """The shipped policies. kustomize reads no file outside its folder, and no link; the line for editors goes."""
    _, rest = (ROOT / "policies" / "default.yaml").read_text(encoding="utf-8").split("\n", 1)
    return f"{_POLICIES}\n{rest}"


def main() -> None:
    """Write them."""
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
