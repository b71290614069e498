"""`python -m tests.state.simulation`: play new schedules, play one again, or print the table of mutants."""

import sys

from tests.state.simulation.mutants import PROGRAM

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
