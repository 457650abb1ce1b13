"""Durable AI agents you can travel in time with."""

__version__ = "0.1.0"
