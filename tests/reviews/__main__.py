"""`python -m tests.reviews`: write every recorded response."""

import tempfile
from pathlib import Path

from tests.reviews.replay import list_reviews, send, write_answer
from tests.server.process import ServerProcess

with (
    tempfile.TemporaryDirectory() as folder,
    ServerProcess(Path(folder), "tests.server.gate_server") as server,
    server.client() as client,
):
    for name in list_reviews():
        write_answer(name, send(client, name))
