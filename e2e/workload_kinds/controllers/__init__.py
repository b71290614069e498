"""The controllers of other projects, which make pods of their objects: built from their Go modules, and run.

Each folder here requires one project. It takes Go some minutes to build them all, so no run of the suite does it; their
answers are recorded by `python -m e2e.workload_kinds.controllers`, and a unit test compares the reader with these.
"""
