"""Virtual time: clock, event loop, network and disk in memory, for demos, provider authors and tests."""
