"""Work units: leases, the scheduler, pacing and the nodes that run everything that runs by itself."""
