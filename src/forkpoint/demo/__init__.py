"""The whole story on real processes, and the example it is told with. ``story.run_demo`` plays it."""
