"""The standard devices by name: ``hurray.device.cpu`` and so on.

Format: types, devices.
"""

from __future__ import annotations

from hurray.devices import Device

cpu = Device("cpu")
cuda = Device("cuda")
rocm = Device("rocm")
metal = Device("metal")
vulkan = Device("vulkan")
webgpu = Device("webgpu")
hexagon = Device("hexagon")
level_zero = Device("level_zero")
opencl = Device("opencl")

__all__ = ["Device", "cpu", "cuda", "hexagon", "level_zero", "metal", "opencl", "rocm", "vulkan", "webgpu"]
