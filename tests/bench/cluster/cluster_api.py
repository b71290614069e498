"""A process that stands for the API server: `python -m tests.bench.cluster.cluster_api FOLDER_OF_CERTIFICATE`."""

import sys
from pathlib import Path

from tests.bench.api_handler import ApiHandler, serve
from tests.bench.cluster import synthetic

_CHUNK_EVENTS = 50  # events to a chunk, as a busy API server sends them


class Api(ApiHandler):
    """Lists and watches."""

    def create_page(self, kind: str, first: int, limit: int) -> bytes:
        """Return a page."""
        return synthetic.encode_page(kind, first, limit)

    def send_changes(self, kind: str, revision: int) -> None:
        """Send the changes of pods after the list."""
        lines: list[bytes] = []
        for line in synthetic.encode_changes() if (kind, revision) == ("pods", synthetic.REVISION) else ():
            lines.append(line)
            if len(lines) == _CHUNK_EVENTS:
                self.send(b"".join(lines))
                lines.clear()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Api)
