/* The command line's arguments. */
#ifndef MT_CLI_ARGUMENTS_H
#define MT_CLI_ARGUMENTS_H

/* Returns a copy, freed by one free(); NULL without memory. In `argv` itself, which every user of
 * the machine can read, overwrites what looks like a secret (user:password@ in a URL, the value of
 * a secret option) with asterisks: mortise refuses it, but it must not stay visible meanwhile. */
char **mt_arguments_take(int argc, char **argv);

#endif
