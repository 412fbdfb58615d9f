"""Weight formats in torch.

dequantize     dequantize(stored, dtype): a tensor of a checkpoint, decoded in row slices
decoders       how each stored format becomes fp32
"""
