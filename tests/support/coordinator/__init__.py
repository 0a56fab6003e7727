"""What tests of the coordinator share: a small state machine, a cluster under virtual time, a checker of histories."""
