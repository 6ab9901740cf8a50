"""Pretrained models give the logits that `transformers` gives for the same files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import hub
from tapegrad.errors import ArgumentError, FileFormatError, ShapeError
from tests.hub.small_models import CONFIGS, MASK, RECORD, SEGMENTS, TOKENS, images, write_model

KNOWN = json.loads(RECORD.read_text())


def written(tmp_path, name, **changes):
    write_model(tmp_path / "model", name, KNOWN[name]["shapes"], **changes)
    return tmp_path / "model"


def result(model, name):
    config = CONFIGS[name][1]
    if config["model_type"] in ("vit", "resnet"):
        return model(images(config.get("image_size", 40)), training=False)
    if config["model_type"] == "bert":
        return model(TOKENS, MASK, SEGMENTS, training=False)
    return model(TOKENS, training=False)


@pytest.mark.parametrize("name", CONFIGS)
def test_results_are_those_of_transformers(name, tmp_path):
    model = hub.load(written(tmp_path, name))
    np.testing.assert_allclose(result(model, name), KNOWN[name]["result"], rtol=2e-4, atol=2e-5)


def test_weights_in_parts(tmp_path):
    model = hub.load(written(tmp_path, "gpt2", parts=3))
    np.testing.assert_allclose(result(model, "gpt2"), KNOWN["gpt2"]["result"], rtol=2e-4, atol=2e-5)


def test_a_model_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    cached = tmp_path / "models--someone--tiny"
    write_model(cached / "snapshots" / "abc", "gpt2", KNOWN["gpt2"]["shapes"])
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc")
    assert hub.find_model("someone/tiny") == cached / "snapshots" / "abc"
    assert hub.load("someone/tiny").config["n_layer"] == 2
    with pytest.raises(ArgumentError, match="hf download someone/other"):
        hub.load("someone/other")


def test_generation_with_a_cache_agrees_with_whole_texts(tmp_path):
    model = hub.load(written(tmp_path, "gpt2"))
    found = hub.generate(model, TOKENS, 6)
    texts = TOKENS
    for _ in range(6):
        logits = np.asarray(model(texts, training=False))[:, -1]
        texts = np.concatenate([texts, np.argmax(logits, -1)[:, np.newaxis]], 1)
    np.testing.assert_array_equal(found, texts)


def test_drawn_texts(tmp_path):
    model = hub.load(written(tmp_path, "gpt2"))
    first = hub.generate(model, TOKENS, 5, temperature=1.0, top_k=5, seed=1)
    np.testing.assert_array_equal(
        first, hub.generate(model, TOKENS, 5, temperature=1.0, top_k=5, seed=1)
    )
    assert (first != hub.generate(model, TOKENS, 5, temperature=1.0, seed=2)).any()
    stop = int(hub.generate(model, TOKENS[:1], 1)[0, -1])
    np.testing.assert_array_equal(hub.generate(model, TOKENS[:1], 4, stop=stop)[0, -4:], [stop] * 4)


def test_models_can_be_trained_further(tmp_path):
    model = hub.load(written(tmp_path, "bert_classes"))
    labels = tf.constant([0, 1])
    optimizer = tf.keras.optimizers.Adam(1e-2)
    losses = []
    for _ in range(5):
        with tf.GradientTape() as tape:
            logits = model(TOKENS, MASK, SEGMENTS, training=False)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        grads = tape.gradient(loss, model.trainable_variables)
        assert all(g is not None for g in grads)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        losses.append(float(loss))
    assert losses[-1] < losses[0]


def test_other_heads_of_the_same_file(tmp_path):
    folder = written(tmp_path, "vit")
    model = hub.load(folder, head="hidden")
    assert tuple(result(model, "vit").shape) == (2, 5, 12)
    with pytest.raises(FileFormatError, match="lacks weights of the model"):
        hub.load(folder, head="pooled")


def test_files_that_do_not_fit(tmp_path):
    folder = written(tmp_path, "gpt2")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"n_embd": 24}))
    with pytest.raises(FileFormatError, match="does not fit the variable"):
        hub.load(folder)
    (folder / "config.json").write_text(json.dumps(config | {"n_layer": 1}))
    with pytest.raises(FileFormatError, match="holds weights that the model lacks"):
        hub.load(folder)
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "mamba"}))
    with pytest.raises(ArgumentError, match="gpt2, bert, vit, resnet"):
        hub.load(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(FileFormatError, match="is no JSON"):
        hub.load(folder)
    (folder / "model.safetensors").unlink()
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ArgumentError, match="convert them to safetensors"):
        hub.load(folder)


def test_texts_that_are_too_long(tmp_path):
    model = hub.load(written(tmp_path, "gpt2"))
    with pytest.raises(ShapeError, match=r"at most 16 tokens\. Got 18"):
        hub.generate(model, TOKENS, 12)
    with pytest.raises(ShapeError, match="at least one"):
        hub.generate(model, np.zeros((1, 0), int), 1)


def test_tokenizers(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    folder = written(tmp_path, "gpt2")
    with pytest.raises(ArgumentError, match=r"no tokenizer.json"):
        hub.load_tokenizer(folder)
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(folder / "tokenizer.json"))
    assert hub.load_tokenizer(folder).encode("b a b").ids == [1, 0, 1]


def test_hidden_states_of_gpt2(tmp_path):
    folder = written(tmp_path, "gpt2")
    model, hidden = hub.load(folder), hub.load(folder, head="hidden")
    logits = hidden(TOKENS) @ model.wte.embeddings.numpy().T
    np.testing.assert_allclose(logits, result(model, "gpt2"), rtol=1e-5, atol=1e-6)


def test_generation_with_another_matrix_for_the_words(tmp_path):
    model = hub.load(written(tmp_path, "gpt2_untied"))
    found = hub.generate(model, TOKENS, 1)
    np.testing.assert_array_equal(found[:, -1], np.argmax(result(model, "gpt2_untied")[:, -1], -1))
