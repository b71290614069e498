"""Steps, verdicts and ledgers in words, as reports have them."""

from collections.abc import Iterator, Sequence

from webhook.accounting.amounts import format_amount
from webhook.cli.sequences.model import (
    Create,
    Delete,
    End,
    JsonObject,
    Label,
    Resize,
    Scale,
    ScenarioStep,
    Update,
    Wait,
)
from webhook.cli.sequences.world import CapUsage


def format_action(step: ScenarioStep) -> str:
    """What a step does: `create pod trainer`."""
    match step.action:
        case Create(body):
            phrase = f"create {_format_object(body)}"
        case Update(body):
            phrase = f"update {_format_object(body)}"
        case Scale(target, replicas):
            phrase = f"scale {target} to {replicas}"
        case Wait(_, text):
            phrase = f"wait {text}"
        case End(target, phase):
            phrase = f"{'finish' if phase == 'Succeeded' else 'fail'} {target}"
        case Resize(target) | Delete(target) | Label(target):
            phrase = f"{type(step.action).__name__.lower()} {target}"
    return f"{phrase} (dry run)" if step.dry_run else phrase


def _format_object(body: JsonObject) -> str:
    metadata = body.get("metadata") or {}
    return f"{str(body['kind']).lower()} {metadata.get('name') or metadata.get('generateName') or ''}".rstrip()


def format_ledgers(cap_usages: Sequence[CapUsage]) -> Iterator[tuple[str, str]]:
    """Each ledger that holds or promises anything, and what: `nvidia.com/gpu held 6, promised 2, free 0`."""
    for cap_usage in cap_usages:
        parts = [
            _format_cap_usage(cap_usage, name)
            for name in sorted(cap_usage.active_cap.resources)
            if cap_usage.ledger.compute_charged().get(name)
        ]
        if cap_usage.ledger.initializer:
            parts.append("not counted yet")
        if parts:
            yield f"{cap_usage.active_cap.definition.name} {cap_usage.namespace}".rstrip(), "; ".join(parts)


def _format_cap_usage(cap_usage: CapUsage, name: str) -> str:
    used, reserved = cap_usage.ledger.used.get(name, 0), cap_usage.ledger.reserved.get(name, 0)
    free = cap_usage.get_free(name)
    free_text = "" if free is None else f", free {format_amount(name, free)}"
    return f"{name} held {format_amount(name, used)}, promised {format_amount(name, reserved)}{free_text}"
