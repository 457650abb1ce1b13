"""What providers say on the wire, as far as a scripted one needs it: one module for each API, and what they share."""
