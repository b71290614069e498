"""The checks of `doctor`: pure functions from facts to a result, one tuple of checks for each subject."""
