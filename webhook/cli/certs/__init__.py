"""The commands `certs`.

Files and clusters in, certificates and tables out; cluster_commands is loaded only by the commands that need a
client.
"""
