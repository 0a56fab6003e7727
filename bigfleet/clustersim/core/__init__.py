"""What a simulated cluster asks for at which time: pure, so that the same file is the same demand."""
