"""The web console: shows what the command shows. No SQL and no policy decision lives here."""
