"""The parts of the file tools; ``forkpoint.workspace.tools`` puts them together."""
