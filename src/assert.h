/* assert.h: three tiers of assertion. A disabled one still consumes its expression, so that it can't rot.
 *   snug__assert           always: the process can't go on safely
 *   snug__assert_debug     builds with SNUG_DEBUG
 *   snug__assert_expensive builds with SNUG_DEBUG, for what walks whole structures */
#ifndef SNUG__ASSERT_H
#define SNUG__ASSERT_H

_Noreturn void snug__assert_failed(const char *expression, const char *file, int line);

#define snug__assert(e) ((e) ? (void)0 : snug__assert_failed(#e, __FILE__, __LINE__))
#ifdef SNUG_DEBUG
#define snug__assert_debug(e)     snug__assert(e)
#define snug__assert_expensive(e) snug__assert(e)
#else
#define snug__assert_debug(e)     ((void)sizeof(!(e)))
#define snug__assert_expensive(e) ((void)sizeof(!(e)))
#endif

#define snug__likely(e)   __builtin_expect(!!(e), 1)
#define snug__unlikely(e) __builtin_expect(!!(e), 0)

#endif
