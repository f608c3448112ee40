/* The words of the command line. */
#ifndef MT_CLI_ARGUMENTS_H
#define MT_CLI_ARGUMENTS_H

/* A copy, freed by one free(); NULL without memory. In `argv` itself, which every user of the machine
 * can read, what looks like a secret (user:password@ of a URL, the value of an option for one) becomes
 * asterisks: it is refused where it is ours, but must not stay there meanwhile. */
char **mt_arguments_take(int argc, char **argv);

#endif
