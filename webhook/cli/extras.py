"""The optional parts of an installation: which of them a command lacks, and what installs it.

The name `tallygate` on a package index need not be this program. So the advice repeats the source from which this copy
was installed, by the record that installers leave (PEP 610).
"""

import json
import re
import shlex
from importlib.metadata import Distribution, distribution
from typing import Any
from urllib.parse import unquote, urlsplit

_DISTRIBUTION = "tallygate"
_REQUIREMENT = re.compile(r"""^([\w.-]+).*;\s*extra\s*==\s*['"]([\w-]+)['"]""")
_MODULES = {"grpcio": "grpc", "protobuf": "google"}  # the modules that do not have the name of their package


def describe_missing_module(command: str, name: str) -> str | None:
    """Return the message that names the extra to install for a command; None if no extra has the module."""
    installed = distribution(_DISTRIBUTION)
    module = name.partition(".")[0]
    matches = filter(None, map(_REQUIREMENT.match, installed.requires or []))
    extras = [each[2] for each in matches if _MODULES.get(each[1], each[1].replace("-", "_")) == module]
    if not extras:
        return None
    extra = next((each for each in extras if command.endswith(f" {each}")), extras[0])
    return f"`{command}` needs {module} here, and it is not installed: {format_installation(extra, installed)}"


def format_installation(extra: str, installed: Distribution) -> str:
    """Return the command that installs an extra from where the distribution came."""
    record: dict[str, Any] = json.loads(installed.read_text("direct_url.json") or "{}")
    url, requirement = record.get("url", ""), f"{_DISTRIBUTION}[{extra}]"
    if "dir_info" in record:
        folder = f"{unquote(urlsplit(url).path)}[{extra}]"
        return shlex.join(("pip", "install", *(("-e",) if record["dir_info"].get("editable") else ()), folder))
    if vcs := record.get("vcs_info"):
        return shlex.join(("pip", "install", f"{requirement} @ {vcs['vcs']}+{url}@{vcs['commit_id']}"))
    return shlex.join(("pip", "install", f"{requirement} @ {url}" if url else requirement))
