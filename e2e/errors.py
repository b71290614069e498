"""Errors of the control plane; each text is for the user who ran the command."""


class ClusterError(Exception):
    """The control plane does not run, and this text says what happened, where and what would help."""


class BuildError(ClusterError):
    """The programs cannot be had on this machine: something is missing here, or a build fails."""


class UnfitError(ClusterError):
    """The suite was asked to run where it cannot, or must not: the text says why, and what would do."""
