"""The sections of the page; see ``vse_pipe.report.page`` for what a section is."""
