"""Pure computations of the dashboard: series, figures, the state word, events."""
