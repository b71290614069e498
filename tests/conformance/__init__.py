"""Comparison of tallygate's answers with Kubernetes' own, case by case: `python -m tests.conformance FILE...`.

An adapter per kind of case calls only public functions of the product and compares their results. It contains no
answers.
"""
