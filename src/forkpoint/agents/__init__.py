"""Agents and tools: declared by the user, told to the model, recorded by the run."""
