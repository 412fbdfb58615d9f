"""Where a request runs. One replica for now: only the seam.

replica   what the gateway needs of a place that can generate
fake      a replica without an engine
"""
