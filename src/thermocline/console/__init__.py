"""The web console: shows and asks what the command shows and asks. No SQL and no policy decision lives here."""
