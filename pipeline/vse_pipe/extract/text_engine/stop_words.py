"""English function words: the closed classes, which say how things relate and not which things there are."""

_ARTICLES = "a an the"
_PRONOUNS = """
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves oneself who whom whose which what that this these those
someone somebody something anyone anybody anything everyone everybody everything nobody nothing each other another
"""
_AUXILIARIES = """
am is are was were be been being have has had having do does did doing done will would shall should can could may might
must ought 's 're 've 'd 'll 'm n't not no ca wo sha
"""
_CONNECTIVES = """
and or but nor so yet if because as while when where whether although though unless until since than then also too very
just there here both either neither only own same such some any all more most few how why again once
"""
_PREPOSITIONS = """
of in on at by for with about against between among into through during before after above below to from up down out off
over under onto upon within without along across around behind beside besides near toward towards
"""
STOP_WORDS = frozenset(" ".join([_ARTICLES, _PRONOUNS, _AUXILIARIES, _CONNECTIVES, _PREPOSITIONS]).split())
