"""Lies: false answers of a provider, each one small class; `bigfleet.provider.fake.lies.active` applies them."""
