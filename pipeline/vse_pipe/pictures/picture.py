"""What counts as an image file, decided before any of its pixels is decoded."""

import io
import warnings

from PIL import Image, UnidentifiedImageError

from vse_pipe.core.errors import UnreadableImage

# Raster formats only: Pillow starts an external program to draw EPS, and a data set must not decide that.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
# What Pillow reads with a plugin: brands in the first box of a file, as ISO/IEC 23008-12 has them, and the longest such box.
_HEIC, _BOX = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), 256
_SHOWN = 12

# From here on a warning says too little: what Pillow warns of is refused below, whatever the filters are.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def opened(content: bytes, name: str) -> Image.Image:
    """The image whose header ``content`` begins with; its pixels are decoded when they are asked for.

    Raises UnreadableImage: empty, no image of a known format, a damaged header, floating point
    pixels, or more pixels than ``Image.MAX_IMAGE_PIXELS`` (89.5 million; Pillow itself refuses twice as many).
    """
    limit = Image.MAX_IMAGE_PIXELS
    if not content:
        raise UnreadableImage(name, "is empty (0 bytes)")
    formats = FORMATS + _plugin(content, name)
    try:
        image = Image.open(io.BytesIO(content), formats=formats)
    except UnidentifiedImageError as error:
        shown = f"{len(content)} bytes, the first are {content[:_SHOWN]!r}"
        raise UnreadableImage(name, f"is no image in a known format ({shown})") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadableImage(name, f"has too many pixels (more than {limit})") from error
    except Exception as error:
        raise undecodable(name, error) from error
    width, height = image.size
    if limit is not None and width * height > limit:
        raise UnreadableImage(name, f"has too many pixels ({width} x {height}, more than {limit})")
    if image.mode == "F":
        raise UnreadableImage(
            name, "has floating point numbers of unknown range for pixels; save it with 8 bits a channel"
        )
    return image


def _plugin(content: bytes, name: str) -> tuple[str, ...]:
    """The further format that a HEIC file needs. Raises UnreadableImage where its package is missing."""
    box = content[: min(int.from_bytes(content[:4]), _BOX)]
    if content[4:8] != b"ftyp" or not any(brand in box for brand in _HEIC):
        return ()
    try:
        import pillow_heif
    except ImportError as error:
        raise UnreadableImage(
            name, "is a HEIC picture, which needs the package pillow-heif: pip install 'vse-pipe[heic]'"
        ) from error
    pillow_heif.register_heif_opener()  # does nothing where it was done before
    return ("HEIF",)


def undecodable(name: str, error: Exception) -> UnreadableImage:
    """Pillow's decoders let nearly any exception out on damaged bytes; none may end a run without the file's name.

    Raises MemoryError as it is: it says nothing about the file.
    """
    if isinstance(error, MemoryError):
        raise error
    text = " ".join(str(error).split())
    return UnreadableImage(name, f"does not decode ({type(error).__name__}: {text})")
