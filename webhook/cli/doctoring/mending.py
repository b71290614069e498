"""Commands that mend something, ready to be typed: kubectl and tallygate, at the cluster that was asked."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from webhook.cli.doctoring.facts import Whereabouts
from webhook.cli.doctoring.records import Configuration, Webhook


def kubectl(here: Whereabouts, *arguments: str) -> str:
    """A command of kubectl."""
    return shlex.join(("kubectl", *here.options, *arguments))


def own(here: Whereabouts, *arguments: str) -> str:
    """A command of kubectl within the gate's namespace."""
    return kubectl(here, f"--namespace={here.namespace}", *arguments)


def tallygate(here: Whereabouts, *arguments: str) -> str:
    """A command of tallygate that takes `--kubeconfig` and `--context`."""
    return shlex.join(("tallygate", *arguments, *here.options))


def patched(  # noqa: PLR0913, PLR0917 -- which webhook of which object, and what of it
    here: Whereabouts, kind: str, configuration: Configuration, webhook: Webhook, field: str, value: Any
) -> str:
    """Set one field of one webhook; the command fails where somebody has put another in its place meanwhile."""
    index = configuration.webhooks.index(webhook)
    return _patch(
        here,
        kind,
        configuration.name,
        [
            {"op": "test", "path": f"/webhooks/{index}/name", "value": webhook.name},
            {"op": "add", "path": f"/webhooks/{index}/{field}", "value": value},
        ],
    )


def _patch(here: Whereabouts, kind: str, name: str, operations: Sequence[dict[str, Any]]) -> str:
    return kubectl(here, "patch", kind, name, "--type=json", f"--patch={json.dumps(operations)}")
