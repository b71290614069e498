"""How the gate's readiness shows that it has taken up what was written for it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from certs.cert_files import read_serving_pair
from webhook.policy.load import load_policies

Readiness = dict[str, Any]


def policies(files: Mapping[str, str]) -> Callable[[Readiness], bool]:
    """Whether these policy files are in force, or are refused as they should be when they are broken."""
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        parsed = load_policies([Path(folder)])

    def is_so(readiness: Readiness) -> bool:
        said = readiness["checks"]["policies"]
        if not parsed.is_usable:
            return "broken" in said
        return said["digest"] == parsed.policies.digest and "broken" not in said

    return is_so


def certificate(folder: Path) -> Callable[[Readiness], bool]:
    """Whether the certificate of this folder is in force."""
    expected = read_serving_pair(folder).certificate.not_valid_after_utc

    def is_so(readiness: Readiness) -> bool:
        shown = datetime.fromisoformat(readiness["checks"]["certificate"]["notAfter"])
        return shown.astimezone(UTC) == expected

    return is_so
