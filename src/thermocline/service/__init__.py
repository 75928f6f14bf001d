"""The service: feed, scheduler and worker in one process, kept running, and watched over HTTP."""
