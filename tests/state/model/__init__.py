"""The rules of docs/design/caps.md as a model so small that every order of its steps can be searched.

The model uses whole numbers instead of amounts, none of the product's code, and no chance. `search` tries every order
of steps, the shortest first. `rules` has the transitions, with their mutants; `world`, `entering`, `returning` and
`stalling` are the worlds, `scenarios` the requests in them. `tests.gate.simulation` plays the product's own
transitions and their callers, by chance and in a larger world. A change of a rule begins here: change the model, and
search for violations.
"""
