"""Policy files.

Text becomes rules and caps, a mistake becomes a finding, and only load and store use files, threads and clocks.
"""
