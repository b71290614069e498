"""A minimal webhook: a Flask view that parses the review and allows it.

`python -m tests.bench.bare FOLDER [THREADS]` serves it by granian as granian's own command does, with one worker, the
certificate in the folder, and granian's defaults: no rule, no log, no metric. THREADS is the number of threads that run
the view (`--blocking-threads`); granian's default is half its backlog, 512.
"""

import socket
import sys
from pathlib import Path

from flask import Flask, request
from flask.typing import ResponseReturnValue
from granian.constants import Interfaces
from granian.server import Server

app = Flask(__name__)


@app.post("/v1/admit/validate")
def validate() -> ResponseReturnValue:
    """Allow the request."""
    review = request.get_json()
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": True},
    }


def main(folder: Path, threads: int | None = None) -> None:
    """Serve until a signal comes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    print(f'{{"port": {port}}}', file=sys.stderr, flush=True)
    Server(
        "tests.bench.bare:app",
        address="127.0.0.1",
        port=port,
        interface=Interfaces.WSGI,
        blocking_threads=threads,
        ssl_cert=folder / "tls.crt",
        ssl_key=folder / "tls.key",
        log_enabled=False,
    ).serve()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
