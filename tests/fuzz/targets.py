"""What is fuzzed: each target takes bytes and returns when it has answered or refused them."""

import itertools
from collections.abc import Callable
from pathlib import Path

from webhook.accounting.quantity import Quantity
from webhook.accounting.quantity_parser import QuantityError
from webhook.admission.request import Phase, ReviewError
from webhook.gate.gate import Gate
from webhook.policy.load import SHIPPED_POLICIES
from webhook.policy.parse import parse
from webhook.state.in_memory import MemoryLedgers, UnknownNamespaces

_REVIEWS = Path(__file__).parents[1] / "reviews" / "cases"
_POLICIES = Path(__file__).parents[2] / "policies"
_CAP = b"""
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: ["*"]}, hard: {nvidia.com/gpu: 8, limits.memory: 64Gi, pods: 50}}
"""


def _gate() -> Gate:
    files = [(path.name, path.read_bytes() + _CAP) for path in SHIPPED_POLICIES.glob("*.yaml")]
    in_force = parse(files).policies
    nonces = map(str, itertools.count())
    return Gate(
        policies=lambda: in_force,
        namespaces=UnknownNamespaces(),
        ledgers=MemoryLedgers(),
        monotonic=lambda: 0.0,
        nonce=lambda: next(nonces),
    )


_GATE = _gate()


def review(data: bytes) -> None:
    """A body at either endpoint."""
    for phase in Phase:
        try:
            _GATE.admit(data, phase, 1.0)
        except ReviewError as refused:
            assert str(refused)  # noqa: PT017  # refusing is right; it must say something


def quantity(data: bytes) -> None:
    """A JSON token of a quantity: what is read prints, and what is printed reads as the same number."""
    try:
        read_ = Quantity.from_json(data)
    except QuantityError as refused:
        assert str(refused)  # noqa: PT017  # as above
        return
    assert Quantity.parse(read_.canonical) == read_
    assert read_.is_beyond_int64 or -(2**63) < read_.value() < 2**63


def policy(data: bytes) -> None:
    """A policy file: findings, never an exception, and a place for each."""
    for finding in parse([("fuzz.yaml", data)]).findings:
        assert finding.line >= 1
        assert finding.message


TARGETS: dict[str, Callable[[bytes], None]] = {"review": review, "quantity": quantity, "policy": policy}


def seeds(target: str) -> list[bytes]:
    """Good inputs to start from."""
    if target == "review":
        return [path.read_bytes() for path in _REVIEWS.glob("*.json")]
    if target == "policy":
        return [path.read_bytes() for path in _POLICIES.rglob("*.yaml")]
    return [b'"3Ki"', b"1e3", b'"1500m"', b"null", b'"-0.5n"', b'"9223372036854775807"', b'" 3 "']
