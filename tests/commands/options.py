"""Options of a command line."""

from vse_pipe.evaluate.files import InputFiles


def arguments(files: InputFiles) -> list[object]:
    """--images ... for what is set."""
    found = []
    for name, value in vars(files).items():
        if value is not None and name != "more":
            found += [f"--{name.replace('_', '-')}", value]
    return found
