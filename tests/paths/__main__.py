"""`python -m tests.paths [PATH …]`: print the modules that each path enters, in order, and their number."""

import sys
from itertools import pairwise

from tests.paths.runs import RUNS, run_cold


def main(names: list[str]) -> int:
    """Run the named paths, or all, each in a process of its own."""
    for name in names or RUNS:
        modules = run_cold(name)
        folders = [module.rpartition("/")[0] for module in modules]
        steps = sum(folder != next_folder for folder, next_folder in pairwise(folders))
        print(f"{name}: {len(modules)} modules, {steps} steps to another package")
        for number, module in enumerate(modules, 1):
            print(f"  {number:2} {module}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
