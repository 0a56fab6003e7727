"""The provider kit; its public name is `bigfleet.providerkit`."""
