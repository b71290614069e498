"""The arguments of `advertise`: each mistake is found before anything is sent."""

import pytest

from tallygate.cli.advertise.command import parse_resources, split_arguments
from tallygate.cli.framework import UsageError
from tests.cli.advertise.published_node import OPAQUE, SEAT


@pytest.mark.parametrize(
    ("texts", "amounts"),
    [
        ([f"{SEAT}=4"], {SEAT: 4}),
        ([f"{SEAT}=3Ki"], {SEAT: 3072}),
        ([f"{SEAT}=2000m"], {SEAT: 2}),
        ([f"{SEAT}=0"], {SEAT: 0}),
        ([f"{OPAQUE}=5", f"{SEAT}=1"], {OPAQUE: 5, SEAT: 1}),
        ([f"{SEAT}=9223372036854775807"], {SEAT: 9223372036854775807}),
        ([f"{SEAT}-", f"{OPAQUE}-", f"{SEAT}-"], {SEAT: None, OPAQUE: None}),
        ([f"{OPAQUE}=5", f"{SEAT}-"], {OPAQUE: 5, SEAT: None}),
    ],
)
def test_whole_amounts_are_read_exactly_and_a_minus_withdraws(texts: list[str], amounts: dict[str, int | None]) -> None:
    assert parse_resources(texts) == amounts


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        ([SEAT], ["an amount is missing"]),
        ([f"{SEAT}="], ["an amount is missing"]),
        ([f"{SEAT}=1", f"{SEAT}=2"], ["there are two amounts, 1 and 2"]),
        ([f"{SEAT}=1", f"{SEAT}=1"], ["there are two amounts, 1 and 1"]),
        ([f"{SEAT}=1", f"{SEAT}-"], ["there are two amounts, 1 and none"]),
        ([f"{SEAT}-", f"{SEAT}=0"], ["there are two amounts, none and 0"]),
        (["memory-", "a/b/c-"], ["memory: Kubernetes itself counts", "(TG001)"]),
        ([f"{SEAT}-=1"], ["(TG001)"]),
        ([f"{SEAT}=1500m"], ["(TG006)"]),
        ([f"{OPAQUE}=1500m"], ["(TG060)"]),
        ([f"{SEAT}=-1"], ["(TG005)"]),
        ([f"{SEAT}=many"], ["(TG004)"]),
        ([f"{SEAT}=9e99"], ["(TG007)"]),
        (["cpu=4"], ["cpu: Kubernetes itself counts cpu"]),
        (["example.kubernetes.io/x=4"], ["Kubernetes itself counts"]),
        (["hugepages-2Mi=4"], ["Kubernetes itself counts"]),
        (["dongle=4"], ["(TG002)"]),
        (["a/b/c=1", "Foo/x=2", "requests.example.com/x=3"], ["(TG001)", "(TG001)", "is a name for quotas"]),
    ],
)
def test_every_mistake_is_reported(texts: list[str], parts: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse_resources(texts)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("node", ["n1", "node/n1", "nodes/n1"])
def test_the_node_comes_first_as_kubectl_prints_it(node: str) -> None:
    assert split_arguments([node, SEAT], None) == ("n1", (SEAT,))


def test_a_selector_replaces_the_node() -> None:
    assert split_arguments([SEAT, OPAQUE], "pool=sim") == ("", (SEAT, OPAQUE))


@pytest.mark.parametrize(
    ("arguments", "selector", "part"),
    [
        ([], None, "name a node before the resources"),
        ([f"{SEAT}=1"], None, "name a node before the resources"),
        ([SEAT], None, "is not the name of a node"),
        (["node/", SEAT], None, "is not the name of a node"),
        (["n1"], None, "name the resources"),
        ([], "pool=sim", "name the resources"),
        (["n1", SEAT], "pool=sim", "n1: name a node, or several by -l, not both"),
        (["node/n1", SEAT], "pool=sim", "node/n1: name a node, or several by -l, not both"),
    ],
)
def test_a_line_without_nodes_or_resources_is_a_usage_error(
    arguments: list[str], selector: str | None, part: str
) -> None:
    with pytest.raises(UsageError) as caught:
        split_arguments(arguments, selector)
    assert part in str(caught.value)
