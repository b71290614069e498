"""The metrics of a relay: those of a real HAProxy with the configuration of the component."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.relay_container import RelayContainer
from tests.deploy.rendering import compose_objects
from tests.server.process import eventually

_SELECTOR: Final = re.compile(r"\b(haproxy_\w+)\{([^}]*)\}")
_MATCHER: Final = re.compile(r"(\w+)\s*(=~|!~|!=|=)\s*\"([^\"]*)\"")


def list_relay_metrics() -> Mapping[str, frozenset[str]]:
    """Return each name of a series of HAProxy, and its labels."""
    return {name: frozenset(labels) for name, all_labels in _list_series().items() for labels in all_labels}


def find_empty_selectors(expression: str) -> list[str]:
    """Return the selectors of an expression for which HAProxy has no series."""
    return [
        found[0]
        for found in _SELECTOR.finditer(expression)
        if not any(_matches(found[2], labels) for labels in _list_series().get(found[1], ()))
    ]


def _matches(matchers: str, labels: Mapping[str, str]) -> bool:
    for label, operator, value in _MATCHER.findall(matchers):
        is_equal = re.fullmatch(value if "~" in operator else re.escape(value), labels.get(label, "")) is not None
        if is_equal != operator.startswith("="):
            return False
    return True


@cache
def _list_series() -> Mapping[str, list[dict[str, str]]]:
    """Return the labels of each series, by the name of the metric."""
    with RelayContainer(compose_objects("relay")) as container:
        container.write_certificates()
        container.start()
        assert eventually(lambda: container.get("/healthz") is not None)
        text = container.get("/metrics") or ""
    series: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            series.setdefault(sample.name, []).append(sample.labels)
    return series
