"""The words of the captions: synonyms of every attribute, and the phrases that place, relate and count figures."""

NOUNS = {
    "circle": ("circle", "disc", "ball", "dot"),
    "square": ("square", "box", "block"),
    "triangle": ("triangle", "wedge"),
    "star": ("star",),
    "heart": ("heart",),
    "cross": ("cross", "plus sign"),
    "ring": ("ring", "hoop"),
    "diamond": ("diamond", "rhombus"),
}
PLURALS = {
    "circle": ("circles", "discs", "balls", "dots"),
    "square": ("squares", "boxes", "blocks"),
    "triangle": ("triangles", "wedges"),
    "star": ("stars",),
    "heart": ("hearts",),
    "cross": ("crosses", "plus signs"),
    "ring": ("rings", "hoops"),
    "diamond": ("diamonds", "rhombuses"),
}
COLOURS = {
    "red": ("red", "crimson"),
    "orange": ("orange",),
    "yellow": ("yellow", "golden"),
    "green": ("green",),
    "blue": ("blue",),
    "purple": ("purple", "violet"),
    "black": ("black", "dark"),
}
SIZES = {"small": ("small", "little", "tiny"), "large": ("large", "big", "huge")}
PATTERNS = {
    "plain": ("plain", "uniform"),
    "striped": ("striped", "diagonally striped"),
    "checked": ("checked", "chequered"),
    "dotted": ("dotted", "polka dot"),
    "shaded": ("shaded", "fading"),
}
TINTS = {
    "white": ("white",),
    "grey": ("grey", "silver"),
    "beige": ("beige", "cream"),
    "pink": ("pink", "rose"),
    "mint": ("mint", "pale green"),
}
BACKGROUNDS = ("background", "backdrop")
PLACES = {
    "left": ("on the left", "on the left side", "at the left edge"),
    "right": ("on the right", "on the right side", "at the right edge"),
    "top": ("at the top", "in the upper part"),
    "bottom": ("at the bottom", "in the lower part"),
    "top left": ("in the top left corner", "at the upper left"),
    "top right": ("in the top right corner", "at the upper right"),
    "bottom left": ("in the bottom left corner", "at the lower left"),
    "bottom right": ("in the bottom right corner", "at the lower right"),
    "middle": ("in the middle", "in the centre"),
}
RELATIONS = {
    "left of": ("to the left of", "left of"),
    "right of": ("to the right of", "right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
    "next to": ("next to", "beside", "close to"),
}
ANYTHING = ("shape", "figure", "object")
NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four"}
SOME = ("some", "a few")
A_SINGLE = ("a single",)
OPENERS = ("", "", "there is ", "a picture of ", "an image with ", "we see ")
OPENERS_OF_COUNTS = ("", "", "a picture of ", "an image with ", "we see ")
# "uniform" is spoken with a consonant.
VOWELS = ("a", "e", "i", "o")
