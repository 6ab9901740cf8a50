"""TensorFlow's words for variables of several replicas."""

from __future__ import annotations

from enum import Enum


class VariableAggregation(Enum):
    """How the values that replicas assign to a variable are combined; accepted and ignored.

    Each replica is a process with separate variables. They are equal as long as replicas assign
    equal values, as optimizers do; `distribute.Strategy.reduce` combines values that differ.

    >>> import tapegrad
    >>> step = tapegrad.Variable(0, aggregation=VariableAggregation.ONLY_FIRST_REPLICA)
    >>> int(step.assign_add(1))
    1
    """

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


class VariableSynchronization(Enum):
    """When the copies of a variable are combined; accepted and ignored, like the aggregation.

    >>> VariableSynchronization.ON_READ.name
    'ON_READ'
    """

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3
