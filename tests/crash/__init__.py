"""Runs that are killed: in process at every crossing of a port, and for real at every boundary."""
