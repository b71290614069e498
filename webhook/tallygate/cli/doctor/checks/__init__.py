"""The checks of `doctor`: pure functions from facts to a result, with the decorator `check`."""
