"""Any moment of any run: pure functions over histories, states and message lists."""
