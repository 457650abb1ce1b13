"""Bridges to libraries that Forkpoint does not need: each an extra, imported only when it is used."""
