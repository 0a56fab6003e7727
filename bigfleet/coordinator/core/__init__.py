"""What the coordinator decides: tables, commands, soft state, instructions. Everything comes in as an argument."""
