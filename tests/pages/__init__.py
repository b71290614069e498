"""The pages of docs/: their place on the site, their first paragraphs, and the examples that they show."""
