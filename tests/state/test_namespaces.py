"""Namespaces without a watch."""

from tallygate.state.in_memory import UnknownNamespaces


def test_unknown_namespaces_have_unknown_labels() -> None:
    assert UnknownNamespaces().labels("default") is None
