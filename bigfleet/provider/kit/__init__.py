"""The provider kit; authors import it as `bigfleet.providerkit`."""
