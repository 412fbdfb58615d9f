"""What is on disk, read without torch and without trust.

open           open_checkpoint(path): a folder or a .gguf file as one frozen `Checkpoint`
locate         locate(model): what the user named, as a local path; the embedded model
hub            files of a Hugging Face hub repository, offline too
tensor         StoredTensor: name, shape, format, bytes, and what must be undone; the table of formats
gguf           bounds-checked reader of the GGUF container
gguf_names     GGUF keys and tensor names -> Hugging Face's, per architecture
gguf_text      GGUF keys -> TokenizerSource
safetensors    bounds-checked reader of safetensors files, single or sharded
packing        AWQ's and GPTQ's weights of several tensors as one each
config         config.json and generation_config.json -> canonical keys and `GenerationDefaults`
tokenizer      tokenizer files of a folder -> TokenizerSource
mapping        one read-only mmap per file, JSON with a size cap
"""
