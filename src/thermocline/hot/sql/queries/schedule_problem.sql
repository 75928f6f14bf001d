-- A schedule that cannot be understood rests until it is set anew.
UPDATE thermocline.schedule SET problem = %(problem)s WHERE id = %(schedule)s;
