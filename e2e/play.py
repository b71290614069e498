"""A transcript played on a site: its policies in force, its node as it was, and what is printed compared."""

import difflib
import json
from pathlib import Path

from e2e.errors import ClusterError
from e2e.policy_files import policy_files
from e2e.ports import Site
from e2e.terminal import Terminal
from e2e.transcript import Transcript, parse, played

_NATIVE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
_DONGLES = {"example.com/dongle": "4"}


def play(site: Site, case: Path, namespace: str, folder: Path, *, record: bool) -> None:
    """Play a case; with `record`, a transcript that no longer holds is written anew instead.

    Raises:
        AssertionError: something else is printed than the transcript says.
        ClusterError: the site cannot be made ready for it.
    """
    transcript = parse(case.read_text())
    _prepare(site, transcript)
    terminal = Terminal(site, namespace, folder)
    now = played(transcript, terminal.run, {"NODE": site.node, "NAMESPACE": namespace})
    if record and now != transcript:
        case.write_text(now.text())
        return
    if now != transcript:
        difference = difflib.unified_diff(
            transcript.text().splitlines(), now.text().splitlines(), "expected", "printed", lineterm=""
        )
        raise AssertionError("\n".join([str(case), *difference]))


def _prepare(site: Site, transcript: Transcript) -> None:
    restore_node(site)
    site.gate.write_policies(policy_files(transcript.policies))


def restore_node(site: Site) -> None:
    """Let the site's node advertise four dongles, and nothing else that a case may have given it.

    Raises:
        ClusterError: the node cannot be read or changed; the text is kubectl's.
    """
    said = site.cluster.kubectl("get", "node", site.node, "--output=json")
    if said.returncode:
        raise ClusterError(said.stderr.strip())
    capacity = json.loads(said.stdout)["status"]["capacity"]
    has: dict[str, str | None] = {
        **{name: None for name in capacity if name not in _NATIVE and not name.startswith("hugepages-")},
        **_DONGLES,
    }
    patch = json.dumps({"status": {"capacity": has, "allocatable": has}})
    done = site.cluster.kubectl("patch", "node", site.node, "--subresource=status", "--type=merge", f"--patch={patch}")
    if done.returncode:
        raise ClusterError(done.stderr.strip())
