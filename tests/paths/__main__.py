"""`python -m tests.paths [PATH …]`: print the figures of the code, and the modules that each path enters, in order.

With names of paths it prints these paths alone. Each line comes when it is known: all of them take a minute or two.
"""

import sys
from itertools import pairwise

from tests.paths.figures import list_figures
from tests.paths.runs import RUNS, run_cold


def main(names: list[str]) -> int:
    """Run the named paths, or all after the figures, each in a process of its own."""
    if not names:
        for figure in list_figures():
            print(f"{figure.value:7,} {figure.name} {figure.bound and f'({figure.bound})'}".rstrip(), flush=True)
    for name in names or RUNS:
        modules = run_cold(name)
        folders = [module.rpartition("/")[0] for module in modules]
        steps = sum(folder != next_folder for folder, next_folder in pairwise(folders))
        print(f"{name}: {len(modules)} modules, {steps} steps to another package")
        for number, module in enumerate(modules, 1):
            print(f"  {number:2} {module}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
