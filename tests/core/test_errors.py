import errno
from pathlib import Path

import pytest

from vse_pipe.core.errors import Damage, IntegrityError

DAMAGE = Damage(IntegrityError, "fetch it again")


def test_a_place_that_no_file_has_is_damage_of_the_file():
    """A header can name one, and seeking it is then refused by the system."""
    with (
        pytest.raises(IntegrityError, match=r"^w\.pth: damaged weights file \(.*Invalid argument.*\); fetch it again$"),
        DAMAGE.named(Path("w.pth"), "damaged weights file"),
    ):
        raise OSError(errno.EINVAL, "Invalid argument")


def test_what_the_system_cannot_do_is_no_damage():
    with pytest.raises(PermissionError), DAMAGE.named(Path("w.pth"), "damaged weights file"):
        raise PermissionError(errno.EACCES, "Permission denied")
