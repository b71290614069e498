"""The gate as the suite starts it: a process on this machine, or a Deployment.

The rule of this package: it starts what a user would start, by the same commands, and each module stands alone. Gates
that cases start beside the site's may be forked from a process that has imported them (`forked`).
"""
