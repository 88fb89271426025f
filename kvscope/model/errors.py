"""What went wrong, in one sentence for a person."""


class InputError(ValueError):
    """Input that cannot be used. The message says what, where, and what to do."""


class NothingThereError(InputError):
    """No rings on this host, where nothing else was named."""
