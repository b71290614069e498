"""The pods that `tallygate explain pod` explains: those of a file, and the templates of its workloads."""

from collections.abc import Iterator
from typing import BinaryIO

from webhook.accounting.quantity_parser import QuantityError
from webhook.cli.arithmetic import Sums, sums
from webhook.cli.checking.known import known
from webhook.cli.command import Misuse
from webhook.cli.intake import take_in
from webhook.cli.manifest.bounds import DEFAULT
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.objects import Manifest


def explained(filename: str, stdin: BinaryIO) -> list[Sums]:
    """The arithmetic of every pod and template in a file, a folder or stdin.

    Raises:
        Misuse: something there cannot be read, or there is no pod.
    """
    intake = take_in((filename,), stdin, DEFAULT, lambda names: names)
    if intake.findings:
        raise Misuse("\n".join(f"{finding.place}: {finding.message}" for finding in intake.findings))
    made = [each for manifest in intake.manifests for each in _sums(manifest)]
    if not made:
        raise Misuse(f"{filename}: there is no pod in it, and nothing that holds a pod template")
    return made


def _sums(manifest: Manifest) -> Iterator[Sums]:
    place = f"{manifest.file}:{manifest.node.place.line}:{manifest.node.place.column}"
    try:
        found = known(manifest, "", DEFAULT)
        if found is not None and found.view is not None:
            yield sums(str(found.subject), place, f"{found.view.path}spec", found.view.pod)
    except Fault as fault:
        raise Misuse(f"{manifest.file}:{fault.place.line}:{fault.place.column}: {fault.message}") from fault
    except QuantityError as error:
        raise Misuse(f"{place}: {error}; `tallygate check {manifest.file}` says where") from error
