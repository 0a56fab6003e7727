"""What a release is made of and how it is checked: `python -m deploy.release build` and `python -m deploy.release check`."""
