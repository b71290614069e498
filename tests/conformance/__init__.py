"""tallygate's answers beside Kubernetes' own, case by case: `python -m tests.conformance FILE...`.

The rule of this room: an adapter per kind of case calls the public functions of the product, nothing else, and
compares; it holds no answers.
"""
