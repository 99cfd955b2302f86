"""Cross-encoders without torch, on onnxruntime or OpenVINO."""
