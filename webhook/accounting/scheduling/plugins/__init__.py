"""One module for each plugin of kube-scheduler 1.36, or for two that read one field.

A filter rejects nodes in the scheduler's words and changes nothing.
"""
