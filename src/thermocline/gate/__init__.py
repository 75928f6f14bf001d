"""The gate: receipts and verdicts, and with its one SQL function the only code that may drop a chunk."""
