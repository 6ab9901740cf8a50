"""Real Keras on tapegrad: `Model.export`, `ExportArchive` and `TFSMLayer`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.keras.real_keras import needs_keras, run


@needs_keras
def test_models_are_exported_loaded_and_trained_on(tmp_path: Path) -> None:
    found = run(f"""
made = model()
made.fit(x, y, verbose=0)
made.export({str(tmp_path)!r} + "/one", verbose=False)
loaded = tf.saved_model.load({str(tmp_path)!r} + "/one")
wanted = np.asarray(made(x[:5]))
signed = loaded.signatures["serving_default"](tf.constant(x[:5]))

archive = keras.export.ExportArchive()
archive.track(made)
signature = [keras.InputSpec(shape=(None, 6), dtype="float32")]
archive.add_endpoint("plain", lambda x: made.call(x), input_signature=signature)
archive.add_endpoint("double", lambda x: 2 * made.call(x), input_signature=signature)
archive.write_out({str(tmp_path)!r} + "/two", verbose=False)
double = tf.saved_model.load({str(tmp_path)!r} + "/two").double(x[:5])

layer = keras.layers.TFSMLayer({str(tmp_path)!r} + "/one")
whole = keras.Sequential([keras.Input((6,)), layer, layers.Dense(1)])
whole.compile("sgd", "mse")
before = layer.trainable_variables[0].numpy()
whole.fit(x, y[:, None], verbose=0)
try:
    keras.layers.TFSMLayer({str(tmp_path)!r} + "/one", call_endpoint="other")
except ValueError as error:
    message = str(error)
print(json.dumps([
    float(abs(np.asarray(loaded.serve(x[:5])) - wanted).max()),
    float(abs(np.asarray(signed["output_0"]) - wanted).max()),
    float(abs(np.asarray(double) - 2 * wanted).max()),
    len(layer.trainable_variables),
    float(abs(layer.trainable_variables[0].numpy() - before).max()),
    message,
]))
""")

    assert found[:3] == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)
    assert found[3] == 4
    assert found[4] > 0
    assert "Available endpoints" in found[5]
