"""Runs from files and runs to files: recorded conversations in, conversations, journals and pages out."""
