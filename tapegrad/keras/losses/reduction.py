"""`keras.losses.Reduction`: names for the ways in which the losses of a batch become one."""


class Reduction:
    """The values of the argument `reduction` of losses, as older programs write them.

    >>> Reduction.NONE
    'none'
    """

    AUTO = "sum_over_batch_size"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"
