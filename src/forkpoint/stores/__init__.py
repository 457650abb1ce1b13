"""The edge where journals are kept: one module or package a store, all behind ``forkpoint.ports.Journal``."""
