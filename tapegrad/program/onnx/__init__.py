"""Recorded programs as ONNX models.

A program is recorded for a few lengths of its unknown axes. Each recording becomes a list of ONNX
nodes as plain values, in which lengths are numbers; one description holds for all lengths, as in
`tapegrad.program.saved`.
"""
