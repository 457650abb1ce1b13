"""What tests of agents, tools and stores need: contracts to run, and doubles that keep them."""
