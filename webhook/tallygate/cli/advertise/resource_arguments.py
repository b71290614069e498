"""The arguments of `advertise` and `withdraw`: a node, and names of resources with or without amounts."""

from collections.abc import Iterator, Sequence

import msgspec

from tallygate.accounting.name_rules import NameContext, find_name_problems
from tallygate.accounting.names import is_countable
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.validation.node_and_quota import check_node_strictly, validate_node
from tallygate.cli.framework import UsageError
from tallygate.objects.core import Node, NodeStatus

_NODE_PREFIXES = ("node/", "nodes/", "no/")


def split_arguments(arguments: Sequence[str], selector: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the node that the first argument names, "" with a selector, and the arguments for resources.

    Raises:
        UsageError: if there is no node or no resource, or a node together with a selector.
    """
    if selector is not None:
        for argument in arguments:
            if ("/" not in argument and "=" not in argument) or argument.startswith(_NODE_PREFIXES):
                raise UsageError(f"{argument}: name a node, or several by -l, not both")
        node, rest = "", tuple(arguments)
    else:
        if not arguments or "=" in arguments[0]:
            raise UsageError("name a node before the resources, or several nodes by -l LABEL=VALUE")
        node, rest = arguments[0], tuple(arguments[1:])
        for prefix in _NODE_PREFIXES:
            node = node.removeprefix(prefix)
        if not node or "/" in node:
            raise UsageError(f"{arguments[0]} is not the name of a node; the node comes before the resources")
    if not rest:
        raise UsageError("name the resources, as in example.com/dongle")
    return node, rest


def parse_amounts(arguments: Sequence[str]) -> dict[str, int]:
    """Return the amounts of arguments such as `example.com/dongle=4`, by name.

    Raises:
        UsageError: if a name or an amount is invalid, or a name has two amounts; the text has every problem.
    """
    texts: dict[str, str] = {}
    problems: list[str] = []
    for argument in arguments:
        name, equals, amount = argument.partition("=")
        if not equals or not amount:
            problems.append(f"{argument}: an amount is missing; write NAME=AMOUNT, as in example.com/dongle=4")
        elif name in texts:
            problems.append(f"{name}: there are two amounts, {texts[name]} and {amount}; keep one")
        else:
            texts[name] = amount
    problems += _list_name_problems(list(texts))
    problems += _list_amount_problems(texts)
    if problems:
        raise UsageError("\n".join(problems))
    return {name: Quantity.parse(text).value() for name, text in texts.items()}


def parse_names(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the names of resources, each once.

    Raises:
        UsageError: if a name is invalid; the text has every problem.
    """
    names = tuple(dict.fromkeys(arguments))
    problems = [
        f"{name}: withdraw takes names without amounts; write {name.partition('=')[0]}" for name in names if "=" in name
    ] or list(_list_name_problems(names))
    if problems:
        raise UsageError("\n".join(problems))
    return names


def _list_name_problems(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        found = find_name_problems(name, NameContext.CONTAINER)
        yield from (f"{name}: {problem.message} ({problem.code})" for problem in found)
        if not found and not is_countable(name):
            yield (
                f"{name}: Kubernetes itself counts {name}, and the kubelet reports it; only a resource with a domain "
                "of yours can be advertised, as in example.com/dongle"
            )


def _list_amount_problems(texts: dict[str, str]) -> Iterator[str]:
    """Yield the problems of amounts as the API server and `tallygate check` find them in the status of a node."""
    for name, text in texts.items():
        capacity = {name: msgspec.Raw(msgspec.json.encode(text))}
        node = Node(status=NodeStatus(capacity, {}))
        if found := validate_node(node):
            yield from (f"{name}={text}: {problem.message} ({problem.code})" for problem in found)
        elif is_countable(name):
            strict = check_node_strictly(node)
            yield from (f"{name}={text}: {problem.message} ({problem.code})" for problem in strict)
