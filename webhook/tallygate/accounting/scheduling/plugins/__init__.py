"""One module for each plugin of kube-scheduler 1.36, or for two that read one field.

A filter rejects nodes with the scheduler's reasons and changes nothing.
"""
