"""`python -m tests.bench [NAME …]`: measure, print tables in Markdown; what there is stands in the table below."""

import sys

from tests.bench import decisions, headroom, pipeline, placing, relaying, rooms
from tests.bench.auditing import measure as auditing
from tests.bench.cluster import measure

_BENCHES = {
    "auditing": auditing.main,
    "cluster": measure.main,
    "decisions": decisions.main,
    "headroom": headroom.main,
    "pipeline": pipeline.main,
    "placing": placing.main,
    "relaying": relaying.main,
    "rooms": rooms.main,
}


def main(names: list[str]) -> int:
    """Run the benches named, or all."""
    unknown = [name for name in names if name not in _BENCHES]
    if unknown:
        print(f"no bench called {unknown[0]}: there are {', '.join(_BENCHES)}", file=sys.stderr)
        return 2
    for name in names or _BENCHES:
        print(f"\n## {name}\n")
        _BENCHES[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
