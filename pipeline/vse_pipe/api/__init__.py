"""The Python door: ranking, losses, noise and models, without files or params.yaml."""
