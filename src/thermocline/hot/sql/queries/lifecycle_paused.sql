-- What keeps everybody from dropping chunks, if anything does.
SELECT p.message, p.hint FROM thermocline._drop_pause() p WHERE p.message IS NOT NULL;
