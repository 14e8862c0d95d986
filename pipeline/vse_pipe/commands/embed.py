"""vse-pipe embed: a run's vectors of its own data set, or of another."""

from vse_pipe.commands import _project
from vse_pipe.commands._project import Address, AsJson, Device, EmbeddedName, Engine, OnDataset, Workers
from vse_pipe.project import paths


def embed(
    run: EmbeddedName = None,
    dataset: OnDataset = None,
    device: Device = "auto",
    engine: Engine = None,
    workers: Workers = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Write the vectors of images and captions by a trained run, of its data set or of another."""
    params = _project.params()
    asked = params.engine.changed(engine, workers, address)
    named = _project.chosen_runs(run, params, embedded=dataset is None)
    params, names = _project.on_dataset(params, named, dataset)
    with _project.reserved(map(paths.embedded, names)):
        from vse_pipe.embed import stage, transfer

    with _project.spread(asked, device):
        outs = [(transfer if name in params.transfers else stage).embed(params, name, device) for name in names]
    _project.settle(params, names, paths.embedded, stage.FILES)
    return _project.wrote(outs, as_json)
