"""The command line.

Commands read arguments and files, call the packages below and print; they decide nothing themselves.
"""
