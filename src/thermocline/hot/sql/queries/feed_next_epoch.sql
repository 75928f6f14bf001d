UPDATE thermocline.stream SET epoch = epoch + 1 RETURNING epoch;
