"""What the dashboard computes, given everything: series, figures, the state word, events. Waits for nothing, asks nobody."""
