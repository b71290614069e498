"""What a webhook costs whoever creates a pod: through a real API server, beside what one would use instead.

The rule of this package: whatever is compared runs in the same minutes, registered in the same way, and what is not
the matter of a figure (making and deleting what it needs) is outside the time that is measured. Nothing here passes
or fails; docs/performance.md holds the figures of one run.
"""
