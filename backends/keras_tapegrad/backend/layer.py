"""The base class of Keras' layers on this backend."""


class TapegradLayer:
    """Adds nothing: variables of tapegrad need no registration with their layer."""
