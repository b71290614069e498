"""Guards of the structure and the words of the code: each reads source files and returns what breaks one rule.

`limits.json` holds how many places break each rule today. The number may only fall, and falls in the commit that mends
a place; a rule without a number admits none. `cases/` has one small tree for each guard, which breaks its rule.
"""
