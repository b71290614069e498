"""Predicates on the gate's readiness: whether it has reloaded the files that were written for it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tallygate.policy.load import load_policies
from tallygate_certs.cert_files import read_serving_pair

Readiness = dict[str, Any]


def match_policies(files: Mapping[str, str]) -> Callable[[Readiness], bool]:
    """Return a predicate: these policy files are active, or rejected as they must be if they are broken."""
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        parsed = load_policies([Path(folder)])

    def is_so(readiness: Readiness) -> bool:
        policies_check = readiness["checks"]["policies"]
        if not parsed.is_usable:
            return "broken" in policies_check
        return policies_check["digest"] == parsed.policies.digest and "broken" not in policies_check

    return is_so


def match_certificate(folder: Path) -> Callable[[Readiness], bool]:
    """Return a predicate: the certificate of this folder is active."""
    expected = read_serving_pair(folder).certificate.not_valid_after_utc

    def is_so(readiness: Readiness) -> bool:
        not_after = datetime.fromisoformat(readiness["checks"]["certificate"]["notAfter"])
        return not_after.astimezone(UTC) == expected

    return is_so
