"""The tool formats of models, one file each; `registry` names them all."""
