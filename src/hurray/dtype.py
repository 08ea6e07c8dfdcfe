"""All element types by name: ``hurray.dtype.int4`` and so on.

Format: types, element types.
"""

from __future__ import annotations

from hurray.dtypes.table import BY_NAME, Dtype

float16 = BY_NAME["float16"]
bfloat16 = BY_NAME["bfloat16"]
float32 = BY_NAME["float32"]
float64 = BY_NAME["float64"]
int8 = BY_NAME["int8"]
uint8 = BY_NAME["uint8"]
int16 = BY_NAME["int16"]
uint16 = BY_NAME["uint16"]
int32 = BY_NAME["int32"]
uint32 = BY_NAME["uint32"]
int64 = BY_NAME["int64"]
uint64 = BY_NAME["uint64"]
bool = BY_NAME["bool"]
float8_e4m3 = BY_NAME["float8_e4m3"]
float8_e5m2 = BY_NAME["float8_e5m2"]
float8_e8m0 = BY_NAME["float8_e8m0"]
float4_e2m1 = BY_NAME["float4_e2m1"]
float6_e2m3 = BY_NAME["float6_e2m3"]
float6_e3m2 = BY_NAME["float6_e3m2"]
float128 = BY_NAME["float128"]
int4 = BY_NAME["int4"]
uint4 = BY_NAME["uint4"]
int2 = BY_NAME["int2"]
uint2 = BY_NAME["uint2"]
complex64 = BY_NAME["complex64"]
complex128 = BY_NAME["complex128"]

__all__ = [*BY_NAME, "Dtype"]
