"""Every error the pipeline raises on purpose, and the exit status each one ends the command with.

    PipelineError          1   the run failed
      DeadRun              1   a training that has learned nothing and has no gradient left
      UsageError           2   the command line or params.yaml is wrong
        ParamsError            params.yaml, with the address of the key
        UnknownMember          no loss, backbone, ... of that name
      InputError           3   a data set or artefact cannot be used
        UnreadableImage        one image of a data set, which `on_error: skip` leaves out
      MissingResource      4   weights or a file that must be fetched
      IntegrityError       5   a digest or checksum does not match
      LockedError         75   another process writes the same output
      Regression           1   the command did its work, and a figure is lower than allowed

Only ``vse_pipe.cli`` turns them into an exit status; everything below it raises.
"""


class PipelineError(Exception):
    """The run failed; the message says what, where and what to do."""

    exit_status = 1


class DeadRun(PipelineError):
    """A training stands at chance and no gradient is left to move it."""


class UsageError(PipelineError):
    """The command line or params.yaml asks for something that does not exist."""

    exit_status = 2


class ParamsError(UsageError):
    """params.yaml does not validate. ``problems``: one line each, address first."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class UnknownMember(UsageError):
    """A family has no member of that name."""


class InputError(PipelineError):
    """A data set or an artefact cannot be used as it is."""

    exit_status = 3


class UnreadableImage(InputError):
    """One image cannot be read. ``reason``: why, without its name: "does not exist", "is empty (0 bytes)"."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}" if name else reason)
        self.name, self.reason = name, reason

    def __reduce__(self) -> tuple:  # it may come from another process
        return type(self), (self.name, self.reason)


class MissingResource(PipelineError):
    """A file that this command cannot make by itself is not there."""

    exit_status = 4


class IntegrityError(PipelineError):
    """A file's content is not what its digest or checksum promises."""

    exit_status = 5


class LockedError(PipelineError):
    """Another process is writing the same output; try again when it has ended."""

    exit_status = 75


class Regression(PipelineError):
    """A figure is lower than allowed, and significantly so; the message names each one."""


_NO_MEMORY = ("DefaultCPUAllocator", "std::bad_alloc")


def out_of_memory(error: BaseException) -> bool:
    """Whether ``error`` says that memory ran out: of Python, numpy and Arrow (MemoryError), of CUDA
    (torch.OutOfMemoryError), or of what allocates for torch on the CPU, which has no class of its own."""
    if (
        isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    ):  # torch's, which is not imported here
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _NO_MEMORY)


def shortage(error: BaseException) -> str:
    """One line for an error that is ``out_of_memory``."""
    first = next(iter(str(error).splitlines()), "")
    return "out of memory" + (f": {first}" if first else "")
