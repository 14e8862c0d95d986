from collections.abc import Callable

import pytest

from vse_pipe.core.errors import PipelineError


def refused(call: Callable[[], object], message: str) -> None:
    """The call raises an error of ours with one line that has the message."""
    with pytest.raises(PipelineError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
