-- Which history this server writes: two servers with the same answer may still be two copies.
SELECT system_identifier, timeline FROM thermocline._server_history();
