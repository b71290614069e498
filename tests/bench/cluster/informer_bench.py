"""Measure the informers and the official client, one after the other, and print a table in Markdown."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.cluster.gate_memory import GateMemory, measure_gate
from tests.bench.cluster.synthetic import CLAIMS, EVENTS, NAMESPACES, PODS, encode_pod
from tests.bench.servers import issue_certificate, run_server


def main() -> None:
    """Measure both clients, one after the other, against the same process."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        issue_certificate(folder)
        with run_server(["-m", "tests.bench.cluster.cluster_api", name]) as server:
            config = write_kubeconfig(folder, server.port)
            ours, official = _run_client("ours", config), _run_client("official", config)
        with run_server(["-m", "tests.bench.cluster.cluster_api", name, "expire"]) as server:
            gate = measure_gate(folder, write_kubeconfig(folder, server.port))
    _print(ours, official)
    _print_gate(gate)


def _print(ours: dict[str, float], official: dict[str, float]) -> None:
    scale = PODS / official["pods"]
    cpu, peak = official["cpu"] * scale, official["base"] + official["grown"] * scale
    pods = f"{PODS:,} pods of {len(encode_pod(1, 1)):,} bytes"
    print(f"{pods} and {CLAIMS:,} claims in {NAMESPACES:,} namespaces, over TLS\n")
    print("| | CPU s | peak MiB |\n| --- | ---: | ---: |")
    print(f"| tallygate: list and build | {ours['cpu']:.1f} | {ours['peak']:.0f} |")
    print(f"| official client: list into a dict, scaled from {official['pods']:,.0f} pods | {cpu:.1f} | {peak:.0f} |")
    print(f"\nListed in {ours['seconds']:.1f} s; {ours['shapes']:,.0f} shapes.")
    print(f"A change: {ours['change'] * 1e6:.0f} µs of CPU from socket to columns; peak {ours['peak_after']:.0f} MiB.")
    print(f"A count of one namespace, the first time: {ours['one'] * 1e6:.0f} µs of CPU.")
    print(f"A count of all: {ours['all_first'] * 1e3:.0f} ms of CPU the first time, {ours['all'] * 1e3:.0f} ms after.")


def _print_gate(gate: GateMemory) -> None:
    print(
        f"\nMost resident memory of a gate, `tallygate serve`; without a cluster {gate.start:.0f} MiB at its start:\n"
    )
    print("| until the end of | MiB | CPU s |\n| --- | ---: | ---: |")
    print(f"| the first list | {gate.listed:.0f} | {gate.list_cpu:.1f} |")
    print(f"| {EVENTS:,} changes of pods | {gate.changed:.0f} | {gate.change_cpu:.1f} |")
    print(f"| a second list of pods, after the history has expired | {gate.relisted:.0f} | {gate.relist_cpu:.1f} |")


def _run_client(client: str, kubeconfig: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.cluster.clients", client, str(kubeconfig)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603  # our own module
    figures: dict[str, float] = json.loads(out)
    return figures


def write_kubeconfig(folder: Path, port: int) -> Path:
    """Write a kubeconfig for an API server on loopback with the certificate in the folder; return its path."""
    ca = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": ca}
    content = {
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": cluster}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "users": [{"name": "x", "user": {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path
