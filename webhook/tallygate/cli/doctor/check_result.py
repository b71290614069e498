"""Check results: a status, a reason with figures, and the fix commands.

A fix command is a complete kubectl or tallygate command line for the examined cluster.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from tallygate.cli.doctor.facts import GateFacts, GateLocation
from tallygate.objects.admission_registration import Webhook, WebhookConfiguration

_MAX_NAMES = 5
_MAX_COMMANDS = 5


class CheckStatus(StrEnum):
    """The status of a check, from best to worst; UNKNOWN means that the facts could not be read."""

    PASS = "PASS"  # noqa: S105  no word of entry
    UNKNOWN = "UNKNOWN"
    WARN = "WARN"
    FAIL = "FAIL"


_STATUS_ORDER = tuple(CheckStatus)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check: `reason` is a sentence with the figures, `fix_commands` are shell command lines."""

    status: CheckStatus
    reason: str
    fix_commands: tuple[str, ...] = ()


class Check(NamedTuple):
    """A check: its name, its question (`title`), the conditions of other results than PASS, and its function."""

    name: str
    title: str
    failure_conditions: str
    run: Callable[[GateFacts], CheckResult]


def check(name: str, title: str, failure_conditions: str) -> Callable[[Callable[[GateFacts], CheckResult]], Check]:
    """Make a check of a pure function from facts to a result."""
    return partial(Check, name, title, failure_conditions)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A check's name and title with its result."""

    name: str
    title: str
    result: CheckResult


def create_pass(reason: str) -> CheckResult:
    """Return a PASS result."""
    return CheckResult(CheckStatus.PASS, reason)


def create_unknown(reason: str, *fix_commands: str) -> CheckResult:
    """Return an UNKNOWN result, for facts that could not be read."""
    return CheckResult(CheckStatus.UNKNOWN, reason, fix_commands)


def create_warning(reason: str, *fix_commands: str) -> CheckResult:
    """Return a WARN result: the gate works, but the user should know the reason."""
    return CheckResult(CheckStatus.WARN, reason, fix_commands)


def create_failure(reason: str, *fix_commands: str) -> CheckResult:
    """Return a FAIL result."""
    return CheckResult(CheckStatus.FAIL, reason, fix_commands)


def combine_results(results: Sequence[CheckResult], default: CheckResult) -> CheckResult:
    """Combine several results of one check, the worst first; return `default` if there are none."""
    if not results:
        return default
    ranked = sorted(results, key=lambda each: -_STATUS_ORDER.index(each.status))
    reasons = dict.fromkeys(result.reason for result in ranked)
    fix_commands = dict.fromkeys(command for result in ranked for command in result.fix_commands)
    return CheckResult(ranked[0].status, "; ".join(reasons), tuple(fix_commands)[:_MAX_COMMANDS])


def format_names(names: Sequence[str]) -> str:
    """Join names for a sentence: the first 5, and the number of the others."""
    remaining = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {remaining} more" if remaining > 0 else "")


def format_kubectl(location: GateLocation, *arguments: str) -> str:
    """Return a kubectl command line for the cluster."""
    return shlex.join(("kubectl", *location.options, *arguments))


def format_namespaced_kubectl(location: GateLocation, *arguments: str) -> str:
    """Return a kubectl command line for the gate's namespace."""
    return format_kubectl(location, f"--namespace={location.namespace}", *arguments)


def format_tallygate(location: GateLocation, *arguments: str) -> str:
    """Return a command line of a tallygate command that takes `--kubeconfig` and `--context`."""
    return shlex.join(("tallygate", *arguments, *location.options))


def format_webhook_patch(  # noqa: PLR0913, PLR0917 -- the object, its webhook, the field and its value
    location: GateLocation, kind: str, configuration: WebhookConfiguration, webhook: Webhook, field: str, value: Any
) -> str:
    """Return a command that sets one field of one webhook; it fails if the webhook's index has changed since."""
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


def format_webhook_copy(
    location: GateLocation, kind: str, configuration: WebhookConfiguration, webhook: Webhook, fields: Mapping[str, Any]
) -> str:
    """Return a command that adds a copy of one webhook with other values of some fields."""
    index, last = configuration.webhooks.index(webhook), len(configuration.webhooks)
    operations = [
        {"op": "test", "path": f"/webhooks/{index}/name", "value": webhook.name},
        {"op": "copy", "from": f"/webhooks/{index}", "path": f"/webhooks/{last}"},
        *({"op": "add", "path": f"/webhooks/{last}/{field}", "value": value} for field, value in fields.items()),
    ]
    return _format_patch(location, kind, configuration.name, operations)


def _format_patch(location: GateLocation, kind: str, name: str, operations: Sequence[dict[str, Any]]) -> str:
    return format_kubectl(location, "patch", kind, name, "--type=json", f"--patch={json.dumps(operations)}")
