"""A transcript played on a site: the shipped policies in force, its node as it was, and what is printed compared.

Stage directions: `policies NAME…` lets these policy files be in force from there on (`shipped` stands for the shipped
ones); `without the gate` takes its registration away, `with the gate` brings it back; `the gate follows the cluster`
puts one that does in its place, which knows from the start what is there; `promises are settled` waits until that one
has counted the pods that it has let in.
"""

import difflib
import re
from pathlib import Path

from e2e.errors import ClusterError
from e2e.gates.process import GateProcess
from e2e.policy_files import SHIPPED_FILES, policy_files
from e2e.ports import NotHereError, Site
from e2e.registering import register, unregister
from e2e.site_node import restore_node
from e2e.terminal import Terminal
from e2e.transcript import Transcript, parse, played
from e2e.waiting import until

_SHIPPED = "shipped"
_BOUND = "2s"  # after a start nothing is promised for a while, for which no case should wait
_WITHIN = 120.0  # seconds, until promises are settled


def play(site: Site, case: Path, namespace: str, folder: Path, *, record: bool) -> None:
    """Play a case; with `record`, a transcript that no longer holds is written anew instead.

    Raises:
        AssertionError: something else is printed than the transcript says.
        ClusterError: the site cannot be made ready for it.
    """
    transcript = parse(case.read_text())
    restore_node(site, namespace)
    site.gate.write_policies(SHIPPED_FILES)
    terminal, stage = Terminal(site, namespace, folder), _Stage(site, folder)
    try:
        now = played(
            transcript, terminal.run, stage.direct, {"NODE": site.node, "NAMESPACE": namespace, "IMAGE": site.image}
        )
    finally:
        stage.restore()
        site.gate.write_policies(SHIPPED_FILES)
    if now == transcript:
        return
    if record:
        case.write_text(now.text())
    else:
        raise AssertionError("\n".join([str(case), *_difference(transcript, now)]))


def _difference(transcript: Transcript, now: Transcript) -> list[str]:
    texts = transcript.text().splitlines(), now.text().splitlines()
    return list(difflib.unified_diff(*texts, "expected", "printed", lineterm=""))


class _Stage:
    """Follows stage directions, and puts back at the end what a case may have left otherwise."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._site = site
        self._folder = folder
        self._gate = site.gate
        self._away = False

    def direct(self, direction: str) -> None:
        """Follow one.

        Raises:
            ClusterError: there is no such direction, or it cannot be followed.
            NotHereError: this gate cannot be made to follow the cluster.
        """
        match direction.split():
            case ["policies", *names] if names:
                own = [name for name in names if name != _SHIPPED]
                shipped = SHIPPED_FILES if _SHIPPED in names else {}
                self._gate.write_policies(shipped | policy_files(own))
            case ["without", "the", "gate"]:
                unregister(self._site.cluster)
                self._away = True
            case ["with", "the", "gate"]:
                self.restore()
            case ["the", "gate", "follows", "the", "cluster"]:
                self._follow()
            case ["promises", "are", "settled"]:
                until("no promise is left", self._is_settled, _WITHIN)
            case _:
                raise ClusterError(f"no such stage direction: {direction}")

    def restore(self) -> None:
        """Register the gate of the site again if it is away, or another stands in its place."""
        if self._away or self._gate is not self._site.gate:
            register(self._site.cluster, self._site.gate)
            self._away = False
        if self._gate is not self._site.gate:
            self._gate.stop()
            self._gate = self._site.gate

    def _follow(self) -> None:
        if not isinstance(self._site.gate, GateProcess):
            raise NotHereError("this gate is no process, beside which another could be started")
        arguments = (
            "--cluster=kubeconfig",
            f"--kubeconfig={self._site.cluster.kubeconfig}",
            f"--in-flight-bound={_BOUND}",
        )
        gate = GateProcess(self._folder / "gate", arguments=arguments)
        self._gate = gate
        gate.start()
        register(self._site.cluster, gate)

    def _is_settled(self) -> bool:
        """Whether no ledger of the gate that follows the cluster has a promise (docs/metrics.md)."""
        if not isinstance(self._gate, GateProcess):
            raise ClusterError("promises are settled by a gate that follows the cluster only")
        rows = re.findall(r"^tallygate_cap_reservations\{.*\} (.+)$", self._gate.metrics(), re.MULTILINE)
        return bool(rows) and not any(float(each) for each in rows)
