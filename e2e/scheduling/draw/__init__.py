"""Random clusters and pods.

The rule of this package: a drawn object depends on the given dice only, and no server is called here.
Some drawn objects are invalid for the API server; their cases are skipped.
"""
