"""What the command line turns into one sentence instead of a traceback."""


class UserError(ValueError):
    """A mistake that the user can repair; the message says what was wanted, what came and how."""


class DivergedError(RuntimeError):
    """A loss that is no longer finite; the message names the step, the layer and the last good checkpoint."""
