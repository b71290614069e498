"""What a manifest's own text gets wrong: keys written twice, and numbers that arrive as others than they look."""

from collections.abc import Iterator

from webhook.accounting.quantity import Quantity
from webhook.accounting.quantity_parser import QuantityError
from webhook.admission.resource_fields import list_resource_fields
from webhook.cli.checking.known import TypedObject
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.locate import locate
from webhook.cli.manifest.nodes import Entry, Mapping, Scalar
from webhook.cli.manifest.objects import Manifest, duplicates
from webhook.cli.manifest.scalars import go_float


def find_duplicate_keys(manifest: Manifest) -> Iterator[Fault]:
    """Every key that stands in its mapping a second time."""
    for entry in duplicates(manifest.node):
        message = f"{entry.name} stands here a second time; kubectl keeps the last and drops the others: remove one"
        yield Fault("TG405", entry.key.place, message)


def find_misread_numbers(typed: TypedObject) -> Iterator[Fault]:
    """Every quantity without quotes that reaches the API server as another number than the one written."""
    for resource_field in list_resource_fields(typed.content, typed.view):
        for field, _ in resource_field.lists:
            location = locate(typed.manifest.node, f"{resource_field.path}{field}")
            for entry in location.node.entries if location.exact and isinstance(location.node, Mapping) else ():
                yield from _check_number(entry)


def _check_number(entry: Entry) -> Iterator[Fault]:
    node = entry.value
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
        return
    sent = go_float(node.value) if isinstance(node.value, float) else str(node.value)
    try:
        is_same = Quantity.parse(node.text) == Quantity.parse(sent)
    except QuantityError:
        return
    if not is_same:
        message = f'{entry.name}: {node.text} without quotes is sent as {sent}: write "{node.text}" or {sent}'
        yield Fault("TG407", node.place, message)
