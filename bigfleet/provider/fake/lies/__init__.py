"""Lies: what a provider may wrongly say. Each is one small class; `bigfleet.provider.fake.lies.active` tells them."""
