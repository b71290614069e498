"""The program of `make run`: a gate on this machine and three pods that are sent to it, until Ctrl-C.

`python -m tallygate.cli.demo [FOLDER]` stores certificate, log, pods and reviews in FOLDER (`.run`). The port
is 8443 or the value of TALLYGATE_PORT; 0 selects a free port.
"""

import os
import signal
import sys
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from types import FrameType

import click

from tallygate.cli.demo.demo_files import DemoFiles
from tallygate.cli.demo.demonstration import Demonstration, NoDecisionError
from tallygate.cli.demo.gate_process import GateProcess, GateStartError
from tallygate.cli.framework import EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR
from tallygate_certs.certificate_names import CertificateNames
from tallygate_certs.certificate_status import inspect_certificates
from tallygate_certs.errors import CertsError
from tallygate_certs.renewal import issue

_DEFAULT_PORT = "8443"
_CERTIFICATE_NAMES = CertificateNames(("localhost",), (ip_address("127.0.0.1"),))


def main(folder: Path, environment: dict[str, str]) -> int:
    """Start the gate, show the demonstration, wait for the end, and return the exit code."""
    port = environment.get("TALLYGATE_PORT") or _DEFAULT_PORT
    if not (port.isascii() and port.isdecimal() and int(port[:6]) < 2**16):
        return _report_error(f"TALLYGATE_PORT: {port!r} is not a port; write a number up to 65535")
    files = DemoFiles(folder)
    try:
        files.write()
        _ensure_certificate(files.certificate_folder)
        with GateProcess(files, int(port)) as gate:
            click.echo(f"tallygate serves on {gate.url}; certificate, log and the pods below are in {folder}/")
            click.echo(
                "No cluster runs: each pod is sent to the gate as an API server would, and kubectl would print this:\n"
            )
            Demonstration(files, gate.url).show()
            click.echo(f"Health: {gate.url}/readyz   Metrics: {gate.monitor_url}/metrics   Log: {files.log_file}")
            click.echo("Ctrl-C stops it.")
            exit_code = gate.wait()
            click.echo(f"tallygate: the gate ended by itself, with {exit_code}; {files.log_file} says why", err=True)
            return EXIT_INTERNAL_ERROR
    except KeyboardInterrupt:
        click.echo("\nstopped")
        return 0
    except NoDecisionError as error:
        click.echo(f"tallygate: this is a fault of tallygate: {error}; {files.log_file} says more", err=True)
        return EXIT_INTERNAL_ERROR
    except (GateStartError, CertsError) as error:
        return _report_error(str(error))
    except OSError as error:
        return _report_error(f"{error.filename or folder}: {error.strerror}")


def _report_error(message: str) -> int:
    click.echo(f"tallygate: {message}", err=True)
    return EXIT_USAGE_ERROR


def _ensure_certificate(folder: Path) -> None:
    """Issue a certificate for this machine unless a usable one exists."""
    now = datetime.now(UTC)
    current = inspect_certificates(folder, now)
    if (
        current.problems
        or current.is_renewal_due
        or current.serving is None
        or current.serving.names != _CERTIFICATE_NAMES.to_texts()
    ):
        issue(folder, _CERTIFICATE_NAMES, now)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(".run"), dict(os.environ)))
