"""What went wrong, in one sentence for a person."""


class InputError(ValueError):
    """Input that cannot be used. The message says what, where, and what to do."""


class SeveralFitError(InputError):
    """Of several things one has to be named. The message lists them below its sentence, a line each."""


class NothingThereError(InputError):
    """No rings on this host, where nothing else was named."""
