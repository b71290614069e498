"""The CustomResourceDefinitions of policy reports, as their owners publish them: from their Go modules.

`wgpolicyk8s.io` has no module of its own any more; Kyverno ships its definitions as they were.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from e2e.ports import NotHereError

OPENREPORTS = ("github.com/openreports/reports-api@v0.2.1", "config/crd/openreports.io_{}reports.yaml")
WGPOLICY = ("github.com/kyverno/kyverno@v1.19.1", "config/crds/policyreport/wgpolicyk8s.io_{}policyreports.yaml")
_SECONDS = 300.0  # for a download of ten megabytes, once


def definitions(published: tuple[str, str]) -> Sequence[Path]:
    """Return the files of one API: for reports of a namespace, and for those of the cluster.

    Raises:
        NotHereError: if there is no Go here, or the module cannot be had.
    """
    go = shutil.which("go")
    if go is None:
        raise NotHereError("the definitions of reports come from Go modules, and there is no `go` on PATH")
    module, pattern = published
    with tempfile.TemporaryDirectory() as nowhere:  # where no go.mod says otherwise
        done = subprocess.run(  # noqa: S603  Go's own, and no shell
            [go, "mod", "download", "-json", module],
            cwd=nowhere,
            env={**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"},
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    if done.returncode != 0:
        raise NotHereError(f"{module} cannot be had: {done.stdout or done.stderr}")
    folder = Path(json.loads(done.stdout)["Dir"])
    return [folder / pattern.format(scope) for scope in ("", "cluster")]
