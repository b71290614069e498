"""`python -m tests.bench [NAME …]`: run the named benchmarks, or all, and print tables in Markdown."""

import sys

from tests.bench import (
    asks,
    decisions,
    devices,
    gate_devices,
    groups,
    guarantees,
    headroom,
    node_shapes,
    pages,
    pipeline,
    relay,
    schedulability,
    scheduling,
)
from tests.bench.audit import audit_bench
from tests.bench.cluster import informer_bench

_BENCHES = {
    "asks": asks.main,
    "audit": audit_bench.main,
    "cluster": informer_bench.main,
    "decisions": decisions.main,
    "devices": devices.main,
    "gate_devices": gate_devices.main,
    "groups": groups.main,
    "guarantees": guarantees.main,
    "headroom": headroom.main,
    "node_shapes": node_shapes.main,
    "pages": pages.main,
    "pipeline": pipeline.main,
    "scheduling": scheduling.main,
    "relay": relay.main,
    "schedulability": schedulability.main,
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all."""
    unknown = [name for name in names if name not in _BENCHES]
    if unknown:
        print(f"there is no benchmark {unknown[0]}; the names are {', '.join(_BENCHES)}", file=sys.stderr)
        return 2
    for name in names or _BENCHES:
        print(f"\n## {name}\n")
        _BENCHES[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
