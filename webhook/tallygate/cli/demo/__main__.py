"""The program of `make run`: a gate on this machine, three pods that are sent to it, and the pages, until Ctrl-C.

`python -m tallygate.cli.demo [FOLDER]` stores certificate, logs, pods and reviews in FOLDER (`.run`). The port
is 8443 or the value of TALLYGATE_PORT, and the pages have the next one; 0 selects free ports.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from types import FrameType

import click

from tallygate.cli.demo.demo_files import DemoFiles
from tallygate.cli.demo.demonstration import Demonstration, NoDecisionError
from tallygate.cli.demo.server_process import ServerProcess, ServerStartError
from tallygate.cli.demo.small_cluster import TENANT_NAMESPACE, SmallCluster
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
        with _create_gate(files, int(port)) as gate:
            click.echo(f"tallygate serves on {gate.url}; certificate, log and the pods below are in {folder}/")
            click.echo(
                "No cluster runs: each pod is sent to the gate as an API server would, and kubectl would print this:\n"
            )
            Demonstration(files, gate.url).show()
            click.echo(f"Health: {gate.url}/readyz   Metrics: {gate.monitor_url}/metrics   Log: {gate.log_file}")
            with SmallCluster() as cluster, _create_pages(cluster, files, int(port)) as pages:
                _describe_pages(pages.url, cluster.tokens)
                click.echo("Ctrl-C stops it.")
                exit_code = gate.wait()
            click.echo(f"tallygate: the gate ended by itself, with {exit_code}; {gate.log_file} says why", err=True)
            return EXIT_INTERNAL_ERROR
    except KeyboardInterrupt:
        click.echo("\nstopped")
        return 0
    except NoDecisionError as error:
        click.echo(f"tallygate: this is a fault of tallygate: {error}; the logs in {folder}/ say more", err=True)
        return EXIT_INTERNAL_ERROR
    except (ServerStartError, CertsError) as error:
        return _report_error(str(error))
    except OSError as error:
        return _report_error(f"{error.filename or folder}: {error.strerror}")


def _create_gate(files: DemoFiles, port: int) -> ServerProcess:
    """Return the gate, whose denials lead to the pages if their port is known before."""
    page = ["--page-url", f"https://127.0.0.1:{_choose_page_port(port)}"] if port else []
    return ServerProcess("gate", ["serve", *page], files, port)


def _choose_page_port(gate_port: int) -> int:
    return (gate_port + 1) % 2**16 if gate_port else 0


def _create_pages(cluster: SmallCluster, files: DemoFiles, gate_port: int) -> ServerProcess:
    """Return the server of the pages over the cluster of the demonstration."""
    files.kubeconfig_file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "demo",
                "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
                "clusters": [{"name": "demo", "cluster": {"server": cluster.url}}],
                "users": [{"name": "demo", "user": {}}],
            }
        ),
        encoding="utf-8",
    )
    kubeconfig = ("--cluster", "kubeconfig", "--kubeconfig", str(files.kubeconfig_file))
    arguments = ["serve-ask", "--page", "on", *kubeconfig]
    return ServerProcess("page server", arguments, files, _choose_page_port(gate_port))


def _describe_pages(url: str, tokens: Mapping[str, str]) -> None:
    click.echo(
        f"Pages, over the data of a small cluster: {url}/page/namespace?namespace={TENANT_NAMESPACE}\n"
        "The browser asks about the certificate, which this program made. Sign in with one of these tokens:"
    )
    for name, token in tokens.items():
        scope = f"all rights in {TENANT_NAMESPACE}" if name == "tenant" else "all rights"
        click.echo(f"  {token}   {scope}")


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
