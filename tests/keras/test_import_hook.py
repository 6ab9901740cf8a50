"""The import hook of the Keras backend, on made-up packages; Keras itself is not needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.house.sources import ROOT

CHOICE = """
def backend():
    return {name!r}

if backend() == "jax":
    found = "jax"
elif backend() == "numpy":
    from keras.src.backend.numpy.layer import NumpyLayer as Layer
    found = "numpy"
else:
    found = "unknown"

names = ("tensorflow", "jax", "torch", "numpy", "openvino")
others = ("jax", "numpy")
devices = {{"tensorflow": "CPU:0", "jax": "cpu:0", "torch": "cpu"}}


def chosen(name):
    if name == "numpy":
        if backend() == "numpy":
            return "numpy"
        return "refused"
    return "other"
"""


def write_keras(folder: Path, name: str) -> None:
    files = {
        "keras/__init__.py": "",
        "keras/src/__init__.py": "",
        "keras/src/layers/__init__.py": "",
        "keras/src/layers/layer.py": CHOICE.format(name=name),
        "keras/src/layers/preprocessing/__init__.py": "",
        "keras/src/layers/preprocessing/normalization.py": "tf = None\n",
        "keras/src/layers/other.py": CHOICE.format(name=name),
        "keras/src/backend/__init__.py": "",
        "keras/src/backend/numpy/__init__.py": "",
        "keras/src/backend/numpy/layer.py": "class NumpyLayer: pass\n",
        # Instead of the modules of this name that need Keras.
        "keras_tapegrad/backend/__init__.py": "",
        "keras_tapegrad/backend/layer.py": "class TapegradLayer: pass\n",
        "keras_tapegrad/__init__.py": "",
        **{
            f"keras_tapegrad/{name}": (ROOT / "backends/keras_tapegrad" / name).read_text("utf-8")
            for name in ("import_hook.py", "substitutes.py")
        },
    }
    for place, text in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run(folder: Path, *lines: str, before: str = "") -> list[str]:
    code = "\n".join(
        [before or "from keras_tapegrad.import_hook import install; install()", *lines]
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_the_chain_of_backends_gets_a_branch_for_tapegrad(tmp_path):
    write_keras(tmp_path, "tapegrad")

    lines = ["from keras.src.layers import layer", "print(layer.found, layer.Layer.__name__)"]

    assert run(tmp_path, *lines) == ["tapegrad", "TapegradLayer"]


def test_without_the_hook_the_name_is_unknown(tmp_path):
    write_keras(tmp_path, "tapegrad")

    found = run(tmp_path, "from keras.src.layers import layer; print(layer.found)", before="pass")

    assert found == ["unknown"]


def test_the_branches_of_other_backends_stay(tmp_path):
    write_keras(tmp_path, "numpy")

    lines = ["from keras.src.layers import layer", "print(layer.found, layer.Layer.__name__)"]

    assert run(tmp_path, *lines) == ["numpy", "NumpyLayer"]


def test_modules_that_choose_no_backend_are_loaded_as_they_are(tmp_path):
    write_keras(tmp_path, "tapegrad")

    assert run(tmp_path, "from keras.src.layers import other; print(other.found)") == ["unknown"]


def test_modules_that_ask_for_tensorflow_get_the_names_of_tapegrad(tmp_path):
    write_keras(tmp_path, "tapegrad")

    found = run(
        tmp_path,
        "from keras.src.layers.preprocessing import normalization",
        "print(type(normalization.tf).__module__, normalization.tf.available)",
    )

    assert found == ["keras_tapegrad.substitutes", "False"]


def test_with_tensorflow_the_modules_of_keras_stay_as_they_are(tmp_path):
    write_keras(tmp_path, "tapegrad")
    (tmp_path / "tensorflow.py").write_text("")

    found = run(
        tmp_path,
        "from keras.src.layers.preprocessing import normalization",
        "print(normalization.tf)",
    )

    assert found == ["None"]


def test_inner_choices_of_another_backend_stay(tmp_path):
    write_keras(tmp_path, "tapegrad")

    lines = [
        "from keras.src.layers.layer import chosen",
        "print(chosen('numpy'), chosen('tapegrad'), chosen('jax'))",
    ]

    assert run(tmp_path, *lines) == ["refused", "tapegrad", "other"]


def test_lists_of_all_backends_get_the_name_and_other_tuples_do_not(tmp_path):
    write_keras(tmp_path, "tapegrad")

    lines = [
        "from keras.src.layers import layer",
        "print('tapegrad' in layer.names, 'tapegrad' in layer.others, layer.devices['tapegrad'])",
    ]

    assert run(tmp_path, *lines) == ["True", "False", "cpu:0"]


def test_the_compiled_file_of_a_module_without_the_branch_is_not_used(tmp_path):
    write_keras(tmp_path, "tapegrad")
    run(tmp_path, "import keras.src.layers.layer", before="pass")
    assert list(tmp_path.rglob("layer.*.pyc"))

    assert run(tmp_path, "from keras.src.layers import layer; print(layer.found)") == ["tapegrad"]


def test_a_second_call_adds_no_second_finder(tmp_path):
    write_keras(tmp_path, "tapegrad")

    lines = [
        "install()",
        "import sys; print(sum(type(f).__name__ == 'BackendFinder' for f in sys.meta_path))",
    ]

    assert run(tmp_path, *lines) == ["1"]


def test_the_startup_file_imports_the_hook_only_if_the_backend_is_chosen():
    (line,) = (ROOT / "backends/keras_tapegrad.pth").read_text(encoding="utf-8").splitlines()
    code = f"import sys\n{line}\nprint('keras_tapegrad' in sys.modules)"
    found = {}
    for name in ("tapegrad", "jax", ""):
        environment = {
            **os.environ,
            "KERAS_BACKEND": name,
            "PYTHONPATH": str(ROOT / "backends"),
        }
        done = subprocess.run(
            [sys.executable, "-S", "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found[name] = done.stdout.strip()

    assert found == {"tapegrad": "True", "jax": "False", "": "False"}
