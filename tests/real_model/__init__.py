"""Runs with a real model, small enough to run anywhere."""
