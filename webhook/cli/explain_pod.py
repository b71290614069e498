"""The pods that `tallygate explain pod` explains: those of a file, and the templates of its workloads."""

from collections.abc import Iterator
from typing import BinaryIO

from webhook.accounting.quantity_parser import QuantityError
from webhook.cli.arithmetic import PodCalculation, calculate_pod
from webhook.cli.checking.known import parse_object
from webhook.cli.command import UsageError
from webhook.cli.intake import load_manifests
from webhook.cli.manifest.bounds import DEFAULT
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.objects import Manifest


def calculate_pods(filename: str, stdin: BinaryIO) -> list[PodCalculation]:
    """The arithmetic of every pod and template in a file, a folder or stdin.

    Raises:
        Misuse: something there cannot be read, or there is no pod.
    """
    loaded = load_manifests((filename,), stdin, DEFAULT, lambda names: names)
    if loaded.findings:
        raise UsageError("\n".join(f"{finding.location}: {finding.message}" for finding in loaded.findings))
    calculations = [calculation for manifest in loaded.manifests for calculation in _calculate_manifest(manifest)]
    if not calculations:
        raise UsageError(f"{filename}: there is no pod in it, and nothing that holds a pod template")
    return calculations


def _calculate_manifest(manifest: Manifest) -> Iterator[PodCalculation]:
    location = f"{manifest.file}:{manifest.node.place.line}:{manifest.node.place.column}"
    try:
        typed = parse_object(manifest, "", DEFAULT)
        if typed is not None and typed.view is not None:
            yield calculate_pod(str(typed.subject), location, f"{typed.view.path}spec", typed.view.pod)
    except Fault as fault:
        raise UsageError(f"{manifest.file}:{fault.place.line}:{fault.place.column}: {fault.message}") from fault
    except QuantityError as error:
        raise UsageError(f"{location}: {error}; `tallygate check {manifest.file}` says where") from error
