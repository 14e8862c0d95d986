"""What is made before the first visitor comes."""

from vse_pipe.commands.export import _warm
from vse_pipe.core.errors import InputError
from vse_pipe.tools.search.query import TO_IMAGES


class Recorded:
    def __init__(self):
        self.calls = []

    def correction(self, direction):
        self.calls.append(("correction", direction))

    def by_text(self, text, k):
        raise InputError("no known word")


def test_the_correction_is_there_before_the_first_visitor():
    engine = Recorded()
    _warm(engine)
    assert engine.calls == [("correction", TO_IMAGES)]
