"""Steps, verdicts and ledgers in words, as reports have them."""

from collections.abc import Iterator, Sequence

from webhook.accounting.amounts import format_amount
from webhook.cli.sequences.model import Body, Create, Delete, End, Label, Resize, Scale, Step, Update, Wait
from webhook.cli.sequences.world import Account


def action(step: Step) -> str:
    """What a step does: `create pod trainer`."""
    match step.action:
        case Create(body):
            said = f"create {_object(body)}"
        case Update(body):
            said = f"update {_object(body)}"
        case Scale(target, replicas):
            said = f"scale {target} to {replicas}"
        case Wait(_, text):
            said = f"wait {text}"
        case End(target, phase):
            said = f"{'finish' if phase == 'Succeeded' else 'fail'} {target}"
        case Resize(target) | Delete(target) | Label(target):
            said = f"{type(step.action).__name__.lower()} {target}"
    return f"{said} (dry run)" if step.dry_run else said


def _object(body: Body) -> str:
    metadata = body.get("metadata") or {}
    return f"{str(body['kind']).lower()} {metadata.get('name') or metadata.get('generateName') or ''}".rstrip()


def ledgers(accounts: Sequence[Account]) -> Iterator[tuple[str, str]]:
    """Each ledger that holds or promises anything, and what: `nvidia.com/gpu held 6, promised 2, free 0`."""
    for account in accounts:
        said = [
            _account(account, name)
            for name in sorted(account.counted.resources)
            if account.ledger.compute_charged().get(name)
        ]
        if account.ledger.initializer:
            said.append("not counted yet")
        if said:
            yield f"{account.counted.definition.name} {account.namespace}".rstrip(), "; ".join(said)


def _account(account: Account, name: str) -> str:
    held, promised = account.ledger.used.get(name, 0), account.ledger.reserved.get(name, 0)
    free = account.free(name)
    rest = "" if free is None else f", free {format_amount(name, free)}"
    return f"{name} held {format_amount(name, held)}, promised {format_amount(name, promised)}{rest}"
