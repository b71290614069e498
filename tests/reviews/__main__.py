"""`python -m tests.reviews`: write every answer anew."""

import tempfile
from pathlib import Path

from tests.reviews.replay import keep, names, send
from tests.server.process import ServerProcess

with (
    tempfile.TemporaryDirectory() as folder,
    ServerProcess(Path(folder), "tests.server.real") as server,
    server.client() as client,
):
    for name in names():
        keep(name, send(client, name))
