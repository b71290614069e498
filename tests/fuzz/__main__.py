"""`python -m tests.fuzz [--seconds N] [TARGET …]`: each target in a process of its own, for N seconds each.

`--list` prints the names of the targets instead, and `--seeds FOLDER TARGET` writes the seeds of one.
"""

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
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    parser.add_argument("--seeds", type=Path, help="write the seeds of the named targets into this folder")
    parser.add_argument("target", nargs="*", choices=[[], *TARGETS], help="all, unless some are named")
    arguments = parser.parse_args()
    if arguments.list:
        print(*TARGETS)
        return 0
    if arguments.seeds is not None:
        for target in arguments.target:
            _write_seeds(target, arguments.seeds)
        return 0
    found = [target for target in arguments.target or TARGETS if not _run(target, arguments.seconds)]
    print(f"found something in: {', '.join(found)}" if found else "nothing found")
    return 1 if found else 0


def _run(target: str, seconds: int) -> bool:
    corpus, artifacts = _ARTIFACTS / "corpus" / target, _ARTIFACTS / target
    artifacts.mkdir(parents=True, exist_ok=True)
    _write_seeds(target, corpus)
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


def _write_seeds(target: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (folder / f"seed-{number}").write_bytes(seed)


if __name__ == "__main__":
    sys.exit(main())
