"""The thermocline command: parse, call, show. No SQL and no policy decision lives here."""
