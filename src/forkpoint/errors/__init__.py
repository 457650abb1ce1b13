"""Every error of Forkpoint. One class a code; the class says what happened, why, and what to do."""

from forkpoint.errors._base import KINDS, REGISTRY, ForkpointError

__all__ = ["KINDS", "REGISTRY", "ForkpointError"]
