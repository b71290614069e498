"""The cost of a webhook for the creation of a pod in a real API server, compared with the alternatives.

The rule of this package: compared variants run in the same minutes and are registered in the same way, and setup and
cleanup are outside the measured time. Nothing here passes or fails; docs/design/performance.md has the figures.
"""
