"""Tests that need a CUDA device. `bash ci/gpu.sh` runs them; the ordinary test run does not."""
