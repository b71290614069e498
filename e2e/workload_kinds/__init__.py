"""The kinds of other projects whose pods the gate reads, with the projects' own programs."""
