"""What a check comes to: a level, why, and what mends it.

Commands that mend something, ready to be typed: kubectl and tallygate, at the cluster that was asked.
"""

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from webhook.cli.doctor.api_types import Webhook, WebhookConfiguration
from webhook.cli.doctor.facts import GateLocation

F = TypeVar("F")

_MAX_NAMES = 5
_MAX_COMMANDS = 5


class CheckStatus(StrEnum):
    """How it stands, from best to worst; UNKNOWN is for what could not be seen."""

    PASS = "PASS"  # noqa: S105  no word of entry
    UNKNOWN = "UNKNOWN"
    WARN = "WARN"
    FAIL = "FAIL"


_STATUS_ORDER = tuple(CheckStatus)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one point comes to: `reason` is a sentence with the figures, `mend` what to type, one command each."""

    status: CheckStatus
    reason: str
    fix_commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check(Generic[F]):
    """A point: what it is called, the question that it answers, when it is not PASS, and who answers."""

    name: str
    title: str
    failure_conditions: str
    run: Callable[[F], CheckResult]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A check and what it came to."""

    name: str
    title: str
    result: CheckResult


def create_pass(reason: str) -> CheckResult:
    """All is well."""
    return CheckResult(CheckStatus.PASS, reason)


def create_unknown(reason: str, *fix_commands: str) -> CheckResult:
    """It could not be seen."""
    return CheckResult(CheckStatus.UNKNOWN, reason, fix_commands)


def create_warning(reason: str, *fix_commands: str) -> CheckResult:
    """It works, and somebody should know."""
    return CheckResult(CheckStatus.WARN, reason, fix_commands)


def create_failure(reason: str, *fix_commands: str) -> CheckResult:
    """It does not work."""
    return CheckResult(CheckStatus.FAIL, reason, fix_commands)


def combine_results(results: Sequence[CheckResult], default: CheckResult) -> CheckResult:
    """Several things that were found at one point, the worst first; `otherwise` when there are none."""
    if not results:
        return default
    ranked = sorted(results, key=lambda each: -_STATUS_ORDER.index(each.status))
    reasons = dict.fromkeys(result.reason for result in ranked)
    fix_commands = dict.fromkeys(command for each in ranked for command in each.fix_commands)
    return CheckResult(ranked[0].status, "; ".join(reasons), tuple(fix_commands)[:_MAX_COMMANDS])


def format_names(names: Sequence[str]) -> str:
    """Names in a sentence: the first few, and how many more."""
    remaining = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {remaining} more" if remaining > 0 else "")


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
