"""The kit's own small provider, and the ways to break it.

Why: the self-tests A26 and A27 need a provider that is not a product, and the kit itself must be shown to notice every
violation it claims to notice.
Must never: share code with the kit for provider authors: a misreading of the contract would then prove itself.
Rules: `providers#self-check`.
"""
