"""The operator, one per cluster: sums demand into roll-ups, publishes nodes on their way, drains nodes."""
