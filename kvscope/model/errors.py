"""What went wrong, in one sentence for a person."""


class InputError(ValueError):
    """Input that cannot be used. The message says what, where, and what to do."""
