"""vse-pipe audit."""

from typing import Annotated

import typer

from vse_pipe.commands import _completion, _project
from vse_pipe.commands._project import Address, AsJson, Device, Engine, Workers
from vse_pipe.project import paths


def audit(
    run: Annotated[
        str,
        typer.Option(
            help="a name under runs: in params.yaml; it must be trained", autocompletion=_completion.section("runs")
        ),
    ],
    threshold: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="a pair with a higher probability of mismatch counts as mismatched")
    ] = 0.5,
    limit: Annotated[int, typer.Option(min=0, max=1000, help="number of pairs in the gallery of pictures")] = 12,
    device: Device = "auto",
    engine: Engine = None,
    workers: Workers = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Find training pairs whose caption does not fit its image, and the best partners for both."""
    params = _project.params()
    asked = params.engine.changed(engine, workers, address)
    names = _project.chosen_runs(run, params)
    with _project.reserved(map(paths.audited, names)):
        from vse_pipe.audit import stage

    with _project.spread(asked, device):
        found = {name: stage.audit(params, name, threshold, limit, device) for name in names}
    _project.settle(params, names, paths.audited, stage.FILES)
    return _project.show_each(found, stage.show_audit, as_json)
