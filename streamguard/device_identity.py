"""Which devices a rank's ops ran on, as NVML calls them."""

from __future__ import annotations

from collections.abc import Iterable


def identify(devices: Iterable[int]) -> tuple[str, ...]:
    """Name devices by index, model and the start of their UUID: `0 NVIDIA H200 GPU-1c2d3e4f`.

    The UUID is the same in all processes and in `nvidia-smi`, whatever CUDA_VISIBLE_DEVICES says.
    Without NVML a device has its model only. CUDA must be initialised.
    """
    import pynvml
    import torch

    names = []
    for device in sorted(set(devices)):
        properties = torch.cuda.get_device_properties(device)
        uuid = f"GPU-{properties.uuid}"
        try:
            pynvml.nvmlInit()
            model = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByUUID(uuid))
            names.append(f"{device} {model} {uuid[:12]}")
        except pynvml.NVMLError:
            names.append(f"{device} {properties.name}")
    return tuple(names)
