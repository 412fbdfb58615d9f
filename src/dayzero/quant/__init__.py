"""Weight formats in torch.

dequantize     dequantize(stored, dtype): a tensor of a checkpoint, decoded in row slices
gguf           how each block format becomes fp32
"""
