"""The process that plays the API server: `python -m tests.bench.cluster.api FOLDER`, with its certificate there."""

import sys
from pathlib import Path

from tests.bench.cluster import made_up
from tests.bench.played import Played, serve

_TOGETHER = 50  # events to a chunk, as a busy API server sends them


class Api(Played):
    """Lists and watches of pods, namespaces and nodes."""

    def listed(self, kind: str, first: int, limit: int) -> bytes:
        """A page."""
        return made_up.page(kind, first, limit)

    def changes(self, kind: str, revision: int) -> None:
        """Of pods after the list."""
        lines: list[bytes] = []
        for line in made_up.changes() if (kind, revision) == ("pods", made_up.REVISION) else ():
            lines.append(line)
            if len(lines) == _TOGETHER:
                self.send(b"".join(lines))
                lines.clear()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Api)
