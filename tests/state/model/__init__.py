"""The rules of docs/caps.md as a model so small that everything that can happen in it is tried.

The rule of this room: whole numbers instead of amounts, none of the product's code, and no chance. `searching` tries
every order of steps, the shortest first; `rules` are the transitions, with the wrong ones that somebody may write;
`world`, `entering`, `returning` and `stalling` are worlds in which they are played, `scenarios` who acts in them.
`tests/state/simulation` plays the product's own transitions, by chance and in a larger world; whoever wants to change a
rule changes it here first, and looks whether it still holds.
"""
