"""Commands that mend something, ready to be typed: kubectl and tallygate, at the cluster that was asked."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from webhook.cli.doctoring.facts import GateLocation
from webhook.cli.doctoring.records import Webhook, WebhookConfiguration


def format_kubectl(location: GateLocation, *arguments: str) -> str:
    """A command of kubectl."""
    return shlex.join(("kubectl", *location.options, *arguments))


def format_namespaced_kubectl(location: GateLocation, *arguments: str) -> str:
    """A command of kubectl within the gate's namespace."""
    return format_kubectl(location, f"--namespace={location.namespace}", *arguments)


def format_tallygate(location: GateLocation, *arguments: str) -> str:
    """A command of tallygate that takes `--kubeconfig` and `--context`."""
    return shlex.join(("tallygate", *arguments, *location.options))


def format_webhook_patch(  # noqa: PLR0913, PLR0917 -- which webhook of which object, and what of it
    location: GateLocation, kind: str, configuration: WebhookConfiguration, webhook: Webhook, field: str, value: Any
) -> str:
    """Set one field of one webhook; the command fails where somebody has put another in its place meanwhile."""
    index = configuration.webhooks.index(webhook)
    return _format_patch(
        location,
        kind,
        configuration.name,
        [
            {"op": "test", "path": f"/webhooks/{index}/name", "value": webhook.name},
            {"op": "add", "path": f"/webhooks/{index}/{field}", "value": value},
        ],
    )


def _format_patch(location: GateLocation, kind: str, name: str, operations: Sequence[dict[str, Any]]) -> str:
    return format_kubectl(location, "patch", kind, name, "--type=json", f"--patch={json.dumps(operations)}")
