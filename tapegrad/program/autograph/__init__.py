"""Python control flow on tensors inside recorded functions, like TensorFlow's AutoGraph.

A recording that has to decide by the value of a tensor, as in `if x > 0:`, raises `DecisionError`.
recording.py then converts the function that decides and records again. The stages of a conversion:

* source.py finds the syntax tree of a code object.
* jumps.py replaces `break`, `continue` and `return` by flags.
* statements.py replaces `if`, `while`, `for` and expressions that decide by calls of operators.
* symbols.py finds the names that a statement reads and assigns.
* code.py compiles the tree to a code object, which registry.py gives to the function while a
  recording is active.

The operators, in branches.py, loops.py, iteration.py and expressions.py, behave as Python does
unless a value is computed by the recording. state.py reads and writes the variables of a statement.
element_loops.py has loops over datasets, whose rounds are recorded one by one.
"""
