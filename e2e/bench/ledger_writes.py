"""`python -m e2e.bench.ledger_writes`: the time of one write of a ledger, without a gate, in several forms.

Each form is one object, which is replaced at the resource version of the write before, as a gate does. The forms take
turns in blocks of random order. The content is the status of a CapLedger with eight reservations.
"""

import json
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click

from e2e.api import api
from e2e.bench.client import load_access
from e2e.bench.objects import ledger
from e2e.errors import ClusterError
from e2e.ledgers import define_ledgers, get_ledgers_path
from e2e.local.cluster import LocalCluster

_NAMESPACE = "default"
_MEASURED = "kube-apiserver"
_BLOCK = 25
_WARMUP_WRITES = 10
_ANSWER = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_JSON, _PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
_UNTRACKED: list[dict[str, str]] = [{}]
_LEDGERS = get_ledgers_path(_NAMESPACE)
_MAPS = f"/api/v1/namespaces/{_NAMESPACE}/configmaps"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{_NAMESPACE}/leases"
_LEDGER: dict[str, Any] = json.loads(ledger(_NAMESPACE))

Body = Callable[[str, str, str], bytes]
"""Returns an object as it is written, from its name, its resource version and a text that differs in each write."""


@dataclass(slots=True)
class _Form:
    """A form of the write, and what is measured of all writes in this form."""

    title: str
    name: str
    collection: str
    body: Body
    content_type: str = _JSON
    query: str = "?fieldValidation=Strict"
    accept: str = _ANSWER
    version: str = ""
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0


class _Writer:
    """One connection with the administrator's certificate; it measures the CPU time of the processes `pids`."""

    def __init__(self, connection: HTTPSConnection, pids: Sequence[int]) -> None:
        self._connection = connection
        self._pids = pids
        self._number = 0

    def write(self, form: _Form) -> float:
        """Replace the object of a form, and return the seconds until the last byte of the answer.

        Raises:
            ClusterError: if it is not stored.
        """
        self._number += 1
        body = form.body(form.name, form.version, str(self._number))
        headers = {"Content-Type": form.content_type, "Accept": form.accept}
        started_at = perf_counter()
        self._connection.request("PUT", f"{form.collection}/{form.name}{form.query}", body, headers)
        response = self._connection.getresponse()
        text = response.read()
        seconds = perf_counter() - started_at
        if response.status != 200:  # noqa: PLR2004  # OK
            raise ClusterError(f"{form.title}: {response.status} {text.decode(errors='replace')}")
        form.version = json.loads(text)["metadata"]["resourceVersion"]
        return seconds

    def measure_block(self, form: _Form) -> None:
        """Write a block, and add the seconds of each write and the CPU time to the form."""
        before = self._read_cpu()
        form.seconds += [self.write(form) for _ in range(_BLOCK)]
        form.cpu_seconds += self._read_cpu() - before

    def _read_cpu(self) -> float:
        """Return the CPU seconds of the measured processes (proc_pid_stat(5), utime and stime)."""
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._pids]
        return sum(int(each[11]) + int(each[12]) for each in stats) / os.sysconf("SC_CLK_TCK")


def _create_forms(cluster: LocalCluster) -> Iterator[_Form]:
    """Yield the forms, each with an object that is stored."""
    define_ledgers(cluster)
    ours = api(cluster.kubeconfig)
    for form in (
        _Form("CapLedger, as a gate writes it", "ledger", _LEDGERS, _write_ledger),
        _Form("the same once more", "again", _LEDGERS, _write_ledger),
        _Form("CapLedger with tracked fields", "tracked", _LEDGERS, partial(_write_ledger, is_tracked=True)),
        _Form("CapLedger without strict fields", "lenient", _LEDGERS, _write_ledger, query="?fieldValidation=Ignore"),
        _Form("CapLedger, answered with the object", "whole", _LEDGERS, _write_ledger, accept=_JSON),
        _Form("ConfigMap, JSON", "map", _MAPS, _write_map),
        _Form("ConfigMap, protobuf", "protobuf", _MAPS, _write_protobuf, content_type=_PROTOBUF),
        _Form("Lease, JSON, in an annotation", "lease", _LEASES, _write_lease),
    ):
        content = _write_map if form.collection == _MAPS else form.body
        form.version = ours.create(form.collection, json.loads(content(form.name, "", "0")))["metadata"][
            "resourceVersion"
        ]
        yield form


def _write_ledger(name: str, version: str, number: str, *, is_tracked: bool = False) -> bytes:
    metadata = _describe(name, version)
    if is_tracked:
        del metadata["managedFields"]
    return _encode(_LEDGER | {"metadata": metadata, "status": _LEDGER["status"] | {"podsResourceVersion": number}})


def _write_map(name: str, version: str, number: str) -> bytes:
    content = {"metadata": _describe(name, version), "data": _create_data(number)}
    return _encode({"apiVersion": "v1", "kind": "ConfigMap", **content})


def _write_lease(name: str, version: str, number: str) -> bytes:
    metadata = _describe(name, version) | {"annotations": _create_data(number)}
    return _encode({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}})


def _write_protobuf(name: str, version: str, number: str) -> bytes:
    """Return a ConfigMap as protobuf (k8s.io/api/core/v1/generated.proto, apimachinery runtime.Unknown, v1.36)."""
    metadata = _pack(1, name.encode()) + _pack(3, _NAMESPACE.encode()) + _pack(6, version.encode()) + _pack(17, b"")
    data = (_pack(1, key.encode()) + _pack(2, text.encode()) for key, text in _create_data(number).items())
    kind = _pack(1, b"v1") + _pack(2, b"ConfigMap")
    return b"k8s\x00" + _pack(1, kind) + _pack(2, _pack(1, metadata) + b"".join(_pack(2, entry) for entry in data))


def _create_data(number: str) -> dict[str, str]:
    return {"tallygate.dev.ledger": _encode(_LEDGER["status"] | {"podsResourceVersion": number}).decode()}


def _describe(name: str, version: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": _NAMESPACE, "managedFields": _UNTRACKED}
    return metadata | ({"resourceVersion": version} if version else {})


def _encode(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _pack(number: int, content: bytes) -> bytes:
    """Return a field of bytes of a protobuf message."""
    return _encode_number(number << 3 | 2) + _encode_number(len(content)) + content


def _encode_number(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:  # noqa: PLR2004  # seven bits in each byte
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _format(forms: list[_Form]) -> Iterator[str]:
    """Yield a table; a ratio is the median of those of all pairs of blocks."""
    yield "| form | bytes | ms | × the first (half of the blocks) | API server, CPU ms |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for form in forms:
        pairs = list(zip(_split(form), _split(forms[0]), strict=True))
        ratios = sorted(median(own) / median(first) for own, first in pairs)
        quarter = len(ratios) // 4
        spread = f"{median(ratios):.2f} ({ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f})"
        cells = (len(form.body(form.name, form.version, "1")), f"{median(form.seconds) * 1000:.2f}", spread)
        cpu = f"{form.cpu_seconds * 1000 / len(form.seconds):.2f}"
        yield f"| {form.title} | {cells[0]} | {cells[1]} | {cells[2]} | {cpu} |"


def _split(form: _Form) -> list[list[float]]:
    return [form.seconds[at : at + _BLOCK] for at in range(0, len(form.seconds), _BLOCK)]


@click.command()
@click.option("--blocks", default=40, show_default=True, help=f"Blocks of {_BLOCK} writes of each form.")
def main(blocks: int) -> None:
    """Measure writes of a ledger in several forms, in turn."""
    with LocalCluster() as cluster, TemporaryDirectory() as folder:
        access = load_access(cluster.kubeconfig, Path(folder))
        with closing(HTTPSConnection(access.host, access.port, timeout=60.0, context=access.trust)) as connection:
            pids = [each.pid for each in cluster.components if each.name == _MEASURED]
            writer, forms = _Writer(connection, pids), list(_create_forms(cluster))
            for form in forms:
                for _ in range(_WARMUP_WRITES):
                    writer.write(form)
            for _ in range(blocks):
                for form in random.sample(forms, len(forms)):
                    writer.measure_block(form)
    click.echo("\n".join(_format(forms)))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
