"""A trained scene in the browser: walk around in it, click to focus, turn the lens."""
