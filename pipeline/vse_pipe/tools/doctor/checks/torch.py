"""torch and torchvision, really imported, in a process of their own: a pair from two indexes installs and then fails."""

import json
import subprocess
import sys

from vse_pipe.tools.doctor.line import FAIL, OK, WARN, Line

_TIMEOUT_S = 180
_PROBE = """
import json, warnings
warnings.simplefilter("ignore")
import torch
found = {"torch": torch.__version__, "devices": [], "vision": None, "error": ""}
found["cpu"] = torch.backends.cpu.get_cpu_capability()
found["capabilities"] = {k: v for k, v in torch.cpu.get_capabilities().items() if isinstance(v, bool)}
for number in range(torch.cuda.device_count()):
    about = torch.cuda.get_device_properties(number)
    native = torch.cuda.is_bf16_supported(including_emulation=False)
    found["devices"].append({"name": about.name, "memory": about.total_memory, "bf16": native})
found["built_for"] = torch.version.cuda or torch.version.hip or ""
try:
    import torchvision
    from torchvision.ops import nms
    nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
    found["vision"] = torchvision.__version__
except Exception as error:
    found["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


def look() -> list[Line]:
    found = probe()
    if isinstance(found, str):
        return [Line(FAIL, "torch", f"does not import: {found}", "install torch again, in a clone `make setup`")]
    built = found["built_for"]
    lines = [Line(OK, "torch", f"{found['torch']}, built for {'CUDA ' + built if built else 'the CPU'}")]
    return [*lines, _vision(found), *_devices(found), _instructions(found)]


def probe() -> dict | str:
    """What a fresh interpreter says, or its last line on stderr."""
    command = [sys.executable, "-c", _PROBE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)  # noqa: S603 (our own words)
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return json.loads(done.stdout.strip().splitlines()[-1])


def _vision(found: dict) -> Line:
    if found["vision"] is None:
        remedy = (
            "torch and torchvision must come from one index and one build: pip uninstall both and install both in one "
            "command, from the index that torch came from"
        )
        return Line(FAIL, "torchvision", f"does not work beside torch {found['torch']}: {found['error']}", remedy)
    return Line(OK, "torchvision", f"{found['vision']}, imports and computes beside torch {found['torch']}")


def _devices(found: dict) -> list[Line]:
    if not found["devices"]:
        said = "no GPU; `--device auto` means the CPU"
        return [Line(OK, "device", said)]
    return [
        Line(
            OK if one["bf16"] else WARN,
            f"device cuda:{number}",
            f"{one['name']}, {one['memory'] / 2**30:.0f} GiB, bfloat16 {'native' if one['bf16'] else 'emulated'}",
            "" if one["bf16"] else "precision auto means float32 there",
        )
        for number, one in enumerate(found["devices"])
    ]


def _instructions(found: dict) -> Line:
    there = found["capabilities"]
    native = [name for name in ("amx_bf16", "avx512_bf16") if there.get(name)]
    said = f"torch computes with {found['cpu']}"
    if native:
        return Line(OK, "instructions", f"{said}; {', '.join(native)}: bfloat16 is native and precision auto uses it")
    return Line(OK, "instructions", f"{said}; no native bfloat16, precision auto means float32")
