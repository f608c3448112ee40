/* The units of a change on their way: the batches of each are listed in the journal, written, and accounted for, as
 * the pace allows. What a unit is, and what makes its items, is in unit.h. */
#ifndef MT_JOB_UNITS_H
#define MT_JOB_UNITS_H

#include "job/unit.h"

mortise_status mt_units_init(mt_units *all, uint32_t n, mortise_error *err);
void mt_units_deinit(mt_units *all);

/* Is there a free unit, and little enough in memory for another page? */
bool mt_units_room(const mt_units *all);
/* Gives the page to a free unit, which owns it from then on. There must be room. The caller then calls
 * mt_units_step. */
void mt_units_take(mt_units *all, mt_page *page);
/* Takes every unit as far as it can go now. */
void mt_units_step(mt_units *all);
/* Milliseconds from the last step until the pace lets a unit go on that it held back; 0 if it held back none. */
int64_t mt_units_wait_ms(const mt_units *all);
/* Lists the numbers of the journal's batches that are not accounted for yet, at most `n`, in no order. */
size_t mt_units_open(const mt_units *all, uint64_t *numbers, size_t n);
/* To be called when the sink is gone: counts the writes that were under way as far as their outcome is known. */
void mt_units_abandon(mt_units *all);

#endif
