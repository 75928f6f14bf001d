SELECT slot_name::text, publication::text, system_identifier, timeline, epoch, position::text, wanted::text
FROM thermocline.stream;
