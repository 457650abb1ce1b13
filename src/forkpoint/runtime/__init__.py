"""The only part that waits: decide, write, perform, write."""
