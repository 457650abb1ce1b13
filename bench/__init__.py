"""One work, run through Forkpoint and its peers: `python -m bench`."""
