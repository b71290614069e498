"""The pages of a server of asks: HTML for browsers, made by the server of the very JSON that its API answers."""
