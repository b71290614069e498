"""The fuzz targets: each takes bytes and returns after it has processed or rejected them."""

import itertools
from collections.abc import Callable
from pathlib import Path

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.request import Phase, ReviewError
from tallygate.gate.gate import Gate
from tallygate.policy.load import SHIPPED_POLICIES
from tallygate.policy.parse import parse
from tallygate.review.view import ClusterView
from tallygate.state.in_memory import MemoryLedgers, UnknownNamespaces

_REVIEWS = Path(__file__).parents[1] / "reviews" / "cases"
_POLICIES = Path(__file__).parents[2] / "policies"
_CAP = b"""
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: ["*"]}, hard: {nvidia.com/gpu: 8, limits.memory: 64Gi, pods: 50}}
"""


def _create_gate() -> Gate:
    files = [(path.name, path.read_bytes() + _CAP) for path in SHIPPED_POLICIES.glob("*.yaml")]
    policies = parse(files).policies
    nonces = map(str, itertools.count())
    return Gate(
        policies=lambda: policies,
        view=ClusterView(namespaces=UnknownNamespaces()),
        ledgers=MemoryLedgers(),
        monotonic=lambda: 0.0,
        nonce=lambda: next(nonces),
        unix_time=lambda: 0.0,
    )


_GATE = _create_gate()


def review(data: bytes) -> None:
    """Send a body to both endpoints."""
    for phase in Phase:
        try:
            _GATE.admit(data, phase, 1.0)
        except ReviewError as error:
            assert str(error)  # noqa: PT017  # a rejection is right; it must have a message


def quantity(data: bytes) -> None:
    """Parse the JSON token of a quantity, and parse its canonical form back to the same number."""
    try:
        parsed = Quantity.from_json(data)
    except QuantityError as error:
        assert str(error)  # noqa: PT017  # as above
        return
    assert Quantity.parse(parsed.canonical) == parsed
    assert parsed.is_beyond_int64 or -(2**63) < parsed.value() < 2**63


def policy(data: bytes) -> None:
    """Parse a policy file: findings with positions, never an exception."""
    for finding in parse([("fuzz.yaml", data)]).findings:
        assert finding.line >= 1
        assert finding.message


TARGETS: dict[str, Callable[[bytes], None]] = {"review": review, "quantity": quantity, "policy": policy}


def seeds(target: str) -> list[bytes]:
    """Return valid inputs of a target."""
    if target == "review":
        return [path.read_bytes() for path in _REVIEWS.glob("*.json")]
    if target == "policy":
        return [path.read_bytes() for path in _POLICIES.rglob("*.yaml")]
    return [b'"3Ki"', b"1e3", b'"1500m"', b"null", b'"-0.5n"', b'"9223372036854775807"', b'" 3 "']
