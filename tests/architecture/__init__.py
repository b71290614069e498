"""Guards of the structure and the words of the code: each reads source files and returns what breaks one rule.

The product breaks none, and tests and e2e break no rule about words. `cases/` has a small tree for each guard that
breaks its rule.
"""
