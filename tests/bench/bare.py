"""The webhook that somebody writes in an afternoon: a Flask view that parses the review and allows it.

Run on the same granian, with the same settings and certificate as tallygate, so that only the pipeline differs.
"""

import sys
from pathlib import Path

from flask import Flask, request
from flask.typing import ResponseReturnValue

from webhook.server.generation import Transport
from webhook.server.kinds import Address
from webhook.server.rotation import Server
from webhook.server.sockets import listening_socket
from webhook.server.tls import read_certificates


def create_app() -> Flask:
    """One view, no rule, no log, no metric."""
    app = Flask(__name__)

    @app.post("/v1/admit/validate")
    def validate() -> ResponseReturnValue:
        review = request.get_json()
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], "allowed": True},
        }

    return app


def main(folder: Path) -> None:
    """Serve until standard input ends or a signal comes."""
    listener = listening_socket(Address("127.0.0.1", 0), 1024)
    server = Server(create_app(), listener, Transport())
    server.serve_with(read_certificates(folder / "tls.crt", folder / "tls.key", None))
    print(f'{{"port": {server.port}}}', file=sys.stderr, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
