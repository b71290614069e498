"""The commands `certs`: certificates in files and in a cluster.

Only the commands that need a client import `cluster_commands`.
"""
