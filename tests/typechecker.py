"""What enforces signatures while tests run: beartype, for which a whole number is a float too, as for Python."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
