"""Weight formats in torch.

dequantize     dequantize(stored, dtype): a tensor of a checkpoint, decoded in row slices
decoders       how each block format of GGUF becomes fp32
codes          stored weights as codes and scales
packed         AWQ's and GPTQ's words as codes, zeros and scales
int8, nvfp4    weights made anew in these formats
precision      which of these a precision takes
"""
