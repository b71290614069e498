"""Policy files.

They become rules and caps, or findings. Only `load` and `store` use files, threads and clocks.
"""
