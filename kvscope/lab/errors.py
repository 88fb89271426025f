"""What went wrong in the lab, in a few lines for a person."""


class LabError(RuntimeError):
    """Something the lab needs did not work. The message says what, shows the last lines, names the log."""
