"""A cluster in columns, one index per node.

Values that change in place, without a verdict, for one thread at a time.
"""
