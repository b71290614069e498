"""A process that stands for the API server: `python -m tests.bench.cluster.cluster_api FOLDER_OF_CERTIFICATE [expire]`.

With `expire` its history expires after the changes of pods, as when a gate was cut off for long, so that they are
listed again.
"""

import sys
import time
from pathlib import Path

from tests.bench.api_handler import ApiHandler, serve
from tests.bench.cluster import synthetic

_CHUNK_EVENTS = 50  # events to a chunk, as a busy API server sends them
_PAUSE_SECONDS = 5.0  # after the changes, in which the memory is read
_EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}\n'


class Api(ApiHandler):
    """Lists and watches. `revision` is that of the lists."""

    revision = synthetic.REVISION

    def create_page(self, kind: str, first: int, limit: int) -> bytes:
        """Return a page."""
        return synthetic.encode_page(kind, first, limit, Api.revision)

    def send_changes(self, kind: str, revision: int) -> None:
        """Send the changes of pods after the list."""
        lines: list[bytes] = []
        for line in synthetic.encode_changes() if (kind, revision) == ("pods", synthetic.REVISION) else ():
            lines.append(line)
            if len(lines) == _CHUNK_EVENTS:
                self.send(b"".join(lines))
                lines.clear()


class ExpiringApi(Api):
    """An API server whose history expires after the changes."""

    def send_changes(self, kind: str, revision: int) -> None:
        """Send the changes of pods after the list, then that the history has expired; later lists are newer."""
        super().send_changes(kind, revision)
        if (kind, revision) == ("pods", synthetic.REVISION):
            Api.revision = synthetic.RELIST_REVISION
            time.sleep(_PAUSE_SECONDS)
            self.send(_EXPIRED)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), ExpiringApi if "expire" in sys.argv else Api)
