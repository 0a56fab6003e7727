"""What a release is made of and how it is checked: `python -m release build` and `python -m release check`."""
