SELECT key FROM thermocline.seal;
