"""Writes foreign.safetensors with the format's own Python library.

pip install safetensors numpy ml_dtypes; python make_foreign.py (made with safetensors 0.8.0)
"""

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

save_file(
    {
        "bf16": np.array([1, -2, 0.5], ml_dtypes.bfloat16),
        "bool": np.array([[True, False], [False, True]]),
        "f16": np.arange(6, dtype=np.float16).reshape(2, 3),
        "f32": np.array(1.5, np.float32),
        "f64": np.array([-0.25]),
        "f8": np.arange(5).astype(ml_dtypes.float8_e4m3fn),
        "i16": np.array([[1, -1, 300]], np.int16),
        "i64": np.zeros((0, 7), np.int64),
        "u8": np.array([1, 2, 3], np.uint8),
    },
    "foreign.safetensors",
    metadata={"format": "pt", "note": "ünïcode"},
)
