#!/usr/bin/env bash
# Installs tallygate in the version of the actions, which is that of the repository around this file, into a virtual
# environment for the job. Each action calls it. PYTHON is the Python to use, EXTRA an extra of pyproject.toml or empty.
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
"$PYTHON" -m venv "$RUNNER_TEMP/tallygate"
"$RUNNER_TEMP/tallygate/bin/python" -m pip install --quiet --disable-pip-version-check "$root${EXTRA:+[$EXTRA]}"
