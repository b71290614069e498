"""`python -m tests.fuzz [--seconds N] [TARGET …]`: each target in a process of its own, for N seconds each."""

import argparse
import subprocess
import sys
from pathlib import Path

from tests.fuzz.targets import TARGETS, seeds

_ARTIFACTS = Path(".run") / "fuzz"


def main() -> int:
    """Fuzz the targets; return 1 if a target has a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("target", nargs="*", choices=[[], *TARGETS], help="all, unless some are named")
    arguments = parser.parse_args()
    found = [target for target in arguments.target or TARGETS if not _run(target, arguments.seconds)]
    print(f"found something in: {', '.join(found)}" if found else "nothing found")
    return 1 if found else 0


def _run(target: str, seconds: int) -> bool:
    corpus, artifacts = _ARTIFACTS / "corpus" / target, _ARTIFACTS / target
    for folder in (corpus, artifacts):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [
        "-verbosity=0",
        "-print_final_stats=1",
        f"-max_total_time={seconds}",
        "-timeout=1",
        "-rss_limit_mb=1024",
        f"-artifact_prefix={artifacts}/",
    ]
    print(f"{target}: {seconds} s …", flush=True)
    command = [sys.executable, "-m", "tests.fuzz.one", target, *options, str(corpus)]
    return subprocess.run(command, check=False).returncode == 0  # noqa: S603  # our own module


if __name__ == "__main__":
    sys.exit(main())
