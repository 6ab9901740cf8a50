"""Recurrent layers, their cells, and layers that wrap them."""

from tapegrad.keras.layers.recurrent.bidirectional import Bidirectional
from tapegrad.keras.layers.recurrent.conv_lstm import ConvLSTM1D, ConvLSTM2D, ConvLSTM3D
from tapegrad.keras.layers.recurrent.gru import GRU, GRUCell
from tapegrad.keras.layers.recurrent.lstm import LSTM, LSTMCell
from tapegrad.keras.layers.recurrent.rnn import RNN
from tapegrad.keras.layers.recurrent.simple_rnn import SimpleRNN, SimpleRNNCell
from tapegrad.keras.layers.recurrent.stacked import StackedRNNCells
from tapegrad.keras.layers.recurrent.time_distributed import TimeDistributed

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Bidirectional",
    "ConvLSTM1D",
    "ConvLSTM2D",
    "ConvLSTM3D",
    "GRUCell",
    "LSTMCell",
    "SimpleRNN",
    "SimpleRNNCell",
    "StackedRNNCells",
    "TimeDistributed",
]
