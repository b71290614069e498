"""Measure both, one after the other, and print a table in Markdown."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.cluster import made_up
from tests.bench.servers import certificate, serving


def main() -> None:
    """Measure both, one after the other, against the same process."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        certificate(folder)
        with serving(["-m", "tests.bench.cluster.api", name]) as server:
            config = kubeconfig(folder, server.port)
            ours, official = _measured("ours", config), _measured("official", config)
    _print(ours, official)


def _print(ours: dict[str, float], official: dict[str, float]) -> None:
    scale = made_up.PODS / official["pods"]
    cpu, peak = official["cpu"] * scale, official["base"] + official["grown"] * scale
    print(f"{made_up.PODS:,} pods of {len(made_up.pod(1, 1)):,} bytes in {made_up.NAMESPACES:,} namespaces, over TLS\n")
    print("| | CPU s | peak MiB |\n| --- | ---: | ---: |")
    print(f"| tallygate: list and build | {ours['cpu']:.1f} | {ours['peak']:.0f} |")
    print(f"| official client: list into a dict, scaled from {official['pods']:,.0f} pods | {cpu:.1f} | {peak:.0f} |")
    print(f"\nListed in {ours['seconds']:.1f} s; {ours['shapes']:,.0f} shapes.")
    print(f"A change: {ours['change'] * 1e6:.0f} µs of CPU from socket to columns; peak {ours['peak_after']:.0f} MiB.")
    print(f"A count of one namespace, the first time: {ours['one'] * 1e6:.0f} µs of CPU.")
    print(f"A count of all: {ours['all_first'] * 1e3:.0f} ms of CPU the first time, {ours['all'] * 1e3:.0f} ms after.")


def _measured(which: str, kubeconfig: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.cluster.knowing", which, str(kubeconfig)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603  # our own module
    figures: dict[str, float] = json.loads(out)
    return figures


def kubeconfig(folder: Path, port: int) -> Path:
    """A kubeconfig for an API server here, whose certificate is that of the folder."""
    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority}
    content = {
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": cluster}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "users": [{"name": "x", "user": {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path
